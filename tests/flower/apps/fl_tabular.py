"""In the shape of Flower's example fl-tabular: a table with an income above or below, and one output, a probability."""

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

from auxo.core.rng import stream

INPUTS, CLASSES = (8,), 2
Samples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class IncomeClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Linear(*INPUTS, 16)
        self.layer2 = nn.Linear(16, 8)
        self.output = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.layer2(torch.relu(self.layer1(x))))
        return torch.sigmoid(self.output(x))


class Net(IncomeClassifier):
    """The same with a logit for each class, for whoever serves a node."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        above = super().forward(x)
        return torch.cat([1 - above, above], dim=1).clamp_min(1e-6).log()


def load_data(partition: int) -> Samples:
    """Return a table of two kinds of regions, in which the same columns speak for a high income or against it."""
    rng = stream(4, "table", partition)
    x = rng.normal(size=(120, *INPUTS))
    signs = np.where(np.arange(*INPUTS) % 2 == 0, 1.0, -1.0) * (1 if partition % 2 == 0 else -1)
    y = (x @ signs + 0.3 * rng.normal(size=len(x)) > 0).astype(np.int64)
    x = x.astype(np.float32)
    return x[:60], y[:60], x[60:], y[60:]


def loss_of(net: nn.Module, x: np.ndarray, y: np.ndarray) -> torch.Tensor:
    above = torch.from_numpy(y[:, np.newaxis].astype(np.float32))
    return nn.functional.binary_cross_entropy(net(torch.from_numpy(x)), above)


# The client.

client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    net = IncomeClassifier()
    net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    x, y, _, _ = load_data(int(context.node_config["partition-id"]))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    total = 0.0
    for _ in range(int(context.run_config["local-epochs"])):
        for first in range(0, len(x), 15):
            optimizer.zero_grad()
            loss = loss_of(net, x[first : first + 15], y[first : first + 15])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach())
    metrics = MetricRecord({"train_loss": 15 * total / len(x), "num-examples": len(x)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@client_app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    net = IncomeClassifier()
    net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    with torch.no_grad():
        loss, above = float(loss_of(net, x, y)), net(torch.from_numpy(x)).numpy()[:, 0] > 0.5
    metrics = MetricRecord({"loss": loss, "accuracy": float((above == y).mean()), "num-examples": len(x)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)


# The server.

server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    rng = stream(4, "initial")
    shapes = {name: tuple(one.shape) for name, one in IncomeClassifier().state_dict().items()}
    drawn = {name: torch.tensor(0.3 * rng.normal(size=shape), dtype=torch.float32) for name, shape in shapes.items()}
    strategy = FedAvg(min_available_nodes=4)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(drawn),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
