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

from auxo.training.kernels.participants_sgd import ParticipantsSgd, by_participant
from auxo.training.kernels.stacked_parameter import StackedParameter


class _LinearStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedLinear") -> Tensor:
        ctx.layer, ctx.x, ctx.x_shape = layer, x.reshape(layer.sgd.active, -1, x.shape[-1]), x.shape
        y = layer.sgd.linear(layer.weight, layer.bias, ctx.x)
        return y.reshape(*x.shape[:-1], y.shape[-1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, None, None]:
        layer, x = ctx.layer, ctx.x
        sgd: ParticipantsSgd = layer.sgd
        dy = dy.reshape(sgd.active, -1, dy.shape[-1])
        dx = None
        if ctx.needs_input_grad[0]:
            # Before the weights move.
            dx = torch.bmm(dy, sgd.weight(layer.weight)).reshape(ctx.x_shape)
        sgd.descend_linear(layer.weight, layer.bias, x, dy)
        return dx, None, None


class StackedLinear(nn.Module):
    """A linear layer with each participant's own weights."""

    def __init__(self, sgd: ParticipantsSgd, weight: StackedParameter, bias: StackedParameter | None) -> None:
        super().__init__()
        self.sgd, self.weight, self.bias = sgd, weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, ...)."""
        self.sgd.calls.append(self.weight.offset)
        return _LinearStep.apply(x, self.sgd.anchor, self)  # type: ignore[no-untyped-call, no-any-return]


class _AffineStep(torch.autograd.Function):
    """The affine part of a norm, on what has been normalised."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: "StackedAffine") -> Tensor:
        sgd = layer.sgd
        stacked = by_participant(x, sgd)
        weight, bias = layer.broadcast(layer.weight, stacked), layer.broadcast(layer.bias, stacked)
        ctx.layer, ctx.x = layer, stacked
        return torch.addcmul(bias, stacked, weight).flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        layer, x = ctx.layer, ctx.x
        sgd: ParticipantsSgd = layer.sgd
        dy = by_participant(dy, sgd)
        dx = (dy * layer.broadcast(layer.weight, dy)).flatten(0, 1)
        dims = layer.reduced_dims(dy)
        sgd.descend(layer.weight, (dy * x).sum(dim=dims))
        sgd.descend(layer.bias, dy.sum(dim=dims))
        return dx, None, None


class StackedAffine(nn.Module):
    """A group norm or a layer norm: the normalisation of a sample, then the participant's own weight and bias."""

    def __init__(
        self, sgd: ParticipantsSgd, like: nn.GroupNorm | nn.LayerNorm, weight: StackedParameter, bias: StackedParameter
    ) -> None:
        super().__init__()
        self.sgd, self.weight, self.bias = sgd, weight, bias
        self.groups = like.num_groups if isinstance(like, nn.GroupNorm) else None
        self.eps = like.eps

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for (active x batch, ...)."""
        self.sgd.calls.append(self.weight.offset)
        if self.groups is None:
            normal = functional.layer_norm(x, self.weight.shape, eps=self.eps)
        else:
            normal = functional.group_norm(x, self.groups, eps=self.eps)
        return _AffineStep.apply(normal, self.sgd.anchor, self)  # type: ignore[no-untyped-call, no-any-return]

    def broadcast(self, parameter: StackedParameter, stacked: Tensor) -> Tensor:
        """Return the weights in a shape that broadcasts against (active, batch, ...)."""
        weight = self.sgd.weight(parameter)
        if self.groups is None:
            return weight.reshape(len(weight), *[1] * (stacked.dim() - weight.dim()), *weight.shape[1:])
        return weight.reshape(len(weight), 1, -1, *[1] * (stacked.dim() - 3))

    def reduced_dims(self, stacked: Tensor) -> list[int]:
        """Return the dimensions over which a gradient by the weights is a sum."""
        if self.groups is None:
            return list(range(1, stacked.dim() - len(self.weight.shape)))
        return [1, *range(3, stacked.dim())]


class _EmbeddingStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, anchor: Tensor, layer: "StackedEmbedding") -> Tensor:
        sgd = layer.sgd
        stacked = tokens.reshape(sgd.active, -1)
        rows = torch.arange(sgd.active).unsqueeze(1)
        ctx.layer, ctx.at = layer, (rows, stacked)
        return sgd.weight(layer.weight)[rows, stacked].reshape(*tokens.shape, -1)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, None, None]:
        layer, (rows, tokens) = ctx.layer, ctx.at
        sgd: ParticipantsSgd = layer.sgd
        gradient = torch.zeros_like(sgd.weight(layer.weight))
        gradient.index_put_((rows, tokens), dy.reshape(sgd.active, -1, dy.shape[-1]), accumulate=True)
        sgd.descend(layer.weight, gradient)
        return None, None, None


class StackedEmbedding(nn.Module):
    """An embedding with each participant's own table."""

    def __init__(self, sgd: ParticipantsSgd, weight: StackedParameter) -> None:
        super().__init__()
        self.sgd, self.weight = sgd, weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the outputs for (active x batch, ...)."""
        self.sgd.calls.append(self.weight.offset)
        return _EmbeddingStep.apply(tokens, self.sgd.anchor, self)  # type: ignore[no-untyped-call, no-any-return]
