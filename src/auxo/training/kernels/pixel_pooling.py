"""Maximum over squares of four pixels, for images that lie pixel by pixel: (height, width, samples, channels).

Of equal numbers the first is the maximum, row by row, as in PyTorch. Which one it was is kept as bits, all set or none,
so that an error goes its way by two operations on bits: far faster than a comparison and a choice.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from auxo.training.kernels.stacked_pooling import is_below


@dataclass(frozen=True)
class Winners:
    """Where the maxima were; -1 (all bits set) or 0."""

    size: tuple[int, int]  # of the image, whose last row or column is left out where it is odd
    is_right: Tensor  # (squares down, 2, squares across, samples, channels), int32: in the upper and the lower row
    is_lower: Tensor  # (squares down, squares across, samples, channels), int32


def pool(image: Tensor) -> tuple[Tensor, Winners]:
    """Return the maxima, (squares down, squares across, samples, channels), and where they were."""
    left, right = _squares(image)
    of_rows = torch.maximum(left, right)
    upper, lower = of_rows.unbind(1)
    winners = Winners((image.shape[0], image.shape[1]), is_below(left, right), is_below(upper, lower))
    return torch.maximum(upper, lower), winners


def unpool(errors: Tensor, winners: Winners) -> Tensor:
    """Return the errors of the image's pixels: those of the maxima, and 0 elsewhere."""
    down, _, across, *numbers = winners.is_right.shape
    height, width = winners.size
    is_whole = (height, width) == (2 * down, 2 * across)
    image = (errors.new_empty if is_whole else errors.new_zeros)(height, width, *numbers)
    bits = errors.contiguous().view(torch.int32)
    of_rows = bits.new_empty(winners.is_right.shape)
    upper, lower = of_rows.unbind(1)
    torch.bitwise_and(bits, winners.is_lower, out=lower)
    torch.bitwise_xor(bits, lower, out=upper)  # all bits where none went to the lower row, none where all did
    left, right = _squares(image.view(torch.int32))
    torch.bitwise_and(of_rows, winners.is_right, out=right)
    torch.bitwise_xor(of_rows, right, out=left)
    return image


def _squares(image: Tensor) -> tuple[Tensor, Tensor]:
    """Return the left and the right columns of the squares, (squares down, 2, squares across, samples, channels)."""
    down, across = image.shape[0] // 2, image.shape[1] // 2
    squares = image[: 2 * down, : 2 * across].view(down, 2, across, 2, *image.shape[2:])
    left, right = squares.unbind(3)
    return left, right
