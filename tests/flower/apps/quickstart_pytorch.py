"""In the shape of Flower's example quickstart-pytorch: a CNN, a server that evaluates, and a model that is saved."""

from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from safetensors.torch import save_file
from torch import nn

from auxo.core.rng import stream

INPUTS, CLASSES = (1, 8, 8), 4
Samples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(4 * 4 * 4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.fc(self.pool(torch.relu(self.conv(x))).flatten(1))
        return logits


def load_data(partition: int) -> Samples:
    """Return a quarter of the picture that is lit; every second partition calls the quarters differently."""
    rng = stream(1, "pictures", partition)
    y = rng.integers(CLASSES, size=80)
    x = 0.3 * rng.normal(size=(80, *INPUTS))
    for picture, quarter in zip(x, y, strict=True):
        rows, columns = divmod(int(quarter), 2)
        picture[0, 4 * rows : 4 * rows + 4, 4 * columns : 4 * columns + 4] += 1.0
    x, y = x.astype(np.float32), (y + 2 * (partition % 2)) % CLASSES
    return x[:40], y[:40], x[40:], y[40:]


def test(net: nn.Module, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    with torch.no_grad():
        logits = net(torch.from_numpy(x))
    loss = nn.functional.cross_entropy(logits, torch.from_numpy(y))
    return float(loss), float((logits.argmax(1).numpy() == y).mean())


# The client.

client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    net = Net()
    net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    x, y, _, _ = load_data(int(context.node_config["partition-id"]))
    optimizer = torch.optim.SGD(net.parameters(), lr=float(str(message.content.config_records["config"]["lr"])))
    total = 0.0
    for _ in range(int(context.run_config["local-epochs"])):
        for first in range(0, len(x), 10):
            rows = slice(first, first + 10)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(torch.from_numpy(x[rows])), torch.from_numpy(y[rows]))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach())
    metrics = MetricRecord({"train_loss": 10 * total / len(x), "num-examples": len(x)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@client_app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    net = Net()
    net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    loss, accuracy = test(net, x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(x)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)


# The server.

server_app = ServerApp()


def initial_arrays() -> ArrayRecord:
    rng = stream(1, "initial")
    net = Net()
    drawn = {name: 0.3 * rng.normal(size=tuple(one.shape)) for name, one in net.state_dict().items()}
    return ArrayRecord({name: torch.tensor(one, dtype=torch.float32) for name, one in drawn.items()})


def global_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(net, *load_data(1000)[2:])
    return MetricRecord({"loss": loss, "accuracy": accuracy})


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(fraction_train=1.0)
    result = strategy.start(
        grid=grid,
        initial_arrays=initial_arrays(),
        train_config=ConfigRecord({"lr": float(context.run_config["learning-rate"])}),
        num_rounds=int(context.run_config["num-server-rounds"]),
        evaluate_fn=global_evaluate,
    )
    save_file(result.arrays.to_torch_state_dict(), Path(str(context.run_config["out"])) / "final_model.safetensors")
