"""Runs on numbers to be learned and on several labels, with losses and metrics of the user's own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from auxo.cli import app
from auxo.core.metric import VARIANCE_EXPLAINED, Metric
from auxo.core.rng import stream
from auxo.experiments.config_file import load_config
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment
from auxo.experiments.summary import Summary
from auxo.reporting.facts import gather_facts
from auxo.reporting.report import write_report

ROUNDS = ("training.rounds=6", "training.participants=10", 'methods=["base", "auxo"]', "run.evaluate_every=3")


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = stream(0, "test", "homes")
    lines = ["town,rooms,area,price,tags"]
    for town in range(20):
        for _ in range(12):
            rooms, area = int(rng.integers(1, 8)), float(rng.normal(90, 30))
            tags = ";".join(name for name, is_so in (("big", area > 90), ("full", rooms > 4)) if is_so) or ";"
            lines.append(f"t{town},{rooms},{area:.1f},{1000 * area + 20_000 * rooms:.0f},{tags}")
    Path("homes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("mine.py").write_text(
        "def absolute(outputs, targets):\n    return (outputs - targets).abs().mean(dim=-1)\n\n\n"
        "absolute.smaller_is_better = True\n",
        encoding="utf-8",
    )


def convert(task: str, label: str) -> None:
    options = ("--client", "town", "--features", "rooms", "--features", "area", "--label", label, "--task", task)
    done = CliRunner().invoke(app, ["data", "convert", "homes.csv", "homes.arrow", *options])
    assert done.exit_code == 0, done.output


def run(out: str, *settings: str) -> tuple[Summary, list[str]]:
    config = load_config(None, ["population.source=file", "population.file=homes.arrow", *ROUNDS, *settings])
    notes: list[str] = []
    directory = RunDirectory.create(Path(out), "")
    return run_experiment(config, directory, lambda label, event: None, notes.append), notes


def test_regression_runs_from_a_table_to_a_summary_with_the_same_bits_in_workers() -> None:
    convert("regression", "price")
    alone, notes = run("alone", "training.model=linear")
    assert alone.metric == VARIANCE_EXPLAINED
    assert any("variance explained" in note for note in notes)
    assert -1 < alone.methods["base"].final_accuracy <= 1
    directory = RunDirectory(Path("alone"))
    report = write_report(directory, gather_facts(directory)).read_text()
    assert "mean variance explained" in report
    assert "accuracy" not in report
    shared, _ = run("shared", "training.model=linear", "run.workers=2")
    assert shared == alone


def test_a_loss_and_a_metric_of_ones_own_take_the_place_of_those_of_the_task() -> None:
    convert("regression", "price")
    usual, _ = run("usual", "training.model=mlp")
    own, _ = run("own", "training.model=mlp", "training.loss=mine.py:absolute", "training.metric=mine.py:absolute")
    assert own.metric == Metric("absolute", "", smaller_is_better=True)
    assert own.methods["base"].final_accuracy < 0  # minus an error
    assert own.methods["base"] != usual.methods["base"]


def test_several_labels_are_learned() -> None:
    convert("multi-label", "tags")
    found, _ = run("tags", "training.model=linear", "training.rounds=30", "fedyogi.server_learning_rate=0.1")
    assert found.metric.name == "Jaccard index"
    assert found.methods["base"].final_accuracy > 0.6


def test_softmax_and_perplexity_are_refused_with_what_to_do() -> None:
    convert("regression", "price")
    refused = CliRunner().invoke(app, ["run", "--population", "homes.arrow", "--set", "training.participants=10"])
    assert refused.exit_code == 2
    assert 'the data ask for regression; choose "linear" or "mlp"' in refused.stderr
    perplexed = CliRunner().invoke(
        app, ["run", "--population", "homes.arrow", "--set", "run.perplexity=true", "--set", "training.participants=10"]
    )
    assert perplexed.exit_code == 2
    assert "run.perplexity: expected the cross entropy of classes" in perplexed.stderr


def test_a_wide_column_does_not_drown_the_others() -> None:
    """One column from 0 to 100,000 hid what all others said when inputs had one mean and one deviation."""
    rng = stream(0, "test", "wide")
    lines = ["client,a,b,wide,label"]
    for client in range(20):
        for _ in range(12):
            a, b = rng.normal(size=2)
            lines.append(f"c{client},{a:.3f},{b:.3f},{rng.uniform(0, 1e5):.0f},{int(a + b > 0)}")
    Path("wide.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = load_config(None, ["population.source=file", "population.file=wide.csv", *ROUNDS, "training.rounds=40"])
    data = make_population(config)
    inputs = data.inputs(data.train.x_rows)
    np.testing.assert_allclose(inputs.std(axis=0), 1, atol=0.01)
    found = run_experiment(config, RunDirectory.create(Path("wide"), ""), lambda label, event: None)
    assert found.methods["base"].final_accuracy > 0.9
    kept = make_population(config.model_copy(update={"population": replace_standardise(config.population)}))
    assert kept.inputs(kept.train.x_rows).max() > 90_000
    assert trainer_for(config, replace(kept, name="kept")).n_params == 8


def replace_standardise(population: object) -> object:
    return population.model_copy(update={"standardise": False})  # type: ignore[attr-defined]
