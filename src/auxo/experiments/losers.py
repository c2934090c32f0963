"""Who is worse off with a method than with the base: how many, how many beyond chance, and who they are."""

from collections.abc import Sequence

import numpy as np

from auxo.core.types import FloatArray
from auxo.experiments.run_directory import ClientScores
from auxo.experiments.summary import Loser, Losers

_NAMED = 20  # losers that a summary names; our choice
_BEYOND_CHANCE = 2.0  # standard errors of the difference between two accuracies


def base_accuracy(scores: ClientScores, base: ClientScores | None) -> FloatArray | None:
    """Return the accuracy that each client of ``scores`` has with the base; None where they cannot be told apart."""
    if base is None or len(base.accuracy) != len(scores.accuracy):
        return None
    rows = np.arange(len(scores.accuracy))
    ours, theirs = (rows if one.client is None else one.client for one in (scores, base))
    return base.accuracy if np.array_equal(ours, theirs) else None


def find_losers(
    scores: ClientScores, base: ClientScores | None, names: Sequence[str], are_hits: bool = True
) -> Losers | None:
    """Return who is worse off than with the base, the most first; None without a base to compare with.

    If accuracies are not shares of samples whose class is right (``are_hits``), chance is not known.
    """
    before = base_accuracy(scores, base)
    if before is None:
        return None
    loss = np.where(scores.test_samples > 0, before - scores.accuracy, 0.0)
    order = np.argsort(-loss, kind="stable")
    order = order[loss[order] > 0]
    rows = np.arange(len(loss)) if scores.client is None else scores.client
    worst = tuple(
        Loser(
            client=names[int(rows[row])],
            cohort=str(scores.cohort[row]),
            accuracy=float(scores.accuracy[row]),
            base_accuracy=float(before[row]),
        )
        for row in order[:_NAMED]
    )
    return Losers(len(order), _beyond_chance(loss, before, scores) if are_hits else None, worst)


def _beyond_chance(loss: FloatArray, before: FloatArray, scores: ClientScores) -> int:
    tests = np.maximum(scores.test_samples, 1)
    # Of both accuracies; one of 0 or 1 is not certain either, hence one hit and one miss more (Agresti and Coull).
    pooled = ((before + scores.accuracy) * tests + 1) / (2 * tests + 2)
    error = np.sqrt(2 * pooled * (1 - pooled) / tests)
    return int((loss > _BEYOND_CHANCE * error).sum())
