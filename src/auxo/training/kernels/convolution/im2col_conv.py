"""Convolution of one participant's raw inputs by im2col: they have few channels, and need no gradient."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Im2colConv:
    """A convolution of stride 1 of images in HWNC; see `tiled_conv`.

    Args:
        weight_shape: (out channels, in channels, kernel height, kernel width).
        padding: rows and columns of zeros on either side.
    """

    weight_shape: tuple[int, ...]
    padding: tuple[int, int]

    def im2col(self, x: Tensor) -> Tensor:
        """Return the columns, (kernel height x kernel width x in channels, height, width, samples), of HWNC images."""
        _, in_channels, kernel_height, kernel_width = self.weight_shape
        vertical, horizontal = self.padding
        # Samples last: what is copied together is then a whole row of pixels.
        padded = functional.pad(x.permute(3, 0, 1, 2), (0, 0, horizontal, horizontal, vertical, vertical)).contiguous()
        # (in channels, height, width, samples, kernel height, kernel width)
        windows = padded.unfold(1, kernel_height, 1).unfold(2, kernel_width, 1)
        return windows.permute(4, 5, 0, 1, 2, 3).reshape(
            kernel_height * kernel_width * in_channels, *windows.shape[1:4]
        )

    def forward(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs, (height, width, samples, out channels), and the columns, which `backward` needs.

        Args:
            x: (height, width, samples, in channels).
            weight: (kernel height x kernel width, in channels x out channels).
        """
        columns = self.im2col(x)
        y = torch.mm(columns.flatten(1).t(), weight.view(len(columns), -1))
        return y.view(*columns.shape[1:], -1), columns

    def backward(self, dy: Tensor, columns: Tensor) -> Tensor:
        """Return the gradient by the weight, (kernel height x kernel width, in channels x out channels)."""
        return torch.mm(columns.flatten(1), dy.flatten(0, 2)).view(self.weight_shape[2] * self.weight_shape[3], -1)
