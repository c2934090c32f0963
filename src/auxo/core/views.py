"""Two views of updates: as they are, and without what a client's class frequencies explain.

How often a client has each class sets the direction of its update more than anything else, and where every client has
frequencies of its own, K-means finds those and not the groups whose inputs look different or mean different things. The
biases of a classifier's last layer move by just these frequencies, less what the model expected, so they tell how much
of an update is due to them. Where groups differ in their frequencies alone, that is the part to look at.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import BoolArray, FloatArray

_UPDATES_AN_OUTPUT = 8  # with fewer the regression would fit chance; our choice
_RIDGE = 1e-5  # of the outputs' mean variance: they sum to a constant, so one direction of them has none
_POINTS = 1000  # that structure is looked for among; more make it slower and hardly surer; our choice
_AXES = 50  # principal axes that it is looked for along: what lies beyond them is noise; our choice
_STARTS = 3  # of K-means, when structure is looked for; our choice
_NEGLIGIBLE = 1e-9
_CLOUDS = 4  # without clusters that points are held against; our choice
_POINTS_A_CLUSTER = 10  # in each half; with fewer the comparison is chance; our choice


@dataclass(frozen=True)
class View:
    """What updates are looked at without; nothing in it belongs to a client."""

    explained: FloatArray | None = None  # (outputs, width) that the outputs add to a direction; None: nothing

    def of(self, directions: FloatArray, outputs: FloatArray) -> FloatArray:
        """Return (participants, width) directions as they are seen.

        Args:
            directions: updates scaled to length one.
            outputs: (participants, outputs) how their last layer's biases moved, see `Fingerprint.outputs`.
        """
        return directions if self.explained is None else directions - outputs @ self.explained


def without_frequencies(directions: FloatArray, outputs: FloatArray) -> View | None:
    """Return the view without what a least-squares fit on the outputs explains; None where there is too little to fit.

    Args:
        directions: (updates, width), each without the mean of its round.
        outputs: (updates, outputs), likewise.
    """
    updates, n_outputs = outputs.shape
    if n_outputs < 2 or updates < _UPDATES_AN_OUTPUT * n_outputs:
        return None
    moments = outputs.T @ outputs
    ridge = _RIDGE * float(np.trace(moments)) / n_outputs
    if ridge <= 0:
        return None
    return View(np.linalg.solve(moments + ridge * np.eye(n_outputs), outputs.T @ directions))


def structure(points: FloatArray, halves: BoolArray, clusters: int, rng: np.random.Generator) -> float:
    """Return how much more clusters explain than they would of a cloud without any, spread in the same directions.

    Centres of one half of the points are held against the other half. What they explain there over what they do not is
    divided by the same of as many normal points with the same principal axes: about 1 where there are no clusters, and
    infinity where there are too few points to tell.

    Args:
        points: (updates, width) of length one.
        halves: (updates,) whether each belongs to the first half.
        clusters: that K-means looks for.
        rng: for the normal points, for the points that are taken of many, and for K-means.
    """
    if len(points) > _POINTS:
        kept = np.sort(rng.permutation(len(points))[:_POINTS])
        points, halves = points[kept], halves[kept]
    if min(halves.sum(), (~halves).sum()) < _POINTS_A_CLUSTER * clusters:
        return float("inf")
    centred = points - points.mean(axis=0)
    variances, axes = np.linalg.eigh(centred @ centred.T)
    variances, axes = variances[-_AXES:], axes[:, -_AXES:]
    spread = np.sqrt(np.maximum(variances, 0.0))
    seed = int(rng.integers(2**31))
    clouds = [rng.standard_normal(axes.shape) * (spread / np.sqrt(len(points))) for _ in range(_CLOUDS)]
    shown = []
    for count in sorted({2, clusters}):  # two groups show best in two clusters, many in many
        found = _explained(axes * spread, halves, count, seed)
        by_chance = float(np.mean([_explained(cloud, halves, count, seed) for cloud in clouds]))
        shown.append(_odds(found) / max(_odds(by_chance), 1 / len(points)))
    return max(shown)


def _odds(share: float) -> float:
    """Return what is explained over what is not: along few axes much is explained by chance, and shares are alike."""
    return max(share, 0.0) / max(1 - share, _NEGLIGIBLE)


def _explained(points: FloatArray, first: BoolArray, clusters: int, seed: int) -> float:
    """Return the share of the second half's squared distances that the first half's centres explain."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

    known, others = points[first], points[~first]
    if len(np.unique(known, axis=0)) < clusters:
        return 0.0
    fitted = KMeans(clusters, n_init=_STARTS, random_state=seed).fit(known)
    left = ((others - fitted.cluster_centers_[fitted.predict(others)]) ** 2).sum()
    total = ((others - known.mean(axis=0)) ** 2).sum()
    return float(1 - left / total) if total > 0 else 0.0
