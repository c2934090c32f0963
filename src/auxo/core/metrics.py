"""What is measured: accuracy over clients, its spread, agreement with known groups, time and resource to a target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import adjusted_rand_score

from auxo.core.types import FloatArray, IntArray


@dataclass(frozen=True)
class Spread:
    """Accuracy across clients; every client counts the same."""

    accuracy: float  # mean over clients
    worst_10: float  # mean over the worst tenth of the clients
    best_10: float
    variance: float  # of accuracies in per cent, as in the paper's Table 5
    variance_beyond_binomial: float  # without what would remain if every client had the same chance; may be negative


def spread(correct: IntArray | FloatArray, tests: IntArray, are_hits: bool = True) -> Spread:
    """Return the spread of ``correct / tests`` over clients; clients without test samples are left out.

    Where ``correct`` are no hits but sums of other scores, chance is not binomial, and nothing is taken off.

    A client with n test samples and chance p of a hit shows variance p (1 - p) / n even if all clients are alike. The
    unbiased estimate of that part, ``a (1 - a) / (n - 1)``, is taken off; clients with one test sample count in full.
    """
    scored = tests > 0
    if not scored.any():
        raise ValueError("tests: expected at least one client with test samples, got none")
    accuracy = correct[scored] / tests[scored]
    tenth = max(1, round(len(accuracy) / 10))
    ordered = np.sort(accuracy)
    n = tests[scored]
    binomial = np.where(n > 1, accuracy * (1 - accuracy) / np.maximum(n - 1, 1), 0.0)
    variance = float(accuracy.var())
    return Spread(
        accuracy=float(accuracy.mean()),
        worst_10=float(ordered[:tenth].mean()),
        best_10=float(ordered[-tenth:].mean()),
        variance=1e4 * variance,
        variance_beyond_binomial=1e4 * (variance - (float(binomial.mean()) if are_hits else 0.0)),
    )


def binomial_error(chance: float, tests: IntArray) -> float:
    """Return the standard error of the mean accuracy over clients whose every test sample is a hit by this chance."""
    return float(np.sqrt((chance * (1 - chance) / tests).sum())) / len(tests)


def agreement(cohorts: IntArray, groups: IntArray) -> float:
    """Return the adjusted Rand index of cohorts and known groups: 1 for the same, about 0 for chance."""
    return float(adjusted_rand_score(groups, cohorts))


def first_reach(progress: Sequence[float], accuracy: Sequence[float], target: float) -> float | None:
    """Return where on ``progress`` (time or resource) accuracy first reaches ``target``, between two points linearly.

    Returns:
        None when it never does.
    """
    points: FloatArray = np.asarray(accuracy, dtype=np.float64)
    reached = np.flatnonzero(points >= target)
    if len(reached) == 0:
        return None
    at = int(reached[0])
    if at == 0:
        return float(progress[0])
    part = (target - points[at - 1]) / (points[at] - points[at - 1])
    return float(progress[at - 1] + part * (progress[at] - progress[at - 1]))


def reached_between(progress: Sequence[float], accuracy: Sequence[float], target: float) -> tuple[float, float] | None:
    """Return the last point on ``progress`` before accuracy reaches ``target``, or 0, and the first where it has.

    What it was between them is not known. None when it never does.
    """
    at = next((place for place, value in enumerate(accuracy) if value >= target), None)
    return None if at is None else (progress[at - 1] if at else 0.0, progress[at])


def oracle_gain_share(base: float, auxo: float, oracle: float) -> float | None:
    """Return the part of the oracle's gain over the base that Auxo reaches; None where the oracle gains nothing."""
    return (auxo - base) / (oracle - base) if oracle > base else None
