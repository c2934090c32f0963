"""What the deep models of images share: convolutions with a norm that federates, and which images count as large."""

from torch import nn

LARGE_SIDE = 64
"""Pixels from which on images get the stem of the paper; smaller ones get one that keeps their size (our choice)."""

_GROUP = 16  # channels of a group; our choice


def group_norm(channels: int) -> nn.GroupNorm:
    """Return a group norm (Wu and He, ECCV 2018): its groups have 16 channels, or as few more as divide them evenly.

    It has as many weights as a batch norm, whose statistics do not federate.

    >>> [group_norm(channels).num_groups for channels in (64, 24, 58)]
    [4, 1, 2]
    """
    size = next(size for size in range(min(_GROUP, channels), channels + 1) if channels % size == 0)
    return nn.GroupNorm(channels // size, channels)


def convolution(
    before: int,
    width: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    then: type[nn.Module] | None = nn.ReLU,
) -> list[nn.Module]:
    """Return a convolution that keeps the size of images but for its stride, its norm, and what follows them."""
    layers = nn.Conv2d(before, width, kernel, stride, padding=kernel // 2, groups=groups, bias=False), group_norm(width)
    return [*layers] if then is None else [*layers, then()]
