"""Where noise comes from: the system's entropy for clients, a seed for simulations alone.

numpy's generators are made for speed. Who sees enough of what one gives, as a server does where updates are zero but
for their noise, can work out the rest; so a client's noise on whole updates is drawn by a hash with a key.
"""

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import FloatArray

_BITS = 53  # of a number between 0 and 1


class Draws(Protocol):
    """Chance for one thing that leaves a client."""

    @property
    def rng(self) -> np.random.Generator:
        """Return a generator for a few words: what it gives is not shown."""
        ...

    def normal(self, n: int) -> FloatArray:
        """Return so many draws of the standard normal distribution, the same ones when asked again."""
        ...


@dataclass(frozen=True)
class SecretDraws:
    """Of the system's entropy: the numbers are SHAKE-256's of a key, turned into normal ones as Box and Muller do."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def rng(self) -> np.random.Generator:
        """Return a generator that only the key names."""
        return stream(int.from_bytes(self.key, "little"), "words")

    def normal(self, n: int) -> FloatArray:
        """Return so many draws."""
        pairs = (n + 1) // 2
        bits = np.frombuffer(hashlib.shake_256(self.key).digest(16 * pairs), dtype=np.uint64) >> np.uint64(64 - _BITS)
        evenly = (bits.astype(np.float64) + 1.0) / 2.0**_BITS  # above 0, whose logarithm is a number, and at most 1
        lengths, angles = np.sqrt(-2 * np.log(evenly[:pairs])), 2 * np.pi * evenly[pairs:]
        return np.concatenate([lengths * np.cos(angles), lengths * np.sin(angles)])[:n]


@dataclass(frozen=True)
class SeededDraws:
    """Of a seed that anybody may know: for simulations."""

    seed: int
    path: tuple[int | str, ...]

    @property
    def rng(self) -> np.random.Generator:
        """Return the generator of the path."""
        return stream(self.seed, "privacy", *self.path)

    def normal(self, n: int) -> FloatArray:
        """Return so many draws."""
        return self.rng.standard_normal(n)
