"""Random groups: a model for each of K groups that clients are dealt to by chance, once and for all.

A reference: a method that finds groups has to be better than groups that mean nothing, which only divide the
participants.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import Closing, InitialModel, Opening, Outcome, Plan, Start, stepped
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.matching import CheckIns, Matched, Matching
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.partition import Partition
from auxo.core.rng import random_bits
from auxo.core.settings import PositiveInt, checked, setting
from auxo.core.shares import equal_shares
from auxo.core.types import CohortId


@dataclass(frozen=True)
@checked
class RandomGroups:
    """A fixed number of cohorts, and a client's is drawn by its number; nothing is remembered."""

    cohorts: PositiveInt = setting(4, "Groups to draw (K).")

    own_states = ()
    client_half = None

    @property
    def matching(self) -> Matching:
        """Return that the draw decides."""
        return ByDraw(self.cohorts)

    def begin(self, initial: InitialModel) -> Start:
        """Return one model for each of the groups to start from."""
        if self.cohorts == 1:
            return Start((initial(0),))
        return Start((initial(0),), Partition(tuple(range(self.cohorts)), (1 / self.cohorts,) * self.cohorts))

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return that there is nothing to remember."""
        return NOTHING

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return that all have the same: so have they of the clients."""
        return equal_shares(tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return that all train on all their samples."""
        return Plan.plain(opening)

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts."""
        return AdmitAll()

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model."""
        return Outcome(stepped(closing, gathered, aggregator)) if gathered.used else None


@dataclass(frozen=True)
class ByDraw:
    """A client's number decides where it goes, today and tomorrow."""

    cohorts: int

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the leaf that was drawn for each client."""
        everybody = np.ones(len(check_ins), dtype=np.bool_)
        if self.cohorts == 1:
            return Matched(np.zeros(len(check_ins), dtype=np.int64), everybody)
        drawn = (random_bits(0, "random groups", check_ins.clients) % np.uint64(self.cohorts)).astype(np.int64)
        return Matched(1 + drawn, everybody)  # the root is the first of all cohorts, and its children follow

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the same."""
        return self.match(state, check_ins, rng)
