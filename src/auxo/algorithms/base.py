"""The base: one cohort for ever, plain federated learning with any aggregator, selector and local training."""

from dataclasses import dataclass

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import Closing, InitialModel, Opening, Outcome, Plan, Start, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.matching import Matching, ToTheRoot
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.shares import equal_shares
from auxo.core.types import CohortId


@dataclass(frozen=True)
class OneCohort:
    """One model for everybody."""

    own_states = ()
    client_half = None

    @property
    def matching(self) -> Matching:
        """Return that everybody is the root's."""
        return ToTheRoot()

    def begin(self, initial: InitialModel) -> Start:
        """Return one model."""
        return Start((initial(0),))

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return that there is nothing to remember."""
        return NOTHING

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the root."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return that there is one to have them all."""
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
