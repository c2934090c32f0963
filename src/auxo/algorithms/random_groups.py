"""Random groups: a model for each of K groups that clients are dealt to by chance, once and for all.

A reference: a method that finds groups has to be better than groups that mean nothing, which only divide the
participants.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.cohort_algorithm import InitialModel, Start
from auxo.core.cohort_state import CoordinatorState
from auxo.core.matching import CheckIns, Matched, Matching
from auxo.core.plain_cohorts import PlainCohorts
from auxo.core.rng import numbers_of
from auxo.core.settings import PositiveInt, checked, setting


@dataclass(frozen=True)
@checked
class RandomGroups(PlainCohorts):
    """A fixed number of cohorts, and a client's is drawn by its number; nothing is remembered."""

    cohorts: PositiveInt = setting(4, "Groups to draw (K).")

    @property
    def matching(self) -> Matching:
        """Return that the draw decides."""
        return ByDraw(self.cohorts)

    def begin(self, initial: InitialModel) -> Start:
        """Return one model for each of the groups to start from."""
        return Start.in_equal_parts((initial(0),), self.cohorts)


@dataclass(frozen=True)
class ByDraw:
    """A client's number decides where it goes, today and tomorrow."""

    cohorts: int

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the leaf that was drawn for each client."""
        everybody = np.ones(len(check_ins), dtype=np.bool_)
        if self.cohorts == 1:
            return Matched(np.zeros(len(check_ins), dtype=np.int64), everybody)
        drawn = numbers_of(check_ins.clients, "random groups", self.cohorts)
        return Matched(1 + drawn, everybody)  # the root is the first of all cohorts, and its children follow

    place = match
