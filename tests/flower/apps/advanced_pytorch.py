"""In the shape of Flower's example advanced-pytorch: a strategy with a start() of its own that keeps the best model."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result
from safetensors.torch import save_file
from torch import nn

from auxo.core.rng import stream

INPUTS, CLASSES = (1, 6, 6), 3
Samples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3)
        self.fc = nn.Linear(4 * 2 * 2, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.fc(torch.relu(self.conv2(torch.relu(self.conv1(x)))).flatten(1))
        return logits


def load_data(partition: int) -> Samples:
    """Return pictures with a stripe at the top, in the middle or at the bottom; half of the nodes see them moved."""
    rng = stream(5, "pictures", partition)
    y = rng.integers(CLASSES, size=80)
    x = 0.3 * rng.normal(size=(80, *INPUTS))
    for picture, stripe in zip(x, (y + partition % 2) % CLASSES, strict=True):
        picture[0, 2 * stripe : 2 * stripe + 2] += 1.0
    x = x.astype(np.float32)
    return x[:40], y[:40], x[40:], y[40:]


def test(arrays: ArrayRecord, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    with torch.no_grad():
        logits = net(torch.from_numpy(x))
    loss = nn.functional.cross_entropy(logits, torch.from_numpy(y))
    return float(loss), float((logits.argmax(1).numpy() == y).mean())


class CustomFedAvg(FedAvg):
    """Lowers the learning rate as rounds go by, writes results, and keeps the best model."""

    def __init__(self, fraction_evaluate: float) -> None:
        super().__init__(fraction_evaluate=fraction_evaluate)
        self.folder, self.best = Path(), 0.0

    def set_folder(self, folder: Path) -> None:
        self.folder = folder

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if server_round > 5:
            config["lr"] = float(str(config["lr"])) / 2
        return super().configure_train(server_round, arrays, config, grid)

    def start(  # noqa: PLR0913, PLR0917 - Flower's own
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        arrays, config, result = initial_arrays, train_config or ConfigRecord(), Result()
        for number in range(1, num_rounds + 1):
            messages = self.configure_train(number, arrays, config, grid)
            arrays = self.aggregate_train(number, grid.send_and_receive(messages, timeout=timeout))[0] or arrays
            found = evaluate_fn(number, arrays) if evaluate_fn else None
            if found is not None and float(str(found["accuracy"])) > self.best:
                self.best = float(str(found["accuracy"]))
                save_file(arrays.to_torch_state_dict(), self.folder / "best.safetensors")
        (self.folder / "results.json").write_text(json.dumps({"best": self.best}))
        result.arrays = arrays
        return result


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
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    loss, accuracy = test(message.content.array_records["arrays"], x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(x)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)


# The server.

server_app = ServerApp()


def global_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    loss, accuracy = test(arrays, *load_data(1000)[2:])
    return MetricRecord({"loss": loss, "accuracy": accuracy})


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    rng = stream(5, "initial")
    shapes = {name: tuple(one.shape) for name, one in Net().state_dict().items()}
    drawn = {name: torch.tensor(0.4 * rng.normal(size=shape), dtype=torch.float32) for name, shape in shapes.items()}
    strategy = CustomFedAvg(fraction_evaluate=1.0)
    strategy.set_folder(Path(str(context.run_config["out"])))
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(drawn),
        train_config=ConfigRecord({"lr": float(context.run_config["learning-rate"])}),
        num_rounds=int(context.run_config["num-server-rounds"]),
        evaluate_fn=global_evaluate,
    )
