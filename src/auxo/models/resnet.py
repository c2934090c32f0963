"""ResNet-18 and ResNet-34 (He et al., CVPR 2016) with group norm, since the statistics of batches do not federate."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from auxo.models.group_norm import LARGE_SIDE, convolution
from auxo.models.small_models import check_sizes

_WIDTHS = (64, 128, 256, 512)


class ResNet(nn.Module):
    """Four stages of residual blocks of two convolutions, then the mean over the image and a linear layer.

    Images of less than 64x64 pixels have a stem that keeps their size, one 3x3 convolution.
    """

    def __init__(self, side: int, classes: int, channels: int = 1, blocks: Sequence[int] = (2, 2, 2, 2)) -> None:
        """Take the images' side in pixels, the number of classes, the images' channels and the blocks of each stage.

        Raises:
            ValueError: ``blocks`` are not four numbers of at least 1.
        """
        super().__init__()
        if len(blocks) != len(_WIDTHS):
            raise ValueError(f"blocks: expected {len(_WIDTHS)} numbers, one for each stage, got {list(blocks)}")
        check_sizes(**{f"blocks of stage {stage}": number for stage, number in enumerate(blocks, start=1)})
        self.image = (channels, side, side)
        if side >= LARGE_SIDE:
            stem = [*convolution(channels, _WIDTHS[0], 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
        else:
            stem = convolution(channels, _WIDTHS[0], 3)
        stages = []
        before = _WIDTHS[0]
        for stage, (width, number_of_blocks) in enumerate(zip(_WIDTHS, blocks, strict=True)):
            for number in range(number_of_blocks):
                stages.append(_Block(before, width, stride=2 if stage > 0 and number == 0 else 1))
                before = width
        self.stem, self.blocks = nn.Sequential(*stem), nn.Sequential(*stages)
        self.classify = nn.Linear(before, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes); flat inputs become square images first."""
        features = self.blocks(self.stem(x.reshape(-1, *self.image)))
        logits: torch.Tensor = self.classify(features.mean(dim=(2, 3)))
        return logits


ResNet18 = partial(ResNet, blocks=(2, 2, 2, 2))
"""11 million parameters."""

ResNet34 = partial(ResNet, blocks=(3, 4, 6, 3))
"""21 million parameters."""


class _Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(*convolution(before, width, 3, stride), *convolution(width, width, 3, then=None))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(*convolution(before, width, stride=stride, then=None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))
