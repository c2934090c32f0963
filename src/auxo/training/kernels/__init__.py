"""Hand-written steps for many participants at once; README.md says what they bring, and when they are used.

These names are the entrance: nothing outside imports a module in here. Torch is imported only when somebody asks about
a torch module, so that numpy alone is enough for softmax regression.
"""

from typing import TYPE_CHECKING

from auxo.training.kernels.deferred_softmax import DeferredSoftmax
from auxo.training.kernels.stacking import Stacking, Unstackable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from auxo.training.kernels.stacked_training import StackedTraining

__all__ = ["DeferredSoftmax", "Stacking", "Unstackable", "build_stacked", "find_stackings"]


def find_stackings(module: "nn.Module", x: "Tensor") -> tuple[Stacking, ...] | Unstackable:
    """Return the stackings that fit a module, the fastest first, the plain one last; ``x`` is a batch of inputs."""
    from auxo.training.kernels import choose_stacking  # noqa: PLC0415

    return choose_stacking.find_stackings(module, x)


def build_stacked(module: "nn.Module", stacking: Stacking) -> "StackedTraining":
    """Return what trains a module's participants together in this stacking.

    Raises:
        ValueError: the module is not one that the stacking fits.
    """
    from auxo.training.kernels import choose_stacking  # noqa: PLC0415

    return choose_stacking.build_stacked(module, stacking)
