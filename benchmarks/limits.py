"""How fast a workload could be at most: the products of its training at the same shapes, back to back, on all cores.

Nothing else is done: no data are read, no loss is computed, no update is made, and every product finds its operands
where the last one left them. Training that takes the products one batch at a time cannot be faster.
"""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier

import torch
from peers import workload as work

from auxo.core.types import IntArray

Products = Callable[[], None]
"""Takes the products of one step of one participant."""


def participants_per_s(make: Callable[[], Products], steps: Sequence[int], repeats: int) -> float:
    """Return the participants a second whose products all cores can take, the best of some repeats.

    Args:
        make: makes the products, in the process that takes them.
        steps: of each participant.
        repeats: of the whole.
    """
    # Processes get about equal shares of the steps.
    shares = [sum(steps[first :: work.CORES]) for first in range(work.CORES)]
    context = multiprocessing.get_context("fork")
    barrier, found = context.Barrier(work.CORES), context.SimpleQueue()
    processes = [context.Process(target=_take, args=(make, share, repeats, barrier, found)) for share in shares]
    for process in processes:
        process.start()
    seconds = [found.get() for _ in processes]
    for process in processes:
        process.join()
    slowest_of_each: list[float] = [max(of_repeat) for of_repeat in zip(*seconds, strict=True)]
    return len(steps) / min(slowest_of_each)


def steps_of(sizes: IntArray) -> list[int]:
    """Return the steps of an epoch over so many samples."""
    return [-(-int(size) // work.BATCH_SIZE) for size in sizes]


def _take(
    make: Callable[[], Products],
    steps: int,
    repeats: int,
    barrier: Barrier,
    found: "multiprocessing.SimpleQueue[list[float]]",
) -> None:
    torch.set_num_threads(1)
    products = make()
    seconds = []
    with torch.no_grad():
        for _ in range(repeats):
            barrier.wait()
            started = time.perf_counter()
            for _ in range(steps):
                products()
            seconds.append(time.perf_counter() - started)
    found.put(seconds)


def _linear(inputs: int, outputs: int, wants_dx: bool) -> Products:
    """Return the products of a linear layer: outputs, gradient by the weights and, where wanted, by the inputs."""
    x, dy = torch.rand(work.BATCH_SIZE, inputs), torch.rand(work.BATCH_SIZE, outputs)
    weight = torch.rand(outputs, inputs)
    y, dw, dx = torch.empty_like(dy), torch.empty_like(weight), torch.empty_like(x)

    def take() -> None:
        torch.mm(x, weight.t(), out=y)
        torch.mm(dy.t(), x, out=dw)
        if wants_dx:
            torch.mm(dy, weight, out=dx)

    return take


def _convolution(side: int, inputs: int, outputs: int, wants_dx: bool) -> Products:
    x = torch.rand(work.BATCH_SIZE, inputs, side, side)
    weight, bias = torch.rand(outputs, inputs, work.KERNEL, work.KERNEL), torch.rand(outputs)
    dy = torch.rand(work.BATCH_SIZE, outputs, side, side)
    padding = work.KERNEL // 2

    def take() -> None:
        torch.nn.functional.conv2d(x, weight, bias, padding=padding)
        torch.ops.aten.convolution_backward(
            dy, x, weight, [outputs], [1, 1], [padding] * 2, [1, 1], False, [0, 0], 1, [wants_dx, True, True]
        )

    return take


def _all(*products: Products) -> Products:
    def take() -> None:
        for of_layer in products:
            of_layer()

    return take


def mlp(hidden: int) -> Products:
    """Return the products of a network with one hidden layer."""
    return _all(_linear(work.FEATURES, hidden, wants_dx=False), _linear(hidden, work.CLASSES, wants_dx=True))


def _cnn() -> Products:
    first, second = work.CHANNELS
    return _all(
        _convolution(work.SIDE, 1, first, wants_dx=False),
        _convolution(work.SIDE // 2, first, second, wants_dx=True),
        _linear((work.SIDE // 4) ** 2 * second, work.HIDDEN, wants_dx=True),
        _linear(work.HIDDEN, work.CLASSES, wants_dx=True),
    )


PRODUCTS: dict[str, Callable[[], Products]] = {
    "softmax": lambda: _linear(work.FEATURES, work.CLASSES, wants_dx=False),
    "mlp": lambda: mlp(work.HIDDEN),
    "cnn": _cnn,
}
"""What makes the products of each workload."""
