"""MobileNet-V2 (Sandler et al., CVPR 2018, table 2) with group norm: the statistics of batches do not federate."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from auxo.models.group_norm import LARGE_SIDE, convolution

_STEM, _LAST = 32, 1280  # channels of the first convolution and of the last
_convolved = partial(convolution, then=nn.ReLU6)


@dataclass(frozen=True)
class _Stage:
    """A row of the paper's table."""

    expansion: int
    width: int
    blocks: int
    stride: int  # of the first block


_STAGES = (
    _Stage(1, 16, 1, 1),
    _Stage(6, 24, 2, 2),
    _Stage(6, 32, 3, 2),
    _Stage(6, 64, 4, 2),
    _Stage(6, 96, 3, 1),
    _Stage(6, 160, 3, 2),
    _Stage(6, 320, 1, 1),
)
_FULL_SIZE = 2  # stages in which small images keep their size; our choice: 32 pixels then end as 4, not as 1


class MobileNetV2(nn.Module):
    """Seventeen inverted residuals with depthwise convolutions, the mean over the image, and a linear layer.

    In images of less than 64x64 pixels the first two of five halvings are left out. There is no dropout.
    """

    def __init__(self, side: int, classes: int, channels: int = 1) -> None:
        """Take the images' side in pixels, the number of classes and the images' channels."""
        super().__init__()
        self.image = (channels, side, side)
        is_large = side >= LARGE_SIDE
        layers: list[nn.Module] = _convolved(channels, _STEM, 3, stride=2 if is_large else 1)
        before = _STEM
        for number, stage in enumerate(_STAGES):
            first = stage.stride if is_large or number >= _FULL_SIZE else 1
            for block in range(stage.blocks):
                layers.append(_Block(before, stage.width, stage.expansion, first if block == 0 else 1))
                before = stage.width
        self.layers = nn.Sequential(*layers, *_convolved(before, _LAST))
        self.classify = nn.Linear(_LAST, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes); flat inputs become square images first."""
        logits: torch.Tensor = self.classify(self.layers(x.reshape(-1, *self.image)).mean(dim=(2, 3)))
        return logits


class _Block(nn.Module):
    """An inverted residual: wider, filtered channel by channel, and narrow again without an activation."""

    def __init__(self, before: int, width: int, expansion: int, stride: int) -> None:
        super().__init__()
        inner = before * expansion
        self.path = nn.Sequential(
            *(_convolved(before, inner) if expansion > 1 else ()),
            *_convolved(inner, inner, 3, stride=stride, groups=inner),
            *convolution(inner, width, then=None),
        )
        self.has_shortcut = stride == 1 and before == width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.path(x)
        return x + made if self.has_shortcut else made
