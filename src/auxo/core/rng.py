"""The only maker of random generators: a stream is named by what it is for, not by when it is asked for."""

import hashlib

import numpy as np


def stream(seed: int, *path: int | str) -> np.random.Generator:
    """Return the generator that belongs to ``path`` under ``seed``.

    Two calls with the same arguments give generators with the same output, and calls with different
    paths give independent ones, so neither the order of the calls nor the number of workers matters.

    >>> stream(1, "0.1", 7, "select").integers(100) == stream(1, "0.1", 7, "select").integers(100)
    np.True_
    """
    # Numbers and names are told apart, so that 7 and "7" differ, but a row taken from an array is the number it shows.
    text = "".join(f"s{len(part)}:{part}" if isinstance(part, str) else f"i{int(part)};" for part in (seed, *path))
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
