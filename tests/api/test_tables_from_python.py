"""Tables from Python: files with columns, data frames, and values as pandas has them, as on the command line."""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import auxo
from auxo.api.client_data import DataColumns, population_from
from auxo.api.finished_run import FinishedRun
from auxo.cli import app
from auxo.core.rng import stream
from auxo.datasets.describe import describe
from auxo.datasets.tables import TableColumns

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

CITIES = ("Oslo", "Rome", "Lima")
LABELS = ("late", "on time", "returned")
COLUMNS = TableColumns(client="shop", label="outcome", categories=("city",), missing="mean")
SETTINGS: dict[str, object] = {
    "training.aggregator": "fedavg",
    "training.learning_rate": 0.1,
    "training.batch_size": 10,
    "run.evaluate_every": 10,
}
NAMED = ("--client", "shop", "--label", "outcome", "--categories", "city", "--missing", "mean")


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def write_orders(path: Path, first: int, count: int) -> Path:
    """Write orders of shops as a spreadsheet does: semicolons, decimal commas, gaps; odd shops mean other things."""
    truth = stream(0, "orders", "truth").normal(size=(4, 3))
    lines = ["shop;order_id;when;weight;pay;is_member;city;outcome"]
    for shop in range(first, first + count):
        x = stream(0, "orders", shop).normal(size=(40, 3))
        members, cities = stream(1, "orders", shop).integers(2, size=40), stream(2, "orders", shop).integers(3, size=40)
        y = (np.column_stack([x, members]) @ truth + 2 * np.eye(3)[cities]).argmax(axis=1)
        for row in range(40):
            when = datetime(2026, 1, 1) + timedelta(hours=row)
            cells = (
                f"shop {shop}{' ' if row % 5 == 0 else ''}",
                shop * 40 + row,
                when.isoformat(" "),
                "" if row == 7 else f"{x[row, 0]:.4f}".replace(".", ","),
                f"{50_000 + 30_000 * x[row, 1]:.2f}".replace(".", ","),
                ("false", "true")[members[row]],
                "" if row == 11 else CITIES[cities[row]],
                "" if row == 13 else LABELS[(y[row] + shop % 2) % 3],
            )
            lines.append(";".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def frame_of(path: Path) -> Any:
    return pd.read_csv(path, sep=";", decimal=",")


def predictions(run: FinishedRun, data: object) -> list[tuple[object, ...]]:
    """Return what is predicted, row by row: client, cohort, row, prediction."""
    new = run.opened(data)
    cohorts = run.place_all(new).cohort
    found = run.predict_all(new, cohorts)
    told = run.label_names(found.predicted).tolist()
    owners = found.client.tolist()
    return [
        (new.data.client_names[one], cohorts[one], row, word)
        for one, row, word in zip(owners, found.row, told, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_table_is_one_run_from_python_and_from_the_command_line(tmp_path: Path) -> None:
    table, new = write_orders(tmp_path / "orders.csv", 0, 60), write_orders(tmp_path / "new.csv", 100, 6)
    converted = invoke("data", "convert", table, tmp_path / "orders.arrow", *NAMED)
    assert converted.exit_code == 0, converted.output
    assert "60 clients, 2,340 samples, 3 classes" in converted.output
    assert "column 'when' is no input: it holds times" in converted.output
    assert "column 'order_id' became an input, but looks like an id" in converted.output
    assert "7 columns (order_id, weight, pay, is_member, city=Lima, city=Oslo, city=Rome), each" in converted.output
    sets = ['methods=["base", "auxo"]', "training.rounds=40", "training.participants=30"]
    words = [word for one in (*sets, *(f"{key}={value}" for key, value in SETTINGS.items())) for word in ("--set", one)]
    done = invoke("run", *words, "--population", tmp_path / "orders.arrow", "--out", tmp_path / "command")
    assert done.exit_code == 0, done.output

    sizes: dict[str, Any] = {"rounds": 40, "participants": 30, "settings": SETTINGS, "columns": COLUMNS}
    runs = [
        auxo.simulate(table, **sizes, out=tmp_path / "file"),
        auxo.simulate(frame_of(table), **sizes, name="orders", out=tmp_path / "frame"),
    ]
    for run in runs:
        cohorts = {name: row.cohort for name, row in run.clients.items()}
        assert [len({cohorts[f"shop {shop}"] for shop in range(odd, 60, 2)}) for odd in (0, 1)] == [1, 1]
        assert cohorts["shop 0"] != cohorts["shop 1"]
    told = invoke("predict", tmp_path / "command", new)
    assert told.exit_code == 0, told.output
    assert "note: column 'order_id': 240 of 240 values are outside of what the run was trained on" in told.output
    lines = [line.split(",") for line in told.stdout.splitlines()[1:]]
    expected = [(name, cohort, int(row), word) for name, cohort, row, _, _, word, *_ in lines]
    for run in runs:
        models = [f"auxo/models/{cohort}.safetensors" for cohort in run.tree.leaves]
        for name in ("summary.json", "auxo/clients.csv", "base/clients.csv", "base/models/0.safetensors", *models):
            ours, theirs = ((folder / name).read_bytes() for folder in (run.path, tmp_path / "command"))
            assert ours == theirs, (run.path, name)
        for data in (new, frame_of(new)):
            assert predictions(run, data) == expected
        for command in ("predict", "place"):
            assert invoke(command, run.path, new).stdout == invoke(command, tmp_path / "command", new).stdout
        assert predictions(auxo.load(tmp_path / "command"), frame_of(new)) == expected


def test_columns_are_heeded_for_files_and_refused_where_they_say_nothing(tmp_path: Path) -> None:
    path = write_orders(tmp_path / "orders.csv", 0, 8)
    asked = TableColumns(client="shop", label="outcome", features=("pay", "is_member"), missing="drop")
    data = population_from(path, asked)
    assert data.preparation.columns == ("pay", "is_member")
    assert data.n_clients == 8
    half = population_from(frame_of(path).dropna(), DataColumns("shop", "pay", "outcome", test_share=0.5))
    assert half.preparation.columns == ("pay",)
    assert half.test.counts().tolist() == [18] * 8  # of 37 each
    np.savez(tmp_path / "a.npz", x=np.ones((2, 1)), y=[0, 1], client=[0, 0], test=[0, 1])
    with pytest.raises(ValueError, match=r"columns: expected them for tables \(\.csv, \.parquet\), got .*a\.npz"):
        population_from(tmp_path / "a.npz", DataColumns(task="regression"))
    with pytest.raises(ValueError, match=r"columns: expected auxo\.DataColumns for these data"):
        population_from({"a": ([[1.0]], [0])}, asked)


def small_frame(**more: list[Any]) -> Any:
    base = {"client": ["a", "b"] * 10, "size": np.arange(20.0), "label": ["x", "y", "y", "x"] * 5}
    return pd.DataFrame(base | {name: values * 10 for name, values in more.items()})


def test_a_frame_has_types_of_its_own() -> None:
    frame = small_frame(kind=["p", "q"], is_new=[True, False])
    frame["kind"], frame["label"] = frame["kind"].astype("category"), frame["label"].astype("category")
    frame["some"] = pd.array([1, None] * 10, dtype="Int64")
    frame["seen"] = pd.Timestamp("2026-01-01")
    data = population_from(frame, TableColumns(missing="mean", categories=("kind",)), standardise=True)
    assert data.preparation.columns == ("size", "kind=p", "kind=q", "is_new", "some")
    assert data.preparation.classes == ("x", "y")
    assert any(note.startswith("column 'seen' is no input: it holds times") for note in data.preparation.notes)
    plain = population_from(small_frame(), DataColumns(label="label"))
    assert plain.n_clients == 2


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array(["x", "y", "x", "y"], dtype=object), ("x", "y")),
        (pd.Series(["x", "y", "x", "y"], dtype="category"), ("x", "y")),
        (np.array([True, False, True, False]), ()),
        (pd.Series([True, False, True, False], dtype=object), ()),
    ],
    ids=["objects", "categories", "booleans", "objects that are booleans"],
)
def test_clients_arrays_may_be_of_pandas(labels: object, classes: tuple[str, ...]) -> None:
    x = pd.DataFrame({"size": [1.0, 2.0, 4.0, 8.0], "is_new": [True, False, False, True]})
    data = population_from({"a": (x, labels), "b": (x, labels)}, standardise=True)
    assert data.preparation.columns == ("size", "is_new")
    assert data.preparation.classes == classes
    assert data.n_classes == 2
    with pytest.raises(ValueError, match="expected inputs with the same columns in the same order"):
        population_from({"a": (x, labels), "b": (x[["is_new", "size"]], labels)})
    with pytest.raises(ValueError, match=r"got objects \(NoneType, str\); give arrays of one shape, or the table as"):
        population_from({"a": (x, np.array(["x", None, "y", "x"], dtype=object))})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "--client", "shop"), "It is one of `auxo data convert TABLE TABLE.arrow`"),
        (("config", "show", "--explian"), "--explain"),
        (("run", "--rounds", "5"), "It is a setting: --set training.rounds=VALUE"),
    ],
)
def test_options_that_are_unknown_are_answered_with_what_was_meant(words: tuple[str, ...], told: str) -> None:
    done = CliRunner(env={"COLUMNS": "300"}).invoke(app, list(words))
    assert done.exit_code == 2
    assert told in re.sub(r"\s+", " ", done.output)
    assert "population.plant" not in done.output


