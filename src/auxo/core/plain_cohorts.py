"""What a cohort algorithm does where it has nothing else to say: plain federated learning, each leaf by itself."""

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import ClientHalf, Closing, InitialModel, Opening, Outcome, Plan, Start, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.matching import Matching, ToTheRoot
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.shares import equal_shares
from auxo.core.types import ROOT, CohortId


class PlainCohorts:
    """A cohort algorithm to begin another with, which has only what is its own; see `CohortAlgorithm`."""

    @property
    def matching(self) -> Matching:
        """Return that everybody joins the root's round."""
        return ToTheRoot()

    @property
    def client_half(self) -> ClientHalf | None:
        """Return that clients keep nothing."""
        return None

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return that it keeps nothing, either."""
        return ()

    def begin(self, initial: InitialModel) -> Start:
        """Return one model for everybody."""
        return Start((initial(0),))

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return that there is nothing to remember."""
        return NOTHING

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves: each goes at its own pace."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return that all have the same."""
        return equal_shares(tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return that all train the cohort's model on all their samples."""
        return Plan.plain(opening)

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts."""
        return AdmitAll()

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move each model by the mean of those who trained it; one that nobody trained stays."""
        return Outcome(stepped(closing, gathered, aggregator)) if gathered.used else None


class OneRoundForAll(PlainCohorts):
    """The same for an algorithm with one round for all leaves, which the root opens."""

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the root."""
        return (ROOT,)
