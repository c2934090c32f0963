"""In the shape of Flower's example quickstart-numpy: a model of plain arrays, trained in numpy."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from auxo.core.rng import stream

INPUTS, CLASSES = (10,), 4
Samples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load_data(partition: int) -> Samples:
    """Return samples that a matrix divides into classes; every second partition has another matrix."""
    true = stream(3, "true", partition % 2).normal(size=(*INPUTS, CLASSES))
    x = stream(3, "samples", partition).normal(size=(120, *INPUTS))
    y = (x @ true).argmax(axis=1)
    return x[:60], y[:60], x[60:], y[60:]


def get_model() -> list[np.ndarray]:
    return [np.zeros((CLASSES, *INPUTS)), np.zeros(CLASSES)]


def probabilities(model: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    logits = x @ model[0].T + model[1]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def loss_of(model: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(probabilities(model, x)[np.arange(len(y)), y] + 1e-12).mean())


# The client.

client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    weight, bias = message.content.array_records["arrays"].to_numpy_ndarrays()
    x, y, _, _ = load_data(int(context.node_config["partition-id"]))
    for _ in range(5 * int(context.run_config["local-epochs"])):
        error = probabilities([weight, bias], x) - np.eye(CLASSES)[y]
        weight, bias = weight - error.T @ x / len(x), bias - error.mean(axis=0)
    metrics = MetricRecord({"train_loss": loss_of([weight, bias], x, y), "num-examples": len(x)})
    content = RecordDict({"arrays": ArrayRecord([weight, bias]), "metrics": metrics})
    return Message(content=content, reply_to=message)


@client_app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    model = message.content.array_records["arrays"].to_numpy_ndarrays()
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    metrics = MetricRecord({"eval_loss": loss_of(model, x, y), "num-examples": len(x)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)


# The server.

server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg()
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(get_model()),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
    for number, array in enumerate(result.arrays.to_numpy_ndarrays()):
        np.save(Path(str(context.run_config["out"])) / f"array-{number}.npy", array)
