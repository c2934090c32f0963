"""How many clusters there are (the paper's K): as many as explain most of points that they were not made from.

That is also how much structure there is: where clusters explain no more than of a cloud without any, there are none.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import BoolArray, FloatArray, IntArray

_POINTS = 2000  # that structure is looked for among; more make it slower and hardly surer; our choice
_AXES = 50  # principal axes that it is looked for along: what lies beyond them is noise; our choice
_POWERS = 4  # of the points' spread, by which first axes stand out; as scikit-learn has it for few axes
_STARTS = 2  # of K-means, when structure is looked for; our choice
_MOST_STEPS = 20  # of K-means
_TOLERANCE = 1e-3  # of the points' variance, by which centres still move when K-means ends
_NEGLIGIBLE = 1e-9
_DECIMALS = 9  # in which points that differ do, which have length one
_CLEARLY = 0.02  # of a silhouette, which is 1 for points and -1 for none; our choice
_POINTS_A_CLUSTER = 10  # in each half; with fewer the comparison is chance; our choice
STANDS_OUT = 1.3
"""Structure beyond that of a cloud without clusters: chance shows up to 1.2; our choice."""


@dataclass(frozen=True)
class Structure:
    """How far points are from a cloud without clusters."""

    shown: float  # what clusters explain, in parts of what they would of a cloud; infinity: nobody can tell
    clusters: int  # with which most is shown


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
        rng: for the normal points, for the points that are taken of many, and for K-means.
    """
    if len(along) > _POINTS:
        kept = np.sort(rng.permutation(len(along))[:_POINTS])
        along, halves = along[kept], halves[kept]
    if min(halves.sum(), (~halves).sum()) < _POINTS_A_CLUSTER * clusters:
        return Structure(float("inf"), clusters)
    counts = range(2, min(clusters, distinct(along[halves])) + 1)
    if not counts:
        return Structure(0.0, 2)
    cloud = rng.standard_normal(along.shape) * along.std(axis=0)
    found = np.array([_odds(_explained(along, halves, count, rng)) for count in counts])
    chance = np.array([_odds(_explained(cloud, halves, count, rng)) for count in counts])
    ratios = found / np.maximum(chance, 1 / len(along))
    best = int(ratios.argmax())
    return Structure(float(ratios[best]), counts[best])


def kmeans(points: FloatArray, number: int, starts: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return (number, axes) centres and (points,) labels, the best of some starts (K-means++).

    For a few hundred points scikit-learn takes three times as long to get ready as to do it.
    """
    best, least = (points[:number], np.zeros(len(points), dtype=np.int64)), np.inf
    for _ in range(starts):
        centres, labels, left = _kmeans(points, _spread_out(points, number, rng))
        if left < least:
            best, least = (centres, labels), left
    return best


def _spread_out(points: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Return some of the points, each drawn by its squared distance from those before."""
    chosen = [int(rng.integers(len(points)))]
    apart = squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < number:
        drawn = int(np.searchsorted(np.cumsum(apart), rng.random() * apart.sum()))
        chosen.append(min(drawn, len(points) - 1))
        apart = np.minimum(apart, squared_distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]


def _kmeans(points: FloatArray, centres: FloatArray) -> tuple[FloatArray, IntArray, float]:
    """Return centres, labels and the squared distances that are left, from these centres on."""
    enough = _TOLERANCE * float(points.var(axis=0).mean())
    for _ in range(_MOST_STEPS):
        belongs = squared_distances(points, centres).argmin(axis=1)[:, None] == np.arange(len(centres))[None, :]
        members = belongs.sum(axis=0)[:, None]
        moved = np.where(members > 0, belongs.T.astype(np.float64) @ points / np.maximum(members, 1), centres)
        far = float(((moved - centres) ** 2).sum())
        centres = moved
        if far <= enough:
            break
    squares = squared_distances(points, centres)
    return centres, squares.argmin(axis=1), float(squares.min(axis=1).sum())


def squared_distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return (points, centres) squared distances."""
    within = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(within - 2 * points @ centres.T, 0.0))


def silhouettes(along: FloatArray, clusters: int, rng: np.random.Generator) -> int:
    """Return the number of clusters, 2 to so many, that are farthest apart for how wide they are.

    For points that are too few to be held against each other. More clusters have to be clearly farther apart.
    """
    from sklearn.metrics import silhouette_score  # noqa: PLC0415 - slow to import, and a device never needs it

    best, widest = 2, -1.0
    for number in range(2, min(clusters, distinct(along), len(along) - 1) + 1):
        _, labels = kmeans(along, number, _STARTS, rng)
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


def _explained(points: FloatArray, first: BoolArray, clusters: int, rng: np.random.Generator) -> float:
    """Return the share of the second half's squared distances that the first half's centres explain."""
    known, others = points[first], points[~first]
    centres, _ = kmeans(known, clusters, _STARTS, rng)
    total = ((others - known.mean(axis=0)) ** 2).sum()
    return float(1 - squared_distances(others, centres).min(axis=1).sum() / total) if total > 0 else 0.0
