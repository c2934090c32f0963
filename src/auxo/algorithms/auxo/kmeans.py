"""K-means, for a few hundred points at a time: scikit-learn takes three times as long to get ready as to do it.

Clusters are divided one by one, each time the widest along its widest axis. That leaves as little as the best of many
starts by chance, in a fraction of the time, and gives the centres for every number of clusters on the way. A start by
chance can still be better where points are few, or clusters unequal.
"""

from collections.abc import Iterator

import numpy as np

from auxo.core.types import FloatArray, IntArray

_MOST_STEPS = 20
_STEPS_ON_THE_WAY = 10  # from one number of clusters to the next
_TOLERANCE = 1e-3  # of the points' variance, by which centres still move when it ends


def kmeans(points: FloatArray, number: int, starts: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return (number, axes) centres and (points,) labels: the best of divided clusters and of some starts by chance."""
    *_, by_division = divided(points, number)
    return best_of(points, by_division, starts, rng)


def best_of(
    points: FloatArray, start: FloatArray, starts: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Return the centres and labels that a start leads to, or some by chance, if less is left of the points there."""
    best, least = (start, np.zeros(len(points), dtype=np.int64)), np.inf
    for one in (start, *(_spread_out(points, len(start), rng) for _ in range(starts))):
        centres = _settled(points, one, _MOST_STEPS)
        squares = squared_distances(points, centres)
        left = float(squares.min(axis=1).sum())
        if left < least:
            best, least = (centres, squares.argmin(axis=1)), left
    return best


def divided(points: FloatArray, most: int) -> Iterator[FloatArray]:
    """Yield (number, axes) centres of 2 clusters, of 3, and so on up to ``most``.

    Axes should be principal ones: a cluster is divided along one of them.
    """
    centres, squared = points.mean(axis=0, keepdims=True), points**2
    for number in range(1, most):
        belongs = _members(points, centres)
        counts = np.maximum(belongs.sum(axis=1, keepdims=True), 1)
        means = belongs @ points / counts
        spread = np.maximum(belongs @ squared - counts * means**2, 0.0)
        widest, axis = np.unravel_index(int(spread.argmax()), spread.shape)
        aside = np.zeros(points.shape[1])
        aside[axis] = np.sqrt(spread[widest, axis] / counts[widest, 0])
        others = centres[np.arange(number) != widest]
        centres = _settled(points, np.vstack([others, means[widest] - aside, means[widest] + aside]), _STEPS_ON_THE_WAY)
        yield centres


def squared_distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return (points, centres) squared distances."""
    within = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(within + points @ (-2 * centres.T), 0.0))


def _spread_out(points: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Return some of the points, each drawn by its squared distance from those before (K-means++)."""
    chosen = [int(rng.integers(len(points)))]
    apart = squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < number:
        drawn = int(np.searchsorted(np.cumsum(apart), rng.random() * apart.sum()))
        chosen.append(min(drawn, len(points) - 1))
        apart = np.minimum(apart, squared_distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]


def _settled(points: FloatArray, centres: FloatArray, steps: int) -> FloatArray:
    """Return where centres come to in some steps."""
    enough = _TOLERANCE * float(points.var(axis=0).mean())
    for _ in range(steps):
        belongs = _members(points, centres)
        counts = belongs.sum(axis=1, keepdims=True)
        moved = np.where(counts > 0, belongs @ points / np.maximum(counts, 1), centres)
        far = float(((moved - centres) ** 2).sum())
        centres = moved
        if far <= enough:
            break
    return centres


def _members(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return (centres, points) 1 for the nearest centre of each point, else 0."""
    nearest = ((centres**2).sum(axis=1)[None, :] + points @ (-2 * centres.T)).argmin(axis=1)
    belongs = np.zeros((len(centres), len(points)))
    belongs[nearest, np.arange(len(points))] = 1
    return belongs
