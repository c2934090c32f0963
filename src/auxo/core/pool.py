"""A pool of recent updates' fingerprints, nobody's name beside them: clustering starts from many rounds, not from one.

K-means that sees one round's participants can be wrong for ever, since every later centre is made of its labels.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.clustering import ClusteringSettings, ClusteringState
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
class Pool:
    """Fingerprints of past rounds, each without what its round's participants shared. It is lost without harm."""

    rounds: tuple[Float32Array, ...] = ()  # (participants, width) each

    @property
    def sketches(self) -> int:
        """Return how many fingerprints there are."""
        return sum(map(len, self.rounds))

    def after(self, points: FloatArray, settings: ClusteringSettings) -> "Pool":
        """Return the pool with one more round; of too many the oldest ones go."""
        rounds = (*self.rounds, points.astype(np.float32))
        while len(rounds) > 1 and sum(map(len, rounds[1:])) >= settings.pool_most:
            rounds = rounds[1:]
        return Pool(rounds)

    def is_full(self, settings: ClusteringSettings) -> bool:
        """Return whether there is enough to start from: so many rounds, and so many fingerprints a cluster."""
        enough = settings.pool_per_cluster * settings.clusters
        return len(self.rounds) >= settings.pool_rounds and self.sketches >= enough


def start_clustering(
    pool: Pool, settings: ClusteringSettings, generation: int, rng: np.random.Generator
) -> ClusteringState | None:
    """Return the clustering that K-means over the whole pool begins; None where there are too few different points."""
    points = np.concatenate(pool.rounds).astype(np.float64)
    if len(points) < 2 * settings.clusters or len(np.unique(points, axis=0)) < settings.clusters:
        return None
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

    seed = int(rng.integers(2**31))
    found = KMeans(settings.clusters, n_init=settings.kmeans_starts, random_state=seed).fit(points)
    return ClusteringState(generation + 1, found.cluster_centers_)
