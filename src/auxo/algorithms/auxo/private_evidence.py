"""Evidence of judges who say one bounded word each: bets as in `auxo.algorithms.auxo.evidence`, with less to bet on.

A judge says what it gains by its choice over one model, which is its reference: the cohort's own, or a branch's. For a
branch that is merely ahead for everybody is no reason to part, and who says one word cannot say both. So each of the
models has a stake of its own, which has to be won; judges are shared among those that are not yet. Which judge has
which reference is settled before it is heard, so that no bet can be expected to win where parting does not pay.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo.evidence import BETS, MOST_LOG, OWN
from auxo.core.types import FloatArray, IntArray
from auxo.core.words import bound_of

_ROUNDING = 1e-6


@dataclass(frozen=True)
class PrivateEvidence:
    """What has been heard; a row for each model that choices are held against, the cohort's own first."""

    log_stakes: FloatArray  # (models, bets)
    best: FloatArray  # (models,) the largest that each stake has ever been
    heard: IntArray  # (models,) judges
    sums: FloatArray  # (models,) of what they have said
    squares: FloatArray  # (models,) of the same
    bound: float  # of what anybody can say: a gain, and the noise that it bears

    @staticmethod
    def begin(models: int, epsilon: float) -> "PrivateEvidence":
        """Return that of a trial of so many models, whose judges say their gain at this price."""
        nothing, nobody = np.zeros(models), np.zeros(models, dtype=np.int64)
        return PrivateEvidence(np.zeros((models, len(BETS))), nothing, nobody, nothing, nothing, bound_of(epsilon))

    def after(self, references: IntArray, gains: FloatArray) -> "PrivateEvidence":
        """Return it after some judges have been heard, each about its reference; beyond the bound nobody is heard."""
        can_be = np.abs(gains) <= self.bound * (1 + _ROUNDING)
        references, gains = references[can_be], gains[can_be]
        stakes, sums, squares = self.log_stakes.copy(), self.sums.copy(), self.squares.copy()
        parts = np.clip(gains / self.bound, -1.0, 1.0)
        np.add.at(stakes, references, np.log1p(BETS[None, :] * parts[:, None]))
        np.add.at(sums, references, gains)
        np.add.at(squares, references, gains**2)
        stakes = np.minimum(stakes, MOST_LOG)
        return replace(
            self,
            log_stakes=stakes,
            best=np.maximum(self.best, np.exp(stakes).mean(axis=1)),
            heard=self.heard + np.bincount(references, minlength=len(self.heard)),
            sums=sums,
            squares=squares,
        )

    def open(self, alpha: float) -> IntArray:
        """Return the models whose stake is not yet won; the cohort's own goes on to be asked for, as what is gained."""
        is_open = self.best < 1 / alpha
        is_open[OWN] |= not is_open.any()
        return np.flatnonzero(is_open)

    def is_sure(self, alpha: float) -> bool:
        """Return whether parting pays over each of the models; it does not with a chance of at most ``alpha``."""
        return bool((self.best >= 1 / alpha).all())

    @property
    def gain(self) -> float:
        """Return what judges gain over the cohort's own model, on average."""
        return float(self.sums[OWN] / max(self.heard[OWN], 1))

    def is_hopeless(self, gain: float) -> bool:
        """Return whether judges gain less over the cohort's own model, even with a deviation of their mean more."""
        heard = int(self.heard[OWN])
        if heard == 0:
            return True
        variance = max(float(self.squares[OWN]) / heard - self.gain**2, 0.0)
        return heard > 1 and bool(self.gain + np.sqrt(variance / heard) < gain)
