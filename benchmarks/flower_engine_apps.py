"""The two apps of flower_engine.py, which Ray's actors and our workers import by name; and the loop around them."""

import time
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

FEATURES, CLASSES, HIDDEN = 784, 10, 64  # of the network
DIMENSIONS = 16  # of the linear model
SAMPLES, BATCH, STEPS, RATE = 20, 6, 5, 0.05


def client_app(name: str) -> ClientApp:
    """Return the app's client half."""
    app = ClientApp()
    app.train()({"numpy": train_linear, "torch": train_network}[name])
    return app


def initial_arrays(name: str) -> ArrayRecord:
    """Return the model that everybody starts from."""
    if name == "numpy":
        return ArrayRecord([np.zeros(DIMENSIONS)])
    return ArrayRecord(_network().state_dict())


class BareLoop(Grid):
    """Hands each message to the app, and its reply back: Flower's own classes, the app, and nothing else."""

    def __init__(self, app: ClientApp, nodes: int) -> None:
        self._app = app
        self._contexts = [Context(1, node, {"partition-id": node}, RecordDict(), {}) for node in range(nodes)]
        self.app_s = 0.0  # in the app
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1

    def set_run(self, run: Run) -> None:
        """Nothing to do."""

    @property
    def run(self) -> Run:
        """Return a run."""
        return Run.create_empty(1)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes."""
        return range(len(self._contexts))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not what this is for: replies come from `send_and_receive`."""
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not what this is for: replies come from `send_and_receive`."""
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Return the app's replies."""
        began_s = time.perf_counter()
        replies = [self._app(message, self._contexts[message.metadata.dst_node_id]) for message in messages]
        self.app_s += time.perf_counter() - began_s
        return replies


def train_linear(message: Message, context: Context) -> Message:
    """Take a few steps of least squares, in numpy."""
    x, y = _line(int(context.node_config["partition-id"]))
    (weights,) = message.content.array_records["arrays"].to_numpy_ndarrays()
    for step in range(STEPS):
        rows = _rows(step)
        weights = weights - RATE * x[rows].T @ (x[rows] @ weights - y[rows]) / BATCH
    return _reply(message, ArrayRecord([weights]))


def train_network(message: Message, context: Context) -> Message:
    """Take a few steps of SGD with a small network, in torch."""
    import torch  # noqa: PLC0415 - the other app does without

    x, y = _images(int(context.node_config["partition-id"]))
    network = _network()
    network.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for step in range(STEPS):
        rows = _rows(step)
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(network(x[rows]), y[rows]))
        optimizer.step()
    return _reply(message, ArrayRecord(network.state_dict()))


def _reply(message: Message, arrays: ArrayRecord) -> Message:
    metrics = MetricRecord({"num-examples": SAMPLES})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def _rows(step: int) -> NDArray[np.int64]:
    return np.arange(step * BATCH, (step + 1) * BATCH) % SAMPLES


def _generator(partition: int) -> np.random.Generator:
    return np.random.default_rng(partition)  # noqa: TID251 - Ray's actors need no more than numpy and flwr


@cache
def _line(partition: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = _generator(partition)
    x = rng.normal(size=(SAMPLES, DIMENSIONS))
    return x, x @ np.ones(DIMENSIONS) + 0.1 * rng.normal(size=SAMPLES)


@cache
def _images(partition: int) -> tuple[Any, Any]:
    import torch  # noqa: PLC0415

    rng = _generator(partition)
    x = rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(rng.integers(0, CLASSES, SAMPLES))


@cache
def _network() -> Any:
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    weights = _generator(0)
    made = torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    drawn = {
        name: torch.from_numpy(0.05 * weights.normal(size=tuple(value.shape)).astype(np.float32))
        for name, value in made.state_dict().items()
    }
    made.load_state_dict(drawn)
    return made
