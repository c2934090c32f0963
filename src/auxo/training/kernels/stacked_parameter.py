"""Where a module's parameters lie in the flat weights."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StackedParameter:
    """A parameter by where it begins in the flat weights, and its shape; of it each participant has its own."""

    offset: int
    shape: tuple[int, ...]

    @property
    def columns(self) -> slice:
        """Return its columns in the flat weights."""
        return slice(self.offset, self.offset + torch.Size(self.shape).numel())

    def of(self, flat: Tensor) -> Tensor:
        """Return it as a view of one participant's flat weights."""
        return flat[self.columns].view(self.shape)
