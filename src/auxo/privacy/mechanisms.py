"""The mechanisms: what turns something that was worked out from samples into something that may leave a client.

Dwork and Roth, The algorithmic foundations of differential privacy, 2014, has them all. What each costs is said by
`auxo.privacy.accounting`; here chance is an argument, so that each is a function of values.
"""

from math import exp

import numpy as np

from auxo.core.types import Float32Array, FloatArray


def clipped(vector: FloatArray | Float32Array, longest: float) -> FloatArray:
    """Return a vector, shortened to a length where it is longer; one that is not finite becomes zero.

    Zero, and not a failure: that training has diverged says something about the samples, too.

    >>> clipped(np.array([3.0, 4.0]), 1.0).round(9).tolist()
    [0.6, 0.8]
    """
    exact = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(exact).max(initial=0.0))
    if not np.isfinite(largest):
        return np.zeros_like(exact)
    if largest <= longest and float(np.linalg.norm(exact)) <= longest:
        return exact
    scaled = exact / largest  # whose squares are numbers, however large it was
    # A length that is worked out is not the length: what rounding adds must not make it longer.
    return scaled * (longest / float(np.linalg.norm(scaled)) * (1 - 1e-12))


def gaussian(vector: FloatArray | Float32Array, clip: float, noise: float, normals: FloatArray) -> Float32Array:
    """Return a vector of at most the length ``clip`` with noise of the deviation ``noise * clip`` on each entry.

    Args:
        vector: what is released.
        clip: the longest that any client's may be, so that two of them are at most twice that apart.
        noise: deviation over ``clip``.
        normals: as many draws of the standard normal distribution.
    """
    return (clipped(vector, clip) + noise * clip * normals).astype(np.float32)


def any_of(k: int, epsilon: float) -> float:
    """Return the chance that randomised response among k says any of them, the true one included, whatever is true.

    >>> round(any_of(4, 2.0), 4), round(any_of(8, 2.0), 4)
    (0.385, 0.556)
    """
    return k / (exp(epsilon) + k - 1)


def said_truly(k: int, epsilon: float) -> float:
    """Return the chance that randomised response among k says what is true.

    >>> round(said_truly(4, 2.0), 4), round(said_truly(8, 2.0), 4)
    (0.7112, 0.5135)
    """
    return 1 - any_of(k, epsilon) * (k - 1) / k


def randomised_response(choice: int, k: int, epsilon: float, rng: np.random.Generator) -> int:
    """Return one of k: the choice, or with the chance `any_of` any of them. Pure epsilon for any two data sets.

    Raises:
        ValueError: the choice is none of them.
    """
    if not 0 <= choice < k:
        raise ValueError(f"choice: expected a whole number from 0 to {k - 1}, got {choice}")
    other, is_any = int(rng.integers(k)), rng.random() < any_of(k, epsilon)
    return other if is_any else choice


def exponential(scores: FloatArray, sensitivity: float, epsilon: float, rng: np.random.Generator) -> int:
    """Return one of several, those with larger scores more likely: the exponential mechanism. Pure epsilon.

    Args:
        scores: of each.
        sensitivity: by how much one sample can change any of them.
        epsilon: spent on it.
        rng: where chance comes from.

    Raises:
        ValueError: a score is not finite; what a client cannot tell has to be given the worst score there is.
    """
    exact = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(exact).all():
        raise ValueError(f"scores: expected finite numbers, got {exact.tolist()}; bound what they are the mean of")
    weights = np.exp((exact - exact.max()) * epsilon / (2 * sensitivity))
    place = np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right")
    return int(min(place, len(exact) - 1))
