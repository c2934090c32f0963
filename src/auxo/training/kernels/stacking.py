"""How a module's layers are stacked, as a value: every process builds the same from it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a value needs no torch
    from torch import nn


@dataclass(frozen=True)
class Stacking:
    """Which of the faster steps a module with stacked layers takes; with none of them layers train one by one."""

    deferred: tuple[str, ...] = ()  # linear layers, by name, whose weights move once where others move at every step
    is_sequential: bool = False  # steps are taken without autograd: the module is an `nn.Sequential` in effect

    def n_deferred(self, module: "nn.Module") -> int:
        """Return how many of the module's weights are not touched at every step."""
        return sum(module.get_submodule(name).get_parameter("weight").numel() for name in self.deferred)


@dataclass(frozen=True)
class Unstackable:
    """A module that has to be trained in another way."""

    reason: str
