"""Judges: the clients by whose held-out samples a trial is decided (see `auxo.core.trial`).

A judge must not have helped to make what it judges. Its label comes from one half of its samples, and it judges by the
other; until it has been heard its updates move the cohort's own model and no branch's. It is heard once in a trial:
the same few clients, heard again and again, would seem many. So judging costs the cohort next to nothing, for a judge
trains on a half once in a search, and on all its samples at all other times.
"""

import numpy as np

from auxo.core.claims import Claims
from auxo.core.folds import LABELLED_BY
from auxo.core.rng import random_bits
from auxo.core.types import BoolArray, IntArray

_UNIFORM_BITS = 53


def are_judges(clients: IntArray, share: float) -> BoolArray:
    """Return who judges: always the same share of the clients, drawn by their names."""
    bits = random_bits(0, "cross-fit", clients) >> np.uint64(64 - _UNIFORM_BITS)
    return np.asarray(bits < np.uint64(round(share * 2**_UNIFORM_BITS)))


def seals(clients: IntArray, generation: int) -> IntArray:
    """Return a mark for each client by which a trial knows whom it has heard; another generation has others."""
    return random_bits(generation, "heard", clients).view(np.int64)


def judging_labels(claims: Claims) -> IntArray:
    """Return the cluster index by which each would judge; -1: none.

    It is that of the half that it judges nothing by. One that has a label and none of that half trains on everything
    whatever it is asked, and judges by samples of its own, if it does.
    """
    of_half = claims.label_by_fold[:, LABELLED_BY]
    return np.where(of_half >= 0, of_half, claims.label)
