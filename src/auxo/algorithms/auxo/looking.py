"""Looking: which clusters a cohort's pooled fingerprints may have, in each view; a trial decides about their worth."""

from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo.number_of_clusters import Structure, distinct, principal, silhouettes, structure
from auxo.algorithms.auxo.views import Prints, View, views_of
from auxo.core.types import BoolArray, FloatArray, IntArray

_STARTS = 10  # of K-means, of which the best counts


@dataclass(frozen=True)
class Candidate:
    """Clusters that a partition can be tried with."""

    view: View
    structure: Structure  # that the pool shows in it
    centres: FloatArray  # (most clusters, axes); those of clusters that there are not are zero

    @property
    def clusters(self) -> int:
        """Return how many there are."""
        return self.structure.clusters


def look(
    prints: Prints,
    blocks: IntArray | None,
    clusters: int,
    most: int,
    first_half: BoolArray,
    rng: np.random.Generator,
) -> tuple[Candidate, ...]:
    """Return the clusters in each view, those first that stand out most.

    Where updates are too few to tell, views are taken as they come: as updates are, then without what class frequencies
    explain, then by their inputs.

    Args:
        prints: pooled fingerprints, each round's without what its updates had in common.
        blocks: (width,) of the fingerprints.
        clusters: that labels are numbered in.
        most: clusters that are looked for.
        first_half: (updates,) of which half of the clients each is.
        rng: for K-means.
    """
    candidates = []
    for view in views_of(prints):
        points = view.points(prints, blocks)
        along = principal(points)
        if distinct(along) < 2 or len(points) < 4:
            continue
        found = structure(along, first_half, most, rng)
        if not np.isfinite(found.shown):
            found = Structure(found.shown, silhouettes(along, most, rng))
        centres = _centres(points, along, found.clusters, clusters, int(rng.integers(2**31)))
        candidates.append(Candidate(view, found, centres))
    return tuple(sorted(candidates, key=lambda one: -one.structure.shown))


def _centres(points: FloatArray, along: FloatArray, number: int, clusters: int, seed: int) -> FloatArray:
    """Return K-means' centres in the space of the points; clusters that there are not have none.

    They are numbered in the order in which they come first among the points: K-means numbers them by chance.
    """
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

    labels = KMeans(number, n_init=_STARTS, random_state=seed).fit(along).labels_
    centres = np.zeros((clusters, points.shape[1]))
    names, first = np.unique(labels, return_index=True)
    for place, cluster in enumerate(names[np.argsort(first)]):
        centres[place] = points[labels == cluster].mean(axis=0)
    return centres
