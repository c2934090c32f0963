"""A bare PyTorch loop over the workload's participants on one core: no framework, no batching over participants."""

import time

import numpy as np
import torch
from peers import workload as work
from peers.torch_networks import network, train_loss
from torch import nn


def rounds_s(workload: str, rounds: int, warmup: int) -> tuple[list[float], float]:
    """Return the seconds of each round after the warm-up, and the training loss after the last one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _rounds_s(workload, rounds, warmup)
    finally:
        torch.set_num_threads(threads)


def _rounds_s(workload: str, rounds: int, warmup: int) -> tuple[list[float], float]:
    samples = work.make_samples()
    x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    shares = samples.sizes() / samples.sizes().sum()
    net = network(workload)
    parameters = list(net.parameters())
    weights = [parameter.detach().clone() for parameter in parameters]
    seconds = []
    for number in range(warmup + rounds):
        started = time.perf_counter()
        mean = [torch.zeros_like(weight) for weight in weights]
        for participant, share in enumerate(shares):
            with torch.no_grad():
                for parameter, weight in zip(parameters, weights, strict=True):
                    parameter.copy_(weight)
            _descend(net, x, y, _batches(samples, participant, number))
            with torch.no_grad():
                for total, parameter in zip(mean, parameters, strict=True):
                    total.add_(parameter, alpha=float(share))
        weights = mean
        seconds.append(time.perf_counter() - started)
    with torch.no_grad():
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(weight)
    return seconds[warmup:], train_loss(net, samples)


def _batches(samples: work.Samples, participant: int, number: int) -> list[torch.Tensor]:
    rows = samples.rows(participant)
    order = rows.start + work.local_order(participant, number, rows.stop - rows.start)
    return [torch.from_numpy(batch) for batch in np.split(order, range(work.BATCH_SIZE, len(order), work.BATCH_SIZE))]


def _descend(net: nn.Module, x: torch.Tensor, y: torch.Tensor, batches: list[torch.Tensor]) -> None:
    parameters = list(net.parameters())
    for batch in batches:
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=work.LEARNING_RATE)
