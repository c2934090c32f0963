"""What one round says about a partition: how alike those are whom earlier labels put together (section 4.4)."""

import numpy as np

from auxo.core.clustering import Clusters
from auxo.core.gathering import dispersion
from auxo.core.grouping import alignments
from auxo.core.partition import RoundEvidence
from auxo.core.types import BoolArray, FloatArray, IntArray


def round_evidence(
    directions: FloatArray, clusters: Clusters, n_clusters: int, judged_by: IntArray, judged: BoolArray
) -> RoundEvidence:
    """Return the evidence of a round's participants.

    Args:
        directions: (participants, width) updates scaled to length one.
        clusters: what became of them in this round.
        n_clusters: how many there are.
        judged_by: (participants,) the label that each is judged by.
        judged: (participants,) who has one.
    """
    within, overall = np.zeros(0), 0.0
    if judged.sum() >= 2:
        within, overall = alignments(directions[judged], judged_by[judged], n_clusters)
    return RoundEvidence(
        alignments=tuple(within.tolist()),
        alignment=overall,
        judged=int(judged.sum()) if len(within) else 0,
        members=tuple(np.bincount(clusters.labels, minlength=n_clusters).tolist()),
        dispersion=dispersion(directions),
        dispersion_within=_dispersion_within(directions, clusters.labels, n_clusters),
    )


def _dispersion_within(directions: FloatArray, labels: IntArray, clusters: int) -> float:
    """Return Eq. 1 per participant: squared distances to the mean of one's own cluster."""
    total = 0.0
    for cluster in range(clusters):
        mine = directions[labels == cluster]
        total += dispersion(mine) * len(mine)
    return total / max(len(directions), 1)
