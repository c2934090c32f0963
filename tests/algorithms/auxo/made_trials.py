"""Trials whose judges have said what a test wants them to."""

from dataclasses import replace

import numpy as np

from auxo.algorithms.auxo import TrialSettings
from auxo.algorithms.auxo.dendrogram import Dendrogram
from auxo.algorithms.auxo.trial import Trial
from auxo.algorithms.auxo.verdict import Cut, Judgements, prune
from auxo.core.aggregators import FedAvg
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

SETTINGS = TrialSettings()
# Branches 0, 1, 2, 3; nodes 4 = (0, 1), 5 = (2, 3), 6 = everybody.
FOUR = Dendrogram((0, 1, 2, 3), ((0, 1), (2, 3), (4, 5)))
NOBODY = Judgements.none(7)


def judged(gains: dict[int, tuple[float, float]], count: int = 40, noise: float = 0.1, seed: int = 0) -> FloatArray:
    """Return the losses of so many judges of each branch: what it gains by leaving node 6 for 4 or 5, and alone.

    Models of branches and pairs that are not theirs are worse for them than any other.
    """
    rng = stream(seed, "made")
    rows = []
    for branch, (by_pair, alone) in gains.items():
        for _ in range(count):
            root = 1.0 + rng.normal() * 0.3
            row = np.full(7, 9.0)
            row[6] = root
            row[4 + (branch > 1)] = root - by_pair + noise * rng.normal()
            row[branch] = row[4 + (branch > 1)] - alone + noise * rng.normal()
            rows.append(row)
    return np.array(rows)


def branch_of(losses: FloatArray) -> IntArray:
    """Return the branch of each of the judges that `judged` makes."""
    return np.asarray((losses[:, :4] < 9.0).argmax(axis=1))


def said(losses: FloatArray, scores: FloatArray | None = None, held_in: FloatArray | None = None) -> Judgements:
    """Return what judges say, each of them once; those who do not choose are where their cluster index leads."""
    nothing = np.full_like(losses, np.nan)
    return Judgements(
        branch_of(losses) if len(losses) else np.zeros(0, dtype=np.int64),
        losses,
        nothing if scores is None else scores,
        nothing if held_in is None else held_in,
        np.arange(len(losses)),
    )


def trial(losses: FloatArray, scores: FloatArray | None = None) -> Trial:
    return heard(said(losses, scores))


def heard(judgements: Judgements) -> Trial:
    begun = Trial.begin(FOUR, np.full(4, 0.25), FedAvg().initial(np.zeros(3, dtype=np.float32)))
    return replace(begun, heard=judgements, rounds=10)


def cut_of(on_trial: Trial) -> Cut:
    return prune(on_trial.dendrogram, on_trial.heard, SETTINGS)
