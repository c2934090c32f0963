"""How alike participants' updates are within groups of clusters and altogether, for every way to group clusters.

The mean inner product over pairs of *different* participants is an unbiased estimate of the squared length of what
their updates have in common: noise of one participant's own samples is in no pair, whatever the size of the model. A
participant's length being one, it is the share of an update that is signal.
"""

from functools import lru_cache

import numpy as np

from auxo.core.types import FloatArray, IntArray

Grouping = tuple[int, ...]
"""Group number of each cluster, in order of first appearance: (0, 1, 1, 0) joins clusters 0 and 3, and 1 and 2."""


@lru_cache(maxsize=8)
def groupings(clusters: int) -> tuple[Grouping, ...]:
    """Return every way to group clusters into at least two groups.

    >>> groupings(2)
    ((0, 1),)
    >>> len(groupings(4))
    14
    """
    found: list[Grouping] = [(0,)]
    for _ in range(clusters - 1):
        found = [(*head, group) for head in found for group in range(max(head) + 2)]
    return tuple(grouping for grouping in found if max(grouping) > 0)


def alignments(directions: FloatArray, labels: IntArray, clusters: int) -> tuple[FloatArray, float]:
    """Return the mean inner product over pairs of different participants: for each of `groupings`, and of all.

    For a grouping only pairs of the same group count, and each participant as much as any other.

    Args:
        directions: (participants, width) updates scaled to length one; at least two participants.
        labels: (participants,) cluster index of each, in ``range(clusters)``.
        clusters: how many clusters there are.
    """
    member = (labels[:, None] == np.arange(clusters)[None, :]).astype(np.float64)
    sums = member.T @ directions
    gram, count = sums @ sums.T, member.sum(axis=0)
    own = member.T @ (directions**2).sum(axis=1)  # squared lengths summed over each cluster
    found = np.zeros(len(groupings(clusters)))
    for number, grouping in enumerate(groupings(clusters)):
        joined = (np.array(grouping)[:, None] == np.arange(max(grouping) + 1)[None, :]).astype(np.float64)
        pairs = np.einsum("cg,cd,dg->g", joined, gram, joined) - own @ joined
        found[number] = _mean_over_members(pairs, count @ joined)
    return found, float(_mean_over_members(np.array([gram.sum() - own.sum()]), np.array([count.sum()])))


def _mean_over_members(pairs: FloatArray, members: FloatArray) -> float:
    """Return the groups' mean inner products, weighted by members; groups of one have no pair and do not count."""
    counted = members > 1
    if not counted.any():
        return 0.0
    return float((pairs[counted] / (members[counted] - 1)).sum() / members[counted].sum())
