"""A small Flower app in plain numpy: linear regression, with hidden groups that want different weights."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from auxo.core.rng import stream
from auxo.flower.client import AuxoClientApp, half_of

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


def fill(app: ClientApp, groups: int = 1, rate: float = 0.1, train_mods: list[Mod] | None = None) -> ClientApp:
    """Register the app's functions."""

    @app.train(mods=train_mods)
    def train(message: Message, context: Context) -> Message:
        x, y, _, _ = data(int(context.node_config["partition-id"]), groups)
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
        _, _, x, y = data(int(context.node_config["partition-id"]), groups)
        arrays = message.content.array_records["arrays"]
        loss = float(((x @ arrays["w"].numpy().T + arrays["b"].numpy() - y) ** 2).mean())
        metrics = MetricRecord({"eval_loss": loss, "num-examples": len(x)})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def auxo_app(groups: int = 1, rate: float = 0.1, **settings: object) -> AuxoClientApp:
    app = AuxoClientApp(**settings)  # type: ignore[arg-type]
    fill(app, groups, rate)
    return app


__all__ = ["ConfigRecord", "auxo_app", "fill", "initial"]
