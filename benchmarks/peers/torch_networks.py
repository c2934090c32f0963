"""The workload's networks in PyTorch, for the peers that train with it."""

from collections import OrderedDict

import numpy as np
import torch
from peers import workload as work
from torch import nn


def network(workload: str) -> nn.Sequential:
    """Return the network of a workload, with the weights everybody starts from; it takes flat inputs."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if workload == "cnn":
        layers["image"] = nn.Unflatten(1, (1, work.SIDE, work.SIDE))
        inputs = 1
        for number, channels in enumerate(work.CHANNELS, start=1):
            layers[f"conv{number}"] = nn.Conv2d(inputs, channels, work.KERNEL, padding="same")
            layers[f"relu{number}"] = nn.ReLU()
            layers[f"pool{number}"] = nn.MaxPool2d(2)
            inputs = channels
        layers["flat"] = nn.Flatten()
    start = work.initial_weights(workload)
    if "hidden" in start:
        layers["hidden"] = nn.Linear(*start["hidden"].weight.shape)
        layers["relu"] = nn.ReLU()
    layers["out"] = nn.Linear(*start["out"].weight.shape)
    made = nn.Sequential(layers)
    made.load_state_dict(_state(start))
    return made


def train_loss(made: nn.Module, samples: work.Samples) -> float:
    """Return the mean cross entropy of all samples."""
    with torch.no_grad():
        logits = made(torch.from_numpy(samples.x))
        return float(nn.functional.cross_entropy(logits, torch.from_numpy(samples.y)))


def _state(start: dict[str, work.Layer]) -> dict[str, torch.Tensor]:
    """Return the weights where PyTorch looks for them: outputs first, and channels before rows and columns."""
    state = {}
    for name, layer in start.items():
        weight = layer.weight
        if weight.ndim == 4:
            weight = weight.transpose(3, 2, 0, 1)
        elif name == "hidden" and "conv2" in start:
            side = work.SIDE // 4
            weight = weight.reshape(side, side, work.CHANNELS[-1], work.HIDDEN)
            weight = weight.transpose(3, 2, 0, 1).reshape(work.HIDDEN, -1)
        else:
            weight = weight.T
        state[f"{name}.weight"] = torch.from_numpy(np.ascontiguousarray(weight))
        state[f"{name}.bias"] = torch.from_numpy(layer.bias)
    return state
