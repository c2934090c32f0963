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

    def admits(self, row: int, examined: Examined, model: int) -> bool:
        """Return whether an update may move the model."""
        if self._known[row]:
            self._directions.append(examined.direction)
            self._lengths.append(examined.length)
            self._measure = None
            return True
        if len(self._directions) < self._settings.min_known:
            return True
        if self._measure is None:
            self._measure = MembersMeasure.of(np.array(self._directions), np.array(self._lengths), self._settings)
        return self._measure.distance(examined.direction, examined.length) <= self._measure.usual_distance
