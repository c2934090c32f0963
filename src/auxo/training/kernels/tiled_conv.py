"""Convolution of one participant's images by few products; see `winograd`.

Images lie pixel by pixel: (height, width, samples, channels). Then every change from pixels to points and back is a
product of matrices as the numbers lie, and so are the sums over channels, one at each point; nothing is moved in
between.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from auxo.training.kernels.winograd import Axis, axis


@dataclass(frozen=True)
class Seen:
    """What the way back needs of the way there; at each point, (points of both axes, ...)."""

    inputs: Tensor  # (..., tiles x samples, channels)
    filters: Tensor  # (..., channels, outputs)


@dataclass(frozen=True)
class TiledConv:
    """Convolves images of one size with filters that move on by one pixel at a time.

    Args:
        channels: of the inputs and of the outputs.
        down: along the height.
        across: along the width.
    """

    channels: tuple[int, int]
    down: Axis
    across: Axis
    _values: Tensor = field(init=False, repr=False, compare=False)  # (points of both, taps of both)

    def __post_init__(self) -> None:
        values = torch.einsum("pk,ql->pqlk", self.across.values.double(), self.down.values.double())
        points = self.across.points * self.down.points
        object.__setattr__(self, "_values", values.reshape(points, -1).float())

    @staticmethod
    def of(size: tuple[int, int], zeros: tuple[int, int], filters: tuple[int, ...]) -> "TiledConv":
        """Return the convolution of images of a size with ``filters``, (outputs, inputs, height, width)."""
        outputs, inputs, high, wide = filters
        return TiledConv((inputs, outputs), axis(size[0], zeros[0], high), axis(size[1], zeros[1], wide))

    def products(self) -> int:
        """Return how many products of two numbers an image takes."""
        inputs, outputs = self.channels
        down, across = self.down.points * self.down.tiles, self.across.points * self.across.tiles
        spread = self.down.spread.shape[1] * across * (self.across.spread.shape[1] + down)
        gather = self.down.outputs * across * (self.across.outputs + down)
        return inputs * spread + down * across * inputs * outputs + outputs * gather

    def forward(self, x: Tensor, filters: Tensor) -> tuple[Tensor, Seen]:
        """Return the outputs, (height, width, samples, outputs).

        Args:
            x: (height, width, samples, inputs).
            filters: (height x width, inputs x outputs).
        """
        samples = x.shape[2]
        inputs = self._to_points(x.flatten(2), self.across.spread, self.down.spread)
        seen = Seen(
            inputs.view(-1, self._rows(samples), x.shape[3]), torch.mm(self._values, filters).view(-1, *self.channels)
        )
        at_points = torch.bmm(seen.inputs, seen.filters)
        y = self._to_pixels(at_points, self.across.gather, self.down.gather)
        return y.view(*y.shape[:2], samples, -1), seen

    def backward(self, dy: Tensor, seen: Seen, wants_dx: bool) -> tuple[Tensor | None, Tensor]:
        """Return the gradients by the inputs, if wanted, and by the filters, in the shapes that `forward` takes."""
        samples, outputs = dy.shape[2:]
        errors = self._to_points(dy.flatten(2), self.across.gather.t(), self.down.gather.t())
        errors = errors.view(-1, self._rows(samples), outputs)
        by_filters = torch.mm(self._values.t(), torch.bmm(seen.inputs.transpose(1, 2), errors).flatten(1))
        if not wants_dx:
            return None, by_filters
        at_points = torch.bmm(errors, seen.filters.transpose(1, 2))
        dx = self._to_pixels(at_points, self.across.spread.t(), self.down.spread.t())
        return dx.view(*dx.shape[:2], samples, -1), by_filters

    def _rows(self, samples: int) -> int:
        return self.down.tiles * self.across.tiles * samples

    def _to_points(self, image: Tensor, across: Tensor, down: Tensor) -> Tensor:
        """Return (points across, points down x tiles down, tiles across x numbers) of (height, width, numbers)."""
        points = self.across.points
        rows = torch.bmm(across.expand(len(image), -1, -1), image)
        by_point = rows.view(len(image), points, -1).transpose(0, 1)
        return torch.bmm(down.expand(points, -1, -1), by_point)

    def _to_pixels(self, at_points: Tensor, across: Tensor, down: Tensor) -> Tensor:
        """Return (height, width, numbers) of what lies at the points, the way back of `_to_points`."""
        points, height = self.across.points, len(down)
        at_points = at_points.view(points, self.down.points * self.down.tiles, -1)
        rows = at_points.new_empty(height, points, at_points.shape[2])
        torch.bmm(down.expand(points, -1, -1), at_points, out=rows.transpose(0, 1))
        return torch.bmm(across.expand(height, -1, -1), rows.view(height, points * self.across.tiles, -1))
