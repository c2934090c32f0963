"""ShuffleNet-V2 1x (Ma et al., ECCV 2018, table 5) with group norm: the statistics of batches do not federate."""

import torch
from torch import nn

from auxo.models.group_norm import LARGE_SIDE, convolution

_STEM, _LAST = 24, 1024  # channels of the first convolution and of the last
_STAGES = ((116, 4), (232, 8), (464, 4))  # channels and units


class ShuffleNetV2(nn.Module):
    """Sixteen units that split their channels in two and shuffle them, the mean over the image, and a linear layer.

    Images of less than 64x64 pixels have a stem that keeps their size, without its two halvings.
    """

    def __init__(self, side: int, classes: int, channels: int = 1) -> None:
        """Take the images' side in pixels, the number of classes and the images' channels."""
        super().__init__()
        self.image = (channels, side, side)
        is_large = side >= LARGE_SIDE
        stem = convolution(channels, _STEM, 3, stride=2 if is_large else 1)
        if is_large:
            stem.append(nn.MaxPool2d(3, stride=2, padding=1))
        units: list[nn.Module] = []
        before = _STEM
        for width, number in _STAGES:
            units += [_HalvingUnit(before, width), *(_Unit(width) for _ in range(number - 1))]
            before = width
        last = convolution(before, _LAST)
        self.stem, self.units, self.last = nn.Sequential(*stem), nn.Sequential(*units), nn.Sequential(*last)
        self.classify = nn.Linear(_LAST, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes); flat inputs become square images first."""
        features = self.last(self.units(self.stem(x.reshape(-1, *self.image))))
        logits: torch.Tensor = self.classify(features.mean(dim=(2, 3)))
        return logits


class _Unit(nn.Module):
    """Passes one half of the channels on as it is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.path = _path(width // 2, width // 2, stride=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, changed = x.chunk(2, dim=1)
        return _shuffled(kept, self.path(changed))


class _HalvingUnit(nn.Module):
    """Halves the image, on two paths that both see all channels."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        half = width // 2
        self.path = _path(before, half, stride=2)
        self.shortcut = nn.Sequential(*_depthwise(before, stride=2), *convolution(before, half))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _shuffled(self.shortcut(x), self.path(x))


def _path(before: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(*convolution(before, width), *_depthwise(width, stride), *convolution(width, width))


def _depthwise(width: int, stride: int) -> list[nn.Module]:
    return convolution(width, width, 3, stride, groups=width, then=None)


def _shuffled(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the channels of both by turns, so that the next unit splits them otherwise."""
    return torch.stack([first, second], dim=2).flatten(1, 2)
