"""A pool of recent updates' fingerprints, nobody's name beside them: clustering starts from many rounds, not from one.

K-means that sees one round's participants can be wrong for ever, since every later centre is made of its labels.
"""

from dataclasses import dataclass, field

import numpy as np

from auxo.algorithms.auxo.number_of_clusters import Structure, distinct, principal, structure
from auxo.algorithms.auxo.settings import ClusteringSettings
from auxo.algorithms.auxo.views import View, ViewName, without_frequencies
from auxo.core.clustering import ClusteringState, cluster_space
from auxo.core.rng import random_bits
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

_SECOND_COUNTS = 1.5  # times as much: what updates show without class frequencies beyond chance; our choice


@dataclass(frozen=True)
class PooledRound:
    """A round's fingerprints without what its participants shared."""

    directions: Float32Array  # (participants, width)
    outputs: Float32Array = field(default_factory=lambda: np.zeros((0, 0), np.float32))  # (participants, outputs)
    first_half: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))  # (participants,) of two of clients

    @staticmethod
    def of(directions: FloatArray, outputs: FloatArray, first_half: BoolArray) -> "PooledRound":
        """Return what is kept of a round, see `View.of` and `are_in_first_half`."""
        return PooledRound(_centred(directions).astype(np.float32), _centred(outputs).astype(np.float32), first_half)


def are_in_first_half(clients: IntArray) -> BoolArray:
    """Return which clients are in the first of two halves, always the same one: who comes again is no other client.

    That is all that a pool knows of them.
    """
    return np.asarray(random_bits(0, "pool", clients) >> np.uint64(63) == 0)


@dataclass(frozen=True)
class Pool:
    """Fingerprints of past rounds. It is lost without harm."""

    rounds: tuple[PooledRound, ...] = ()

    @property
    def sketches(self) -> int:
        """Return how many fingerprints there are."""
        return sum(len(one.directions) for one in self.rounds)

    def after(self, one: PooledRound, settings: ClusteringSettings) -> "Pool":
        """Return the pool with one more round; of too many the oldest ones go."""
        rounds = (*self.rounds, one)
        while len(rounds) > 1 and sum(len(kept.directions) for kept in rounds[1:]) >= settings.pool_most:
            rounds = rounds[1:]
        return Pool(rounds)

    def is_full(self, settings: ClusteringSettings) -> bool:
        """Return whether there is enough to start from: so many rounds, and so many fingerprints a cluster."""
        enough = settings.pool_per_cluster * settings.clusters
        return len(self.rounds) >= settings.pool_rounds and self.sketches >= enough


@dataclass(frozen=True)
class Started:
    """A clustering that has begun, and the view of updates that it goes by."""

    clustering: ClusteringState
    view: View
    structure: Structure  # that the pool shows in it
    other: ViewName | None = None  # view that shows enough structure, too


def start_clustering(
    pool: Pool,
    settings: ClusteringSettings,
    generation: int,
    blocks: IntArray | None,
    rng: np.random.Generator,
    only: ViewName | None = None,
) -> Started | None:
    """Return the clustering that K-means over the whole pool begins.

    None where there are too few different points, or too few for the view that is asked for.

    Args:
        pool: that it begins from.
        settings: see `ClusteringSettings`.
        generation: of the cohort's last start.
        blocks: (width,) of the fingerprints.
        rng: for K-means.
        only: view to look at; None: see `_views`.
    """
    directions = np.concatenate([one.directions for one in pool.rounds]).astype(np.float64)
    views = _views(pool, directions, settings, blocks, rng, only)
    if not views:
        return None
    first, *others = views
    points, along = first.points, first.along
    clusters = first.structure.clusters if settings.finds_number else settings.clusters
    if len(points) < 2 * clusters or distinct(along) < clusters:
        return None
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

    seed = int(rng.integers(2**31))
    start = KMeans(clusters, n_init=settings.kmeans_starts, random_state=seed).fit(along)
    # Clusters that there are not have no direction: nobody is near them, and their numbers stay free.
    centres = np.zeros((settings.clusters, points.shape[1]))
    for cluster in np.unique(start.labels_):
        centres[cluster] = points[start.labels_ == cluster].mean(axis=0)
    other = next((one.name for one in others if one.structure.shown >= settings.min_structure), None)
    return Started(ClusteringState(generation + 1, centres), first.view, first.structure, other)


@dataclass(frozen=True)
class _Viewed:
    """A pool in one view."""

    name: ViewName
    view: View
    points: FloatArray  # (fingerprints, width)
    along: FloatArray  # (fingerprints, axes) the same along their principal axes
    structure: Structure  # that they show


def _views(
    pool: Pool,
    directions: FloatArray,
    settings: ClusteringSettings,
    blocks: IntArray | None,
    rng: np.random.Generator,
    only: ViewName | None,
) -> list[_Viewed]:
    """Return the views of the pool, each with the structure that it shows, the one to begin with first.

    That is the one without class frequencies, unless updates as they are show much more: frequencies of clients' own
    are clusters of a kind, whether or not they are worth anything, and hide groups that differ in something else.
    """
    outputs = _outputs(pool)
    first_half = np.concatenate([one.first_half for one in pool.rounds])
    views: list[tuple[ViewName, View]] = [("plain", View())]
    other = without_frequencies(directions, outputs) if settings.views == "both" else None
    if other is not None:
        views.append(("without frequencies", other))
    viewed = []
    for name, view in views:
        if only is None or name == only:
            points = cluster_space(view.of(directions, outputs), blocks, np.zeros(directions.shape[1]))
            along = principal(points)
            found = structure(along, first_half, settings.clusters, rng, enough=settings.min_structure)
            viewed.append(_Viewed(name, view, points, along, found))

    def order(one: _Viewed) -> tuple[bool, float]:
        beyond_chance = (one.structure.shown - 1) * (1.0 if one.name == "plain" else _SECOND_COUNTS)
        return one.structure.shown < settings.min_structure, -beyond_chance

    return sorted(viewed, key=order)


def _outputs(pool: Pool) -> FloatArray:
    return np.concatenate([one.outputs for one in pool.rounds]).astype(np.float64)


def _centred(rows: FloatArray) -> FloatArray:
    return rows - rows.mean(axis=0, keepdims=True) if len(rows) else rows
