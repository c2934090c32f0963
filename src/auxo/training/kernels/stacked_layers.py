"""Layers for several participants at once: one call, each participant's own weights, SGD inside the backward pass.

A stacked layer takes the batches of all participants one after another, (participants x batch, ...), and computes with
a weight matrix for each of them. Its backward pass moves the weights where it would otherwise return their gradient:
a gradient as large as the model is then never written to memory, nor read again. What lies between such layers
(activations, pooling, reshaping) treats each sample by itself and runs as it is.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from auxo.training.kernels.participants_sgd import Bench, StackedParameter, by_participant


class _LinearStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedLinear") -> Tensor:
        bench = layer.bench
        stacked = x.reshape(bench.active, -1, x.shape[-1])
        weight = bench.weight(layer.weight).transpose(1, 2)
        ctx.layer, ctx.x, ctx.x_shape = layer, stacked, x.shape
        if layer.bias is None:
            y = torch.bmm(stacked, weight)
        else:
            y = torch.baddbmm(bench.weight(layer.bias).unsqueeze(1), stacked, weight)
        return y.reshape(*x.shape[:-1], y.shape[-1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, None, None]:
        layer, x = ctx.layer, ctx.x
        bench: Bench = layer.bench
        dy = dy.reshape(bench.active, -1, dy.shape[-1])
        dx = None
        if ctx.needs_input_grad[0]:
            # Before the weights move.
            dx = torch.bmm(dy, bench.weight(layer.weight)).reshape(ctx.x_shape)
        bench.descend_by_product(layer.weight, dy.transpose(1, 2), x)
        if layer.bias is not None:
            bench.descend(layer.bias, dy.sum(dim=1))
        return dx, None, None


class StackedLinear(nn.Module):
    """A linear layer with each participant's own weights."""

    def __init__(self, bench: Bench, weight: StackedParameter, bias: StackedParameter | None) -> None:
        super().__init__()
        self.bench, self.weight, self.bias = bench, weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, ...)."""
        self.bench.calls.append(self.weight.first)
        delayed = self.bench.delayed
        if delayed is not None and delayed.holds(self.weight.first):
            return _DelayedStep.apply(self.bench.anchor, self)  # type: ignore[no-untyped-call, no-any-return]
        return _LinearStep.apply(x, self.bench.anchor, self)  # type: ignore[no-untyped-call, no-any-return]


class _DelayedStep(torch.autograd.Function):
    """The step of a layer on the raw inputs, whose weights `DelayedInput` moves later."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, layer: StackedLinear) -> Tensor:
        bench = layer.bench
        assert bench.delayed is not None  # noqa: S101 - only called with one
        ctx.layer = layer
        y = bench.delayed.forward(layer.weight.first, bench.active)
        if layer.bias is not None:
            y.add_(bench.weight(layer.bias).unsqueeze(1))
        return y.flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, None]:
        layer = ctx.layer
        bench: Bench = layer.bench
        assert bench.delayed is not None  # noqa: S101
        dy = dy.reshape(bench.active, -1, dy.shape[-1])
        bench.delayed.backward(layer.weight.first, dy)
        if layer.bias is not None:
            bench.descend(layer.bias, dy.sum(dim=1))
        return None, None


class _AffineStep(torch.autograd.Function):
    """Gains and biases of a normalisation, on what has been normalised."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedAffine") -> Tensor:
        bench = layer.bench
        stacked = by_participant(x, bench)
        gain, bias = layer.spread(layer.weight, stacked), layer.spread(layer.bias, stacked)
        ctx.layer, ctx.x = layer, stacked
        return torch.addcmul(bias, stacked, gain).flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        layer, x = ctx.layer, ctx.x
        bench: Bench = layer.bench
        dy = by_participant(dy, bench)
        dx = (dy * layer.spread(layer.weight, dy)).flatten(0, 1)
        over = layer.summed(dy)
        bench.descend(layer.weight, (dy * x).sum(dim=over))
        bench.descend(layer.bias, dy.sum(dim=over))
        return dx, None, None


class StackedAffine(nn.Module):
    """A group norm or a layer norm: the normalisation of a sample, then the participant's own gain and bias."""

    def __init__(
        self, bench: Bench, like: nn.GroupNorm | nn.LayerNorm, weight: StackedParameter, bias: StackedParameter
    ) -> None:
        super().__init__()
        self.bench, self.weight, self.bias = bench, weight, bias
        self.groups = like.num_groups if isinstance(like, nn.GroupNorm) else None
        self.eps = like.eps

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, ...)."""
        self.bench.calls.append(self.weight.first)
        if self.groups is None:
            normal = functional.layer_norm(x, self.weight.shape, eps=self.eps)
        else:
            normal = functional.group_norm(x, self.groups, eps=self.eps)
        return _AffineStep.apply(normal, self.bench.anchor, self)  # type: ignore[no-untyped-call, no-any-return]

    def spread(self, parameter: StackedParameter, stacked: Tensor) -> Tensor:
        """Return the weights in a shape that goes with (active, batch, ...)."""
        weight = self.bench.weight(parameter)
        if self.groups is None:
            return weight.reshape(len(weight), *[1] * (stacked.dim() - weight.dim()), *weight.shape[1:])
        return weight.reshape(len(weight), 1, -1, *[1] * (stacked.dim() - 3))

    def summed(self, stacked: Tensor) -> list[int]:
        """Return the dimensions over which a gradient by the weights is a sum."""
        if self.groups is None:
            return list(range(1, stacked.dim() - len(self.weight.shape)))
        return [1, *range(3, stacked.dim())]


class _EmbeddingStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, anchor: Tensor, layer: "StackedEmbedding") -> Tensor:
        bench = layer.bench
        stacked = tokens.reshape(bench.active, -1)
        rows = torch.arange(bench.active).unsqueeze(1)
        ctx.layer, ctx.at = layer, (rows, stacked)
        return bench.weight(layer.weight)[rows, stacked].reshape(*tokens.shape, -1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, None, None]:
        layer, (rows, tokens) = ctx.layer, ctx.at
        bench: Bench = layer.bench
        gradient = torch.zeros_like(bench.weight(layer.weight))
        gradient.index_put_((rows, tokens), dy.reshape(bench.active, -1, dy.shape[-1]), accumulate=True)
        bench.descend(layer.weight, gradient)
        return None, None, None


class StackedEmbedding(nn.Module):
    """An embedding with each participant's own table."""

    def __init__(self, bench: Bench, weight: StackedParameter) -> None:
        super().__init__()
        self.bench, self.weight = bench, weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the outputs for (active x batch, ...)."""
        self.bench.calls.append(self.weight.first)
        return _EmbeddingStep.apply(tokens, self.bench.anchor, self)  # type: ignore[no-untyped-call, no-any-return]
