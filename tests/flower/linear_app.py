"""A small Flower app in plain numpy: linear regression, with hidden groups that want different weights."""

from collections.abc import Sequence

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from auxo.core.client_mod import ClientMod
from auxo.core.rng import stream
from auxo.flower.client import AuxoClientApp, half_of, third_of
from auxo.flower.wire import HALF

FEATURES, OUTPUTS, SAMPLES = 6, 3, 24


def initial() -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros((OUTPUTS, FEATURES))), "b": Array(np.zeros(OUTPUTS))})


def data(node: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return a node's training and validation samples; nodes of one group share their true weights."""
    true = stream(0, "true", node % groups).normal(size=(OUTPUTS, FEATURES))
    rng = stream(0, "samples", node)
    x = rng.normal(size=(2 * SAMPLES, FEATURES))
    y = x @ true.T + 0.1 * rng.normal(size=(2 * SAMPLES, OUTPUTS))
    return x[:SAMPLES], y[:SAMPLES], x[SAMPLES:], y[SAMPLES:]


Seen = list[tuple[str, object]]
"""What an app was asked, and the half of its samples that it was told to use."""


def fill(
    app: ClientApp,
    groups: int = 1,
    rate: float = 0.1,
    train_mods: list[Mod] | None = None,
    seen: Seen | None = None,
) -> ClientApp:
    """Register the app's functions; ``seen`` is told of every call."""

    def note(message: Message) -> None:
        if seen is not None:
            halves = [record.get(HALF) for record in message.content.config_records.values()]
            seen.append((message.metadata.message_type, halves[0]))

    @app.train(mods=train_mods)
    def train(message: Message, context: Context) -> Message:
        x, y, _, _ = data(int(context.node_config["partition-id"]), groups)
        note(message)
        some = half_of(message, len(x))
        x, y = x[some], y[some]
        arrays = message.content.array_records["arrays"]
        w, b = (arrays[name].numpy() for name in ("w", "b"))
        loss = float(((x @ w.T + b - y) ** 2).mean())
        for _ in range(3):
            error = x @ w.T + b - y
            w, b = w - rate * 2 * error.T @ x / len(x), b - rate * 2 * error.mean(axis=0)
        metrics = MetricRecord({"train_loss": loss, "num-examples": len(x)})
        content = RecordDict({"arrays": ArrayRecord({"w": Array(w), "b": Array(b)}), "metrics": metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        note(message)
        trained_x, trained_y, x, y = data(int(context.node_config["partition-id"]), groups)
        if any(HALF in record for record in message.content.config_records.values()):
            some = half_of(message, len(trained_x))
            x, y = trained_x[some], trained_y[some]
        else:
            rest = third_of(message, len(x))
            x, y = x[rest], y[rest]
        arrays = message.content.array_records["arrays"]
        loss = float(((x @ arrays["w"].numpy().T + arrays["b"].numpy() - y) ** 2).mean())
        metrics = MetricRecord({"eval_loss": loss, "num-examples": len(x)})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def auxo_app(
    groups: int = 1,
    *,
    halves: bool = False,
    thirds: bool = False,
    seen: Seen | None = None,
    client_mods: Sequence[ClientMod] = (),
) -> AuxoClientApp:
    app = AuxoClientApp(halves=halves, thirds=thirds, client_mods=client_mods)
    fill(app, groups, seen=seen)
    return app


def loss_of(arrays: ArrayRecord, node: int, groups: int) -> float:
    """Return a model's loss on a node's validation samples."""
    _, _, x, y = data(node, groups)
    return float(((x @ arrays["w"].numpy().T + arrays["b"].numpy() - y) ** 2).mean())
