"""Short convolutions along one axis by few products (Toom and Cook, Winograd).

A filter of r taps over a tile of m outputs takes m r products. Seen as polynomials of which values at n = m + r - 1
points are known, it takes n, one at each point:

    outputs = gather (taps' values * spread inputs)

where ``spread`` takes the n inputs of a tile to the points, ``values`` the taps, and ``gather`` goes back. All three
are fixed matrices, worked out here in fractions. In two dimensions the savings multiply: 64 products instead of 400 for
a filter of 5 x 5 on a tile of 4 x 4.
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
MOST_TAPS = len(_POINTS)  # tiles are then of two outputs

_Matrix = list[list[Fraction]]


@dataclass(frozen=True)
class Axis:
    """How a convolution goes along one axis of an image, tile by tile, zeros around it included."""

    points: int
    tiles: int
    spread: Tensor  # (points x tiles, size)
    values: Tensor  # (points, taps)
    gather: Tensor  # (outputs, points x tiles)

    @property
    def outputs(self) -> int:
        """Return how many outputs there are along the axis."""
        return len(self.gather)


@cache
def axis(size: int, zeros: int, taps: int) -> Axis:
    """Return how to convolve ``size`` inputs with ``zeros`` on either side, with tiles that take fewest products."""
    outputs = size + 2 * zeros - taps + 1
    if outputs < 1 or not 1 <= taps <= MOST_TAPS:
        raise ValueError(f"taps: expected 1 to {MOST_TAPS}, and at most {size + 2 * zeros} inputs wide, got {taps}")
    # Of as many products, those at fewer points are the more exact.
    tile = min(range(1, MOST_TAPS + 3 - taps), key=lambda tile: ((tile + taps - 1) * math.ceil(outputs / tile), tile))
    tiles, points = math.ceil(outputs / tile), tile + taps - 1
    of_outputs, of_taps, of_inputs = _matrices(tile, taps)
    spread = torch.zeros(points, tiles, size + 2 * zeros + points, dtype=torch.float64)
    gather = torch.zeros(tiles * tile, points, tiles, dtype=torch.float64)
    for number in range(tiles):
        first = number * tile
        spread[:, number, first : first + points] = _as_tensor(of_inputs)
        gather[first : first + tile, :, number] = _as_tensor(of_outputs).t()
    return Axis(
        points,
        tiles,
        spread[:, :, zeros : zeros + size].flatten(0, 1).float(),
        _as_tensor(of_taps).float(),
        gather[:outputs].flatten(1).float(),
    )


def _matrices(tile: int, taps: int) -> tuple[_Matrix, _Matrix, _Matrix]:
    """Return, with a row for each point, what its value adds to each output, and what it takes of taps and of inputs.

    The last point is infinity, where a polynomial's value is its highest coefficient.
    """
    points = _POINTS[: tile + taps - 2]
    infinity = len(points)
    of_outputs = [[point**power for power in range(tile)] for point in points]
    of_outputs.append([Fraction(power == tile - 1) for power in range(tile)])
    of_taps, of_inputs = [], []
    for number, point in enumerate(points):
        others = [other for place, other in enumerate(points) if place != number]
        scale = math.prod((point - other for other in others), start=Fraction(1))
        of_taps.append([point**power / scale for power in range(taps)])
        of_inputs.append([*_with_roots(others), Fraction(0)])
    of_taps.append([Fraction(power == taps - 1) for power in range(taps)])
    of_inputs.append(_with_roots(points))
    for number in range(infinity + 1):
        # Numbers of about the same size lose least. Powers of two lose nothing themselves.
        ratio = max(map(abs, of_inputs[number])) / max(map(abs, of_taps[number]))
        scale = Fraction(2) ** round(math.log2(ratio) / 2)
        of_taps[number] = [value * scale for value in of_taps[number]]
        of_inputs[number] = [value / scale for value in of_inputs[number]]
    return of_outputs, of_taps, of_inputs


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients, lowest first, of the polynomial with these roots whose highest coefficient is 1."""
    coefficients = [Fraction(1)]
    for root in roots:
        lower, higher = [-root * value for value in coefficients], coefficients
        coefficients = [a + b for a, b in zip([*lower, Fraction(0)], [Fraction(0), *higher], strict=True)]
    return coefficients


def _as_tensor(matrix: _Matrix) -> Tensor:
    return torch.tensor([[float(value) for value in row] for row in matrix], dtype=torch.float64)
