"""A stage of a convolutional network: a convolution, and the ReLU and the pooling behind it, forward and backward.

One participant at a time: its images are large enough to be worth a call each, small enough to stay in the cache, and
the padding of its batch is left out. Images are HWNC; see `tiled_conv`.
"""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from auxo.training.kernels.convolution.hwnc_pooling import ArgmaxMasks, max_pool, max_unpool
from auxo.training.kernels.convolution.im2col_conv import Im2colConv
from auxo.training.kernels.convolution.tiled_conv import TiledConv, Transformed
from auxo.training.kernels.participants_sgd import ParticipantsSgd
from auxo.training.kernels.stacked_parameter import StackedParameter

_LONGEST_COLUMN = 100  # in channels x kernel size up to which im2col of raw inputs is small enough to copy; our choice
_MOST_PIXELS = 64 * 64  # of an image; the transforms grow faster than it does; our choice
_FEWEST_MULTIPLICATIONS = (
    500_000  # of an image; with fewer the calls take longer than they save: LeNet was a third slower
)
_tiled = cache(TiledConv.of)


@dataclass(frozen=True)
class SavedForBackward:
    """What the backward pass through a stage needs of the forward pass."""

    conv: Transformed | Tensor  # of a convolution in tiles, or the columns of im2col
    size: tuple[int, int]  # of the inputs
    y: Tensor  # outputs
    argmax: ArgmaxMasks | None  # of the pooling


@dataclass(frozen=True)
class ConvStage:
    """A convolution of stride 1, with what follows it.

    Args:
        weight: (out channels, in channels, kernel height, kernel width).
        bias: one for each out channel.
        padding: rows and columns of zeros on either side of an image.
        has_relu: a ReLU follows, before or after the pooling, which makes no difference.
        has_pool: max pooling with kernel size and stride 2 follows.
    """

    weight: StackedParameter
    bias: StackedParameter | None
    padding: tuple[int, int]
    has_relu: bool = False
    has_pool: bool = False

    def is_faster_for(self, size: tuple[int, ...], needs_dx: bool) -> bool:
        """Return whether images of this size take fewer multiplications than in a direct convolution of many."""
        if math.prod(size) > _MOST_PIXELS:
            return False
        if self._uses_im2col(needs_dx):
            return True
        tiled = _tiled((size[0], size[1]), self.padding, self.weight.shape)
        direct = math.prod(self.weight.shape) * tiled.vertical.output_size * tiled.horizontal.output_size
        return direct >= _FEWEST_MULTIPLICATIONS and tiled.multiplications() < direct

    def output_size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Return the height and width of the outputs for images of this size."""
        lengths = zip(size, self.padding, self.weight.shape[2:], strict=True)
        after = [length + 2 * padding - kernel_size + 1 for length, padding, kernel_size in lengths]
        return tuple(length // 2 if self.has_pool else length for length in after)

    def set_memory_format(self, weights: dict[int, Tensor]) -> None:
        """Lay all participants' weights out as the steps read them: (kernel, in channels, out channels)."""
        weight = weights[self.weight.offset]
        weights[self.weight.offset] = weight.permute(0, 3, 4, 2, 1).contiguous().permute(0, 4, 3, 1, 2)

    def forward(self, sgd: ParticipantsSgd, job: int, x: Tensor, needs_dx: bool) -> tuple[Tensor, SavedForBackward]:
        """Return the outputs for a participant's images, (height, width, samples, channels)."""
        size = x.shape[0], x.shape[1]
        kernel_height, kernel_width = self.weight.shape[2:]
        weight = sgd.weights[self.weight.offset][job].permute(2, 3, 1, 0).view(kernel_height * kernel_width, -1)
        saved: Transformed | Tensor
        if self._uses_im2col(needs_dx):
            y, saved = self._im2col().forward(x, weight)
        else:
            y, saved = _tiled(size, self.padding, self.weight.shape).forward(x, weight)
        argmax = None
        if self.has_pool:
            y, argmax = max_pool(y)
        if self.bias is not None:
            # After the pooling, for there are fewer pixels. The maximum stays the maximum; only where rounding would
            # make two numbers equal, the larger is taken, not the first.
            y.add_(sgd.weights[self.bias.offset][job])
        if self.has_relu:
            y.relu_()
        return y, SavedForBackward(saved, size, y, argmax)

    def backward(
        self, sgd: ParticipantsSgd, job: int, dy: Tensor, saved: SavedForBackward, needs_dx: bool
    ) -> Tensor | None:
        """Take the participant's step, and return the gradient by its images, if it is needed."""
        if self.has_relu:
            dy = torch.ops.aten.threshold_backward(dy, saved.y, 0)
        if self.bias is not None:
            sgd.descend(self.bias, dy.sum(dim=(0, 1, 2)), job)
        if saved.argmax is not None:
            dy = max_unpool(dy, saved.argmax)
        dx = None
        if isinstance(saved.conv, Tensor):
            dw = self._im2col().backward(dy, saved.conv)
        else:
            tiled = _tiled(saved.size, self.padding, self.weight.shape)
            dx, dw = tiled.backward(dy, saved.conv, needs_dx)
        out_channels, in_channels, kernel_height, kernel_width = self.weight.shape
        dw = dw.view(kernel_height, kernel_width, in_channels, out_channels).permute(3, 2, 0, 1)
        sgd.descend(self.weight, dw, job)
        return dx

    def _uses_im2col(self, needs_dx: bool) -> bool:
        return not needs_dx and math.prod(self.weight.shape[1:]) <= _LONGEST_COLUMN

    def _im2col(self) -> Im2colConv:
        return Im2colConv(self.weight.shape, self.padding)
