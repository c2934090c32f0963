"""Steps of a plain chain of linear layers for several participants at once, forward and backward by hand.

Such a chain is small, and there are many steps of it: autograd would take as long to find its way back as the products
themselves. The products are those of `stacked_layers`, in the same order.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from auxo.training.kernels.participants_sgd import ParticipantsSgd
from auxo.training.kernels.stacked_parameter import StackedParameter


@dataclass(frozen=True)
class ChainLinear:
    """A linear layer of the chain, and the ReLU behind it."""

    weight: StackedParameter
    bias: StackedParameter | None
    has_relu: bool


@dataclass(frozen=True)
class LinearChain:
    """Linear layers, one after another, most of them with a ReLU behind them."""

    layers: tuple[ChainLinear, ...]

    def set_memory_format(self, weights: dict[int, Tensor]) -> None:
        """Lay the participants' weights out as the steps read them: they are."""

    def is_faster_for(self, features: tuple[int, ...]) -> bool:
        """Return whether it beats layer after layer for samples of this shape: always."""
        return True

    def step(self, sgd: ParticipantsSgd, x: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Take a step with ``x``, (active x batch, ...), which a deferred first layer does not read."""
        self.step_and_dx(sgd, x, labels, shares, needs_dx=False)

    def step_and_dx(self, sgd: ParticipantsSgd, x: Tensor, labels: Tensor, shares: Tensor, needs_dx: bool) -> Tensor:
        """Take a step, and return the gradient by the inputs, (active, batch, in features), where it is needed."""
        activations = [x.reshape(sgd.active, -1, x[0].numel())]
        for layer in self.layers:
            activations.append(self._forward(sgd, layer, activations[-1]))
        dy = logit_gradient(activations[-1].flatten(0, 1), labels, shares).view_as(activations[-1])
        for number in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[number]
            if layer.has_relu:
                dy = torch.ops.aten.threshold_backward(dy, activations[number + 1], 0)
            # Before the weights move.
            dx = torch.bmm(dy, sgd.weight(layer.weight)) if number or needs_dx else dy
            sgd.descend_linear(layer.weight, layer.bias, activations[number], dy)
            dy = dx
        return dy

    def logits(self, sgd: ParticipantsSgd, x: Tensor) -> Tensor:
        """Return the logits for ``x``, (active, samples, in features), with weights that stay as they are."""
        for layer in self.layers:
            x = self._forward(sgd, layer, x)
        return x

    def logits_behind_first(self, start: Tensor) -> Callable[[Tensor], Tensor]:
        """Return what makes logits of the first layer's outputs without its bias, (samples, ...), at flat weights."""
        first, *others = self.layers
        first_bias = 0.0 if first.bias is None else first.bias.of(start)
        behind = [
            (layer.weight.of(start).t(), None if layer.bias is None else layer.bias.of(start), layer.has_relu)
            for layer in others
        ]

        def logits(outputs: Tensor) -> Tensor:
            y = torch.add(outputs, first_bias)
            y = y.relu_() if first.has_relu else y
            for weight, bias, has_relu in behind:
                y = torch.mm(y, weight) if bias is None else torch.addmm(bias, y, weight)
                y = y.relu_() if has_relu else y
            return y

        return logits

    def _forward(self, sgd: ParticipantsSgd, layer: ChainLinear, x: Tensor) -> Tensor:
        y = sgd.linear(layer.weight, layer.bias, x)
        return y.relu_() if layer.has_relu else y


def logit_gradient(logits: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
    """Return the gradient of the participants' mean cross entropies by the logits, (active x batch, classes)."""
    shares = shares.unsqueeze(1)
    return torch.softmax(logits, dim=1).mul_(shares).scatter_add_(1, labels.unsqueeze(1), -shares)
