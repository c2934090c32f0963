"""Judges: the clients by whose samples a trial is decided (see `auxo.algorithms.auxo.evidence`).

A judge must not have helped to make what it judges. Where clients are many, a fixed part of them trains the cohort's
own model alone while a partition is on trial, and each is heard once: a few, heard again and again, would seem many.
Where they are few everybody judges, by a half of its samples that it does not train on meanwhile.
"""

import hashlib

import numpy as np

from auxo.algorithms.auxo.settings import TrialSettings
from auxo.core.rng import random_bits
from auxo.core.types import BoolArray, IntArray

_MOST_ASIDE = 0.5  # share of the clients that may train for no branch; with more, everybody judges; our choice
TRAINS_ON = 0
"""Half of its samples that a client trains on where everybody judges; it judges by the other."""

_UNIFORM_BITS = 53


def judge_share(clients: float, settings: TrialSettings) -> float:
    """Return the share of so many clients that judges; 1: everybody does."""
    share = max(settings.judge_share, settings.fewest_judges / max(clients, 1.0))
    return share if share <= _MOST_ASIDE else 1.0


def are_judges(clients: IntArray, share: float) -> BoolArray:
    """Return who judges: always the same share of the clients, drawn by their names."""
    bits = random_bits(0, "judges", clients) >> np.uint64(64 - _UNIFORM_BITS)
    return np.asarray(bits < np.uint64(round(share * 2**_UNIFORM_BITS)))


def are_controls(clients: IntArray, number: int) -> BoolArray:
    """Return which half of a round's participants trains the cohort's own model, another one in every round.

    What branches are held against has to be trained as they are: by as large a part of those who would train it.
    """
    order = np.argsort(random_bits(number, "controls", clients), kind="stable")
    controls = np.zeros(len(clients), dtype=np.bool_)
    controls[order[: (len(clients) + 1) // 2]] = True
    return controls


def seals(clients: IntArray, generation: int, secret: str) -> IntArray:
    """Return a mark for each client by which a trial knows whom it has heard; another generation has others.

    Without the run's secret nobody can tell whose mark it is, not even with a list of all clients.
    """
    key = secret.encode()
    marks = (hashlib.blake2b(f"{generation} {one}".encode(), digest_size=8, key=key) for one in clients.tolist())
    return np.array([int.from_bytes(mark.digest(), "little", signed=True) for mark in marks], dtype=np.int64)
