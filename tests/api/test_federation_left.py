"""What a federation on Flower has left is used as a run's is, once it is said what the app's model takes."""

import csv
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr")

import auxo
from auxo.api.federation_left import FederationLeft
from auxo.api.finished_run import FinishedRun
from auxo.cli import app
from auxo.core.types import CohortId
from auxo.files.errors import FileError
from auxo.runtime.client import Client
from auxo.training.stored_models import tensors_by_name
from tests.flower.wrapped_apps import Ran, run_wrapped

INPUTS = auxo.ModelInputs((10,), 4)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_wrapped("quickstart_numpy", tmp_path_factory.mktemp("federation"))


def new_clients(ran: Ran, path: Path) -> Path:
    """Write a table of two nodes that never trained, one of each group."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["client", *(f"x{number}" for number in range(10)), "label"])
        for number in (50, 51):
            x, y, *_ = ran.load_data(number)
            writer.writerows([f"node {number}", *row, label] for row, label in zip(x.tolist(), y.tolist(), strict=True))
    return path


def test_the_tree_and_who_is_where_need_nothing_else(ran: Ran) -> None:
    run = auxo.load(ran.directory)
    assert run.is_federation
    assert run.tree.leaves == ("0.0", "0.1")
    assert {name: row.cohort for name, row in run.clients.items()} == {
        str(100 + place): run.place(str(100 + place % 2)).cohort for place in range(8)
    }
    assert all(row.visits for row in run.clients.values())
    assert "2 cohorts, 8 nodes" in repr(run)
    assert run.of("auxo").tree == run.tree


def test_what_is_needed_besides_is_said(ran: Ran) -> None:
    x, y, *_ = ran.load_data(50)
    with pytest.raises(FileError, match=r"inputs: expected what the app's model takes.*--inputs 3,32,32 --classes 10"):
        auxo.load(ran.directory, model="softmax").place(x, y)
    with pytest.raises(FileError, match=r"model: expected the class of the app's model.*--model task\.py:Net"):
        auxo.load(ran.directory, inputs=INPUTS).place(x, y)
    with pytest.raises(FileError, match="cannot be built"):
        auxo.load(ran.directory, model="no/such/file.py:Net", inputs=INPUTS).place(x, y)
    with pytest.raises(FileError, match=r"0\.0\.safetensors: .*shape"):
        _ = auxo.load(ran.directory, model="softmax", inputs=auxo.ModelInputs((10,), 5)).models["0.0"]


def test_what_only_a_simulation_has_is_refused(ran: Ran, run: FinishedRun) -> None:
    for name in ("config", "summary", "coordinator", "losers"):
        with pytest.raises(TypeError, match="got a federation on Flower"):
            getattr(auxo.load(ran.directory), name)
    with pytest.raises(ValueError, match="the only one of a federation"):
        auxo.load(ran.directory, method="base")
    with pytest.raises(ValueError, match=r"has its own in model\.json"):
        auxo.load(run.path, inputs=INPUTS)


def test_models_have_the_arrays_of_the_app(ran: Ran) -> None:
    run = auxo.load(ran.directory, model="softmax", inputs=INPUTS)
    kept = tensors_by_name((ran.directory / "models" / "0.1.safetensors").read_bytes())
    for name, number in (("weight", "0"), ("bias", "1")):
        assert np.array_equal(run.models["0.1"].tensors[name], kept[number].astype(np.float32))


def test_arrays_without_names_whose_shapes_do_not_tell_them_apart_are_refused(ran: Ran) -> None:
    left = FederationLeft(ran.directory, "mlp", auxo.ModelInputs((10,), 4))
    with pytest.raises(FileError, match="dict of arrays by the names of the model's parameters"):
        left.weights(CohortId("0.0"))


def test_a_record_without_feedback_says_nothing(ran: Ran) -> None:
    with pytest.raises(ValueError, match="got an empty one"):
        auxo.load(ran.directory).place(Client(7))


def test_the_commands_place_and_predict(ran: Ran, tmp_path: Path) -> None:
    table = str(new_clients(ran, tmp_path / "new.csv"))
    needed = ["--model", "softmax", "--inputs", "10", "--classes", "4"]
    placed = CliRunner().invoke(app, ["place", str(ran.directory), table, *needed, "--out", str(tmp_path / "p.csv")])
    assert placed.exit_code == 0, placed.output
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    cohorts = {row["name"]: row["cohort"] for row in rows}
    run = auxo.load(ran.directory)
    assert cohorts == {"node 50": run.place("100").cohort, "node 51": run.place("101").cohort}
    assert {row["device_s"] for row in rows} == {""}
    predicted = CliRunner().invoke(app, ["predict", str(ran.directory), table, *needed])
    assert predicted.exit_code == 0, predicted.output
    told = list(
        csv.DictReader(line for line in predicted.stdout.splitlines() if "," in line and "samples of" not in line)
    )
    assert np.mean([row["label"] == row["prediction"] for row in told]) > 0.8


def test_the_commands_say_what_is_missing(ran: Ran, tmp_path: Path) -> None:
    table = str(new_clients(ran, tmp_path / "new.csv"))
    for given, words in (
        (["--inputs", "3,x", "--classes", "4"], "--inputs, --classes: expected both"),
        (["--inputs", "10"], "--inputs, --classes: expected both"),
        ([], "--inputs 3,32,32 --classes 10"),
    ):
        result = CliRunner().invoke(app, ["place", str(ran.directory), table, "--model", "softmax", *given])
        assert result.exit_code != 0
        assert words in " ".join(result.output.split())
