"""Several seeds in one folder: each once, the interrupted again, others refused."""

import json
from pathlib import Path
from threading import Barrier

import pytest

from auxo.experiments.config import Config, TrainingConfig
from auxo.experiments.config_file import ConfigError, parse_config
from auxo.experiments.grid import GridAxis, make_cells
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.seeds import missing_runs, run_grid, run_seeds
from auxo.experiments.summary import Summary
from auxo.files.directory_lock import DirectoryInUse, locked_directory
from auxo.files.errors import FileError
from tests.experiments.made_summaries import made_method, made_summary
from tests.registry.own_parts import SMALL_PARTS


class Runs:
    """Takes the place of hours of training: writes the summary that they would end with."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.seeds: list[int] = []
        self.stops_at = stops_at

    def __call__(self, config: Config, directory: RunDirectory) -> Summary:
        self.seeds.append(config.seed)
        if config.seed == self.stops_at:
            raise KeyboardInterrupt
        summary = made_summary(config.seed, base=made_method(0.5), auxo=made_method(0.6))
        directory.write_summary(summary)
        return summary


def test_seeds_follow_that_of_the_configuration(tmp_path: Path) -> None:
    runs = Runs()
    comparison = run_seeds(Config(seed=4), 3, tmp_path, runs)
    assert comparison.seeds == tuple(runs.seeds) == (4, 5, 6)
    assert comparison.accuracy.differences["auxo"].mean == pytest.approx(10.0)
    assert json.loads((tmp_path / "comparison.json").read_text())["seeds"] == [4, 5, 6]
    assert comparison.are_clients_drawn


def test_seeds_share_the_clients_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.arrow").write_bytes(b"any")
    config = Config.model_validate({"population": {"source": "file", "file": str(tmp_path / "mine.arrow")}})
    assert not run_seeds(config, 3, tmp_path / "runs", Runs()).are_clients_drawn


def test_what_is_done_is_kept_and_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    interrupted = Runs(stops_at=1)
    with pytest.raises(KeyboardInterrupt):
        run_seeds(Config(), 3, tmp_path, interrupted)
    assert json.loads((tmp_path / "comparison.json").read_text())["seeds"] == [0]
    again = Runs()
    assert run_seeds(Config(), 3, tmp_path, again).seeds == (0, 1, 2)
    assert again.seeds == [1, 2]


def test_runs_of_another_configuration_are_not_mixed_in(tmp_path: Path) -> None:
    run_seeds(Config(), 1, tmp_path, Runs())
    other = Config.model_validate({"training": {"rounds": 7}})
    with pytest.raises(ConfigError, match=r"another configuration \(training\.rounds: \d+, now 7\)"):
        run_seeds(other, 1, tmp_path, Runs())


def test_an_argument_that_is_gone_is_another_configuration(tmp_path: Path) -> None:
    model = {"model": "mlp", "model_args": {"hidden": 8}}
    run_seeds(Config.model_validate({"training": model}), 1, tmp_path, Runs())
    with pytest.raises(ConfigError, match=r"training\.model_args\.hidden: 8, now none"):
        run_seeds(Config.model_validate({"training": {"model": "mlp"}}), 1, tmp_path, Runs())


def test_runs_go_on_with_other_workers(tmp_path: Path) -> None:
    run_seeds(Config(), 1, tmp_path, Runs())
    faster = Config.model_validate({"run": {"workers": 2}})
    again = Runs()

    assert run_seeds(faster, 2, tmp_path, again).seeds == (0, 1)
    assert again.seeds == [1]


def test_results_of_other_data_are_not_told_as_those_of_the_present_file(tmp_path: Path) -> None:
    data = tmp_path / "mine.arrow"
    data.write_bytes(b"first")
    config = Config.model_validate({"population": {"source": "file", "file": str(data)}})
    run_seeds(config, 1, tmp_path / "runs", Runs())
    data.write_bytes(b"first")  # the same, at another time
    assert run_seeds(config, 2, tmp_path / "runs", Runs()).seeds == (0, 1)
    data.write_bytes(b"other")
    with pytest.raises(ConfigError, match=r"other content of .*mine\.arrow"):
        run_seeds(config, 1, tmp_path / "runs", Runs())


def test_one_method_alone_is_not_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="methods: expected at least two to compare, got only base; add another"):
        run_seeds(Config(methods=("base",)), 2, tmp_path, Runs())
    assert not list(tmp_path.iterdir())


def test_methods_need_no_base_to_be_run_with_several_seeds(tmp_path: Path) -> None:
    assert run_seeds(Config(methods=("auxo", "oracle")), 2, tmp_path, Runs()).seeds == (0, 1)


def test_a_damaged_note_of_inputs_is_an_error_with_its_place(tmp_path: Path) -> None:
    run_seeds(Config(), 1, tmp_path, Runs())
    (tmp_path / "inputs.json").write_text('{"a.csv": 5}')
    with pytest.raises(FileError, match=r"inputs\.json: .*a\.csv: expected a list, got 5; remove"):
        run_seeds(Config(), 1, tmp_path, Runs())


def test_a_summary_of_another_version_is_an_error_with_its_place(tmp_path: Path) -> None:
    run_seeds(Config(), 1, tmp_path, Runs())
    (tmp_path / "seed-0" / "summary.json").write_text('{"seed": 0, "status": "finished"}')
    with pytest.raises(FileError, match=r"seed-0/summary\.json: .*population: expected a value, got none"):
        run_seeds(Config(), 1, tmp_path, Runs())


def test_another_setting_of_a_part_is_another_configuration(tmp_path: Path) -> None:
    run_seeds(Config(), 1, tmp_path, Runs())
    with pytest.raises(ConfigError, match=r"another configuration \(auxo\.trial\.min_gain: 0\.02, now 0\.5\)"):
        run_seeds(Config(parts={"auxo": {"trial": {"min_gain": 0.5}}}), 1, tmp_path, Runs())


def test_changed_code_of_ones_own_part_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "from auxo.core.selectors import Uniform\n"
    Path("mine.py").write_text(code)
    config = Config.model_validate({"training": {"selector": "mine.py:Uniform"}})
    run_seeds(config, 1, tmp_path / "runs", Runs())
    Path("mine.py").write_text(f"{code}# better now\n")
    with pytest.raises(ConfigError, match=r"other content of mine\.py"):
        run_seeds(config, 2, tmp_path / "runs", Runs())


def test_changed_code_of_a_part_within_another_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_parts.py").write_text(SMALL_PARTS)
    config = Config.model_validate(
        {"training": {"aggregator": "clipped"}, "parts": {"clipped": {"aggregator": "my_parts.py:Doubled"}}}
    )
    run_seeds(config, 1, tmp_path / "runs", Runs())
    Path("my_parts.py").write_text(f"{SMALL_PARTS}# better now\n")
    with pytest.raises(ConfigError, match=r"other content of my_parts\.py"):
        run_seeds(config, 2, tmp_path / "runs", Runs())


@pytest.mark.parametrize("key", ["model", "selector"])
def test_changed_code_in_a_package_is_another_run(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / f"package_for_{key}"
    package.mkdir()
    (package / "__init__.py").write_text("assert True\n")
    (package / "parts.py").write_text("from auxo.core.selectors import Uniform as Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = Config.model_validate({"training": {key: f"{package.name}.parts:Mine"}})
    run_seeds(config, 1, tmp_path / "runs", Runs())
    (package / "parts.py").write_text("# better now\n")
    with pytest.raises(ConfigError, match=rf"other content of .*{package.name}/parts\.py"):
        run_seeds(config, 2, tmp_path / "runs", Runs())


def test_a_second_comparison_into_the_same_folder_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    seen = []

    def run(config: Config, directory: RunDirectory) -> Summary:
        with pytest.raises(DirectoryInUse, match="is running there"):
            run_seeds(Config(), 2, tmp_path, Runs())
        seen.append(directory.config_text())  # it is still there
        return Runs()(config, directory)

    run_seeds(Config(), 1, tmp_path, run)
    assert len(seen) == 1


def test_a_live_run_in_a_seeds_directory_stays(tmp_path: Path) -> None:
    interrupted = Runs(stops_at=0)
    with pytest.raises(KeyboardInterrupt):
        run_seeds(Config(), 1, tmp_path, interrupted)
    before = sorted(path.name for path in (tmp_path / "seed-0").iterdir())

    def refused(config: Config, directory: RunDirectory) -> Summary:
        with locked_directory(directory.path):
            raise AssertionError("somebody runs there")

    with locked_directory(tmp_path / "seed-0"), pytest.raises(DirectoryInUse):
        run_seeds(Config(), 1, tmp_path, refused)
    assert sorted(path.name for path in (tmp_path / "seed-0").iterdir()) == before


def test_jobs_run_several_seeds_and_tell_them_in_order(tmp_path: Path) -> None:
    meet = Barrier(2, timeout=30)

    def run(config: Config, directory: RunDirectory) -> Summary:
        meet.wait()  # which takes two at the same time
        return Runs()(config, directory)

    assert run_seeds(Config(), 4, tmp_path, run, jobs=2).seeds == (0, 1, 2, 3)


def test_a_run_that_fails_among_several_ends_the_comparison(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_seeds(Config(), 3, tmp_path, Runs(stops_at=0), jobs=2)


def test_a_grid_has_a_folder_for_each_cell_and_runs_what_is_missing(tmp_path: Path) -> None:
    axes = (GridAxis("training.rounds", ("5", "6")),)
    cells = make_cells(axes, lambda more: parse_config('methods = ["base", "auxo"]', more))
    first, second = Runs(), Runs()
    run_grid(axes, cells[:1], 2, tmp_path, first)
    found = run_grid(axes, cells, 3, tmp_path, second)
    assert (first.seeds, second.seeds) == ([0, 1], [2, 0, 1, 2])
    assert missing_runs(cells, 4, tmp_path) == 2
    assert [row.cell for row in found.rows] == ["rounds-5", "rounds-5", "rounds-6", "rounds-6"]
    assert {path.name for path in tmp_path.iterdir()} == {"rounds-5", "rounds-6", "comparison.json"}
    assert (tmp_path / "rounds-6" / "seed-2" / "config.toml").is_file()


def test_a_method_that_is_added_goes_into_the_runs_that_are_there(tmp_path: Path) -> None:
    run_seeds(Config(methods=("base", "auxo")), 1, tmp_path, Runs())
    asked: list[tuple[str, ...]] = []

    def run(config: Config, directory: RunDirectory) -> Summary:
        before = directory.read_summary()
        assert before is not None
        assert (before.status, tuple(before.finished)) == ("interrupted", ("base", "auxo"))
        asked.append(parse_config(directory.config_text()).methods)
        more = made_summary(config.seed, base=made_method(0.5), auxo=made_method(0.6), ifca=made_method(0.7))
        directory.write_summary(more)
        return more

    more = Config(methods=("base", "auxo", "ifca"), parts={"ifca": {"cohorts": 2}})
    assert run_seeds(more, 1, tmp_path, run).methods == ("base", "auxo", "ifca")
    assert asked == [("base", "auxo", "ifca")]
    again = Runs()
    run_seeds(more, 1, tmp_path, again)
    assert again.seeds == []
    with pytest.raises(ConfigError, match="another configuration"):
        run_seeds(more.model_copy(update={"training": TrainingConfig(rounds=3)}), 1, tmp_path, Runs())


def test_other_methods_are_added_and_those_that_are_there_stay_and_are_not_shown(tmp_path: Path) -> None:
    run_seeds(Config(methods=("base", "auxo")), 1, tmp_path, Runs())

    def stop(config: Config, directory: RunDirectory) -> Summary:
        raise KeyboardInterrupt

    asked: list[tuple[str, ...]] = []

    def run(config: Config, directory: RunDirectory) -> Summary:
        asked.append(config.methods)
        assert parse_config(directory.config_text()).methods == config.methods
        more = made_summary(config.seed, base=made_method(0.5), auxo=made_method(0.6), ifca=made_method(0.7))
        directory.write_summary(more)
        return more

    other = Config(methods=("base", "ifca"), parts={"ifca": {"cohorts": 2}})
    with pytest.raises(KeyboardInterrupt):
        run_seeds(other, 1, tmp_path, stop)
    assert run_seeds(other, 1, tmp_path, run).methods == ("base", "ifca")  # the same command goes on
    assert asked == [("base", "auxo", "ifca")]
    assert run_seeds(Config(methods=("base", "auxo")), 1, tmp_path, Runs(stops_at=0)).methods == ("base", "auxo")
    changed = Config(methods=("base", "ifca"), parts={"ifca": {"cohorts": 3}})
    with pytest.raises(ConfigError, match=r"another configuration \(ifca\.cohorts: 2, now 3\)"):
        run_seeds(changed, 1, tmp_path, Runs())


def test_methods_are_not_added_to_a_run_that_has_not_finished(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_seeds(Config(methods=("base", "auxo")), 1, tmp_path, Runs(stops_at=0))
    with pytest.raises(ConfigError, match=r"its run of base,auxo has not finished, .*\(--methods base,auxo\)"):
        run_seeds(Config(methods=("base", "ifca")), 1, tmp_path, Runs())


def test_a_method_of_ones_own_is_added_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("added_method.py").write_text("from auxo.algorithms.base import OneCohort as Mine\n")
    run_seeds(Config(methods=("base", "auxo")), 1, tmp_path / "runs", Runs())
    asked: list[tuple[str, ...]] = []

    def run(config: Config, directory: RunDirectory) -> Summary:
        asked.append(config.methods)
        return made_summary(config.seed, base=made_method(0.5), auxo=made_method(0.6), Mine=made_method(0.7))

    own = Config(methods=("base", "added_method.py:Mine"))
    assert run_seeds(own, 1, tmp_path / "runs", run).methods == ("base", "Mine")
    assert [names[:2] for names in asked] == [("base", "auxo")]


def test_a_folder_that_a_failure_has_left_empty_goes(tmp_path: Path) -> None:
    def fail(config: Config, directory: RunDirectory) -> Summary:
        directory.discard()
        raise ConfigError("no such data")

    with pytest.raises(ConfigError, match="no such data"):
        run_seeds(Config(), 1, tmp_path / "runs", fail)
    assert not (tmp_path / "runs").exists()
