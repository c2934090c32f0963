"""Steps of a plain chain of linear layers for several participants at once, forwards and backwards by hand.

Such a chain is small, and there are many steps of it: autograd would take as long to find its way back as the products
themselves. The products are those of `stacked_layers`, in the same order.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, fx, nn

from auxo.learning.stacked_bench import Bench, StackedParameter
from auxo.learning.stacked_layers import StackedLinear


@dataclass(frozen=True)
class _Link:
    weight: StackedParameter
    bias: StackedParameter | None
    is_rectified: bool  # a ReLU follows


@dataclass(frozen=True)
class LinearChain:
    """Linear layers, one after another, most of them with a ReLU behind them."""

    links: tuple[_Link, ...]

    def step(self, bench: Bench, x: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Take a step with ``x``, (active x batch, ...), which a first layer that knows its inputs does not read."""
        reached = [x.reshape(bench.active, -1, x[0].numel())]
        for link in self.links:
            reached.append(self._forward(bench, link, reached[-1]))
        errors = output_errors(reached[-1].flatten(0, 1), labels, shares).view_as(reached[-1])
        for number in range(len(self.links) - 1, -1, -1):
            link = self.links[number]
            if link.is_rectified:
                errors = torch.ops.aten.threshold_backward(errors, reached[number + 1], 0)
            # Before the weights move.
            before = torch.bmm(errors, bench.weight(link.weight)) if number else errors
            if bench.delayed is not None and bench.delayed.holds(link.weight.first):
                bench.delayed.backward(link.weight.first, errors)
            else:
                bench.descend_by_product(link.weight, errors.transpose(1, 2), reached[number])
            if link.bias is not None:
                bench.descend(link.bias, errors.sum(dim=1))
            errors = before

    def _forward(self, bench: Bench, link: _Link, x: Tensor) -> Tensor:
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


def find_chain(module: nn.Module, stacked: nn.Module) -> LinearChain | None:
    """Return the chain that a module is; None if it does anything besides passing its input from layer to layer.

    Args:
        module: what was stacked; its forward pass is traced.
        stacked: the same with stacked layers, under the same names.
    """
    names = _names_in_order(module)
    if names is None or len(set(names)) < len(names):  # a layer used twice would move before its other use looks back
        return None
    links: list[_Link] = []
    for layer in (stacked.get_submodule(name) for name in names):
        if isinstance(layer, StackedLinear):
            links.append(_Link(layer.weight, layer.bias, is_rectified=False))
        elif type(layer) is nn.ReLU and links and not links[-1].is_rectified:
            links[-1] = replace(links[-1], is_rectified=True)
        elif type(layer) not in (nn.Flatten, nn.Identity) or links:
            return None
    return LinearChain(tuple(links)) if links and not links[-1].is_rectified else None


def _names_in_order(module: nn.Module) -> list[str] | None:
    """Return the layers that the input goes through one after another; None if that is not all that happens."""
    try:
        # What is traced is thrown away, and to say what cannot be traced is not worth a word.
        nodes = list(fx.symbolic_trace(module).graph.nodes)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None
    first, *layers, last = nodes
    if first.op != "placeholder" or last.op != "output" or not layers:
        return None
    for before, node in zip([first, *layers], [*layers, last], strict=True):
        if node.args != (before,) or node.kwargs or node.op not in ("call_module", "output"):
            return None
    return [str(node.target) for node in layers]
