"""A whole Flower app in this process: found in its folder, configured, run, and refused with a reason."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from typer.testing import CliRunner

from auxo.cli import app as command_line
from auxo.flower import RunFailed
from auxo.flower.engine import FlowerApp, load_app, run_app
from auxo.flower.engine.grid import InProcessGrid
from auxo.flower.engine.nodes import SimulatedNodes, partitions
from auxo.flower.engine.run_app import AppError

SERVER = """
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
import numpy as np

app = ServerApp()

@app.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0)
    arrays = ArrayRecord({"w": Array(np.zeros(2))})
    found = strategy.start(grid, arrays, num_rounds=int(context.run_config["rounds"]))
    np.save(context.run_config["out"], found.arrays["w"].numpy())
"""
CLIENT = """
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message, context):
    w = message.content["arrays"]["w"].numpy() + float(context.node_config["partition-id"])
    content = {"arrays": ArrayRecord({"w": Array(w)}), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)
"""


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Write an app whose module has a name of its own."""
    name = f"app_{abs(hash(request.node.name))}"
    package = tmp_path / "app" / name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "server.py").write_text(SERVER)
    (package / "client.py").write_text(CLIENT)
    (tmp_path / "app" / "pyproject.toml").write_text(
        f'[tool.flwr.app.components]\nserverapp = "{name}.server:app"\nclientapp = "{name}.client:app"\n'
        f'[tool.flwr.app.config]\nrounds = 1\nout = "{tmp_path}/model.npy"\n'
    )
    return tmp_path / "app"


@pytest.mark.parametrize("workers", [1, 2])
def test_the_app_of_a_folder_runs_with_its_own_configuration(folder: Path, workers: int) -> None:
    context = run_app(load_app(folder), nodes=5, workers=workers, run_config={"rounds": 3})
    assert context.run_config["rounds"] == 3
    # The mean of the partitions 0 to 4 is added in each round.
    assert np.allclose(np.load(folder.parent / "model.npy"), [6.0, 6.0], rtol=1e-12)


def test_the_command_runs_an_app(folder: Path) -> None:
    words = ["flower", "run", str(folder), "--nodes", "3", "--run-config", "rounds=2"]
    assert CliRunner().invoke(command_line, words).exit_code == 0
    assert (folder.parent / "model.npy").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--run-config", "epochs=2"], "expected entries of the app (out, rounds), got ['epochs']"),
        (["--run-config", "rounds"], "expected KEY=VALUE, got 'rounds'"),
    ],
)
def test_a_setting_that_the_app_does_not_have_is_refused(folder: Path, words: list[str], said: str) -> None:
    result = CliRunner().invoke(command_line, ["flower", "run", str(folder), *words])
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_folder_without_an_app_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AppError, match=r"pyproject.toml cannot be read: No such file"):
        load_app(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.flwr.app]\n")
    with pytest.raises(AppError, match=r"expected `serverapp` and `clientapp` in \[tool.flwr.app.components\]"):
        load_app(tmp_path)


def test_a_component_that_is_something_else_is_refused(folder: Path) -> None:
    file = folder / "pyproject.toml"
    file.write_text(file.read_text().replace(".server:app", ".client:app"))
    with pytest.raises(AppError, match="expected a ServerApp, got ClientApp"):
        load_app(folder)


def test_a_module_of_the_same_name_from_elsewhere_is_not_taken_for_the_apps(folder: Path, tmp_path: Path) -> None:
    load_app(folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "pyproject.toml").write_text((folder / "pyproject.toml").read_text())
    with pytest.raises(AppError, match="has been imported before"):
        load_app(other)


def test_what_a_server_app_raises_is_raised_and_no_node_is_refused() -> None:
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        FedAvg(fraction_evaluate=0.0).start(grid, ArrayRecord(), num_rounds=1)
        raise RuntimeError("the end")

    app = FlowerApp(server_app, ClientApp())
    with pytest.raises(RuntimeError, match="the end"):
        run_app(app, nodes=2)
    with pytest.raises(ValueError, match="nodes: expected at least 1, got 0"):
        run_app(app, nodes=0)


def test_an_app_that_raises_is_logged_with_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise FileNotFoundError("no such folder: data")

    nodes = SimulatedNodes(app, 3, partitions(3), {})
    with InProcessGrid(nodes) as grid:
        grid.send_and_receive([Message(RecordDict(), node, "train") for node in nodes.ids])
    assert caplog.text.count("Traceback (most recent call last)") == 1
    assert 'raise FileNotFoundError("no such folder: data")' in caplog.text


def test_a_run_whose_app_fails_on_all_nodes_ends_at_once_and_not_as_if_all_were_well(folder: Path) -> None:
    (package,) = (one.parent for one in folder.glob("*/server.py"))
    wrapped = SERVER.replace("= FedAvg(fraction_evaluate=0.0)", "= AuxoStrategy(FedAvg, participants=4)")
    (package / "server.py").write_text(f"from auxo.flower import AuxoStrategy\n{wrapped}")
    (package / "client.py").write_text(CLIENT.replace('"partition-id"', '"partition"'))
    ended = CliRunner().invoke(command_line, ["flower", "run", str(folder), "--nodes", "4"])
    assert ended.exit_code == 1
    assert isinstance(ended.exception, RunFailed)
    assert "raised an error, most often <class 'KeyError'>:<''partition''>" in str(ended.exception)
