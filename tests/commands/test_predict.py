"""auxo place and auxo predict: tables of clients that never trained, and what is refused."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import auxo
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
    assert {(row["models"], row["samples"]) for row in rows} == {("2", "10")}
    for row in rows:
        other = next(cohort for cohort in cohorts_of(run).values() if cohort != row["cohort"])
        assert row["next_best"] == other
        assert row["loss"] == row[f"loss {row['cohort']}"]
        assert float(row[f"loss {other}"]) == pytest.approx(float(row["loss"]) + float(row["margin"]), abs=1e-4)
    assert {row["sure"] for row in rows} <= {"yes", "no"}
    assert all(float(row["device_s"]) > 0 and float(row["margin"]) > 0 for row in rows)
    assert "6 clients placed" in done.output
    assert "models tried: 12 (all with all would be 12), each on 10 samples" in done.output


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


def without_labels(path: Path, rows: int, column: bool = True) -> None:
    """Take the labels away from all but the first rows of every client, or the whole column."""
    old = table(path)
    kept = dict.fromkeys(old[0], 0)
    seen: dict[str, int] = {}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [name for name in kept if column or name != "label"], extrasaction="ignore")
        writer.writeheader()
        for row in old:
            seen[row["client"]] = seen.get(row["client"], 0) + 1
            writer.writerow(row if seen[row["client"]] <= rows else {**row, "label": ""})


def test_samples_without_labels_are_predicted_and_those_with_labels_say_where(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "new.csv", 100, 4, ("a", "wide", "c"))
    truth = [row["label"] for row in table(tmp_path / "new.csv")]
    without_labels(tmp_path / "new.csv", 15)
    done = invoke("predict", run, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    rows = table(tmp_path / "out.csv")
    # Every row of the file, in its order, those with gaps filled in as in the run.
    assert [int(row["row"]) for row in rows] == list(range(160))
    assert "4 of 160 rows have missing values" in done.output
    assert "12 test samples with a label" in done.output
    assert "100 have none" in done.output
    assert {(row["split"], row["label"]) for row in rows if int(row["row"]) % 40 >= 15} == {("", "")}
    assert np.mean([row["prediction"] == label for row, label in zip(rows, truth, strict=True)]) > 0.8
    assert [rows[40 * number]["cohort"] for number in range(4)] == [cohorts_of(run)[number % 2] for number in range(4)]


def test_a_table_without_labels_needs_to_be_told_the_cohort(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "new.csv", 100, 2, ("a", "wide", "c"))
    without_labels(tmp_path / "new.csv", 0, column=False)
    for command in ("predict", "place"):
        done = invoke(command, run, tmp_path / "new.csv")
        assert done.exit_code == 2, done.output
        assert "label a few" in done.output.replace("\n", " ")
    done = invoke("predict", run, tmp_path / "new.csv", "--cohort", "0.1", "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert {row["prediction"] for row in table(tmp_path / "out.csv")} <= set(LABELS)
    assert "80 of them have no label" in done.output


def test_rows_that_the_run_would_have_left_out_are_told_and_keep_the_others_in_their_places(tmp_path: Path) -> None:
    write_clients(tmp_path / "shops.csv", 0, 20, ("a", "wide", "c"))
    settings = ('methods=["base"]', "training.rounds=3", "training.participants=10", "population.missing=drop")
    overrides = [word for one in settings for word in ("--set", one)]
    done = invoke("run", *overrides, "--population", tmp_path / "shops.csv", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    done = invoke("predict", tmp_path / "run", tmp_path / "shops.csv", "--out", tmp_path / "out.csv")
    assert "20 of 800 rows have missing values (a: 20); they are not predicted" in done.output
    assert [int(row["row"]) for row in table(tmp_path / "out.csv")] == [row for row in range(800) if row % 40 != 7]


def test_inputs_far_outside_of_what_was_trained_on_are_told(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "new.csv", 100, 4, ("a", "wide", "c"))
    usual = invoke("place", run, tmp_path / "new.csv")
    assert "outside of what the run was trained on" not in usual.output
    rows = table(tmp_path / "new.csv")
    with (tmp_path / "other.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row | {"wide": f"{float(row['wide']) * 1000 + 4e8}"} for row in rows)
    for command in ("place", "predict"):
        told = invoke(command, run, tmp_path / "other.csv")
        assert told.exit_code == 0, told.output
        assert "note: column 'wide': 160 of 160 values are outside of what the run was trained on (" in told.output
        assert "check its units" in told.output
        assert "column 'a'" not in told.output
    finished = auxo.load(run)
    far = np.array([[0.0, 5e8, 0.0]])
    with pytest.warns(RuntimeWarning, match="column 'wide': 1 of 1 values are outside of .* such as 5e"):
        finished.predict(far, finished.tree.leaves[0])
    with pytest.warns(RuntimeWarning, match="column 'wide': 1 of 1"):
        finished.place(far, ["hot"])


def write_tasks(path: Path, first: int, count: int) -> None:
    """Write a table with a number and a set of labels to learn; in odd towns the number has another sign."""
    slope = stream(0, "slope").normal(size=4)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("town", "a", "b", "c", "d", "price", "tags"))
        for number in range(first, first + count):
            for x in stream(5, "town", number).normal(size=(30, 4)):
                tags = (
                    ";".join(name for name, value in zip(("low", "high"), (-x[0], x[1]), strict=True) if value > 0)
                    or ";"
                )
                sign = 1 if number % 2 else -1
                writer.writerow((f"town-{number}", *(f"{one:.5g}" for one in x), 500 + 50 * sign * (x @ slope), tags))


@pytest.mark.parametrize(
    ("task", "label", "score"),
    [("regression", "price", "variance explained"), ("multi-label", "tags", "Jaccard index")],
)
def test_numbers_and_several_labels_are_predicted_in_the_units_of_the_table(
    task: str, label: str, score: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    write_tasks(tmp_path / "towns.csv", 0, 40)
    write_tasks(tmp_path / "new.csv", 100, 4)
    names = ("--client", "town", "--label", label, "--task", task)
    columns = [word for name in "abcd" for word in ("--features", name)]
    for name in ("towns", "new"):
        done = invoke("data", "convert", tmp_path / f"{name}.csv", tmp_path / f"{name}.arrow", *names, *columns)
        assert done.exit_code == 0, done.output
    settings = ('methods=["base", "auxo"]', "training.model=linear", "training.rounds=50", "training.participants=30")
    overrides = [word for one in (*settings, "training.learning_rate=0.1") for word in ("--set", one)]
    run = tmp_path / "run"
    done = invoke("run", *overrides, "--population", tmp_path / "towns.arrow", "--out", run)
    assert done.exit_code == 0, done.output
    told = []
    for ending in ("csv", "arrow"):
        done = invoke("predict", run, tmp_path / f"new.{ending}", "--out", tmp_path / "out.csv")
        assert done.exit_code == 0, done.output
        (percent,) = re.findall(rf"{score} (\d+\.\d) % on the 24 test samples", done.output)
        assert float(percent) > 80
        told.append(table(tmp_path / "out.csv"))
    assert [(row["name"], row["cohort"]) for row in told[0]] == [(row["name"], row["cohort"]) for row in told[1]]
    placed = invoke("place", run, tmp_path / "new.csv")
    assert placed.exit_code == 0, placed.output
    if task == "multi-label":
        assert {row["prediction"] for row in told[0]} == {"", "high", "low", "high;low"}
        assert [row["prediction"] for row in told[0]] == [row["prediction"] for row in told[1]]
        lines = (tmp_path / "new.csv").read_text(encoding="utf-8").splitlines()
        few = [line if place % 3 == 0 else line.rpartition(",")[0] + "," for place, line in enumerate(lines)]
        (tmp_path / "few.csv").write_text("\n".join(few), encoding="utf-8")
        done = invoke("predict", run, tmp_path / "few.csv")
        assert done.exit_code == 0, done.output
        assert "80 have none" in done.output
    else:
        for column in ("label", "prediction"):  # a converted file holds them in single precision
            one, other = (np.array([float(row[column]) for row in rows]) for rows in told)
            np.testing.assert_allclose(one, other, rtol=1e-4)
        labels, predicted = (np.array([float(row[name]) for row in told[0]]) for name in ("label", "prediction"))
        assert np.abs(labels - predicted).mean() < 0.3 * labels.std()
        finished = auxo.load(run)
        x = stream(5, "town", 101).normal(size=(30, 4))
        place = finished.place(x, 500 + 50 * (x @ stream(0, "slope").normal(size=4)))
        assert place.cohort == next(row["cohort"] for row in told[0] if row["name"] == "town-101")
        assert finished.predict(x, place).shape == (30,)
        with pytest.raises(ValueError, match="expected 1 finite numbers for each input"):
            finished.place(x, np.zeros((30, 2)))


def test_a_prediction_says_how_likely_it_is_and_how_sure_the_placement(run: Path, tmp_path: Path) -> None:
    write_clients(tmp_path / "new.csv", 100, 2, ("a", "wide", "c"))
    done = invoke("predict", run, tmp_path / "new.csv", "--out", tmp_path / "told.csv", "--probabilities")
    assert done.exit_code == 0, done.output
    rows = table(tmp_path / "told.csv")
    for row in rows:
        each = {label: float(row[f"probability {label}"]) for label in LABELS}
        assert sum(each.values()) == pytest.approx(1, abs=1e-3)
        assert float(row["probability"]) == max(each.values()) == each[row["prediction"]]
        assert row["sure"] == "yes"
        assert float(row["margin"]) > 0
    right = [float(row["probability"]) for row in rows if row["label"] == row["prediction"]]
    wrong = [float(row["probability"]) for row in rows if row["label"] != row["prediction"]]
    assert np.mean(right) > np.mean(wrong)
