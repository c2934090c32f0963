"""ResNet-18 (He et al., CVPR 2016) with group norm, since the statistics of batches do not federate."""

import torch
from torch import nn

_WIDTHS = (64, 128, 256, 512)
_BLOCKS_EACH = 2
_GROUP = 16  # channels of a group at most; our choice
_LARGE_SIDE = 64  # larger images get the stem of the paper, smaller ones one that keeps their size (our choice)


class ResNet18(nn.Module):
    """Four stages of two residual blocks, then the mean over the image and a linear layer: 11 million parameters."""

    def __init__(self, side: int, classes: int, channels: int = 1) -> None:
        """Take the images' side in pixels, the number of classes and the images' channels."""
        super().__init__()
        self.image = (channels, side, side)
        if side >= _LARGE_SIDE:
            stem = [nn.Conv2d(channels, _WIDTHS[0], 7, stride=2, padding=3, bias=False), _norm(_WIDTHS[0])]
            stem += [nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
        else:
            stem = [nn.Conv2d(channels, _WIDTHS[0], 3, padding=1, bias=False), _norm(_WIDTHS[0]), nn.ReLU()]
        blocks = []
        before = _WIDTHS[0]
        for stage, width in enumerate(_WIDTHS):
            for number in range(_BLOCKS_EACH):
                blocks.append(_Block(before, width, stride=2 if stage > 0 and number == 0 else 1))
                before = width
        self.stem, self.blocks = nn.Sequential(*stem), nn.Sequential(*blocks)
        self.classify = nn.Linear(before, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes); flat inputs become square images first."""
        features = self.blocks(self.stem(x.reshape(-1, *self.image)))
        logits: torch.Tensor = self.classify(features.mean(dim=(2, 3)))
        return logits


class _Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False),
            _norm(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            _norm(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride=stride, bias=False), _norm(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(channels // _GROUP, channels)
