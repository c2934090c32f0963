"""In the shape of Flower's example quickstart-sklearn: logistic regression, a list of arrays, an unusual loss."""

import warnings
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from auxo.core.rng import stream

INPUTS, CLASSES = (12,), 3
Samples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load_data(partition: int) -> Samples:
    """Return samples around a centre for each class; every second partition calls the classes differently."""
    centres = 1.5 * stream(2, "centres").normal(size=(CLASSES, *INPUTS))
    rng = stream(2, "samples", partition)
    y = rng.permutation(np.arange(80) % CLASSES)
    x = centres[(y + partition % 2) % CLASSES] + rng.normal(size=(80, *INPUTS))
    return x[:40], y[:40], x[40:], y[40:]


def model_of(arrays: list[np.ndarray], local_epochs: int = 1) -> LogisticRegression:
    model = LogisticRegression(max_iter=local_epochs, warm_start=True)
    model.classes_ = np.arange(CLASSES)
    model.coef_, model.intercept_ = arrays
    return model


# The client.

client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    model = model_of(
        message.content.array_records["arrays"].to_numpy_ndarrays(), int(context.run_config["local-epochs"])
    )
    x, y, _, _ = load_data(int(context.node_config["partition-id"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is not to converge in one round
        model.fit(x, y)
    metrics = MetricRecord({"num-examples": len(x), "train_logloss": log_loss(y, model.predict_proba(x))})
    content = RecordDict({"arrays": ArrayRecord([model.coef_, model.intercept_]), "metrics": metrics})
    return Message(content=content, reply_to=message)


@client_app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    model = model_of(message.content.array_records["arrays"].to_numpy_ndarrays())
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    metrics = MetricRecord(
        {
            "num-examples": len(x),
            "test_logloss": log_loss(y, model.predict_proba(x), labels=np.arange(CLASSES)),
            "accuracy": float(model.score(x, y)),
        }
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)


# The server.

server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    arrays = ArrayRecord([np.zeros((CLASSES, *INPUTS)), np.zeros(CLASSES)])
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=1.0)
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=int(context.run_config["num-server-rounds"]))
    np.savez(Path(str(context.run_config["out"])) / "logreg_model.npz", *result.arrays.to_numpy_ndarrays())
