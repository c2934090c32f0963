"""Updates of a whole population beside each other, from their fingerprints: for methods that compare every pair.

Fingerprints keep inner products, hence cosines and Euclidean distances: without loss where a model is no larger than
the fingerprint, else with an error of about one over the root of its size. No method holds everybody's whole updates.
"""

import numpy as np

from auxo.core.gathering import Gathered
from auxo.core.types import BoolArray, FloatArray

MOST_CLIENTS = 20_000
"""Clients whose pairs can be compared: their distances take 3 GB, and grow with the square; our choice."""


def sketched_updates(gathered: Gathered, rows: BoolArray) -> FloatArray:
    """Return the fingerprints of some of ``gathered.rows`` at the length of their updates, (rows, width)."""
    lengths = gathered.lengths[rows] * np.sqrt(gathered.examples[rows])
    return gathered.directions[rows] * lengths[:, None]


def too_many(clients: int) -> str | None:
    """Return why a method that compares every pair of clients cannot be run; None: it can."""
    if clients <= MOST_CLIENTS:
        return None
    gigabytes = 8 * clients**2 / 1e9
    return (
        f"compares every pair of clients, which for {clients:,} of them takes {gigabytes:,.0f} GB; it needs at most "
        f"{MOST_CLIENTS:,} clients (population.clients)"
    )
