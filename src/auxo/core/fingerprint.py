"""Fingerprints: a fixed-size sketch of a whole update, taken as it arrives, so that updates need not be kept."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray

_ROWS_AT_ONCE = 64  # our choice: signed parameters stay in the cache until they are summed
_SUMS_HOLD = 1e-25  # the largest of sums in float32 above this, and below its inverse, lose nothing that counts


@dataclass(frozen=True)
class Fingerprint:
    """A seeded count sketch of the flat update (every trainable parameter takes part).

    Each parameter is added with a random sign to one of `width` buckets: a linear map that keeps inner products,
    hence cosines, in expectation, with error about ``1 / sqrt(width)``. Models that are not larger than ``size`` are
    kept as they are, without loss.

    Parameter ``i`` goes to bucket ``i mod width``, so the sketch is a sum of rows, read in order, at the speed of
    memory. The width is a prime number: rows of a layer's matrix are not as long as rows of the sketch, and parameters
    that belong together (one input's, one filter's) do not meet in one bucket.
    """

    n_params: int
    size: int = 4096  # our choice; docs/departures.md shows what other sizes cost
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_params < 1:
            raise ValueError(f"n_params: expected at least 1, got {self.n_params}")
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}")

    @cached_property
    def width(self) -> int:
        """Return the length of a fingerprint: of a model larger than ``size``, the largest prime up to that."""
        return self.n_params if self.n_params <= self.size else _prime_up_to(self.size)

    @cached_property
    def blocks(self) -> IntArray:
        return np.zeros(self.width, dtype=np.int64)

    @cached_property
    def _signs(self) -> Float32Array:
        coins = stream(self.seed, "fingerprint", "signs").integers(0, 2, self.n_params, dtype=np.int8)
        return np.asarray(coins * np.float32(2) - np.float32(1), dtype=np.float32)

    def of(self, update: Float32Array) -> FloatArray:
        """Return the fingerprint of one flat update, scaled to length one (zero updates stay zero).

        Only the direction of an update says what its client's data are like; its length says how many samples and
        steps there were. Scaling keeps updates of any scale from overflow and underflow.
        """
        values: FloatArray | Float32Array = update
        if self.n_params > self.size:
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._sums(update)
        largest = np.max(np.abs(values), initial=0.0)
        if self.n_params > self.size and not _SUMS_HOLD < largest < 1 / _SUMS_HOLD:
            scale = np.max(np.abs(update), initial=0.0)
            if scale == 0.0:
                return np.zeros(self.width)
            values = self._sums((update / np.float64(scale)).astype(np.float32))
            largest = np.max(np.abs(values))
        if largest == 0.0:
            return np.zeros(self.width)
        direction: FloatArray = unit_rows(values.astype(np.float64)[None, :] / largest)[0]
        return direction

    def _sums(self, update: Float32Array) -> Float32Array:
        """Return the signed sums of the parameters in each bucket."""
        width, whole = self.width, self.n_params - self.n_params % self.width
        rows, signs = update[:whole].reshape(-1, width), self._signs[:whole].reshape(-1, width)
        signed = np.empty((min(_ROWS_AT_ONCE, len(rows)), width), dtype=np.float32)
        sums = np.zeros(width, dtype=np.float32)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            np.multiply(some, signs[first : first + _ROWS_AT_ONCE], out=signed[: len(some)])
            sums += signed[: len(some)].sum(axis=0)
        sums[: self.n_params - whole] += update[whole:] * self._signs[whole:]
        return sums


def _prime_up_to(number: int) -> int:
    """Return the largest prime that is not above ``number``; 1 where there is none."""
    for candidate in range(number, 1, -1):
        if all(candidate % divisor for divisor in range(2, math.isqrt(candidate) + 1)):
            return candidate
    return 1


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Return the rows scaled to length one; zero rows stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1.0)
