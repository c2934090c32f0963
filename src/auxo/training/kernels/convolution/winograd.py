"""Winograd's convolution along one axis by few multiplications (Lavin and Gray, CVPR 2016; Toom and Cook).

A kernel of size r over a tile of m outputs takes m r multiplications. Seen as polynomials of which values at
n = m + r - 1 points are known, it takes n, one at each point:

    outputs = output_transform (filter_transform kernel * input_transform inputs)

where ``input_transform`` takes the n inputs of a tile to the points, ``filter_transform`` the kernel, and
``output_transform`` goes back (A, G and B in the literature). All three are fixed matrices, worked out here in
fractions. In two dimensions the savings multiply: 64 multiplications instead of 400 for a kernel of 5 x 5 on a tile of
4 x 4 outputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

# The values at these points and at infinity lose next to nothing in float32: 2e-6 of the outputs' length in two
# dimensions, where the usual sums lose 3e-7. One point more loses ten times as much; measured.
_POINTS = tuple(Fraction(*point) for point in ((0, 1), (1, 1), (-1, 1), (2, 1), (-2, 1), (1, 2), (-1, 2)))
MAX_KERNEL_SIZE = len(_POINTS)  # tiles are then of two outputs

_Matrix = list[list[Fraction]]


@dataclass(frozen=True)
class AxisTransforms:
    """The transforms of a convolution of stride 1 along one axis of an image, for all tiles, padding included."""

    points: int
    tiles: int
    input_transform: Tensor  # (points x tiles, size)
    filter_transform: Tensor  # (points, kernel size)
    output_transform: Tensor  # (output size, points x tiles)

    @property
    def output_size(self) -> int:
        """Return how many outputs there are along the axis."""
        return len(self.output_transform)


@cache
def axis(size: int, padding: int, kernel_size: int) -> AxisTransforms:
    """Return the transforms for ``size`` inputs, zero-padded on either side, in the tiles with fewest multiplications.

    Raises:
        ValueError: the kernel is larger than the padded input, or than `MAX_KERNEL_SIZE`.
    """
    output_size = size + 2 * padding - kernel_size + 1
    if output_size < 1 or not 1 <= kernel_size <= MAX_KERNEL_SIZE:
        raise ValueError(
            f"kernel_size: expected 1 to {MAX_KERNEL_SIZE}, and at most the padded input's {size + 2 * padding}, "
            f"got {kernel_size}"
        )
    # Of as many multiplications, those at fewer points are the more exact.
    tile = min(
        range(1, MAX_KERNEL_SIZE + 3 - kernel_size),
        key=lambda tile: ((tile + kernel_size - 1) * math.ceil(output_size / tile), tile),
    )
    tiles, points = math.ceil(output_size / tile), tile + kernel_size - 1
    of_outputs, of_kernel, of_inputs = _transforms(tile, kernel_size)
    inputs = torch.zeros(points, tiles, size + 2 * padding + points, dtype=torch.float64)
    outputs = torch.zeros(tiles * tile, points, tiles, dtype=torch.float64)
    for number in range(tiles):
        first = number * tile
        inputs[:, number, first : first + points] = _as_tensor(of_inputs)
        outputs[first : first + tile, :, number] = _as_tensor(of_outputs).t()
    return AxisTransforms(
        points,
        tiles,
        inputs[:, :, padding : padding + size].flatten(0, 1).float(),
        _as_tensor(of_kernel).float(),
        outputs[:output_size].flatten(1).float(),
    )


def _transforms(tile: int, kernel_size: int) -> tuple[_Matrix, _Matrix, _Matrix]:
    """Return one tile's transforms of outputs (transposed), kernel and inputs, with a row for each point.

    The last point is infinity, where a polynomial's value is its highest coefficient.
    """
    points = _POINTS[: tile + kernel_size - 2]
    infinity = len(points)
    of_outputs = [[point**power for power in range(tile)] for point in points]
    of_outputs.append([Fraction(power == tile - 1) for power in range(tile)])
    of_kernel, of_inputs = [], []
    for number, point in enumerate(points):
        others = [other for place, other in enumerate(points) if place != number]
        scale = math.prod((point - other for other in others), start=Fraction(1))
        of_kernel.append([point**power / scale for power in range(kernel_size)])
        of_inputs.append([*_with_roots(others), Fraction(0)])
    of_kernel.append([Fraction(power == kernel_size - 1) for power in range(kernel_size)])
    of_inputs.append(_with_roots(points))
    for number in range(infinity + 1):
        # Numbers of about the same size lose least. Powers of two lose nothing themselves.
        ratio = max(map(abs, of_inputs[number])) / max(map(abs, of_kernel[number]))
        scale = Fraction(2) ** round(math.log2(ratio) / 2)
        of_kernel[number] = [value * scale for value in of_kernel[number]]
        of_inputs[number] = [value / scale for value in of_inputs[number]]
    return of_outputs, of_kernel, of_inputs


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients, lowest first, of the polynomial with these roots whose highest coefficient is 1."""
    coefficients = [Fraction(1)]
    for root in roots:
        lower, higher = [-root * value for value in coefficients], coefficients
        coefficients = [a + b for a, b in zip([*lower, Fraction(0)], [Fraction(0), *higher], strict=True)]
    return coefficients


def _as_tensor(matrix: _Matrix) -> Tensor:
    return torch.tensor([[float(value) for value in row] for row in matrix], dtype=torch.float64)
