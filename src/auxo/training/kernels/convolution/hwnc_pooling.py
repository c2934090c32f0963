"""Max pooling with kernel size and stride 2 for images in HWNC, (height, width, samples, channels).

Of equal numbers the first is the maximum, row by row, as in PyTorch. Which one it was is kept as masks of bits, all set
or none, so that unpooling takes two operations on bits: far faster than a comparison and a choice.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from auxo.training.kernels.stacked_pooling import less_mask


@dataclass(frozen=True)
class ArgmaxMasks:
    """Where the maxima were; -1 (all bits set) or 0."""

    size: tuple[int, int]  # of the image, whose last row or column is left out where it is odd
    is_right: Tensor  # (windows down, 2, windows across, samples, channels), int32: in the upper and the lower row
    is_lower: Tensor  # (windows down, windows across, samples, channels), int32


def max_pool(image: Tensor) -> tuple[Tensor, ArgmaxMasks]:
    """Return the maxima, (windows down, windows across, samples, channels), and where they were."""
    left, right = _columns_of_windows(image)
    of_rows = torch.maximum(left, right)
    upper, lower = of_rows.unbind(1)
    masks = ArgmaxMasks((image.shape[0], image.shape[1]), less_mask(left, right), less_mask(upper, lower))
    return torch.maximum(upper, lower), masks


def max_unpool(dy: Tensor, masks: ArgmaxMasks) -> Tensor:
    """Return the gradient by the image: that of the maxima, and 0 elsewhere."""
    down, _, across, *numbers = masks.is_right.shape
    height, width = masks.size
    is_whole = (height, width) == (2 * down, 2 * across)
    dx = (dy.new_empty if is_whole else dy.new_zeros)(height, width, *numbers)
    bits = dy.contiguous().view(torch.int32)
    of_rows = bits.new_empty(masks.is_right.shape)
    upper, lower = of_rows.unbind(1)
    torch.bitwise_and(bits, masks.is_lower, out=lower)
    torch.bitwise_xor(bits, lower, out=upper)  # all bits where none went to the lower row, none where all did
    left, right = _columns_of_windows(dx.view(torch.int32))
    torch.bitwise_and(of_rows, masks.is_right, out=right)
    torch.bitwise_xor(of_rows, right, out=left)
    return dx


def _columns_of_windows(image: Tensor) -> tuple[Tensor, Tensor]:
    """Return the left and the right columns of the windows, (windows down, 2, windows across, samples, channels)."""
    down, across = image.shape[0] // 2, image.shape[1] // 2
    windows = image[: 2 * down, : 2 * across].view(down, 2, across, 2, *image.shape[2:])
    left, right = windows.unbind(3)
    return left, right
