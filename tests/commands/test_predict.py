"""auxo place and auxo predict: tables of clients that never trained, and what is refused."""

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from auxo.cli import app
from auxo.core.rng import stream

pytest.importorskip("pyarrow")

LABELS = ("cold", "fine", "hot")
SETTINGS = (
    'methods=["base", "auxo"]',
    "training.aggregator=fedavg",
    "training.learning_rate=0.1",
    "training.rounds=40",
    "training.participants=30",
    "training.batch_size=10",
    "population.missing=mean",
    "run.evaluate_every=10",
)


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def write_clients(
    path: Path, first: int, count: int, columns: tuple[str, ...], labels: tuple[str, ...] = LABELS
) -> None:
    """Write a table with a wide column, gaps and texts as labels; odd clients mean other things by the labels."""
    truth = stream(0, "truth").normal(size=(3, 3))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("client", *columns, "label"))
        for number in range(first, first + count):
            x = stream(3, "table", number).normal(size=(40, 3))
            y = ((x @ truth).argmax(axis=1) + number % 2) % 3
            values = {"a": x[:, 0], "wide": 50_000 + 30_000 * x[:, 1], "c": x[:, 2]}
            for row in range(40):
                if LABELS[y[row]] in labels:
                    cells = [f"{values[name][row]:.5g}" for name in columns]
                    if row == 7:
                        cells[0] = ""
                    writer.writerow((f"shop-{number}", *cells, LABELS[y[row]]))


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    write_clients(folder / "shops.csv", 0, 60, ("a", "wide", "c"))
    overrides = [word for one in SETTINGS for word in ("--set", one)]
    done = invoke("run", *overrides, "--population", folder / "shops.csv", "--out", folder / "run")
    assert done.exit_code == 0, done.output
    assert "worse off than with the base" in done.output
    cohorts = {row["name"]: row["cohort"] for row in table(folder / "run" / "auxo" / "clients.csv")}
    assert len({cohorts[f"shop-{number}"] for number in range(0, 60, 2)}) == 1
    assert cohorts["shop-0"] != cohorts["shop-1"]
    return folder / "run"


def cohorts_of(run: Path) -> dict[int, str]:
    rows = {row["name"]: row["cohort"] for row in table(run / "auxo" / "clients.csv")}
    return {0: rows["shop-0"], 1: rows["shop-1"]}


def test_new_clients_are_placed_and_the_cost_is_told(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "new.csv", 100, 6, ("a", "wide", "c"))
    done = invoke("place", run, tmp_path / "new.csv", "--out", tmp_path / "places.csv", "--samples", 10)
    assert done.exit_code == 0, done.output
    rows = table(tmp_path / "places.csv")
    assert [row["cohort"] for row in rows] == [cohorts_of(run)[number % 2] for number in range(100, 106)]
    assert {(row["models"], row["samples"]) for row in rows} == {("2", "20")}
    assert all(float(row["device_s"]) > 0 and float(row["margin"]) > 0 for row in rows)
    assert "6 clients placed" in done.output
    assert "models tried: 12 (all with all would be 12), on 120 samples" in done.output


def test_columns_in_another_order_gaps_and_other_labels_are_read_as_in_the_run(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "plain.csv", 100, 6, ("a", "wide", "c"))
    # Numbered by themselves, two of the three labels would be others.
    write_clients(tmp_path / "turned.csv", 100, 6, ("c", "a", "wide"), labels=("fine", "hot"))
    found = {}
    for name in ("plain", "turned"):
        done = invoke("predict", run, tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}-out.csv")
        assert done.exit_code == 0, done.output
        rows = table(tmp_path / f"{name}-out.csv")
        assert np.mean([row["label"] == row["prediction"] for row in rows]) > 0.8
        assert {row["prediction"] for row in rows} <= set(LABELS)
        found[name] = {row["name"]: row["cohort"] for row in rows}
    assert found["plain"] == found["turned"]


def test_a_converted_file_is_the_same_as_its_table(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "new.csv", 100, 4, ("a", "wide", "c"))
    converted = invoke("data", "convert", "table", tmp_path / "new.csv", tmp_path / "new.arrow", "--missing", "mean")
    assert converted.exit_code == 0, converted.output
    rows = []
    for ending in ("csv", "arrow"):
        done = invoke("predict", run, tmp_path / f"new.{ending}", "--out", tmp_path / "out.csv")
        assert done.exit_code == 0, done.output
        rows.append([(row["name"], row["cohort"], row["label"]) for row in table(tmp_path / "out.csv")])
    assert rows[0] == rows[1]


def test_clients_of_the_run_have_the_cohorts_they_had(run: Path, tmp_path: Path) -> None:
    done = invoke("predict", run, run.parent / "shops.csv", "--by-name", "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    known = {row["name"]: row["cohort"] for row in table(run / "auxo" / "clients.csv")}
    rows = table(tmp_path / "out.csv")
    assert {row["name"]: row["cohort"] for row in rows} == known
    # On the same test samples the accuracy is that of the run.
    for name in ("shop-0", "shop-31"):
        mine = [row["label"] == row["prediction"] for row in rows if row["name"] == name and row["split"] == "test"]
        expected = next(row for row in table(run / "auxo" / "clients.csv") if row["name"] == name)
        assert np.mean(mine) == pytest.approx(float(expected["accuracy"]), abs=1e-5)


def test_a_named_cohort_and_another_method_are_used_for_everybody(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "new.csv", 100, 2, ("a", "wide", "c"))
    done = invoke("predict", run, tmp_path / "new.csv", "--cohort", "0.1")
    assert done.exit_code == 0, done.output
    assert "all with the model of 0.1" in done.output
    done = invoke("predict", run, tmp_path / "new.csv", "--method", "base", "--out", tmp_path / "out.csv")
    assert {row["cohort"] for row in table(tmp_path / "out.csv")} == {"0"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "RUN", "new.csv", "--cohort", "0.9"), "--cohort 0.9: expected one of 0.0, 0.1"),
        (("predict", "RUN", "new.csv", "--cohort", "0.1", "--by-name"), "expected one of them, got both"),
        (("predict", "RUN", "new.csv", "--by-name"), "got 2 others, such as 'shop-100'"),
        (("predict", "RUN", "new.csv", "--method", "oracle"), "expected one of base, auxo"),
        (("predict", "RUN", "new.csv", "--out", "no/where.csv"), "nothing was done"),
        (("predict", "RUN", "new.csv", "--model", "nothing.py:Net"), "nothing.py: no such file"),
        (("place", "RUN", "narrow.csv"), "wide"),
        (("place", "RUN", "strange.csv"), "got 'odd'"),
        (("place", "RUN", "none.csv"), "no such file"),
        (("place", "none", "new.csv"), "expected a run directory"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_message(
    run: Path, words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_clients(tmp_path / "new.csv", 100, 2, ("a", "wide", "c"))
    write_clients(tmp_path / "narrow.csv", 100, 2, ("a", "c"))
    text = (tmp_path / "new.csv").read_text(encoding="utf-8").replace(",hot", ",odd")
    (tmp_path / "strange.csv").write_text(text, encoding="utf-8")
    done = invoke(*(run if word == "RUN" else word for word in words))
    assert done.exit_code == 2, done.output
    assert message in done.output.replace("\n", " ")