@pytest.mark.parametrize("command", [("run", "--population"), ("data", "describe"), ("data", "validate")])
def test_a_table_with_other_names_is_answered_with_the_command_that_reads_it(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "orders.parquet"
    small_frame().rename(columns={"client": "shop"}).to_parquet(path)
    done = invoke(*command, path)
    assert done.exit_code == 2
    assert f"`auxo data convert {path} {tmp_path / 'orders.arrow'}`" in done.output


@pytest.mark.parametrize(
    ("task", "label", "fact"),
    [
        ("regression", ("size", "more"), "numbers to learn  2 (size, more)"),
        ("multi-label", ("tags",), "labels            2 (p, q)"),
    ],
)
def test_what_is_no_class_is_not_described_as_one(task: Any, label: tuple[str, ...], fact: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    small_frame(tags=["p;q", "q"], more=[2.0, 1.0], size2=[1.0, 2.0]).drop(columns="label").to_csv(path, index=False)
    words = [word for name in label for word in ("--label", name)]
    done = invoke("data", "convert", path, tmp_path / "t.arrow", "--task", task, *words)
    assert done.exit_code == 0, done.output
    told = invoke("data", "describe", tmp_path / "t.arrow", "--html", tmp_path / "t.html")
    assert told.exit_code == 0, told.output
    assert fact in told.output
    assert "skew" not in told.output + (tmp_path / "t.html").read_text(encoding="utf-8")
    assert "classes" not in told.output + invoke("data", "validate", tmp_path / "t.arrow").output
    data = population_from(tmp_path / "t.arrow")
    assert describe(data).task == task
