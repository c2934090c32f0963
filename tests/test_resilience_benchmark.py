"""The benchmark of resilience: its runs, what is told of them, and that those which were made are kept."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import bench_tables
import numpy as np
import pytest
import resilience
import resilience_figures
from workloads import Workload, planted

from auxo.experiments.config import PopulationConfig, TrainingConfig
from auxo.experiments.config_file import parse_config

TINY = planted(
    PopulationConfig(source="synthetic", clients=24, groups=2, heterogeneity="concept", features=4, classes=3),
    TrainingConfig(rounds=2, participants=8, learning_rate=0.1),
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(resilience.WORKLOADS, "concept", Workload("concept", 1, 0, TINY))


def ran(path: Path, *options: str) -> list[dict[str, object]]:
    resilience.main(["--figure", "corrupted", "--only", "concept", "--json", str(path), *options])
    records: list[dict[str, object]] = json.loads(path.read_text())
    return records


@pytest.mark.parametrize("figure", resilience.FIGURES)
def test_every_condition_is_made_of_settings_that_there_are(figure: str) -> None:
    for condition in resilience.FIGURES[figure].conditions:
        parse_config("", condition.settings)
    names = [(one.name, one.defence) for one in resilience.FIGURES[figure].conditions]
    assert len(set(names)) == len(names)


def test_only_what_is_missing_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "records.json"
    first = ran(path, "--seeds", "1", "--methods", "base")
    assert [one["condition"] for one in first] == ["0% corrupted", "5% corrupted", "10% corrupted", "15% corrupted"]
    capsys.readouterr()
    both = ran(path, "--seeds", "2", "--methods", "base", "--update")
    assert [one for one in both if one["seed"] == 0] == first
    assert "base 0:" not in capsys.readouterr().out
    assert len(both) == 8


def test_accuracy_without_an_attack_is_that_of_the_same_clients() -> None:
    attacked = next(one for one in resilience.FIGURES["attackers"].conditions if one.name == "sign flip")
    none = replace(attacked, name="none", settings=())
    cells = [resilience.Cell("attackers", one, "concept", "base", 3) for one in (attacked, none)]
    found = [resilience.run_cell(cell, None) for cell in cells]
    assert all(record is not None for record in found)
    assert [record.attackers for record in found if record is not None] == [4, 0]
    assert found[1] is not None
    assert found[1].accuracy != found[1].accuracy_of_all


def test_tables_hold_auxo_against_the_base_of_the_same_seed() -> None:
    def record(condition: str, method: str, seed: int, accuracy: float) -> resilience.Record:
        return resilience.Record(
            "affinity-loss", condition, "", "concept", method, seed, accuracy, accuracy, 0, 1.0, 1, 2 + seed
        )

    records = [record("0% lost", "base", seed, 0.5 + seed / 10) for seed in range(2)]
    records += [record("0% lost", "auxo", seed, 0.6 + seed / 10) for seed in range(2)]
    records += [record("5% lost", "auxo", seed, 0.45 + seed / 5) for seed in range(2)]
    rows = bench_tables.RESILIENCE["affinity_loss"]([asdict(one) for one in records]).splitlines()[2:]
    assert rows[0] == "| `concept` | 0% lost | 2 | 0.5500 | 0.6500 | +0.1000 ± 0.0000 | +0.1000 | 2-3 |"
    assert rows[1] == "| `concept` | 5% lost | 2 | 0.5500 | 0.5500 | +0.0000 ± 0.0500 | -0.0500 | 2-3 |"


def test_every_part_of_the_page_has_a_table(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "resilience.md").read_text(encoding="utf-8")
    assert all(f"<!-- figures: {part} -->" in page for part in bench_tables.RESILIENCE)
    assert np.isin(list(bench_tables.RESILIENCE), list(bench_tables.TABLES)).all()


def test_each_figure_of_a_population_is_a_picture(tmp_path: Path) -> None:
    def record(figure: str, condition: str, method: str, accuracy: float) -> dict[str, object]:
        return asdict(resilience.Record(figure, condition, "", "concept", method, 0, accuracy, accuracy, 0, None, 0, 1))

    records = [
        record("corrupted", f"{share}% corrupted", method, 0.5 + share / 100)
        for share in (0, 5, 15)
        for method in ("base", "auxo")
    ]
    records += [
        record("dp", f"epsilon {epsilon}, {whose}", "auxo", epsilon / 10)
        for epsilon in (2, 8)
        for whose in ("each client's", "shared")
    ]
    records.append(record("attackers", "sign flip", "auxo", 0.5))
    (tmp_path / "records.json").write_text(json.dumps(records))
    resilience_figures.main([str(tmp_path / "records.json"), str(tmp_path / "pictures")])
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "pictures").iterdir()}
    assert set(written) == {"corrupted-concept.svg", "dp-concept.svg"}
    assert "Auxo shared" in written["dp-concept.svg"]
    assert all(one.startswith("<svg") for one in written.values())
