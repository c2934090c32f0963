"""Judges: the clients by whose samples a trial is decided (see `auxo.algorithms.auxo.evidence`).

A judge must not have helped to make what it judges. Where clients are many, it is whoever takes part in a trial for the
first time, before it trains, and is heard once: a few, heard again and again, would seem many. Where they are few
everybody judges, by a fifth of its samples that it does not train on meanwhile.
"""

import hashlib

import numpy as np

from auxo.core.rng import random_bits
from auxo.core.types import BoolArray, IntArray


def first_of(clients: IntArray, among: BoolArray, most: int, number: int) -> BoolArray:
    """Return ``most`` of those ``among`` the clients, others in every round, whatever order they come in."""
    order = np.argsort(random_bits(number, "judges", clients), kind="stable")
    taken = np.zeros_like(among)
    taken[order[among[order]][:most]] = True
    return taken


def seals(clients: IntArray, generation: int, secret: str) -> IntArray:
    """Return a mark for each client by which a trial knows who has taken part; another generation has others.

    Without the run's secret nobody can tell whose mark it is, not even with a list of all clients.
    """
    key = secret.encode()
    marks = (hashlib.blake2b(f"{generation} {one}".encode(), digest_size=8, key=key) for one in clients.tolist())
    return np.array([int.from_bytes(mark.digest(), "little", signed=True) for mark in marks], dtype=np.int64)
