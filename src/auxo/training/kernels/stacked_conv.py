"""Convolution for several participants at once; see `stacked_layers` for how such layers train."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from auxo.training.kernels.participants_sgd import ParticipantsSgd, by_participant
from auxo.training.kernels.stacked_parameter import StackedParameter

_LONGEST_COLUMN = 64  # in channels x kernel size up to which im2col beats the library's convolution; measured


def zero_padding(layer: nn.Conv2d) -> tuple[int, int] | None:
    """Return the rows and the columns of zeros on either side; None for any other padding."""
    if layer.padding_mode != "zeros":
        return None
    if not isinstance(layer.padding, str):
        vertical, horizontal = layer.padding
        return vertical, horizontal
    if layer.padding == "valid":
        return 0, 0
    # "same": as many on both sides only if the kernel has a middle.
    if not all(size % 2 for size in layer.kernel_size):
        return None
    vertical, horizontal = (
        (size - 1) * dilation // 2 for size, dilation in zip(layer.kernel_size, layer.dilation, strict=True)
    )
    return vertical, horizontal


class _ConvStep(torch.autograd.Function):
    """Convolutions one participant after another: they are large enough to be worth a call each.

    They are also dear enough to leave out the padding of a batch.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedConv") -> Tensor:
        sgd, like = layer.sgd, layer.like
        weights = sgd.weight(layer.weight)
        biases = [None] * sgd.active if layer.bias is None else list(sgd.weight(layer.bias))
        inputs = by_participant(x.contiguous(), sgd)  # the library is slower in channels_last
        ctx.layer, ctx.x = layer, inputs
        unpadded = sgd.unpadded(inputs.shape[1])
        outputs = [
            functional.conv2d(own[:rows], weight, bias, like.stride, layer.padding, like.dilation, like.groups)
            for own, rows, weight, bias in zip(inputs, unpadded, weights, biases, strict=True)
        ]
        return _padded(outputs, inputs.shape[1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, None, None]:
        layer, inputs = ctx.layer, ctx.x
        sgd: ParticipantsSgd = layer.sgd
        needs_dx = bool(ctx.needs_input_grad[0])
        errors = by_participant(dy.contiguous(), sgd)
        gradients = []
        for row, samples in enumerate(sgd.unpadded(inputs.shape[1])):
            dx, dw, db = layer.gradients(inputs[row, :samples], errors[row, :samples], row, needs_dx)
            gradients.append(dx)
            sgd.descend(layer.weight, dw, row)
            if layer.bias is not None:
                sgd.descend(layer.bias, db, row)
        return _padded(gradients, inputs.shape[1]) if needs_dx else None, None, None


def _padded(parts: list[Tensor], batch: int) -> Tensor:
    """Return what participants have made of their samples, (active x batch, ...), with 0 for the padding of a batch."""
    if len(parts) == 1 and len(parts[0]) == batch:
        return parts[0]
    whole = parts[0].new_empty(len(parts), batch, *parts[0].shape[1:])
    for rows, part in zip(whole, parts, strict=True):
        rows[: len(part)] = part
        rows[len(part) :] = 0
    return whole.flatten(0, 1)


class _Im2colStep(torch.autograd.Function):
    """A convolution of the raw inputs with a small kernel by im2col."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedConv") -> Tensor:
        sgd = layer.sgd
        columns, (height, width) = _im2col(x, layer.like, layer.padding)
        weights = sgd.weight(layer.weight).flatten(2)
        samples = len(x) // sgd.active
        ctx.layer, ctx.columns = layer, columns
        y = torch.bmm(_for_each(weights, samples), columns)
        if layer.bias is not None:
            y.add_(_for_each(sgd.weight(layer.bias).unsqueeze(2), samples))
        return y.view(len(x), -1, height, width)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, None, None]:
        layer, columns = ctx.layer, ctx.columns
        sgd: ParticipantsSgd = layer.sgd
        errors = dy.flatten(2)
        gradient = by_participant(torch.bmm(errors, columns.transpose(1, 2)), sgd).sum(dim=1)
        sgd.descend(layer.weight, gradient.view(sgd.active, *layer.weight.shape))
        if layer.bias is not None:
            sgd.descend(layer.bias, by_participant(errors.sum(dim=2), sgd).sum(dim=1))
        return None, None, None


def _for_each(weights: Tensor, samples: int) -> Tensor:
    """Return each participant's weights once for each of its samples, (active x samples, ...)."""
    if len(weights) == 1:
        return weights.expand(samples, -1, -1)  # no copy
    return weights.repeat_interleave(samples, dim=0)


class StackedConv(nn.Module):
    """A 2-d convolution with each participant's own weights."""

    def __init__(
        self, sgd: ParticipantsSgd, like: nn.Conv2d, weight: StackedParameter, bias: StackedParameter | None
    ) -> None:
        super().__init__()
        self.sgd, self.weight, self.bias = sgd, weight, bias
        self.like = copy.deepcopy(like).requires_grad_(False)  # for its stride, dilation and so on
        self.padding = zero_padding(like) or (0, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, channels, height, width)."""
        self.sgd.calls.append(self.weight.offset)
        plain = self.like.groups == 1 and self.like.dilation == (1, 1)
        if plain and not x.requires_grad and self.like.weight[0].numel() <= _LONGEST_COLUMN:
            return _Im2colStep.apply(x, self.sgd.anchor, self)  # type: ignore[no-any-return, no-untyped-call]
        return _ConvStep.apply(x, self.sgd.anchor, self)  # type: ignore[no-any-return, no-untyped-call]

    def gradients(self, x: Tensor, dy: Tensor, row: int, needs_dx: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return one participant's gradients by its inputs (None if not needed), its weights and its biases."""
        like, weight = self.like, self.sgd.weight(self.weight)[row]
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
            [needs_dx, True, self.bias is not None],
        )
        return dx, dw, db


def _im2col(x: Tensor, like: nn.Conv2d, padding: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
    """Return the columns, (batch, in channels x kernel size, positions), and the height and width of the positions."""
    vertical, horizontal = padding
    windows = functional.pad(x, (horizontal, horizontal, vertical, vertical))
    windows = windows.unfold(2, like.kernel_size[0], like.stride[0]).unfold(3, like.kernel_size[1], like.stride[1])
    batch, _, height, width = windows.shape[:4]
    # Positions last: whole rows of an image are then copied at a time.
    return windows.permute(0, 1, 4, 5, 2, 3).reshape(batch, -1, height * width), (height, width)
