"""The same data give the same run, from Python and from the command line, whatever they come in."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import auxo
from auxo.api.client_data import population_from
from auxo.cli import app
from auxo.core.rng import stream
from auxo.datasets.open_dataset import open_dataset
from auxo.population.federated_data import FederatedData

COLUMNS = ("age", "area", "pay", "rate", "rooms", "when")
SIZES: dict[str, Any] = {"rounds": 4, "participants": 8}


def wide_clients() -> dict[int, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Return clients of six columns, one of them a hundred thousand times as wide as the others, another far from 0."""
    found = {}
    for number in (10, 2, 1, *range(20, 29)):
        x = stream(0, "wide", number).normal(size=(25, len(COLUMNS)))
        y = (x[:, 0] + x[:, 3] > 0).astype(np.int64)
        found[number] = (x * [1, 1, 1e5, 1, 1, 1] + [0, 0, 0, 0, 0, 1.7e9], y)
    return found


def write(path: Path) -> Path:
    """Write them as a table whose clients take turns, or as arrays."""
    rows = [(number, *x, y) for number, (xs, ys) in wide_clients().items() for x, y in zip(xs, ys, strict=True)]
    turns = [rows[place] for place in np.argsort(np.arange(len(rows)) % 25, kind="stable")]
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("client", *COLUMNS, "label"), *turns])
        return path
    if path.suffix == ".npz":
        columns = np.array(turns)
        made = population_from(wide_clients())
        client = columns[:, 0].astype(int)
        test = np.zeros(len(columns), dtype=bool)
        for place, name in enumerate(made.client_names):
            whole = wide_clients()[int(name)][0]
            held_out = whole[made.test.x_rows[made.test.of(place)] % 25]
            test |= (client == int(name)) & np.isin(columns[:, 1], held_out[:, 0])
        np.savez(path, x=columns[:, 1:-1], y=columns[:, -1].astype(int), client=client, test=test)
        return path
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"client": [row[0] for row in turns], "features": [list(row[1:-1]) for row in turns]}
    parquet.write_table(pa.table({**table, "label": [row[-1] for row in turns]}), path)
    return path


def seen(data: FederatedData) -> list[NDArray[np.generic]]:
    """Return all that models are given, in the order in which they are."""
    return [part for one in (data.train, data.test) for part in (data.inputs(one.x_rows), one.y, one.offsets)]


@pytest.mark.parametrize("name", ["wide.csv", "wide.npz"])
def test_arrays_and_tables_become_the_same_inputs_to_the_bit(tmp_path: Path, name: str) -> None:
    ours, theirs = population_from(wide_clients(), standardise=True), open_dataset(write(tmp_path / name))
    assert ours.client_names == theirs.client_names == tuple(str(number) for number in sorted(wide_clients()))
    for one, other in zip(seen(ours), seen(theirs), strict=True):
        assert one.tobytes() == other.tobytes()
    assert np.allclose(ours.x[ours.train.x_rows].std(axis=0), 1.0)
    assert ours.preparation.means == theirs.preparation.means


def test_lists_of_numbers_are_columns_too(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path / "wide.parquet")).standardised()
    assert np.allclose(data.x[data.train.x_rows].std(axis=0)[:-1], 1.0, atol=1e-4)  # the last is lost in float32
    assert len(data.preparation.scales) == len(COLUMNS)


@pytest.mark.parametrize("x", [np.ones((4, 2, 2)), np.ones((4, 4), dtype=np.uint8)], ids=["shape", "levels"])
def test_images_have_one_mean_and_one_deviation(x: NDArray[Any]) -> None:
    varied = (x * np.array([1, 2, 9, 30]).reshape(-1, *(1,) * (x.ndim - 1))).astype(x.dtype)
    data = population_from({"a": (varied, [0, 1, 0, 1]), "b": (varied, [0, 1, 0, 1])}, standardise=True)
    assert len(data.preparation.means) == 1


@pytest.mark.filterwarnings("ignore:.*no better than chance", "ignore:auxo. ")
@pytest.mark.parametrize("name", ["wide.csv", "wide.npz"])
def test_a_run_from_python_is_that_of_the_command_line_and_is_used_alike(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name)
    run = auxo.simulate(wide_clients(), model="mlp", **SIZES, methods=["base"], name="wide", out=tmp_path / "python")
    sets = ['methods=["base"]', "training.model=mlp", *(f"training.{key}={value}" for key, value in SIZES.items())]
    words = [word for one in sets for word in ("--set", one)]
    done = CliRunner().invoke(app, ["run", *words, "--population", str(file), "--out", str(tmp_path / "command")])
    assert done.exit_code == 0, done.output
    assert "6 columns" in done.output
    assert "each standardised by its training mean and deviation" in done.output
    assert "6 columns, each standardised" in str(run)
    for one in ("summary.json", "base/clients.csv", "base/models/0.safetensors"):
        assert (tmp_path / "python" / one).read_bytes() == (tmp_path / "command" / one).read_bytes(), one

    x, y = wide_clients()[10]
    told = [auxo.load(tmp_path / kind).models["0"].predict(x) for kind in ("python", "command")]
    assert (told[0].astype(str) == told[1].astype(str)).all()
    assert np.mean(told[0] == y) > 0.6
    from_file = [
        CliRunner().invoke(app, ["predict", str(tmp_path / kind), str(file)]) for kind in ("python", "command")
    ]
    assert from_file[0].exit_code == 0, from_file[0].output
    assert from_file[0].stdout == from_file[1].stdout
