"""Convolution of one participant's raw inputs as a product with patches: they have few channels, and no gradient."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class PatchConv:
    """Convolves images with filters that move on by one pixel at a time; see `tiled_conv` for how images lie.

    Args:
        filters: (outputs, inputs, height, width), their shape.
        zeros: rows and columns of zeros on either side.
    """

    filters: tuple[int, ...]
    zeros: tuple[int, int]

    def patches(self, x: Tensor) -> Tensor:
        """Return (height x width x inputs of a filter, height, width, samples) of (height, width, samples, inputs)."""
        _, inputs, high, wide = self.filters
        down, across = self.zeros
        # Samples last: what is copied together is then a whole row of pixels.
        padded = functional.pad(x.permute(3, 0, 1, 2), (0, 0, across, across, down, down)).contiguous()
        by_place = padded.unfold(1, high, 1).unfold(2, wide, 1)  # (inputs, height, width, samples, high, wide)
        return by_place.permute(4, 5, 0, 1, 2, 3).reshape(high * wide * inputs, *by_place.shape[1:4])

    def forward(self, x: Tensor, filters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs, (height, width, samples, outputs), and the patches, which `backward` needs.

        Args:
            x: (height, width, samples, inputs).
            filters: (height x width, inputs x outputs).
        """
        patches = self.patches(x)
        y = torch.mm(patches.flatten(1).t(), filters.view(len(patches), -1))
        return y.view(*patches.shape[1:], -1), patches

    def backward(self, dy: Tensor, patches: Tensor) -> Tensor:
        """Return the gradient by the filters, (height x width, inputs x outputs)."""
        return torch.mm(patches.flatten(1), dy.flatten(0, 2)).view(self.filters[2] * self.filters[3], -1)
