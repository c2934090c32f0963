"""What a Flower client does with a message; actors import it by name, so that no code travels with the messages."""

from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from peers import workload as work
from peers.torch_networks import network
from torch import nn


def train(message: Message, context: Context) -> Message:
    """Train the weights of the message for one local epoch and reply with what became of them."""
    config = message.content.config_records["config"]
    participant = int(context.node_config["partition-id"])
    x, y = _samples(participant)
    made = _network(str(config["workload"]))
    made.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(made.parameters(), lr=work.LEARNING_RATE)
    order = torch.from_numpy(work.local_order(participant, int(str(config["server-round"])), len(y)))
    for start in range(0, len(y), work.BATCH_SIZE):
        rows = order[start : start + work.BATCH_SIZE]
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(made(x[rows]), y[rows]))
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(made.state_dict()), "metrics": metrics}), reply_to=message)


@cache
def _samples(participant: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a participant's inputs and classes; an actor makes them once and meets any participant."""
    everybody = _everybody()
    rows = everybody.rows(participant)
    return torch.from_numpy(everybody.x[rows]), torch.from_numpy(everybody.y[rows])


@cache
def _everybody() -> work.Samples:
    return work.make_samples()


@cache
def _network(workload: str) -> nn.Sequential:
    """Return the network that an actor trains for all its participants."""
    torch.set_num_threads(1)
    return network(workload)
