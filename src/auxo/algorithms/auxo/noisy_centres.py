"""Noisy centres: groups in sketches each of which is mostly noise.

How much noise there is the sketches say themselves: all are equally long, and their mean has length one at most. So
there is no need to guess what a cloud without groups would look like. Along an axis on which nobody differs, the
variance of noise does not exceed a bound that is known (Johnstone, On the distribution of the largest eigenvalue in
principal components analysis, 2001); along the others a mixture of normal clouds is fitted, which takes into account
that neighbouring clouds overlap: centres of points that are told apart by their noise would lie too far out.
"""

from dataclasses import dataclass

import numpy as np

from auxo.algorithms.auxo.kmeans import kmeans, squared_distances
from auxo.core.types import FloatArray

_QUANTILE = 0.98  # of Tracy and Widom's law: noise alone shows an axis in one look of twenty
_SHARE = 0.1  # of clients' length, squared, that an axis has to have in it to be found at the first look; our choice
_STARTS = 6  # of the mixture, of which the best counts; our choice
_MOST_STEPS = 100
_STILL = 1e-6  # squared distance that centres move when it ends


@dataclass(frozen=True)
class Mixture:
    """Normal clouds of one shape, fitted to points."""

    centres: FloatArray  # (clouds, axes)
    log_likelihood: float


def same_length(sketches: FloatArray) -> FloatArray:
    """Return sketches as long as most of them are: who sends a longer one than its mechanism gives counts no more."""
    lengths = np.linalg.norm(sketches, axis=1, keepdims=True)
    return np.asarray(sketches * np.median(lengths) / np.where(lengths > 0, lengths, 1.0))


def needed(sketches: FloatArray) -> int:
    """Return how many sketches like these show an axis in which clients differ; noise hides it in fewer.

    An axis shows once its variance is above the noise's times the root of (width / sketches) (Baik, Ben Arous and
    Peche, 2005).

    >>> needed(np.full((10, 32), np.sqrt(14.2 / 32)))  # of 32 numbers at an epsilon of 4
    631
    """
    n, width = sketches.shape
    noise = float((sketches**2).sum()) / (n * width)
    return int(np.ceil(width * (noise / _SHARE) ** 2))


def noisy_centres(sketches: FloatArray, most: int, rng: np.random.Generator) -> FloatArray | None:
    """Return (clusters, width) centres, without what all have in common; None: nothing but noise is to be seen.

    Two at least where clients differ: whether they are better off apart is for a trial to say. More where a mixture
    of more clouds is worth its numbers (Schwarz, Estimating the dimension of a model, 1978).

    Args:
        sketches: (clients, width) each round's without their mean.
        most: centres there may be.
        rng: for the mixture.
    """
    n = len(sketches)
    if n < 2 * most:
        return None
    axes, floor = _telling_axes(sketches)
    axes = axes[:, : most - 1]
    if axes.shape[1] == 0:
        return None
    points = sketches @ axes
    fits = [_best_mixture(points, clouds, floor, rng) for clouds in range(2, most + 1)]
    numbers = [len(one.centres) * (axes.shape[1] + 1) - 1 for one in fits]
    worth = [count * np.log(n) - 2 * one.log_likelihood for count, one in zip(numbers, fits, strict=True)]
    return np.asarray(fits[int(np.argmin(worth))].centres @ axes.T)


def _telling_axes(sketches: FloatArray) -> tuple[FloatArray, float]:
    """Return (width, axes) on which clients differ by more than noise, widest first, and the others' variance."""
    n, width = sketches.shape
    values, axes = np.linalg.eigh(sketches.T @ sketches / n)
    values, axes = values[::-1], axes[:, ::-1]
    for found in range(width - 1):
        rest = float(values[found:].mean())
        ratio = (width - found) / n
        edge = (1 + np.sqrt(ratio)) ** 2
        beyond = (1 + np.sqrt(ratio)) ** (4 / 3) * n ** (-2 / 3) * ratio ** (-1 / 6)
        if values[found] <= rest * (edge + _QUANTILE * beyond):
            return axes[:, :found], rest
    return axes[:, : width - 1], float(values[-1])


def _best_mixture(points: FloatArray, clouds: int, floor: float, rng: np.random.Generator) -> Mixture:
    return max((_mixture(points, clouds, floor, rng) for _ in range(_STARTS)), key=lambda found: found.log_likelihood)


def _mixture(points: FloatArray, clouds: int, floor: float, rng: np.random.Generator) -> Mixture:
    """Return a mixture by expectation and maximisation; no cloud is narrower than the noise."""
    axes, energy = points.shape[1], (points**2).mean(axis=0)
    centres, _ = kmeans(points, clouds, 1, rng)
    shares, variances, total = np.full(clouds, 1 / clouds), np.full(axes, floor), -np.inf
    for _ in range(_MOST_STEPS):
        widths = np.sqrt(variances)
        squares = squared_distances(points / widths, centres / widths)
        logs = np.log(shares) - squares / 2 - np.log(2 * np.pi * variances).sum() / 2
        largest = logs.max(axis=1, keepdims=True)
        odds = np.exp(logs - largest)
        sums = odds.sum(axis=1, keepdims=True)
        total, belongs = float((largest + np.log(sums)).sum()), odds / sums
        members = belongs.sum(axis=0) + np.finfo(np.float64).tiny
        moved, shares = belongs.T @ points / members[:, None], members / members.sum()
        variances = np.maximum(energy - shares @ moved**2, floor)
        far, centres = float(((moved - centres) ** 2).sum()), moved
        if far <= _STILL:
            break
    return Mixture(centres, total)
