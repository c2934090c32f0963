"""The only source of chance: random numbers are named by what they are for, not by when they are asked for."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import IntArray

UInt64Array = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64: odd, and far from any pattern


def stream(seed: int, *path: int | str) -> np.random.Generator:
    """Return the generator that belongs to ``path`` under ``seed``.

    Two calls with the same arguments give generators with the same output, and calls with different
    paths give independent ones, so neither the order of the calls nor the number of workers matters.

    >>> stream(1, "0.1", 7, "select").integers(100) == stream(1, "0.1", 7, "select").integers(100)
    np.True_
    """
    return np.random.Generator(np.random.PCG64(_name(seed, path)))


def random_bits(seed: int, purpose: str, *columns: IntArray) -> UInt64Array:
    """Return 64 random bits for each row of some columns of numbers: where a generator for each would take too long.

    The bits of a row depend on the seed, the purpose and the numbers in that row, in their order, and on nothing else.

    >>> rows, visits = np.array([3, 4, 3]), np.array([0, 0, 0])
    >>> bits = random_bits(1, "shuffle", rows, visits)
    >>> bits[0] == bits[2], bits[0] == bits[1]
    (np.True_, np.False_)
    """
    state = np.full(len(columns[0]), _name(seed, (purpose,)) % 2**64, dtype=np.uint64)
    for column in columns:
        state = follow_bits(state, column)
    return state


def numbers_of(clients: IntArray, purpose: str, most: int) -> IntArray:
    """Return a number below ``most`` for each client, drawn once and for all."""
    return (random_bits(0, purpose, clients) % np.uint64(most)).astype(np.int64)


def follow_bits(bits: UInt64Array, numbers: IntArray) -> UInt64Array:
    """Return the bits that belong to ``bits`` and one more column of numbers, as `random_bits` goes on by itself."""
    return hashed(bits, numbers + 1)


def hashed(keys: UInt64Array, counters: IntArray) -> UInt64Array:
    """Return 64 random bits for each key and counter: the splitmix64 sequence of the key at that place."""
    state: UInt64Array = counters.astype(np.uint64)
    state *= _GOLDEN
    state += keys
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return state


def _name(seed: int, path: tuple[int | str, ...]) -> int:
    # Numbers and names are told apart, so that 7 and "7" differ, but a row taken from an array is the number it shows.
    text = "".join(f"s{len(part)}:{part}" if isinstance(part, str) else f"i{int(part)};" for part in (seed, *path))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
