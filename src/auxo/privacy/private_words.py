"""Words that leave a client privately: a sketch of its update, its label, and what it would gain, each pure epsilon.

Each is for one question, and is said once: who answers the same question again repeats what it has said,
or its noise would average out. The mod that stands around all that leaves a client charges for them before they go.
"""

from math import exp

import numpy as np

from auxo.core.types import FloatArray
from auxo.privacy.priv_unit import PrivUnit


def private_sketch(unit_vector: FloatArray, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Return a vector whose mean is the given one; its length tells how much noise there is in it (`PrivUnit`)."""
    (drawn,) = PrivUnit(len(unit_vector), epsilon).draw(unit_vector[None, :], rng)
    return np.asarray(drawn)


def private_label(label: int, k: int, epsilon: float, rng: np.random.Generator) -> int:
    """Return the label by k-ary randomised response: the true one, or with some chance any of the k.

    Raises:
        ValueError: the label is none of them.
    """
    if not 0 <= label < k:
        raise ValueError(f"label: expected a whole number from 0 to {k - 1}, got {label}")
    is_any = rng.random() < k / (exp(epsilon) + k - 1)
    other = int(rng.integers(k))
    return other if is_any else label


def private_bit(gain: float, epsilon: float, rng: np.random.Generator) -> float:
    """Return 1 or -1, for a gain of -1 to 1: randomised response about a bit whose mean is the gain.

    The mean of what is said is the gain times `shortened_by`; who makes up for that keeps it bounded, which is what
    bets need (`auxo.algorithms.auxo.evidence`).
    """
    if not -1 <= gain <= 1:
        raise ValueError(f"gain: expected a number from -1 to 1, got {gain}")
    is_for = rng.random() < (1 + gain) / 2
    return 1.0 if private_label(int(is_for), 2, epsilon, rng) == 1 else -1.0


def shortened_by(epsilon: float) -> float:
    """Return what randomised response leaves of the mean of a bit of -1 or 1: the hyperbolic tangent of a half epsilon.

    >>> [round(shortened_by(epsilon), 3) for epsilon in (1.0, 2.0, 4.0)]
    [0.462, 0.762, 0.964]
    """
    return float(np.tanh(epsilon / 2))
