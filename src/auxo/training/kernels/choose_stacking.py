"""Which stackings a module allows, and what trains it in one of them."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from auxo.training.kernels.match_sequential import match_sequential
from auxo.training.kernels.stacked_module import StackedModule, stack_module
from auxo.training.kernels.stacked_training import StackedTraining
from auxo.training.kernels.stacking import Stacking, Unstackable

_FEWEST_INPUTS = 48  # of a layer whose weights are worth deferring; our choice


def find_stackings(module: nn.Module, x: Tensor) -> tuple[Stacking, ...] | Unstackable:
    """Return the stackings that fit a module, the fastest first, the plain one last; ``x`` is a batch of inputs."""
    stacked = stack_module(module)
    if isinstance(stacked, Unstackable):
        return stacked
    chain = match_sequential(module, stacked.module)
    is_sequential = chain is not None and chain.is_faster_for(tuple(x.shape[1:]))
    fastest = Stacking(_on_raw_inputs(module, stacked, x), is_sequential)
    return tuple(dict.fromkeys([fastest, replace(fastest, is_sequential=False), Stacking()]))


def build_stacked(module: nn.Module, stacking: Stacking) -> StackedTraining:
    """Return what trains the module in this stacking; a ValueError says that it does not fit the module."""
    stacked = stack_module(module)
    if isinstance(stacked, Unstackable):
        raise ValueError(f"module: cannot be stacked: {stacked.reason}")
    if not set(stacking.deferred) <= set(stacked.linear):
        raise ValueError(f"module: expected linear layers {', '.join(stacking.deferred)}, got {list(stacked.linear)}")
    chain = match_sequential(module, stacked.module) if stacking.is_sequential else None
    if stacking.is_sequential and chain is None:
        raise ValueError("module: expected a plain chain of layers, got one that does more")
    return StackedTraining(stacked, tuple(stacked.linear[name] for name in stacking.deferred), chain)


def _on_raw_inputs(module: nn.Module, stacked: StackedModule, x: Tensor) -> tuple[str, ...]:
    """Return the names of the linear layers whose input is the module's own, at most reshaped."""
    numel = x.shape[1:].numel()
    found: list[str] = []
    hooks = []

    def watch(name: str) -> None:
        def look(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
            if not given or not isinstance(given[0], Tensor):
                return
            if given[0].data_ptr() == x.data_ptr() and given[0].shape[1:].numel() == numel:
                found.append(name)

        hooks.append(module.get_submodule(name).register_forward_pre_hook(look))

    for name, weight in stacked.linear.items():
        if weight.shape[1] == numel >= _FEWEST_INPUTS:
            watch(name)
    try:
        with torch.no_grad():
            module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(found)
