"""How many clusters there are (the paper's K): as many as explain most of points that they were not made from.

That is also how much structure there is: where clusters explain no more than of a cloud without any, there are none.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import BoolArray, FloatArray

_POINTS = 2000  # that structure is looked for among; more make it slower and hardly surer; our choice
_AXES = 50  # principal axes that it is looked for along: what lies beyond them is noise; our choice
_POWERS = 4  # of the points' spread, by which first axes stand out; as scikit-learn has it for few axes
_STARTS = 2  # of K-means, when structure is looked for; our choice
_TOLERANCE = 1e-3  # of the points' variance, by which centres still move when K-means ends, ten times the usual
_NEGLIGIBLE = 1e-9
_DECIMALS = 9  # in which points that differ do, which have length one
_CLOUDS = 3  # without clusters that points are held against; our choice
_CLEARLY = 0.02  # of a silhouette, which is 1 for points and -1 for none; our choice
_DEVIATIONS = 2.0  # by which chance may have raised what points show; our choice
_POINTS_A_CLUSTER = 10  # in each half; with fewer the comparison is chance; our choice


@dataclass(frozen=True)
class Structure:
    """How far points are from a cloud without clusters."""

    shown: float  # what clusters explain at least, in parts of what they would of a cloud; infinity: nobody can tell
    clusters: int  # with which most is shown


def structure(along: FloatArray, halves: BoolArray, clusters: int, rng: np.random.Generator) -> Structure:
    """Return how much more clusters explain of points than of a cloud without any, spread in the same directions.

    Centres of one half of the points are held against the other half. What they explain there over what they do not is
    divided by the same of as many normal points with the same principal axes: about 1 where there are no clusters. It
    is largest with as many clusters as there are, so long as these are about alike: with fewer some are not told
    apart, and with more chance is explained on both sides. How far clouds differ from each other tells how far chance
    may have raised it; that is taken off, and few points have to show more.

    Args:
        along: (updates, axes) points along their principal axes, see `principal`.
        halves: (updates,) whether each belongs to the first half.
        clusters: most that K-means looks for.
        rng: for the normal points, for the points that are taken of many, and for K-means.
    """
    if len(along) > _POINTS:
        kept = np.sort(rng.permutation(len(along))[:_POINTS])
        along, halves = along[kept], halves[kept]
    if min(halves.sum(), (~halves).sum()) < _POINTS_A_CLUSTER * clusters:
        return Structure(float("inf"), clusters)
    seed = int(rng.integers(2**31))
    clouds = [rng.standard_normal(along.shape) * along.std(axis=0) for _ in range(_CLOUDS)]
    counts = range(2, min(clusters, distinct(along[halves])) + 1)
    if not counts:
        return Structure(0.0, 2)
    found = np.array([_odds(_explained(along, halves, count, seed)) for count in counts])
    chance = np.zeros((len(clouds), len(counts)))
    for number, cloud in enumerate(clouds):
        odds = [_odds(_explained(cloud, halves, count, seed)) for count in counts]
        chance[number] = np.maximum(odds, 1 / len(along))
    usual = chance.mean(axis=0)
    best = int(np.argmax(found / usual))
    spread_of_one = float(np.sqrt(((chance / usual - 1) ** 2).sum() / ((_CLOUDS - 1) * len(counts))))
    may_be_off = spread_of_one * np.sqrt(1 + 1 / _CLOUDS)
    return Structure(float(found[best] / usual[best]) / (1 + _DEVIATIONS * may_be_off), counts[best])


def silhouettes(along: FloatArray, clusters: int, rng: np.random.Generator) -> int:
    """Return the number of clusters, 2 to so many, that are farthest apart for how wide they are.

    For points that are too few to be held against each other. More clusters have to be clearly farther apart.
    """
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it
    from sklearn.metrics import silhouette_score  # noqa: PLC0415 - likewise

    seed = int(rng.integers(2**31))
    best, widest = 2, -1.0
    for number in range(2, min(clusters, distinct(along), len(along) - 1) + 1):
        labels = KMeans(number, n_init=_STARTS, random_state=seed).fit(along).labels_
        apart = float(silhouette_score(along, labels)) if len(np.unique(labels)) > 1 else -1.0
        if apart > widest + _CLEARLY:
            best, widest = number, apart
    return best


def principal(points: FloatArray) -> FloatArray:
    """Return (points, axes) points along their first principal axes: what lies beyond them is noise."""
    from sklearn.utils.extmath import randomized_svd  # noqa: PLC0415 - slow to import, and a device never needs it

    centred = points - points.mean(axis=0)
    axes = min(_AXES, *centred.shape)
    # A random subspace that holds the first axes, in a fraction of the time that all of them take. Which one it is
    # follows from the points alone, and within it the axes are exact.
    _, _, basis = randomized_svd(centred, axes, n_iter=_POWERS, random_state=0)
    within = centred @ basis.T
    _, turned = np.linalg.eigh(within.T @ within)
    return np.asarray(within @ turned)


def distinct(along: FloatArray) -> int:
    """Return how many different points there are; equal ones may have come apart by rounding."""
    return len(np.unique(np.round(along, _DECIMALS), axis=0))


def _odds(share: float) -> float:
    """Return what is explained over what is not: along few axes much is explained by chance, and shares are alike."""
    return max(share, 0.0) / max(1 - share, _NEGLIGIBLE)


def _explained(points: FloatArray, first: BoolArray, clusters: int, seed: int) -> float:
    """Return the share of the second half's squared distances that the first half's centres explain."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

    known, others = points[first], points[~first]
    fitted = KMeans(clusters, n_init=_STARTS, tol=_TOLERANCE, random_state=seed).fit(known)
    left = ((others - fitted.cluster_centers_[fitted.predict(others)]) ** 2).sum()
    total = ((others - known.mean(axis=0)) ** 2).sum()
    return float(1 - left / total) if total > 0 else 0.0
