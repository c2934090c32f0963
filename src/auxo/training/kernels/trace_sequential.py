"""The layers of a module that is an `nn.Sequential` in effect: its input goes from one to the next, and that is all.

What a forward pass does by functions (``torch.relu``, ``x.flatten(1)`` ...) is returned as the layer that does so.
"""

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from auxo.training.kernels.stacked_pooling import is_max_pool_2x2

_RELU = (functional.relu, torch.relu, "relu", torch.relu_, "relu_")


def trace_sequential(module: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """Return the layers with their names in the module, "" for those that functions stand for; None if it does more.

    A layer used twice comes twice.
    """
    try:
        # A copy, for a forward pass may keep what it is given; in training, for it may do something else then.
        nodes = list(fx.symbolic_trace(copy.deepcopy(module).train()).graph.nodes)
    except Exception:  # noqa: BLE001 - whatever a module's own code says of a trace, it is no plain chain
        return None
    if nodes[0].op != "placeholder" or nodes[-1].op != "output":
        return None
    found: list[tuple[str, nn.Module]] = []
    before, *_ = nodes
    for node in nodes[1:]:
        if _asks_for_batch(node):
            continue  # whoever uses it has to be known
        if not node.args or node.args[0] is not before:
            return None
        if node.op == "output":
            return found
        layer = _layer(module, node)
        if layer is None:
            return None
        found.append((str(node.target) if node.op == "call_module" else "", layer))
        before = node
    return None


def _layer(module: nn.Module, node: fx.Node) -> nn.Module | None:
    rest, named = node.args[1:], dict(node.kwargs)
    if node.op == "call_module":
        return None if rest or named else module.get_submodule(str(node.target))
    known: list[tuple[tuple[Any, ...], Callable[..., nn.Module | None]]] = [
        (_RELU, _relu),
        ((functional.max_pool2d, torch.max_pool2d), _pool),
        ((torch.flatten, "flatten"), _flatten),
        ((torch.unsqueeze, "unsqueeze"), _unsqueeze),
        (("view", "reshape", torch.reshape), _reshape),
    ]
    for targets, make in known:
        if node.target in targets:
            try:
                return make(*rest, **named)
            except (TypeError, ValueError):  # called as the layer cannot be
                return None
    return None


def _relu(inplace: bool = False) -> nn.Module:
    return nn.ReLU()


def _pool(*rest: Any, **named: Any) -> nn.Module | None:
    layer = nn.MaxPool2d(*rest, **named)
    return layer if is_max_pool_2x2(layer) else None


def _flatten(start_dim: int = 0, end_dim: int = -1) -> nn.Module:
    return nn.Flatten(start_dim, end_dim)


def _unsqueeze(dim: int) -> nn.Module | None:
    """Return nothing to do for the one channel that images without any get: whoever takes images knows these too."""
    return nn.Identity() if dim == 1 else None


def _reshape(*sizes: Any) -> nn.Module | None:
    """Return what gives samples another shape, whose batch stays what it was."""
    shape = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    if len(shape) < 2 or not (shape[0] == -1 or isinstance(shape[0], fx.Node)):
        return None
    own = shape[1:]
    if not all(isinstance(size, int) for size in own):
        return None
    return nn.Flatten() if len(own) == 1 else nn.Sequential(nn.Flatten(), nn.Unflatten(1, own))


def _asks_for_batch(node: fx.Node) -> bool:
    """Return whether a node is ``x.size(0)`` or a part of ``x.shape[0]``."""
    if node.op == "call_method" and node.target == "size":
        return node.args[1:] == (0,)
    if node.op != "call_function" or not node.args:
        return False
    if node.target is getattr:
        return node.args[1] == "shape"
    is_shape = isinstance(node.args[0], fx.Node) and node.args[0].target is getattr
    return is_shape and node.target is operator.getitem and node.args[1:] == (0,)
