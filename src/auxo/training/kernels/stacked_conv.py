"""Convolution for several participants at once; see `stacked_layers` for how such layers train."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from auxo.training.kernels.participants_sgd import Bench, StackedParameter, by_participant

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
    """Convolutions one participant after another: they are large enough to be worth a call each.

    They are also dear enough to leave out what only fills a batch up.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedConv") -> Tensor:
        bench, like = layer.bench, layer.like
        weights = bench.weight(layer.weight)
        biases = [None] * bench.active if layer.bias is None else list(bench.weight(layer.bias))
        inputs = by_participant(x.contiguous(), bench)  # the library is slower where channels come last
        ctx.layer, ctx.x = layer, inputs
        kept = bench.worth_computing(inputs.shape[1])
        outputs = [
            functional.conv2d(own[:rows], weight, bias, like.stride, layer.padding, like.dilation, like.groups)
            for own, rows, weight, bias in zip(inputs, kept, weights, biases, strict=True)
        ]
        return _filled_up(outputs, inputs.shape[1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, None, None]:
        layer, inputs = ctx.layer, ctx.x
        bench: Bench = layer.bench
        wants_dx = bool(ctx.needs_input_grad[0])
        errors = by_participant(dy.contiguous(), bench)
        gradients = []
        for row, kept in enumerate(bench.worth_computing(inputs.shape[1])):
            dx, dw, db = layer.gradients(inputs[row, :kept], errors[row, :kept], row, wants_dx)
            gradients.append(dx)
            bench.descend(layer.weight, dw, row)
            if layer.bias is not None:
                bench.descend(layer.bias, db, row)
        return _filled_up(gradients, inputs.shape[1]) if wants_dx else None, None, None


def _filled_up(parts: list[Tensor], batch: int) -> Tensor:
    """Return what participants have made of their samples, (active x batch, ...), with 0 where a batch is not full."""
    if len(parts) == 1 and len(parts[0]) == batch:
        return parts[0]
    whole = parts[0].new_empty(len(parts), batch, *parts[0].shape[1:])
    for filled, part in zip(whole, parts, strict=True):
        filled[: len(part)] = part
        filled[len(part) :] = 0
    return whole.flatten(0, 1)


class _PatchesStep(torch.autograd.Function):
    """A convolution of the raw inputs with small filters as products with patches."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedConv") -> Tensor:
        bench = layer.bench
        patches, (height, width) = _patches(x, layer.like, layer.padding)
        weights = bench.weight(layer.weight).flatten(2)
        samples = len(x) // bench.active
        ctx.layer, ctx.patches = layer, patches
        y = torch.bmm(_for_each(weights, samples), patches)
        if layer.bias is not None:
            y.add_(_for_each(bench.weight(layer.bias).unsqueeze(2), samples))
        return y.view(len(x), -1, height, width)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, None, None]:
        layer, patches = ctx.layer, ctx.patches
        bench: Bench = layer.bench
        errors = dy.flatten(2)
        gradient = by_participant(torch.bmm(errors, patches.transpose(1, 2)), bench).sum(dim=1)
        bench.descend(layer.weight, gradient.view(bench.active, *layer.weight.shape))
        if layer.bias is not None:
            bench.descend(layer.bias, by_participant(errors.sum(dim=2), bench).sum(dim=1))
        return None, None, None


def _for_each(weights: Tensor, samples: int) -> Tensor:
    """Return each participant's weights once for each of its samples, (active x samples, ...)."""
    if len(weights) == 1:
        return weights.expand(samples, -1, -1)  # no copy
    return weights.repeat_interleave(samples, dim=0)


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
    """Return what the filters see, (batch, inputs of a filter, positions), and the rows and columns of positions."""
    down, across = padding
    windows = functional.pad(x, (across, across, down, down))
    windows = windows.unfold(2, like.kernel_size[0], like.stride[0]).unfold(3, like.kernel_size[1], like.stride[1])
    batch, _, height, width = windows.shape[:4]
    # Positions last: whole rows of an image are then copied at a time.
    return windows.permute(0, 1, 4, 5, 2, 3).reshape(batch, -1, height * width), (height, width)
