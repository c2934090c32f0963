"""Steps of a plain chain of linear layers for several participants at once, forwards and backwards by hand.

Such a chain is small, and there are many steps of it: autograd would take as long to find its way back as the products
themselves. The products are those of `stacked_layers`, in the same order.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from auxo.training.kernels.participants_sgd import Bench, StackedParameter


@dataclass(frozen=True)
class Link:
    """A linear layer of the chain."""

    weight: StackedParameter
    bias: StackedParameter | None
    is_rectified: bool  # a ReLU follows


@dataclass(frozen=True)
class LinearChain:
    """Linear layers, one after another, most of them with a ReLU behind them."""

    links: tuple[Link, ...]

    def lay_out(self, weights: dict[int, Tensor]) -> None:
        """Let the participants' weights lie as they are used: they do."""

    def is_worth_it(self, features: tuple[int, ...]) -> bool:
        """Return whether it beats layer after layer for samples of this shape: always."""
        return True

    def step(self, bench: Bench, x: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Take a step with ``x``, (active x batch, ...), which a first layer that knows its inputs does not read."""
        self.step_back(bench, x, labels, shares, wants_errors=False)

    def step_back(self, bench: Bench, x: Tensor, labels: Tensor, shares: Tensor, wants_errors: bool) -> Tensor:
        """Take a step, and return the errors of the inputs, (active, batch, inputs), where they are wanted."""
        reached = [x.reshape(bench.active, -1, x[0].numel())]
        for link in self.links:
            reached.append(self._forward(bench, link, reached[-1]))
        errors = output_errors(reached[-1].flatten(0, 1), labels, shares).view_as(reached[-1])
        for number in range(len(self.links) - 1, -1, -1):
            link = self.links[number]
            if link.is_rectified:
                errors = torch.ops.aten.threshold_backward(errors, reached[number + 1], 0)
            # Before the weights move.
            before = torch.bmm(errors, bench.weight(link.weight)) if number or wants_errors else errors
            if bench.delayed is not None and bench.delayed.holds(link.weight.first):
                bench.delayed.backward(link.weight.first, errors)
            else:
                bench.descend_by_product(link.weight, errors.transpose(1, 2), reached[number])
            if link.bias is not None:
                bench.descend(link.bias, errors.sum(dim=1))
            errors = before
        return errors

    def _forward(self, bench: Bench, link: Link, x: Tensor) -> Tensor:
        bias = None if link.bias is None else bench.weight(link.bias).unsqueeze(1)
        if bench.delayed is not None and bench.delayed.holds(link.weight.first):
            y = bench.delayed.forward(link.weight.first, bench.active)
            y = y if bias is None else y.add_(bias)
        elif bias is None:
            y = torch.bmm(x, bench.weight(link.weight).transpose(1, 2))
        else:
            y = torch.baddbmm(bias, x, bench.weight(link.weight).transpose(1, 2))
        return y.relu_() if link.is_rectified else y


def output_errors(logits: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
    """Return the gradient of the participants' mean cross entropies by the logits, (active x batch, classes)."""
    shares = shares.unsqueeze(1)
    return torch.softmax(logits, dim=1).mul_(shares).scatter_add_(1, labels.unsqueeze(1), -shares)
