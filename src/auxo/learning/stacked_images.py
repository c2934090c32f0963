"""Convolution and pooling for several participants at once; see `stacked_layers` for how such layers train."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from auxo.learning.stacked_bench import Bench, StackedParameter, by_participant

_PATCH_WIDTH = 64  # inputs of a filter up to which products with patches beat the library's convolution; measured


def zeros_around(layer: nn.Conv2d) -> tuple[int, int] | None:
    """Return the rows and the columns of zeros on either side; None if the layer pads in any other way."""
    if layer.padding_mode != "zeros":
        return None
    if not isinstance(layer.padding, str):
        down, across = layer.padding
        return down, across
    if layer.padding == "valid":
        return 0, 0
    # "same": as many on both sides only if a filter has a middle.
    (high, wide), (down, across) = layer.kernel_size, layer.dilation
    return ((high - 1) * down // 2, (wide - 1) * across // 2) if high % 2 and wide % 2 else None


class _ConvStep(torch.autograd.Function):
    """Convolutions one participant after another: they are large enough to be worth a call each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedConv") -> Tensor:
        bench, like = layer.bench, layer.like
        weights = bench.weight(layer.weight)
        biases = [None] * bench.active if layer.bias is None else list(bench.weight(layer.bias))
        inputs = by_participant(x.contiguous(), bench)  # the library is slower where channels come last
        ctx.layer, ctx.x = layer, inputs
        outputs = [
            functional.conv2d(own, weight, bias, like.stride, layer.padding, like.dilation, like.groups)
            for own, weight, bias in zip(inputs, weights, biases, strict=True)
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, None, None]:
        layer, inputs = ctx.layer, ctx.x
        bench: Bench = layer.bench
        wants_dx = bool(ctx.needs_input_grad[0])
        gradients = []
        for row, (x, own) in enumerate(zip(inputs, by_participant(dy.contiguous(), bench), strict=True)):
            dx, dw, db = layer.gradients(x, own, row, wants_dx)
            gradients.append(dx)
            bench.descend(layer.weight, dw, row)
            if layer.bias is not None:
                bench.descend(layer.bias, db, row)
        if not wants_dx:
            return None, None, None
        return gradients[0] if len(gradients) == 1 else torch.cat(gradients), None, None


class _PatchesStep(torch.autograd.Function):
    """A convolution of the raw inputs with small filters as products with patches; its channels come last."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedConv") -> Tensor:
        bench = layer.bench
        patches, (height, width) = _patches(x, layer.like, layer.padding)
        stacked = patches.reshape(bench.active, -1, patches.shape[1])
        ctx.layer, ctx.patches = layer, stacked
        weights = bench.weight(layer.weight).flatten(2).transpose(1, 2)
        if layer.bias is None:
            y = torch.bmm(stacked, weights)
        else:
            y = torch.baddbmm(bench.weight(layer.bias).unsqueeze(1), stacked, weights)
        return y.view(len(x), height, width, -1).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, None, None]:
        layer, patches = ctx.layer, ctx.patches
        bench: Bench = layer.bench
        errors = dy.permute(0, 2, 3, 1).reshape(bench.active, -1, dy.shape[1])
        gradient = torch.bmm(errors.transpose(1, 2), patches)
        bench.descend(layer.weight, gradient.view(bench.active, *layer.weight.shape))
        if layer.bias is not None:
            bench.descend(layer.bias, errors.sum(dim=1))
        return None, None, None


class StackedConv(nn.Module):
    """A 2-d convolution with each participant's own filters."""

    def __init__(self, bench: Bench, like: nn.Conv2d, weight: StackedParameter, bias: StackedParameter | None) -> None:
        super().__init__()
        self.bench, self.weight, self.bias = bench, weight, bias
        self.like = copy.deepcopy(like).requires_grad_(False)  # for its stride, dilation and so on
        self.padding = zeros_around(like) or (0, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, channels, height, width)."""
        self.bench.calls.append(self.weight.first)
        plain = self.like.groups == 1 and self.like.dilation == (1, 1)
        if plain and not x.requires_grad and self.like.weight[0].numel() <= _PATCH_WIDTH:
            return _PatchesStep.apply(x, self.bench.anchor, self)  # type: ignore[no-any-return, no-untyped-call]
        return _ConvStep.apply(x, self.bench.anchor, self)  # type: ignore[no-any-return, no-untyped-call]

    def gradients(self, x: Tensor, dy: Tensor, row: int, wants_dx: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return one participant's gradients by its inputs (None if unwanted), its weights and its biases."""
        like, weight = self.like, self.bench.weight(self.weight)[row]
        dx, dw, db = torch.ops.aten.convolution_backward(
            dy,
            x,
            weight,
            [weight.shape[0]],
            like.stride,
            self.padding,
            like.dilation,
            False,
            [0, 0],
            like.groups,
            [wants_dx, True, self.bias is not None],
        )
        return dx, dw, db


def _patches(x: Tensor, like: nn.Conv2d, padding: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
    """Return what the filters see, (batch x positions, inputs of a filter), and the rows and columns of positions."""
    down, across = padding
    windows = functional.pad(x, (across, across, down, down))
    windows = windows.unfold(2, like.kernel_size[0], like.stride[0]).unfold(3, like.kernel_size[1], like.stride[1])
    batch, _, height, width = windows.shape[:4]
    return windows.permute(0, 2, 3, 1, 4, 5).reshape(batch * height * width, -1), (height, width)


class _PoolStep(torch.autograd.Function):
    """Maximum over squares of four: first of neighbours, then of rows.

    The library's own goes from number to number with a branch for each, and took more time than a convolution.
    Of equal numbers the left one and the upper one get the gradient, as there.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        rows = torch.maximum(x[..., 0::2], x[..., 1::2])
        ctx.x, ctx.rows = x, rows
        return torch.maximum(rows[..., 0::2, :], rows[..., 1::2, :])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        x, rows = ctx.x, ctx.rows
        drows = torch.empty_like(rows)
        _share(dy, rows[..., 1::2, :] - rows[..., 0::2, :], drows[..., 0::2, :], drows[..., 1::2, :])
        dx = torch.empty_like(x)
        _share(drows, x[..., 1::2] - x[..., 0::2], dx[..., 0::2], dx[..., 1::2])
        return dx


def _share(gradient: Tensor, lead: Tensor, first: Tensor, second: Tensor) -> None:
    """Write the gradient to ``second`` where that one leads, and to ``first`` everywhere else."""
    second.copy_(torch.ops.aten.threshold_backward(gradient, lead, 0))
    torch.sub(gradient, second, out=first)


class StackedPool(nn.Module):
    """Maximum over squares of four."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, channels, height, width)."""
        height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2  # an odd row or column is left out
        if (height, width) != tuple(x.shape[-2:]):
            x = x[..., :height, :width]
        if x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous():
            return functional.max_pool2d(x, 2)  # with channels last the library's own is fast
        return _PoolStep.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def is_pool_of_four(layer: nn.Module) -> bool:
    """Return whether `StackedPool` does what the layer does."""
    if type(layer) is not nn.MaxPool2d:
        return False
    pairs = [value if isinstance(value, tuple) else (value, value) for value in (layer.kernel_size, layer.stride)]
    plain = layer.padding in (0, (0, 0)) and layer.dilation in (1, (1, 1))
    return all(pair == (2, 2) for pair in pairs) and plain and not (layer.ceil_mode or layer.return_indices)
