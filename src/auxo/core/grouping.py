"""Does a partition pay? What participants gain from the company of their group alone, for every way to group clusters.

For each participant that brought a label: the cosine of its update to the summed update of the *other* participants of
its group, minus the cosine to the summed update of all others. The sum over a group is made of fewer updates and is
noisier, so what a cohort loses to a smaller number of participants is in the figure (Lemma 1 weighs the same two).
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


def grouping_gains(directions: FloatArray, labels: IntArray, clusters: int) -> FloatArray:
    """Return the mean gain of each of `groupings` over the labelled participants of one round.

    Args:
        directions: (participants, width) updates scaled to length one; every participant has a label.
        labels: (participants,) cluster index of each, in ``range(clusters)``.
        clusters: how many clusters there are.
    """
    member = (labels[:, None] == np.arange(clusters)[None, :]).astype(np.float64)
    sums = member.T @ directions
    inner = directions @ sums.T  # participant . cluster sum
    gram = sums @ sums.T
    own = (directions**2).sum(axis=1)
    everybody = _cosine_to_others(inner.sum(axis=1), np.full(len(labels), gram.sum()), own)
    gains = np.zeros(len(groupings(clusters)))
    for number, grouping in enumerate(groupings(clusters)):
        groups = np.array(grouping)
        joined = (groups[:, None] == groups[None, :]).astype(np.float64)
        mine = joined[labels]  # (participants, clusters) of my group
        sum_norms = np.einsum("ij,jk,ik->i", joined, gram, joined)[labels]
        gains[number] = (_cosine_to_others((inner * mine).sum(axis=1), sum_norms, own) - everybody).mean()
    return gains


def _cosine_to_others(inner: FloatArray, sum_norm: FloatArray, own: FloatArray) -> FloatArray:
    """Return the cosine of each update to a sum it is part of, without its own part; 0 where nobody else is in it."""
    others = sum_norm - 2 * inner + own
    usable = (others > 1e-12) & (own > 0)
    return np.where(usable, (inner - own) / np.sqrt(np.where(usable, others * own, 1.0)), 0.0)
