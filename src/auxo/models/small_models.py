"""Small PyTorch models for federated classification: they take inputs flat or as images and return logits."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

_CONV_WIDTHS = (16, 32)  # our choice: small enough for thousands of simulated participants on a laptop
_LEAF_WIDTHS = (32, 64)
_MIN_SIDE = 4  # two poolings halve the side twice


class _Layers(nn.Module):
    """Layers one after another, on inputs of any shape, or on images that may come flat."""

    def __init__(self, *layers: nn.Module, image: tuple[int, int, int] | None = None) -> None:
        super().__init__()
        self.image = image  # channels, height and width
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes)."""
        logits: torch.Tensor = self.layers(x if self.image is None else x.reshape(-1, *self.image))
        return logits


class Linear(_Layers):
    """A single linear layer."""

    def __init__(self, inputs: int, classes: int) -> None:
        """Take how many numbers an input is, and the number of outputs."""
        super().__init__(nn.Flatten(), nn.Linear(inputs, classes))


class Mlp(_Layers):
    """One hidden layer with ReLU."""

    def __init__(self, inputs: int, classes: int, hidden: int = 64) -> None:
        """Take how many numbers an input is, the number of classes and of hidden units (64 is our choice)."""
        check_sizes(hidden=hidden)
        super().__init__(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class SmallCnn(_Layers):
    """Two 3x3 convolutions with ReLU and pooling, then a linear layer.

    There is no normalisation: running statistics of a batch norm belong to one client and do not average.
    """

    def __init__(self, side: int, classes: int, channels: int = 1) -> None:
        """Take the images' side in pixels, the number of classes and the images' channels.

        Raises:
            ValueError: the side is below 4, so that nothing would be left after two poolings.
        """
        _check_side(side)
        pixels = (side // 4) ** 2
        super().__init__(
            *_convolutions(channels, _CONV_WIDTHS, kernel=3),
            nn.Linear(_CONV_WIDTHS[-1] * pixels, classes),
            image=(channels, side, side),
        )


class LeafCnn(_Layers):
    """The network of LEAF (Caldas et al., 2018) for FEMNIST: two 5x5 convolutions with pooling and a hidden layer."""

    def __init__(self, side: int, classes: int, channels: int = 1, hidden: int = 128) -> None:
        """Take the images' side in pixels, the classes, the images' channels and the hidden units (LEAF: 2048).

        Raises:
            ValueError: the side is below 4, so that nothing would be left after two poolings.
        """
        _check_side(side)
        check_sizes(hidden=hidden)
        pixels = (side // 4) ** 2
        super().__init__(
            *_convolutions(channels, _LEAF_WIDTHS, kernel=5),
            nn.Linear(_LEAF_WIDTHS[-1] * pixels, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
            image=(channels, side, side),
        )


def _convolutions(channels: int, widths: Sequence[int], kernel: int) -> list[nn.Module]:
    """Return convolutions of these widths, each with ReLU and pooling, which halves the images, and flat outputs."""
    layers: list[nn.Module] = []
    for before, width in pairwise((channels, *widths)):
        layers += [nn.Conv2d(before, width, kernel, padding=kernel // 2), nn.ReLU(), nn.MaxPool2d(2)]
    return [*layers, nn.Flatten()]


def _check_side(side: int) -> None:
    if side < _MIN_SIDE:
        raise ValueError(f"side: expected images of at least {_MIN_SIDE}x{_MIN_SIDE} pixels, got {side}x{side}")


def check_sizes(**sizes: object) -> None:
    """Raise a ValueError unless all sizes, each under its name, are whole numbers of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name}: expected a whole number of at least 1, got {size!r}")


def image_shape(features: tuple[int, ...]) -> tuple[int, int]:
    """Return the channels and the side of square images whose samples have the shape ``features``.

    A sample is flat and of one channel, (side * side,), or an image, (side, side) or (channels, side, side).

    Raises:
        ValueError: samples of this shape are not square images.

    >>> image_shape((784,)), image_shape((28, 28)), image_shape((3, 32, 32))
    ((1, 28), (1, 28), (3, 32))
    """
    match features:
        case (pixels,) if math.isqrt(pixels) ** 2 == pixels:
            return 1, math.isqrt(pixels)
        case (height, width) if height == width:
            return 1, width
        case (channels, height, width) if height == width:
            return channels, width
    raise ValueError(
        f"x: a convolutional model needs square images, (side * side,), (side, side) or (channels, side, side), "
        f'got samples of shape {features}; choose the model "mlp" or "softmax" for other inputs'
    )
