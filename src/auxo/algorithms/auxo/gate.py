"""The gate: which newcomers may move a cohort's model in the round that they were sent to it by chance."""

import numpy as np

from auxo.core.gathering import Examined
from auxo.core.rewards import MembersMeasure, RewardSettings
from auxo.core.types import BoolArray, FloatArray


class Gate:
    """Admits members, and newcomers no farther from them than avg + std of their own distances.

    Members must come first in the stream: a newcomer that was sent here at random is compared with them before its
    update may move the model. Otherwise, where most participants are newcomers, every cohort's model would be trained
    by everybody.
    """

    def __init__(self, settings: RewardSettings, known: BoolArray) -> None:
        self._settings, self._known = settings, known
        self._directions: list[FloatArray] = []  # of the members so far
        self._lengths: list[float] = []
        self._measure: MembersMeasure | None = None  # of all members so far

    def place(self, row: int, examined: Examined, model: int) -> int | None:
        """Return the model that was trained; None where the update may not move it."""
        if self._known[row]:
            self._directions.append(examined.direction)
            self._lengths.append(examined.length)
            self._measure = None
            return model
        if len(self._directions) < self._settings.min_known:
            return model
        if self._measure is None:
            self._measure = MembersMeasure.of(np.array(self._directions), np.array(self._lengths), self._settings)
        fits = self._measure.distance(examined.direction, examined.length) <= self._measure.usual_distance
        return model if fits else None
