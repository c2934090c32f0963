"""PrivUnit: a unit vector that says about where another one points, and of which nobody can tell much more.

Bhowmick, Duchi, Freudiger, Kapoor and Rogers, Protection against reconstruction and its applications in private
federated learning, 2018; with the best cap for the whole of epsilon, as Asi, Feldman and Talwar have it (Optimal
algorithms for mean estimation under local differential privacy, 2022). What is sent lies in a cap around the vector
with some chance, and elsewhere on the sphere otherwise, evenly in both: pure epsilon, without a delta.

The mean of what is sent is the vector, shortened. `PrivUnit.draw` makes up for that: its mean is the vector, and as all
that it gives is equally long, the length tells how much noise there is (`PrivUnit.variance`).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, log

import numpy as np

from auxo.core.types import BoolArray, FloatArray

_LEAST_DIMENSIONS = 2  # on a line there are two unit vectors, and randomised response is for these
_MOST_EPSILON = 200.0  # more promises nothing, and the share of a cap must be a number; our choice
_LARGEST_CAP = 0.5  # of the sphere: a larger one would say where the vector does not point
_FARTHEST = 10.0  # below -epsilon, in the logarithm of a cap's share: caps as small as this waste their chance


@dataclass(frozen=True)
class PrivUnit:
    """The mechanism for unit vectors of so many dimensions.

    >>> [round(PrivUnit(32, epsilon).variance, 1) for epsilon in (2.0, 4.0, 8.0)]
    [50.4, 13.2, 3.7]
    """

    dimensions: int
    epsilon: float

    def __post_init__(self) -> None:
        if self.dimensions < _LEAST_DIMENSIONS:
            raise ValueError(f"dimensions: expected at least {_LEAST_DIMENSIONS}, got {self.dimensions}")
        if not 0 < self.epsilon <= _MOST_EPSILON:
            raise ValueError(f"epsilon: expected a number in (0, {_MOST_EPSILON:g}], got {self.epsilon}")

    @cached_property
    def cap(self) -> float:
        """Return the share of the sphere that the cap around a vector has: the one with the least noise."""
        return _best_cap(self.dimensions, self.epsilon)

    @property
    def chance(self) -> float:
        """Return the chance that what is sent lies in the cap: points there are e to the epsilon times as likely."""
        return 1 / (1 + (1 - self.cap) / self.cap * exp(-self.epsilon))

    @cached_property
    def bias(self) -> float:
        """Return how long the mean of a sent unit vector is; it points where the vector does."""
        return _bias(self.dimensions, self.epsilon, self.cap)

    @property
    def variance(self) -> float:
        """Return the mean squared distance of a draw from the vector."""
        return 1 / self.bias**2 - 1

    @property
    def ratio(self) -> float:
        """Return how much likelier a point in the cap is than one beyond it: never above e to the epsilon."""
        return self.chance / (1 - self.chance) * (1 - self.cap) / self.cap

    def draw(self, vectors: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return a draw for each row, of length ``1 / bias`` and with the row as its mean.

        A row of zeros, which points nowhere, is drawn from the whole sphere; that is as private.

        Args:
            vectors: (rows, dimensions) of length one, or zero.
            rng: on a client, from the system's entropy: who can guess it has the vector.

        Raises:
            ValueError: the rows are neither, or have other dimensions.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.dimensions:
            raise ValueError(f"vectors: expected (rows, {self.dimensions}), got the shape {vectors.shape}")
        lengths = np.linalg.norm(vectors, axis=1)
        is_zero = lengths == 0
        if not np.allclose(lengths[~is_zero], 1.0, rtol=0, atol=1e-6):
            raise ValueError("vectors: expected rows of length one, or zero; scale them first")
        around = np.where(is_zero[:, None], _evenly(len(vectors), self.dimensions, rng), vectors)
        return _at_angles(around, self._cosines(is_zero, rng), rng) / self.bias

    def _cosines(self, is_zero: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Return the cosine of the angle that each draw makes with its vector."""
        from scipy.special import betaincinv  # noqa: PLC0415 - slow to import, and most clients never need it

        places, in_cap = rng.random(len(is_zero)), rng.random(len(is_zero)) < self.chance
        # Shares of the sphere, counted from the vector on: what is near it is told apart however small the cap is.
        shares = np.where(in_cap, self.cap * places, self.cap + (1 - self.cap) * places)
        half = (self.dimensions - 1) / 2
        return np.asarray(1 - 2 * betaincinv(half, half, np.where(is_zero, places, shares)))


def _evenly(rows: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Return unit vectors from the whole sphere."""
    normal = rng.standard_normal((rows, dimensions))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


def _at_angles(vectors: FloatArray, cosines: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return unit vectors that make these angles with others, evenly in all directions around them."""
    aside = rng.standard_normal(vectors.shape)
    aside -= (aside * vectors).sum(axis=1, keepdims=True) * vectors
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    sines = np.sqrt(np.maximum(1 - cosines**2, 0.0))
    turned = cosines[:, None] * vectors + sines[:, None] * aside
    return np.asarray(turned / np.linalg.norm(turned, axis=1, keepdims=True))


@lru_cache(maxsize=64)
def _best_cap(dimensions: int, epsilon: float) -> float:
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - as above

    found = minimize_scalar(
        lambda log_cap: -_bias(dimensions, epsilon, exp(log_cap)),
        bounds=(-epsilon - _FARTHEST, log(_LARGEST_CAP)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return exp(found.x)


def _bias(dimensions: int, epsilon: float, cap: float) -> float:
    """Return the mean cosine of what is sent: of the cap's points and of the others', each by its chance.

    The mean cosine of the cap's points times its share is that of the others times theirs, less the sign, for over the
    whole sphere it is zero.
    """
    from scipy.special import betaincinv, betaln  # noqa: PLC0415 - as above

    half = (dimensions - 1) / 2
    below = float(betaincinv(half, half, cap))  # half of one minus the cosine at the edge of the cap
    edge = 4 * below * (1 - below)  # squared sine there
    moment = exp(half * log(edge) - float(betaln(0.5, half))) / (dimensions - 1) if edge > 0 else 0.0
    odds = (1 - cap) / cap * exp(-epsilon)  # of lying beyond the cap
    density, beyond = 1 / (1 + odds) / cap, odds / (1 + odds) / (1 - cap)
    return moment * (density - beyond)
