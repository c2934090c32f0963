"""Shares of the training resource: how a round's participants are divided among the cohorts that open rounds."""

from collections.abc import Sequence
from math import isfinite
from typing import Literal

import numpy as np

from auxo.core.cohort_tree import CohortTree
from auxo.core.types import ROOT, CohortId

Sharing = Literal["members", "equal"]
"""How cohorts share the participants: in proportion to their believed members, or equally (section 4.4)."""

_DECIMALS = 9  # of a share in participants that count; what is beyond is rounding of the arithmetic


def shares_by(sharing: Sharing, tree: CohortTree, openers: Sequence[CohortId]) -> tuple[float, ...]:
    """Return the relative share of each opener under a rule."""
    return member_shares(tree, openers) if sharing == "members" else equal_shares(tree, openers)


def equal_shares(tree: CohortTree, openers: Sequence[CohortId]) -> tuple[float, ...]:
    """Return the same share for each opener."""
    return (1.0,) * len(openers)


def member_shares(tree: CohortTree, openers: Sequence[CohortId]) -> tuple[float, ...]:
    """Return the part of all clients that is believed to belong to each opener, from one partition to the next.

    >>> tree = CohortTree().partition(ROOT, (0, 1), (0.75, 0.25)).partition(CohortId("0.0"), (0, 1), (0.5, 0.5))
    >>> member_shares(tree, tree.leaves)
    (0.25, 0.375, 0.375)
    """
    share = {ROOT: 1.0}
    for branch in tree.branches:
        whole = sum(branch.weights)
        for child, weight in zip(branch.children, branch.weights, strict=True):
            share[child] = share[branch.cohort] * weight / whole
    return tuple(share[cohort] for cohort in openers)


def whole_shares(shares: Sequence[float], total: int) -> tuple[int, ...]:
    """Return how many of ``total`` participants each gets: in proportion, by largest remainder, and one at least.

    Of equal remainders the first come first.

    Raises:
        ValueError: a share is not a positive number, or there are fewer participants than shares.

    >>> whole_shares((1.0, 1.0, 1.0), 11)
    (4, 4, 3)
    >>> whole_shares((0.96, 0.03, 0.01), 20)
    (18, 1, 1)
    """
    if not all(isfinite(share) and share > 0 for share in shares):
        raise ValueError(f"shares: expected positive numbers, got {tuple(shares)}")
    if total < len(shares):
        raise ValueError(f"shares: expected at least one participant for each of {len(shares)}, got {total}")
    given = np.asarray(shares, dtype=np.float64) / max(shares)
    scarce = np.zeros(len(given), dtype=np.bool_)  # these have one, and the others share the rest
    while True:
        of_the_rest = (total - scarce.sum()) * given / given[~scarce].sum()
        parts = np.where(scarce, 1.0, np.round(of_the_rest, _DECIMALS))
        if not (parts < 1).any():
            break
        scarce |= parts < 1
    whole = np.floor(parts).astype(np.int64)
    last = np.argsort(whole - parts, kind="stable")[: total - int(whole.sum())]
    whole[last] += 1
    return tuple(whole.tolist())
