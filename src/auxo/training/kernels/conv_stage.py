"""A stage of a convolutional network: a convolution, and the ReLU and the pooling behind it, forwards and backwards.

One participant at a time: its images are large enough to be worth a call each, small enough to stay in the cache, and
what would only fill its batch up is left out. Images lie pixel by pixel; see `tiled_conv`.
"""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from auxo.training.kernels.im2col_conv import PatchConv
from auxo.training.kernels.participants_sgd import Bench, StackedParameter
from auxo.training.kernels.pixel_pooling import Winners, pool, unpool
from auxo.training.kernels.tiled_conv import Seen, TiledConv

_PATCH_WIDTH = 100  # numbers a filter sees up to which patches of raw inputs are small enough to copy; our choice
_LARGEST = 64 * 64  # pixels of an image; the changes to points and back grow faster than it does; our choice
_FEWEST_PRODUCTS = 500_000  # of an image; with fewer the calls take longer than they save: LeNet was a third slower
_tiled = cache(TiledConv.of)


@dataclass(frozen=True)
class Passed:
    """What the way back through a stage needs of the way there."""

    seen: Seen | Tensor  # by a convolution in tiles, or the patches
    size: tuple[int, int]  # of the inputs
    y: Tensor  # outputs
    winners: Winners | None  # of the pooling


@dataclass(frozen=True)
class Stage:
    """A convolution whose filters move on by one pixel at a time, with what follows it.

    Args:
        weight: its filters, (outputs, inputs, height, width).
        bias: one for each output.
        zeros: rows and columns of zeros on either side of an image.
        is_rectified: a ReLU follows, before or after the pooling, which makes no difference.
        is_pooled: a maximum over squares of four follows.
    """

    weight: StackedParameter
    bias: StackedParameter | None
    zeros: tuple[int, int]
    is_rectified: bool = False
    is_pooled: bool = False

    def is_worth_it(self, size: tuple[int, ...], is_raw: bool) -> bool:
        """Return whether images of this size are convolved with fewer products than the filters have, and many."""
        if math.prod(size) > _LARGEST:
            return False
        if self._takes_patches(is_raw):
            return True
        tiled = _tiled((size[0], size[1]), self.zeros, self.weight.shape)
        direct = math.prod(self.weight.shape) * tiled.down.outputs * tiled.across.outputs
        return direct >= _FEWEST_PRODUCTS and tiled.products() < direct

    def size_after(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Return the height and width of what becomes of images of this size."""
        around = zip(size, self.zeros, self.weight.shape[2:], strict=True)
        after = [length + 2 * zeros - taps + 1 for length, zeros, taps in around]
        return tuple(length // 2 if self.is_pooled else length for length in after)

    def lay_out(self, weights: dict[int, Tensor]) -> None:
        """Let all participants' filters lie the way they are used: (height, width, inputs, outputs)."""
        filters = weights[self.weight.first]
        weights[self.weight.first] = filters.permute(0, 3, 4, 2, 1).contiguous().permute(0, 4, 3, 1, 2)

    def forward(self, bench: Bench, job: int, x: Tensor, is_raw: bool) -> tuple[Tensor, Passed]:
        """Return the outputs for a participant's images, (height, width, samples, channels)."""
        size = x.shape[0], x.shape[1]
        high, wide = self.weight.shape[2:]
        filters = bench.weights[self.weight.first][job].permute(2, 3, 1, 0).view(high * wide, -1)
        seen: Seen | Tensor
        if self._takes_patches(is_raw):
            y, seen = self._patched().forward(x, filters)
        else:
            y, seen = _tiled(size, self.zeros, self.weight.shape).forward(x, filters)
        winners = None
        if self.is_pooled:
            y, winners = pool(y)
        if self.bias is not None:
            # After the pooling, for there are fewer pixels. The maximum stays the maximum; only where rounding would
            # make two numbers equal, the larger is taken, not the first.
            y.add_(bench.weights[self.bias.first][job])
        if self.is_rectified:
            y.relu_()
        return y, Passed(seen, size, y, winners)

    def backward(self, bench: Bench, job: int, dy: Tensor, passed: Passed, is_raw: bool) -> Tensor | None:
        """Take the participant's step, and return the errors of its images, if these are not the raw inputs."""
        if self.is_rectified:
            dy = torch.ops.aten.threshold_backward(dy, passed.y, 0)
        if self.bias is not None:
            bench.descend(self.bias, dy.sum(dim=(0, 1, 2)), job)
        if passed.winners is not None:
            dy = unpool(dy, passed.winners)
        dx = None
        if isinstance(passed.seen, Tensor):
            by_filters = self._patched().backward(dy, passed.seen)
        else:
            tiled = _tiled(passed.size, self.zeros, self.weight.shape)
            dx, by_filters = tiled.backward(dy, passed.seen, wants_dx=not is_raw)
        outputs, inputs, high, wide = self.weight.shape
        bench.descend(self.weight, by_filters.view(high, wide, inputs, outputs).permute(3, 2, 0, 1), job)
        return dx

    def _takes_patches(self, is_raw: bool) -> bool:
        return is_raw and math.prod(self.weight.shape[1:]) <= _PATCH_WIDTH

    def _patched(self) -> PatchConv:
        return PatchConv(self.weight.shape, self.zeros)
