"""A whole Flower app, ServerApp and ClientApp, run in this process and its workers."""

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.config import flatten_dict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import ServerApp
from flwr.supercore.object_ref import load_app as load_component

from auxo.files.errors import FileError
from auxo.flower.engine.grid import InProcessGrid
from auxo.flower.engine.nodes import RUN_ID, ConfigValue, NodeConfig, SimulatedNodes, partitions

_Half = TypeVar("_Half", ServerApp, ClientApp)


class AppError(FileError):
    """A folder that holds no Flower app that can be run; the message says what is missing."""


@dataclass(frozen=True)
class FlowerApp:
    """The two halves of an app, and its configuration."""

    server_app: ServerApp
    client_app: ClientApp
    run_config: Mapping[str, ConfigValue] = field(default_factory=dict)


def load_app(folder: Path) -> FlowerApp:
    """Return the app of a folder with a `pyproject.toml`, as `flwr run` finds it.

    Raises:
        AppError: there is none.
    """
    folder = folder.resolve()
    file = folder / "pyproject.toml"
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
        described = settings["tool"]["flwr"]["app"]
        server, client = described["components"]["serverapp"], described["components"]["clientapp"]
    except OSError as error:
        raise AppError(
            f"expected a Flower app in {folder}, but {file.name} cannot be read: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise AppError(
            f"expected `serverapp` and `clientapp` in [tool.flwr.app.components] of {file}, got an error: {error}"
        ) from error
    return FlowerApp(
        _component(server, ServerApp, folder),
        _component(client, ClientApp, folder),
        flatten_dict(described.get("config", {})),
    )


def run_app(
    app: FlowerApp,
    *,
    nodes: int,
    workers: int = 1,
    run_config: Mapping[str, ConfigValue] | None = None,
    node_config: NodeConfig | None = None,
) -> Context:
    """Run an app to its end, and return the context of its ServerApp.

    Args:
        app: its halves; `load_app` finds those of a folder.
        nodes: how many clients are simulated.
        workers: processes that they run in, with a core each; 1: all in this process.
        run_config: replaces entries of the app's own.
        node_config: what each node is told, by its number from 0; None: its partition, as in Flower's simulation.

    Raises:
        AppError: ``run_config`` has an entry that the app does not know.
    """
    if nodes < 1:
        raise ValueError(f"nodes: expected at least 1, got {nodes}")
    unknown = sorted(set(run_config or {}) - set(app.run_config))
    if unknown and app.run_config:
        raise AppError(f"run_config: expected entries of the app ({', '.join(sorted(app.run_config))}), got {unknown}")
    config = {**app.run_config, **(run_config or {})}
    simulated = SimulatedNodes(app.client_app, nodes, node_config or partitions(nodes), config)
    context = Context(RUN_ID, SUPERLINK_NODE_ID, {}, RecordDict(), dict(config))
    with InProcessGrid(simulated, workers) as grid:
        app.server_app(grid, context)
    return context


def _component(name: str, kind: type[_Half], folder: Path) -> _Half:
    try:
        found = load_component(name, AppError, folder)
    except ImportError as error:
        raise AppError(f"{name} of the app in {folder} cannot be imported: {error}") from error
    if not isinstance(found, kind):
        raise AppError(f"{name}: expected a {kind.__name__}, got {type(found).__name__}")
    module = sys.modules[name.partition(":")[0]]
    if folder not in Path(module.__file__ or "").resolve().parents:
        raise AppError(
            f"{name}: expected a module below {folder}, but {module.__file__} of the same name has been imported "
            "before; run each app in a process of its own"
        )
    return found
