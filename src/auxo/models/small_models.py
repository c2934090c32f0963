"""Small PyTorch models for federated classification: they take inputs flat or as images and return logits."""

import math

import torch
from torch import nn

_CONV_WIDTHS = (16, 32)  # our choice: small enough for thousands of simulated participants on a laptop
_LEAF_WIDTHS = (32, 64)
_MIN_SIDE = 4  # two poolings halve the side twice


class Linear(nn.Module):
    """A single linear layer."""

    def __init__(self, inputs: int, classes: int) -> None:
        """Take how many numbers an input is, and the number of outputs."""
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs, (n, classes)."""
        outputs: torch.Tensor = self.layers(x)
        return outputs


class Mlp(nn.Module):
    """One hidden layer with ReLU."""

    def __init__(self, inputs: int, classes: int, hidden: int = 64) -> None:
        """Take how many numbers an input is, the number of classes and of hidden units (64 is our choice)."""
        super().__init__()
        check_sizes(hidden=hidden)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes)."""
        logits: torch.Tensor = self.layers(x)
        return logits


class SmallCnn(nn.Module):
    """Two 3x3 convolutions with ReLU and pooling, then a linear layer.

    There is no normalisation: running statistics of a batch norm belong to one client and do not average.
    """

    def __init__(self, side: int, classes: int, channels: int = 1) -> None:
        """Take the images' side in pixels, the number of classes and the images' channels.

        Raises:
            ValueError: the side is below 4, so that nothing would be left after two poolings.
        """
        super().__init__()
        _check_side(side)
        self.image = (channels, side, side)
        first, second = _CONV_WIDTHS
        self.layers = nn.Sequential(
            nn.Conv2d(channels, first, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * (side // 4) ** 2, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes); flat inputs become square images first."""
        logits: torch.Tensor = self.layers(x.reshape(-1, *self.image))
        return logits


class LeafCnn(nn.Module):
    """The network of LEAF (Caldas et al., 2018) for FEMNIST: two 5x5 convolutions with pooling and a hidden layer."""

    def __init__(self, side: int, classes: int, channels: int = 1, hidden: int = 128) -> None:
        """Take the images' side in pixels, the classes, the images' channels and the hidden units (LEAF: 2048).

        Raises:
            ValueError: the side is below 4, so that nothing would be left after two poolings.
        """
        super().__init__()
        _check_side(side)
        check_sizes(hidden=hidden)
        self.image = (channels, side, side)
        first, second = _LEAF_WIDTHS
        self.layers = nn.Sequential(
            nn.Conv2d(channels, first, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * (side // 4) ** 2, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes); flat inputs become square images first."""
        logits: torch.Tensor = self.layers(x.reshape(-1, *self.image))
        return logits


def _check_side(side: int) -> None:
    if side < _MIN_SIDE:
        raise ValueError(f"side: expected images of at least {_MIN_SIDE}x{_MIN_SIDE} pixels, got {side}x{side}")


def check_sizes(**sizes: object) -> None:
    """Check sizes that come from a configuration, each under its name.

    Raises:
        ValueError: one is not a whole number of at least 1.
    """
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
