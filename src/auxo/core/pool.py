"""A pool of recent updates' fingerprints, nobody's name beside them: clustering starts from many rounds, not from one.

K-means that sees one round's participants can be wrong for ever, since every later centre is made of its labels.
"""

from dataclasses import dataclass, field

import numpy as np

from auxo.core.clustering import ClusteringSettings, ClusteringState, cluster_space
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.core.views import View, structure, without_frequencies


@dataclass(frozen=True)
class PooledRound:
    """A round's fingerprints without what its participants shared."""

    directions: Float32Array  # (participants, width)
    outputs: Float32Array = field(default_factory=lambda: np.zeros((0, 0), np.float32))  # (participants, outputs)

    @staticmethod
    def of(directions: FloatArray, outputs: FloatArray) -> "PooledRound":
        """Return what is kept of a round, see `View.of`."""
        return PooledRound(*(_centred(one).astype(np.float32) for one in (directions, outputs)))


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
    structure: float  # that the pool shows in it, see `auxo.core.views.structure`


def start_clustering(
    pool: Pool,
    settings: ClusteringSettings,
    generation: int,
    blocks: IntArray | None,
    rng: np.random.Generator,
) -> Started | None:
    """Return the clustering that K-means over the whole pool begins; None where there are too few different points.

    Updates are viewed with or without what class frequencies explain, whichever shows more structure.
    """
    directions = np.concatenate([one.directions for one in pool.rounds]).astype(np.float64)
    view, shown = _view(pool, directions, settings, blocks, rng)
    points = cluster_space(view.of(directions, _outputs(pool)), blocks, np.zeros(directions.shape[1]))
    if len(points) < 2 * settings.clusters or len(np.unique(points, axis=0)) < settings.clusters:
        return None
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

    seed = int(rng.integers(2**31))
    found = KMeans(settings.clusters, n_init=settings.kmeans_starts, random_state=seed).fit(points)
    return Started(ClusteringState(generation + 1, found.cluster_centers_), view, shown)


def _view(
    pool: Pool, directions: FloatArray, settings: ClusteringSettings, blocks: IntArray | None, rng: np.random.Generator
) -> tuple[View, float]:
    """Return the view with more structure, and how much that is."""
    outputs = _outputs(pool)
    other = without_frequencies(directions, outputs) if settings.views == "both" else None
    number = np.repeat(np.arange(len(pool.rounds)), [len(one.directions) for one in pool.rounds])
    shown = [
        structure(
            cluster_space(view.of(directions, outputs), blocks, np.zeros(directions.shape[1])),
            number % 2 == 0,
            settings.clusters,
            rng,
        )
        for view in (View(), *((other,) if other else ()))
    ]
    return (other, shown[1]) if other and shown[1] > shown[0] else (View(), shown[0])


def _outputs(pool: Pool) -> FloatArray:
    return np.concatenate([one.outputs for one in pool.rounds]).astype(np.float64)


def _centred(rows: FloatArray) -> FloatArray:
    return rows - rows.mean(axis=0, keepdims=True) if len(rows) else rows
