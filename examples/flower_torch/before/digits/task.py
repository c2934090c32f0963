"""The data and the model: small handwritten digits, which half of the clients see turned."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.utils import Bunch
from torch import nn

CLIENTS = 16


@cache
def _all_digits() -> Bunch:
    return load_digits()


def load_data(client: int) -> tuple[torch.Tensor, ...]:
    """Return a client's training and test samples; nobody tells which way it holds its images."""
    digits = _all_digits()
    rows = np.random.Generator(np.random.PCG64(0)).permutation(len(digits.images))[client % CLIENTS :: CLIENTS]
    images = np.rot90(digits.images[rows] / 16, k=client % 2, axes=(1, 2))
    x = torch.tensor(images.reshape(len(rows), -1).copy(), dtype=torch.float32)
    y = torch.tensor(digits.target[rows])
    return x[:80], y[:80], x[80:], y[80:]


def make_model() -> nn.Module:
    """Return a small network."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int, rate: float) -> float:
    """Train a model in place and return its last loss."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    loss = torch.zeros(())
    for _ in range(epochs):
        for first in range(0, len(x), 10):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(x[first : first + 10]), y[first : first + 10])
            loss.backward()
            optimiser.step()
    return float(loss)


@torch.no_grad()
def score(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Return a model's loss and accuracy."""
    logits = model(x)
    return float(nn.functional.cross_entropy(logits, y)), float((logits.argmax(dim=1) == y).float().mean())
