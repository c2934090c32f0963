"""Fingerprints: a fixed-size sketch of a whole update, taken as it arrives, so that updates need not be kept."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray


@dataclass(frozen=True)
class Fingerprint:
    """A seeded count sketch of the flat update (every trainable parameter takes part).

    Each parameter is added with a random sign to a random one of ``size`` buckets: a linear map that keeps inner
    products, hence cosines, in expectation, with error about ``1 / sqrt(size)``. Models that are not larger
    than the sketch are kept as they are, without loss.
    """

    n_params: int
    size: int = 4096  # our choice; docs/departures.md shows what other sizes cost
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_params < 1:
            raise ValueError(f"n_params: expected at least 1, got {self.n_params}")
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}")

    @property
    def width(self) -> int:
        """Return the length of a fingerprint."""
        return min(self.size, self.n_params)

    @cached_property
    def _buckets(self) -> IntArray:
        return stream(self.seed, "fingerprint", "buckets").integers(0, self.size, self.n_params)

    @cached_property
    def _signs(self) -> FloatArray:
        coins = stream(self.seed, "fingerprint", "signs").integers(0, 2, self.n_params)
        return np.asarray(coins * 2.0 - 1.0, dtype=np.float64)

    def of(self, update: Float32Array) -> FloatArray:
        """Return the fingerprint of one flat update, scaled to length one (zero updates stay zero).

        Only the direction of an update says what its client's data are like; its length says how many samples and
        steps there were. Scaling here, in float64 and by the largest entry first, is what keeps updates of any scale
        from 1e-12 to 1e6 apart from overflow and underflow.
        """
        values: FloatArray = update.astype(np.float64)
        largest = np.max(np.abs(values), initial=0.0)
        if largest == 0.0:
            return np.zeros(self.width)
        values /= largest
        if self.n_params > self.size:
            values = np.bincount(self._buckets, self._signs * values, self.size).astype(np.float64)
        direction: FloatArray = unit_rows(values[None, :])[0]
        return direction


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Return the rows scaled to length one; zero rows stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1.0)
