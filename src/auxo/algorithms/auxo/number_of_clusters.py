"""How many clusters there are (the paper's K): as many as explain most of points that they were not made from.

That is also how much structure there is: where clusters explain no more than of a cloud without any, there are none.
"""

from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo.kmeans import best_of, divided, squared_distances
from auxo.core.types import BoolArray, FloatArray, IntArray

_POINTS = 500  # by which axes are found; more make it slower and hardly surer; our choice
_AXES = 50  # principal axes that it is looked for along: what lies beyond them is noise; our choice
_POWERS = 1  # of the points' spread, by which first axes stand out; our choice
_STARTS, _FEW = 2, 100  # starts of K-means by chance, where points are fewer than that; our choice
_NEGLIGIBLE = 1e-9
_DECIMALS = 6  # in which points that differ do, which have length one; their axes are found in single precision
_MARGIN, _CLEAR = 0.02, 0.1  # of a silhouette, which is 1 for points and -1 for none; our choice
_POINTS_A_CLUSTER = 10  # in each half; with fewer the comparison is chance; our choice
_TOGETHER = 3.0  # what clusters of classes that come in groups explain, in parts of what they would; our choice
STANDS_OUT = 1.3
"""Structure beyond that of a cloud without clusters: chance shows up to 1.2; our choice."""


@dataclass(frozen=True)
class Structure:
    """How far points are from a cloud without clusters."""

    shown: float  # what clusters explain, in parts of what they would of a cloud; infinity: nobody can tell
    clusters: int  # with which most is shown


def told_by(halves: BoolArray) -> int:
    """Return how many clusters can be told from points of which these are in the first half."""
    return int(min(halves.sum(), (~halves).sum())) // _POINTS_A_CLUSTER


def structure(along: FloatArray, halves: BoolArray, clusters: int, rng: np.random.Generator) -> Structure:
    """Return how much more clusters explain of points than of a cloud without any, spread in the same directions.

    Centres of one half of the points are held against the other half. What they explain there over what they do not is
    divided by the same of as many normal points with the same principal axes: about 1 where there are no clusters. It
    is largest with as many clusters as there are, so long as these are about alike: with fewer some are not told
    apart, and with more chance is explained on both sides.

    Args:
        along: (updates, axes) points along their principal axes, see `principal`.
        halves: (updates,) whether each belongs to the first half.
        clusters: most that K-means looks for.
        rng: for the normal points.
    """
    if told_by(halves) < clusters:
        return Structure(float("inf"), clusters)
    counts = range(2, min(clusters, distinct(along[halves])) + 1)
    if not counts:
        return Structure(0.0, 2)
    cloud = rng.standard_normal(along.shape) * along.std(axis=0)
    found, chance = (_odds(_explained(points, halves, counts[-1])) for points in (along, cloud))
    ratios = found / np.maximum(chance, 1 / len(along))
    best = int(ratios.argmax())
    return Structure(float(ratios[best]), counts[best])


def hang_together(points: FloatArray, halves: BoolArray, clusters: int, rng: np.random.Generator) -> bool:
    """Return whether classes come in groups: clusters explain far more than if each class came by itself.

    Class frequencies of clients are no normal cloud even where each client has its own. So they are held against rows
    in which every class has the frequencies it has, those of clients by chance: with groups of classes clusters explain
    7 to 60 times as much as there, else at most 1.7 times.

    Args:
        points: (updates, classes) what is seen of each class, less the mean over classes.
        halves: (updates,) whether each belongs to the first half.
        clusters: most that K-means looks for.
        rng: for the rows.
    """
    if told_by(halves) < clusters:
        return False
    alone = rng.permuted(points, axis=0)
    alone -= alone.mean(axis=1, keepdims=True)
    found, chance = (_odds(_explained(principal(one), halves, clusters)) for one in (points, alone))
    least = clusters / len(points)  # that so many centres of so few points are off by
    return bool((found / np.maximum(chance, least)).max() > _TOGETHER)


def silhouettes(along: FloatArray, clusters: int, rng: np.random.Generator) -> int | None:
    """Return the number of clusters that are farthest apart for how wide they are; None: none are clear.

    For points that are too few to be held against each other. More clusters have to be farther apart by a margin.
    """
    best, widest = 2, -1.0
    distances = np.sqrt(squared_distances(along, along))
    np.fill_diagonal(distances, 0.0)
    starts = _STARTS if len(along) < _FEW else 0
    most = max(2, min(clusters, distinct(along), len(along) - 1))
    for centres in divided(along, most):
        _, labels = best_of(along, centres, starts, rng)
        apart = _silhouette(distances, labels)
        if apart > widest + _MARGIN:
            best, widest = len(centres), apart
    return best if widest > _CLEAR else None


def _silhouette(distances: FloatArray, labels: IntArray) -> float:
    """Return how much nearer points are to their own cluster than to the next one, in parts of the larger; -1 of one.

    The same as scikit-learn's, which measures all distances anew and takes longer to check what it is given.
    """
    names, own = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        return -1.0
    belongs = (own[:, None] == np.arange(len(names))[None, :]).astype(np.float64)
    sums, counts = distances @ belongs, belongs.sum(axis=0)
    rows = np.arange(len(own))
    within = sums[rows, own] / np.maximum(counts[own] - 1, 1)
    others = sums / counts
    others[rows, own] = np.inf
    beyond = others.min(axis=1)
    widths = np.maximum(np.maximum(within, beyond), _NEGLIGIBLE)
    return float(np.where(counts[own] > 1, (beyond - within) / widths, 0.0).mean())


def principal(points: FloatArray) -> FloatArray:
    """Return (points, axes) points along their first principal axes: what lies beyond them is noise."""
    from sklearn.utils.extmath import randomized_svd  # noqa: PLC0415 - slow to import, and a device never needs it

    centred = (points - points.mean(axis=0)).astype(np.float32)
    axes = min(_AXES, *centred.shape)
    # A random subspace that holds the first axes, in a fraction of the time that all of them take, and found by some
    # of the points if they are many. Which one it is follows from the points alone, and within it the axes are exact.
    some = centred[:: -(-len(centred) // _POINTS)]
    _, _, basis = randomized_svd(some, min(axes, len(some)), n_iter=_POWERS, random_state=0)
    within = (centred @ basis.T).astype(np.float64)
    _, turned = np.linalg.eigh(within.T @ within)
    return np.asarray(within @ turned)


def distinct(along: FloatArray) -> int:
    """Return how many different points there are; equal ones may have come apart by rounding."""
    return len(np.unique(np.round(along, _DECIMALS), axis=0))


def _odds(shares: FloatArray) -> FloatArray:
    """Return what is explained over what is not: along few axes much is explained by chance, and shares are alike."""
    return np.maximum(shares, 0.0) / np.maximum(1 - shares, _NEGLIGIBLE)


def _explained(points: FloatArray, first: BoolArray, most: int) -> FloatArray:
    """Return the share of the second half's squared distances that the first half's centres explain, for 2 to most."""
    known, others = points[first], points[~first]
    total = ((others - known.mean(axis=0)) ** 2).sum()
    if total <= 0:
        return np.zeros(most - 1)
    return np.array([1 - squared_distances(others, one).min(axis=1).sum() / total for one in divided(known, most)])
