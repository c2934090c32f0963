"""Convolution of one participant's images in tiles, by few multiplications; see `winograd`.

Images are HWNC, (height, width, samples, channels): channels_last, with the samples inside. Then every transform is a
product of matrices as the memory is laid out, and so are the sums over channels, one at each point; nothing is
permuted in between.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from auxo.training.kernels.convolution.winograd import AxisTransforms, axis


@dataclass(frozen=True)
class Transformed:
    """What `forward` saves for `backward`: inputs and weight at each point, (points of both axes, ...)."""

    inputs: Tensor  # (..., tiles x samples, in channels)
    weight: Tensor  # (..., in channels, out channels)


@dataclass(frozen=True)
class TiledConv:
    """A convolution of stride 1 for images of one size.

    Args:
        channels: in and out.
        vertical: its transforms along the height.
        horizontal: those along the width.
    """

    channels: tuple[int, int]
    vertical: AxisTransforms
    horizontal: AxisTransforms
    _weight_transform: Tensor = field(init=False, repr=False, compare=False)  # (points of both, kernel of both)

    def __post_init__(self) -> None:
        both = torch.einsum(
            "pk,ql->pqlk", self.horizontal.filter_transform.double(), self.vertical.filter_transform.double()
        )
        points = self.horizontal.points * self.vertical.points
        object.__setattr__(self, "_weight_transform", both.reshape(points, -1).float())

    @staticmethod
    def of(size: tuple[int, int], padding: tuple[int, int], weight_shape: tuple[int, ...]) -> "TiledConv":
        """Return the convolution of images of a size with a weight of the shape that `nn.Conv2d` has."""
        out_channels, in_channels, kernel_height, kernel_width = weight_shape
        return TiledConv(
            (in_channels, out_channels),
            axis(size[0], padding[0], kernel_height),
            axis(size[1], padding[1], kernel_width),
        )

    def multiplications(self) -> int:
        """Return how many multiplications an image takes."""
        in_channels, out_channels = self.channels
        down = self.vertical.points * self.vertical.tiles
        across = self.horizontal.points * self.horizontal.tiles
        of_inputs = self.vertical.input_transform.shape[1] * across
        of_inputs *= self.horizontal.input_transform.shape[1] + down
        of_outputs = self.vertical.output_size * across * (self.horizontal.output_size + down)
        return in_channels * of_inputs + down * across * in_channels * out_channels + out_channels * of_outputs

    def forward(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Transformed]:
        """Return the outputs, (height, width, samples, out channels), and what `backward` needs.

        Args:
            x: (height, width, samples, in channels).
            weight: (kernel height x kernel width, in channels x out channels).
        """
        samples = x.shape[2]
        inputs = self._to_points(x.flatten(2), self.horizontal.input_transform, self.vertical.input_transform)
        saved = Transformed(
            inputs.view(-1, self._rows(samples), x.shape[3]),
            torch.mm(self._weight_transform, weight).view(-1, *self.channels),
        )
        at_points = torch.bmm(saved.inputs, saved.weight)
        y = self._to_pixels(at_points, self.horizontal.output_transform, self.vertical.output_transform)
        return y.view(*y.shape[:2], samples, -1), saved

    def backward(self, dy: Tensor, saved: Transformed, needs_dx: bool) -> tuple[Tensor | None, Tensor]:
        """Return the gradients by the inputs, if needed, and by the weight, in the shapes that `forward` takes."""
        samples, out_channels = dy.shape[2:]
        errors = self._to_points(
            dy.flatten(2), self.horizontal.output_transform.t(), self.vertical.output_transform.t()
        )
        errors = errors.view(-1, self._rows(samples), out_channels)
        dw = torch.mm(self._weight_transform.t(), torch.bmm(saved.inputs.transpose(1, 2), errors).flatten(1))
        if not needs_dx:
            return None, dw
        at_points = torch.bmm(errors, saved.weight.transpose(1, 2))
        dx = self._to_pixels(at_points, self.horizontal.input_transform.t(), self.vertical.input_transform.t())
        return dx.view(*dx.shape[:2], samples, -1), dw

    def _rows(self, samples: int) -> int:
        return self.vertical.tiles * self.horizontal.tiles * samples

    def _to_points(self, image: Tensor, horizontal: Tensor, vertical: Tensor) -> Tensor:
        """Return (points across, points down x tiles down, tiles across x numbers) of (height, width, numbers)."""
        points = self.horizontal.points
        rows = torch.bmm(horizontal.expand(len(image), -1, -1), image)
        by_point = rows.view(len(image), points, -1).transpose(0, 1)
        return torch.bmm(vertical.expand(points, -1, -1), by_point)

    def _to_pixels(self, at_points: Tensor, horizontal: Tensor, vertical: Tensor) -> Tensor:
        """Return (height, width, numbers) of what is known at the points, the way back of `_to_points`."""
        points, height = self.horizontal.points, len(vertical)
        at_points = at_points.view(points, self.vertical.points * self.vertical.tiles, -1)
        rows = at_points.new_empty(height, points, at_points.shape[2])
        torch.bmm(vertical.expand(points, -1, -1), at_points, out=rows.transpose(0, 1))
        return torch.bmm(horizontal.expand(height, -1, -1), rows.view(height, points * self.horizontal.tiles, -1))
