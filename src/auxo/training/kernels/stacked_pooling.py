"""Max pooling with kernel size and stride 2 for the batches of several participants, which it need not tell apart.

The library's own pooling goes from number to number with a branch for each, and took more time than a convolution. Here
an image is taken apart into four of a quarter of the size, the upper left numbers of all windows and so on, and these
are compared as a whole. Of equal numbers the first is the maximum, row by row, as in the library.
"""

from typing import Any

import torch
from torch import Tensor, nn


def less_mask(first: Tensor, second: Tensor) -> Tensor:
    """Return -1 (all bits set) where the first number is less than the second, else 0.

    It is the sign of the difference, drawn out over the whole number: far faster than a comparison. Zero is added for
    the sake of -0.0 and 0.0, which are equal; their difference has a sign.
    """
    return (first - second).add_(0.0).view(torch.int32).bitwise_right_shift_(31)


class _MaxPoolStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        windows = x.reshape(batch, channels, height // 2, 2, width // 2, 2)
        left, right = windows.permute(5, 3, 0, 1, 2, 4).contiguous()
        upper, lower = torch.maximum(left, right)
        ctx.x, ctx.is_right, ctx.is_lower = x, less_mask(left, right), less_mask(upper, lower)
        return torch.maximum(upper, lower)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        x, is_lower, (upper_right, lower_right) = ctx.x, ctx.is_lower, ctx.is_right
        height, width = x.shape[-2:]
        is_right = (upper_right ^ lower_right).bitwise_and_(is_lower).bitwise_xor_(upper_right)
        rows, columns = (torch.arange(0, size, 2, dtype=torch.int32) for size in (height, width))
        indices = (rows.unsqueeze(1) * width + columns).sub(is_right).sub_(is_lower, alpha=width)
        back = torch.ops.aten.max_pool2d_with_indices_backward  # the library's way back is fast
        return back(dy, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices.long())  # type: ignore[no-any-return]


class StackedMaxPool(nn.Module):
    """`nn.MaxPool2d(2)`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, channels, height, width)."""
        height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2  # an odd row or column is left out
        if (height, width) != tuple(x.shape[-2:]):
            x = x[..., :height, :width]
        return _MaxPoolStep.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def is_max_pool_2x2(layer: nn.Module) -> bool:
    """Return whether `StackedMaxPool` does what the layer does."""
    if type(layer) is not nn.MaxPool2d:
        return False
    pairs = [value if isinstance(value, tuple) else (value, value) for value in (layer.kernel_size, layer.stride)]
    plain = layer.padding in (0, (0, 0)) and layer.dilation in (1, (1, 1))
    return all(pair == (2, 2) for pair in pairs) and plain and not (layer.ceil_mode or layer.return_indices)
