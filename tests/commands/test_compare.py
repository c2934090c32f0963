"""`auxo compare` on the command line: real runs of a tiny population, over two seeds."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from auxo.cli import app
from auxo.experiments.references import reference_names

STUDY = """
name = "tiny"
methods = ["base", "auxo"]

[population]
source = "synthetic"
clients = 60
groups = 2
heterogeneity = "concept"
features = 4
classes = 3
samples = [8, 12]
test_samples = 5

[training]
aggregator = "fedavg"
rounds = 3
participants = 20

[run]
perplexity = true
"""


def auxo(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


@pytest.fixture(autouse=True)
def _in_a_directory_with_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY, encoding="utf-8")


def test_help_has_examples() -> None:
    result = auxo("compare", "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output


def test_two_seeds_are_run_shown_and_written_and_the_same_command_goes_on_where_it_stopped() -> None:
    first = auxo("compare", "study.toml", "--seeds", "1", "--json", "one.json")
    assert first.exit_code == 0, first.output
    assert "one seed says nothing about chance" in first.stdout
    done = Path("runs/tiny-seeds/seed-0/summary.json")
    written = done.stat().st_mtime_ns

    both = auxo("compare", "study.toml", "--seeds", "2", "--json", "two.json")

    assert both.exit_code == 0, both.output
    assert done.stat().st_mtime_ns == written
    assert "seed 1" in both.stderr
    assert "seed 0" not in both.stderr
    assert "synthetic, 2 seeds" in both.stdout
    assert "two seeds say next to nothing about chance" in both.stdout
    assert "difference (95 %)" not in both.stdout
    found = json.loads(Path("two.json").read_text(encoding="utf-8"))
    assert found == json.loads(Path("runs/tiny-seeds/comparison.json").read_text(encoding="utf-8"))
    assert found["seeds"] == [0, 1]
    assert json.loads(Path("one.json").read_text(encoding="utf-8"))["seeds"] == [0]
    rows = {row["measure"]["key"]: row for row in found["rows"]}
    summaries = [json.loads(Path(f"runs/tiny-seeds/seed-{seed}/summary.json").read_text()) for seed in (0, 1)]
    for key, scale in (("final_accuracy", 100), ("perplexity", 1)):
        scores = [summary["methods"] for summary in summaries]
        means = {name: scale * sum(one[name][key] for one in scores) / 2 for name in ("base", "auxo")}
        assert rows[key]["means"] == pytest.approx(means)
        assert rows[key]["differences"]["auxo"]["mean"] == pytest.approx(means["auxo"] - means["base"])
        assert rows[key]["differences"]["auxo"]["half_width"] is None  # of two
    assert len(list(Path("runs/tiny-seeds").glob("seed-*/report.html"))) == 2
    assert "report: runs/tiny-seeds/report.html; figures: runs/tiny-seeds/figures" in both.stdout
    assert Path("runs/tiny-seeds/figures/differences.pdf").is_file()


def test_runs_of_other_settings_are_left_alone() -> None:
    assert auxo("compare", "study.toml", "--seeds", "1").exit_code == 0
    other = auxo("compare", "study.toml", "--seeds", "1", "--set", "training.rounds=2")
    assert other.exit_code == 2
    assert "holds a run of another configuration (training.rounds: 3, now 2); choose another folder" in other.stderr
    other = auxo("compare", "study.toml", "--seeds", "1", "--set", "auxo.affinity.exploration=0.2")
    assert other.exit_code == 2
    assert "holds a run of another configuration (auxo.affinity.exploration: 0.1, now 0.2)" in other.stderr


def test_a_name_that_is_neither_a_file_nor_a_reference_lists_the_references() -> None:
    result = auxo("compare", "riters")
    assert result.exit_code == 2
    assert "riters: no such file" in result.stderr
    assert all(name in result.stderr for name in reference_names())
    assert not Path("runs").exists()


def test_a_reference_without_its_data_says_what_to_do_and_leaves_no_run() -> None:
    result = auxo("compare", "writers", "--out", "out")
    assert result.exit_code == 2
    assert "set it (--population FILE)" in result.stderr
    assert not list(Path().glob("out/*"))


def files_of(folder: str) -> dict[str, bytes]:
    """Return what methods have left, by name; reports and stamps say when they were made."""
    root = Path(folder)
    names = ("events.jsonl", "clients.csv", "tree.json", "summary.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.name in names}


def test_a_grid_has_one_table_and_one_picture_and_is_the_same_in_processes_of_its_own() -> None:
    grid = ("compare", "study.toml", "--grid", "training.aggregator=fedavg,fedyogi", "--seeds", "1")
    one = auxo(*grid, "--out", "one", "--json", "grid.json")
    assert one.exit_code == 0, one.output
    assert "aggregator-fedyogi, seed 0" in one.stderr
    assert [line.split()[:2] for line in one.stdout.splitlines() if line.strip().startswith("fed")] == [
        ["fedavg", "base"], ["fedavg", "Auxo"], ["fedyogi", "base"], ["fedyogi", "Auxo"],
    ]  # fmt: skip
    found = json.loads(Path("grid.json").read_text(encoding="utf-8"))
    assert [(row["choices"], row["method"]) for row in found["rows"]][:2] == [
        (["fedavg"], "base"),
        (["fedavg"], "auxo"),
    ]
    summary = json.loads(Path("one/aggregator-fedyogi/seed-0/summary.json").read_text())
    accuracy = 100 * summary["methods"]["base"]["final_accuracy"]
    assert found["rows"][2]["accuracy"]["mean"] == pytest.approx(accuracy)
    assert "Methods by aggregator" in Path("one/report.html").read_text(encoding="utf-8")
    two = auxo(*grid, "--out", "two", "--jobs", "2")
    assert two.exit_code == 0, two.output
    assert "aggregator-fedavg/seed-0: finished" in two.stderr
    assert files_of("one") == files_of("two")
    assert len(files_of("one")) == 2 * (2 * 3 + 1)


def test_a_method_that_is_added_later_leaves_what_it_would_have_left_at_once() -> None:
    assert auxo("compare", "study.toml", "--seeds", "1", "--out", "later").exit_code == 0
    events = Path("later/seed-0/base/events.jsonl")
    written = events.stat().st_mtime_ns
    more = ("compare", "study.toml", "--seeds", "1", "--methods", "base,auxo,ifca")
    assert auxo(*more, "--out", "later").exit_code == 0
    assert events.stat().st_mtime_ns == written
    assert auxo(*more, "--out", "at-once").exit_code == 0
    assert files_of("later/seed-0") == files_of("at-once/seed-0")
    assert "later/seed-0/ifca/models" in {str(path) for path in Path("later").rglob("models")}


def test_a_comparison_that_is_interrupted_says_how_it_goes_on() -> None:
    Path("stopping.py").write_text(
        "import torch\n\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        if len(x) > 3:  # more than it is tried with beforehand\n"
        "            raise KeyboardInterrupt\n"
        "        return super().forward(x)\n\n"
        "def net(inputs, classes):\n"
        "    return Net(inputs, classes)\n"
    )
    result = auxo("compare", "study.toml", "--seeds", "1", "--set", "training.model=stopping.py:net")
    assert result.exit_code == 130
    assert "to go on, give the same command again" in result.stderr
    assert "auxo resume" not in result.stderr


def test_a_run_that_cannot_be_carried_out_in_its_process_says_why() -> None:
    result = auxo("compare", "writers", "--population", "absent.arrow", "--seeds", "2", "--jobs", "2", "--out", "out")
    assert result.exit_code == 2
    assert "absent.arrow: file: expected a data set" in result.stderr
    assert not list(Path().rglob("out/**/*"))


def test_a_value_of_a_grid_that_cannot_be_used_starts_nothing() -> None:
    result = auxo("compare", "study.toml", "--grid", "training.aggregator=fedavg,fedyogy")
    assert result.exit_code == 2
    assert 'did you mean "fedyogi"?' in result.stderr
    assert not Path("runs").exists()
