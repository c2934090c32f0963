"""Judges: the clients by whose samples a trial is decided (see `auxo.algorithms.auxo.trial`).

A judge must not have helped to make what it judges. So its updates move the cohort's own model and no branch's; it
chooses among the models on trial by one half of its samples, as it will once a partition is made, and judges by the
other, and then the other way round. It is heard once of the same models: the same few clients, heard again and again,
would seem many. All its samples are trained on all the time, and judging costs the cohort nothing.
"""

import hashlib

import numpy as np

from auxo.core.rng import random_bits
from auxo.core.types import BoolArray, IntArray

_UNIFORM_BITS = 53


def are_judges(clients: IntArray, share: float) -> BoolArray:
    """Return who judges: always the same share of the clients, drawn by their names."""
    bits = random_bits(0, "cross-fit", clients) >> np.uint64(64 - _UNIFORM_BITS)
    return np.asarray(bits < np.uint64(round(share * 2**_UNIFORM_BITS)))


def seals(clients: IntArray, generation: int, secret: str) -> IntArray:
    """Return a mark for each client by which a trial knows whom it has heard; another generation has others.

    Without the run's secret nobody can tell whose mark it is, not even with a list of all clients.
    """
    key = secret.encode()
    marks = (hashlib.blake2b(f"{generation} {one}".encode(), digest_size=8, key=key) for one in clients.tolist())
    return np.array([int.from_bytes(mark.digest(), "little", signed=True) for mark in marks], dtype=np.int64)
