"""The benchmark of methods: which runs it makes, with which settings, and what their records say."""

from dataclasses import asdict, fields
from pathlib import Path

import bench_tables
import method_cells
import methods
import pytest
import tune_methods
import tuned_settings
import used_code
from method_cells import Algorithm, Cell, Kept, Outcome
from tuned_settings import EVERYWHERE, Tuned, tuned_for

from auxo.experiments.config_file import parse_config
from auxo.experiments.parts import KINDS

BASE = Cell("concept", "base", methods.FEDAVG, 0)
RIVAL = Cell("concept", "ifca", methods.FEDAVG, 0, 2)
FIELDS = [
    "population", "method", "aggregator", "selector", "personaliser", "seed", "accuracy", "base_accuracy",
    "time_to_base_s", "participations_to_base", "device_s", "downloads", "ari", "refused",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = [
        Tuned(EVERYWHERE, "ifca", ("ifca.warm_start=1",), 0.5, 3, (100,)),
        Tuned("concept", "ifca", ("ifca.warm_start=20",), 0.9, 3, (100,)),
    ]
    tuned_settings.write_table(table, tmp_path / "tuned.json")
    monkeypatch.setattr(methods, "read_table", lambda: tuned_settings.read_table(tmp_path / "tuned.json"))


def outcome(*accuracies: float) -> Outcome:
    curve = tuple((100.0 * place, 10 * place, accuracy) for place, accuracy in enumerate(accuracies, start=1))
    return Outcome(None, accuracies[-1], 0.5, 7.0, 9, curve)


def test_records_have_exactly_the_fields_that_are_promised() -> None:
    assert [field.name for field in fields(methods.Record)] == FIELDS


def test_a_method_is_timed_to_the_best_that_the_base_ever_was() -> None:
    done = {BASE: outcome(0.2, 0.6, 0.4), RIVAL: outcome(0.5, 0.7, 0.8)}
    base, rival = methods.records_of([BASE, RIVAL], done)
    assert (rival.method, rival.accuracy, rival.base_accuracy) == ("ifca k+2", 0.8, 0.4)
    assert rival.time_to_base_s == pytest.approx(150.0)  # half way from 0.5 to 0.7
    assert rival.participations_to_base == pytest.approx(15.0)
    assert base.time_to_base_s == pytest.approx(200.0)
    (never,) = methods.records_of([RIVAL], {BASE: outcome(0.9, 0.9), RIVAL: outcome(0.5, 0.7)})
    assert never.time_to_base_s is None
    assert never.participations_to_base is None


def test_a_refusal_is_a_record_with_its_reason_and_no_figures() -> None:
    _, rival = methods.records_of([BASE, RIVAL], {BASE: outcome(0.5, 0.6), RIVAL: Outcome(refused="no")})
    assert asdict(rival) | {"refused": "no", "accuracy": None, "device_s": None, "ari": None} == asdict(rival)


def test_rivals_are_tuned_those_told_k_run_twice_and_auxo_is_as_it_comes() -> None:
    cells = methods.make_cells(("concept", "label"), ("base", "auxo", "ifca"), 1, (methods.FEDAVG,))
    assert [(one.population, one.label, one.settings) for one in cells] == [
        ("concept", "base", ()),
        ("concept", "auxo", ()),
        ("concept", "ifca", ("ifca.warm_start=20",)),
        ("concept", "ifca k+2", ("ifca.warm_start=20",)),
        ("label", "base", ()),
        ("label", "auxo", ()),
        ("label", "ifca", ("ifca.warm_start=1",)),
        ("label", "ifca k+2", ("ifca.warm_start=1",)),
    ]
    assert method_cells.is_told_k("ifca") == "cohorts"
    assert method_cells.is_told_k("auxo") is None


def test_the_base_and_auxo_run_under_every_fl_algorithm() -> None:
    cells = methods.make_cells(("concept", "few"), ("base", "auxo", "ifca"), 1)
    under = [(one.population, one.method, one.algorithm.name) for one in cells if one.algorithm != methods.FEDAVG]
    assert len(under) == 2 * 6
    assert {method for _, method, _ in under} == {"base", "auxo"}
    assert {population for population, _, _ in under} == {"concept"}


def test_some_methods_run_under_some_fl_algorithms_if_so_chosen() -> None:
    cells = methods.make_cells(("concept",), ("base", "ifca"), 1, methods.ALGORITHMS[1:3])
    assert [(one.method, one.algorithm.name) for one in cells] == [("base", "fedyogi"), ("base", "fedprox")]
    cells = methods.make_cells(("concept",), ("base", "ifca"), 1, (methods.FEDAVG,))
    assert [one.label for one in cells] == ["base", "ifca", "ifca k+2"]


def test_what_the_registry_does_not_have_is_named() -> None:
    methods.check_parts(("base", "auxo"), (methods.FEDAVG,))
    with pytest.raises(SystemExit, match="does not have: method cflx, selector ort; `auxo list`"):
        methods.check_parts(("base", "cflx"), (Algorithm("x", selector="ort"),))


def test_a_cell_is_configured_with_the_true_number_of_groups_and_two_more() -> None:
    made = method_cells.POPULATIONS["rotation-skew"].make(0, None)
    assert made is not None
    cell = Cell("rotation-skew", "ifca", Algorithm("fedprox", client="fedprox"), 0, 2, ("ifca.warm_start=1",))
    config = method_cells.configured(cell, *made)
    assert (config.parts["ifca"].cohorts, config.parts["ifca"].warm_start) == (5, 1)
    assert (config.methods, config.training.client) == (("ifca",), "fedprox")
    assert config.training.rounds // config.run.evaluate_every == method_cells.EVALUATIONS


def test_what_is_done_is_kept_by_all_that_it_follows_from(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "cells")
    kept.keep(RIVAL, outcome(0.5, 0.7))
    assert kept.find(RIVAL) == outcome(0.5, 0.7)
    assert kept.find(BASE) is None
    assert kept.find(Cell("concept", "ifca", methods.FEDAVG, 0, 2, ("ifca.warm_start=1",))) is None


def test_settings_are_those_of_the_population_or_of_everywhere_or_none(tmp_path: Path) -> None:
    table = tuned_settings.read_table(tmp_path / "tuned.json")
    assert tuned_for("concept", ("fedavg", "ifca"), table) == ("ifca.warm_start=20",)
    assert tuned_for("nested", ("ifca",), table) == ("ifca.warm_start=1",)
    assert tuned_for("concept", ("fedyogi",), table) == ()


def test_what_is_best_everywhere_stays_unless_all_populations_are_tried_again() -> None:
    def scores(*populations: str) -> dict[tuple[str, str, tuple[str, ...]], float]:
        return {(one, "ifca", (f"ifca.warm_start={wait}",)): 1 / wait for one in populations for wait in (2, 3)}

    before = [
        Tuned(EVERYWHERE, "ifca", ("ifca.warm_start=1",), 0.5, 3, (100,)),
        Tuned("concept", "ifca", ("ifca.warm_start=20",), 0.9, 3, (100,)),
    ]
    some = tune_methods.beside(before, tune_methods.best_of("ifca", scores("speech"), (100,)))
    assert {one.population: one.settings for one in some} == {
        EVERYWHERE: ("ifca.warm_start=1",),
        "concept": ("ifca.warm_start=20",),
        "speech": ("ifca.warm_start=2",),
    }
    everything = tune_methods.beside(before, tune_methods.best_of("ifca", scores("concept", "speech"), (100,)))
    assert {one.settings for one in everything} == {("ifca.warm_start=2",)}
    assert len(everything) == 3


@pytest.mark.parametrize("part", tune_methods.tunable())
def test_every_setting_that_is_tried_is_one(part: str) -> None:
    kind = next(kind for kind in KINDS.values() if part in kind.names)
    grid = {**tuned_settings.METHOD_GRIDS, **tuned_settings.PART_GRIDS}[part]
    naming = f'methods=["{part}"]' if kind.set_by == "methods" else f"{kind.set_by}={part}"
    for settings in grid:
        parse_config("", [naming, *settings])
    assert len(set(grid)) == len(grid) > 1


def test_the_table_of_winners_in_the_project_can_be_read() -> None:
    for one in tuned_settings.read_table():
        assert min(one.seeds) >= tune_methods.FIRST_SEED


def record(cell: Cell, *accuracies: float, base: float = 0.5) -> methods.Record:
    return methods.record_of(cell, outcome(*accuracies), outcome(base))


def test_records_of_other_runs_stay_when_a_file_is_updated() -> None:
    auxo = Cell("concept", "auxo", methods.FEDAVG, 0)
    lifted = Cell("concept", "auxo", methods.ALGORITHMS[1], 0)
    before = [record(RIVAL, 0.8), record(lifted, 0.9), record(auxo, 0.7), record(BASE, 0.5)]
    now = [record(BASE, 0.5), record(auxo, 0.95)]
    found = methods.merged(before, now)
    assert [(one.method, one.aggregator, one.accuracy) for one in found] == [
        ("base", "fedavg", 0.5),
        ("auxo", "fedavg", 0.95),
        ("ifca k+2", "fedavg", 0.8),
        ("auxo", "fedyogi", 0.9),
    ]


def test_records_do_not_stay_beside_a_base_that_they_were_not_held_against() -> None:
    with pytest.raises(ValueError, match=r"the base is not what it was; run again .*: ifca k\+2 on concept"):
        methods.merged([record(RIVAL, 0.8)], [record(BASE, 0.6, base=0.6)])


def test_a_run_follows_from_its_own_methods_code_and_not_from_that_of_others() -> None:
    mine = used_code.used_modules((*used_code.ALWAYS, "auxo.algorithms.cfl"))
    assert {
        "auxo.algorithms.cfl",
        "auxo.core.pairwise",
        "auxo.runtime.federation",
        "auxo.training.softmax_trainer",
    } <= {*mine}
    assert [name for name in mine if name.startswith("auxo.algorithms.")] == ["auxo.algorithms.cfl"]
    assert "auxo.algorithms.auxo.trial" not in mine
    assert "auxo.algorithms.auxo.trial" in used_code.used_modules(("auxo.algorithms.auxo",))
    assert used_code.code_of(("cfl", "fedavg")) != used_code.code_of(("auxo", "fedavg"))


def test_methods_with_everybody_in_every_round_are_evaluated_as_often_as_others() -> None:
    made = method_cells.POPULATIONS["concept"].make(0, None)
    assert made is not None
    config = method_cells.configured(Cell("concept", "cfl", methods.FEDAVG, 0), *made)
    participations = made[1].n_clients * config.training.rounds
    due = config.run.evaluate_every * config.training.participants
    assert participations / due == method_cells.EVALUATIONS


def test_the_papers_protocol_is_two_configurations_of_their_own() -> None:
    cells = methods.make_cells(tuple(method_cells.PROTOCOL), ("base", "cfl"), 1)
    assert [(one.population, one.method, one.algorithm.name) for one in cells] == [
        ("clustered", "base", "fedyogi"),
        ("clustered", "cfl", "fedyogi"),
        ("clustered-small", "base", "fedavg"),
        ("clustered-small", "cfl", "fedavg"),
    ]
    made = method_cells.POPULATIONS["clustered-small"].make(5, None)
    assert made is not None
    config, data = made
    assert (config.seed, data.n_clients, config.training.participants) == (5, 100, 100)
    assert config.devices.availability == "always"
    assert method_cells.POPULATIONS["clustered"].make(0, None) is None  # without the data


def test_tables_have_the_protocol_apart_and_a_refusal_in_words() -> None:
    small = Cell("clustered-small", "cfl", methods.FEDAVG, 0)
    refused = methods.record_of(RIVAL, Outcome(refused="no"), outcome(0.5))
    records = [asdict(one) for one in (record(BASE, 0.5), refused, record(small, 0.9))]
    assert "clustered-small" not in bench_tables.methods(records)
    assert "| `concept` | `ifca k+2` | 1 | refused: no |" in bench_tables.methods(records)
    assert bench_tables.protocol(records).splitlines()[-1].startswith("| `clustered-small` | `cfl` | 1 | 0.9000 |")


def test_the_base_beside_auxo_is_on_the_seeds_that_auxo_was_run_on() -> None:
    cells = [Cell("concept", method, methods.FEDAVG, seed) for seed in (0, 1) for method in ("base", "auxo")][:3]
    lifted = [Cell("concept", "base", methods.ALGORITHMS[1], seed) for seed in (0, 1)]
    accuracies = (0.4, 0.9, 0.8, 0.2, 0.3)
    made = zip((*cells, *lifted), accuracies, strict=True)
    records = [asdict(methods.record_of(one, outcome(value), outcome(0.4))) for one, value in made]
    rows = bench_tables.lifted(records).splitlines()
    assert rows[2].startswith("| `concept` | fedavg | 1 | 0.4000 | 0.9000 | +0.5000 |")
    assert rows[3].startswith("| `concept` | fedyogi | 2 | 0.2500 | not run |")


def test_the_table_of_tuning_says_what_was_tried_and_what_was_best() -> None:
    shown = bench_tables.tuned([asdict(Tuned("concept", "ifca", ("ifca.warm_start=20",), 0.9, 3, (100,)))])
    tried = "`warm_start=5`; `warm_start=1`; `warm_start=20`"
    assert shown.splitlines()[-1] == f"| `ifca` | {tried} | `concept` | `warm_start=20` | 0.9000 |"
