"""Apps in the shape of Flower's own examples, wrapped by a line on each side and run in this process."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from auxo.registry.import_path import load_callable
from tests.flower.local_grid import LocalGrid

NODES, ROUNDS = 8, 9
_FOLDER = Path(__file__).parent / "apps"
_IMPORTS = "from auxo.flower import AuxoClientApp, AuxoStrategy\n"


@dataclass(frozen=True)
class Wrapping:
    """What is changed of an app, what its model takes, and what it is told of."""

    strategy: str  # as the app makes it
    inputs: tuple[int, ...]
    classes: int
    client: str = ""  # arguments of the client's app
    model: str | None = None  # by name; None: the app's own Net
    told: tuple[str, ...] = ("result.arrays is the model of cohort",)


APPS = {
    "quickstart_pytorch": Wrapping("FedAvg(fraction_train=1.0)", (1, 8, 8), 4),
    "quickstart_sklearn": Wrapping(
        "FedAvg(fraction_train=1.0, fraction_evaluate=1.0)",
        (12,),
        3,
        client='losses=("test_logloss",)',
        model="softmax",
    ),
    "quickstart_numpy": Wrapping("FedAvg()", (10,), 4, model="softmax"),
    "fl_tabular": Wrapping("FedAvg(min_available_nodes=4)", (8,), 2, told=()),
    "advanced_pytorch": Wrapping(
        "CustomFedAvg(fraction_evaluate=1.0)", (1, 6, 6), 3, told=("start() of CustomFedAvg is not called",)
    ),
}


@dataclass(frozen=True)
class Ran:
    """A wrapped app that has run."""

    directory: Path
    model: str  # to load what it has left
    load_data: Callable[[int], Any]  # of a partition: inputs and labels to train and to test with
    warned: list[str] = field(default_factory=list)


def run_wrapped(name: str, folder: Path) -> Ran:
    """Wrap an app, run it, and return what is left of it."""
    app, file = APPS[name], folder / f"{name}.py"
    made = f'AuxoStrategy({app.strategy}, participants={NODES}, directory=context.run_config["out"])'
    text = (_FOLDER / file.name).read_text(encoding="utf-8")
    for before, after in (
        ("client_app = ClientApp()", f"client_app = AuxoClientApp({app.client})"),
        (f"    strategy = {app.strategy}", f"    strategy = {made}"),
    ):
        assert text.splitlines().count(before) == 1
        text = text.replace(before, after)
    file.write_text(text.replace("import numpy as np\n", f"import numpy as np\n{_IMPORTS}", 1), encoding="utf-8")
    config: dict[str, bool | float | int | str] = {
        "learning-rate": 0.3,
        "local-epochs": 1,
        "num-server-rounds": ROUNDS,
        "out": str(folder),
    }
    client_app, server_app, load_data = (
        load_callable(f"{file}:{one}") for one in ("client_app", "server_app", "load_data")
    )
    assert isinstance(client_app, ClientApp)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        server_app(LocalGrid(client_app, NODES, run_config=config), Context(1, 1, {}, RecordDict(), config))
    return Ran(folder, app.model or f"{file}:Net", load_data, [str(one.message) for one in warned])
