"""Looking: which clusters a cohort's pooled fingerprints may have, in each view; a trial decides about their worth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo.kmeans import kmeans
from auxo.algorithms.auxo.number_of_clusters import (
    STANDS_OUT,
    distinct,
    hang_together,
    principal,
    silhouettes,
    structure,
)
from auxo.algorithms.auxo.views import Prints, View, views_of
from auxo.core.types import BoolArray, FloatArray, IntArray

_STARTS = 1  # of K-means by chance, besides the one that divides clusters; our choice


@dataclass(frozen=True)
class Candidate:
    """Clusters that a partition can be tried with."""

    view: View
    shown: float  # how much structure the pool has in it, see `Structure`
    centres: FloatArray  # (clusters, axes)

    @property
    def clusters(self) -> int:
        """Return how many there are."""
        return len(self.centres)

    @property
    def stands_out(self) -> bool:
        """Return whether they are more than parts of a cloud, as far as anybody can tell."""
        return STANDS_OUT < self.shown < np.inf


@dataclass(frozen=True)
class MostClusters:
    """How many clusters there may be."""

    most: int  # that are looked for; half as many where none stand out
    unclear: int  # where updates are too few to tell how many there are, and none are clear
    on_trial: int  # at once, of all candidates


def look(
    prints: Prints,
    blocks: IntArray | None,
    room: MostClusters,
    first_half: BoolArray,
    who: IntArray,
    rng: np.random.Generator,
) -> tuple[Candidate, ...]:
    """Return the clusters in each view, those first that stand out most.

    Where updates are too few to tell, views are taken as they come: as updates are, then without what class frequencies
    explain, then by their inputs. Class frequencies are a view where classes come in groups.

    Args:
        prints: pooled fingerprints, each round's without what its updates had in common.
        blocks: (width,) of the fingerprints.
        room: for clusters.
        first_half: (updates,) of which half of the clients each is.
        who: (updates,) by which those of one client are known.
        rng: for K-means.
    """
    candidates = []
    for view in views_of(prints):
        points = view.points(prints, blocks)
        along = principal(points)
        if distinct(along) < 2 or len(points) < 4:
            continue
        if view.name == "frequencies" and not hang_together(points, first_half, room.most, rng):
            continue
        found = structure(along, first_half, room.most, rng)
        number = found.clusters
        if not np.isfinite(found.shown):
            # In a cloud any number is as good as another, and more branches serve more kinds of clients.
            number = silhouettes(_of_clients(along, who), room.most, rng) or min(room.unclear, distinct(along))
        elif found.shown < STANDS_OUT:  # any number is as good as another, and few leave room for another view
            number = min(number, max(2, room.most // 2))
        candidates.append(Candidate(view, found.shown, _centres(points, along, number, rng)))
    return best_first(candidates, room.on_trial)


def leaves_room(candidate: Candidate, room: int) -> bool:
    """Return whether another like it fits beside it, where there is room for so many clusters on trial at once."""
    return candidate.clusters <= max(2, room // 2)


def best_first(candidates: Sequence[Candidate], room: int) -> tuple[Candidate, ...]:
    """Return those first that show most; of those that show about as much, in the order of their views.

    Of the latter those come first that leave room for others, if anybody can tell: what clusters are worth is not for
    looks to say.
    """
    left, ordered = list(candidates), list[Candidate]()
    while left:
        shown = max(one.shown for one in left)
        about = [one for one in left if one.shown == shown or one.shown * STANDS_OUT >= shown]
        first = next((one for one in about if shown == np.inf or leaves_room(one, room)), about[0])
        left.remove(first)
        ordered.append(first)
    return tuple(ordered)


def _of_clients(along: FloatArray, who: IntArray) -> FloatArray:
    """Return the mean of each client's points: some of one client are a cluster by themselves wherever they are.

    They are in the order in which clients come first: what these are known by is told by a secret, and decides nothing.
    """
    names, first, own, counts = np.unique(who, return_index=True, return_inverse=True, return_counts=True)
    sums = np.zeros((len(names), along.shape[1]))
    np.add.at(sums, own, along)
    return np.asarray((sums / counts[:, None])[np.argsort(first)])


def _centres(points: FloatArray, along: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Return K-means' centres in the space of the points.

    They are numbered in the order in which they come first among the points: K-means numbers them by chance.
    """
    _, labels = kmeans(along, number, _STARTS, rng)
    names, first = np.unique(labels, return_index=True)
    return np.stack([points[labels == cluster].mean(axis=0) for cluster in names[np.argsort(first)]])
