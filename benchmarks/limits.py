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
from auxo.engines.memory import keep_freed_memory
from auxo.training.kernels.convolution.im2col_conv import Im2colConv
from auxo.training.kernels.convolution.tiled_conv import TiledConv

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
    keep_freed_memory()
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


def _linear(inputs: int, outputs: int, needs_dx: bool) -> Products:
    """Return the products of a linear layer: outputs, gradient by the weights and, where wanted, by the inputs."""
    x, dy = torch.rand(work.BATCH_SIZE, inputs), torch.rand(work.BATCH_SIZE, outputs)
    weight = torch.rand(outputs, inputs)
    y, dw, dx = torch.empty_like(dy), torch.empty_like(weight), torch.empty_like(x)

    def take() -> None:
        torch.mm(x, weight.t(), out=y)
        torch.mm(dy.t(), x, out=dw)
        if needs_dx:
            torch.mm(dy, weight, out=dx)

    return take


def _first_convolution(side: int, inputs: int, outputs: int) -> Products:
    """Return the products of im2col of the raw images, whose columns are there already."""
    conv = Im2colConv((outputs, inputs, work.KERNEL, work.KERNEL), (work.KERNEL // 2,) * 2)
    columns = conv.im2col(torch.rand(side, side, work.BATCH_SIZE, inputs)).flatten(1)
    weight, dy = torch.rand(len(columns), outputs), torch.rand(side * side * work.BATCH_SIZE, outputs)

    def take() -> None:
        torch.mm(columns.t(), weight)
        torch.mm(columns, dy)

    return take


def _convolution(side: int, inputs: int, outputs: int) -> Products:
    """Return the products of a convolution in tiles: about half of the time of the library's."""
    shape = outputs, inputs, work.KERNEL, work.KERNEL
    conv = TiledConv.of((side, side), (work.KERNEL // 2,) * 2, shape)
    x, dy = torch.rand(side, side, work.BATCH_SIZE, inputs), torch.rand(side, side, work.BATCH_SIZE, outputs)
    weight = torch.rand(work.KERNEL**2, inputs * outputs)

    def take() -> None:
        _, saved = conv.forward(x, weight)
        conv.backward(dy, saved, needs_dx=True)

    return take


def _all(*products: Products) -> Products:
    def take() -> None:
        for of_layer in products:
            of_layer()

    return take


def mlp(hidden: int) -> Products:
    """Return the products of a network with one hidden layer."""
    return _all(_linear(work.FEATURES, hidden, needs_dx=False), _linear(hidden, work.CLASSES, needs_dx=True))


def _cnn() -> Products:
    first, second = work.CHANNELS
    return _all(
        _first_convolution(work.SIDE, 1, first),
        _convolution(work.SIDE // 2, first, second),
        _linear((work.SIDE // 4) ** 2 * second, work.HIDDEN, needs_dx=True),
        _linear(work.HIDDEN, work.CLASSES, needs_dx=True),
    )


PRODUCTS: dict[str, Callable[[], Products]] = {
    "softmax": lambda: _linear(work.FEATURES, work.CLASSES, needs_dx=False),
    "mlp": lambda: mlp(work.HIDDEN),
    "cnn": _cnn,
}
"""What makes the products of each workload."""
