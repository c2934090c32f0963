"""IFCA: every participant is sent all models and trains the one that fits its samples best.

Ghosh et al., NeurIPS 2020, Algorithm 1 with model averaging (option II). The number of cohorts is told, and every
participant finds its own anew in every round, so neither the server nor the clients remember anything.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.asking import LEAST_LOSS, Asks
from auxo.core.cohort_algorithm import Closing, InitialModel, Opening, Outcome, Plan, Start, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.matching import Matching, ToTheRoot
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.partition import Partition
from auxo.core.rng import random_bits
from auxo.core.settings import NonNegativeInt, PositiveInt, checked, setting
from auxo.core.shares import equal_shares
from auxo.core.types import ROOT, CohortId


@dataclass(frozen=True)
@checked
class Ifca:
    """A fixed number of models, of which each client trains and uses the one with the least loss on its samples."""

    cohorts: PositiveInt = setting(4, "Models (K); the method has to be told.")
    # Models that begin alike would all be alike for ever. The authors' code does the same on FEMNIST, for 20 rounds.
    warm_start: NonNegativeInt = setting(
        5, "Rounds in which clients train a model that is drawn for them once and for all, and are sent no other."
    )

    own_states = ()
    client_half = None

    @property
    def matching(self) -> Matching:
        """Return that everybody joins the one round that is for all models; who uses which, losses decide."""
        return ToTheRoot()

    def begin(self, initial: InitialModel) -> Start:
        """Return as many models, each with a draw of its own."""
        if self.cohorts == 1:
            return Start((initial(0),))
        models = tuple(initial(number) for number in range(self.cohorts))
        return Start(models, Partition(tuple(range(self.cohorts)), (1 / self.cohorts,) * self.cohorts))

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return that there is nothing to remember."""
        return NOTHING

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the root: one round is for all models."""
        return (ROOT,)

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return that there is one to have them all."""
        return equal_shares(tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return that every participant takes the best of all models, or in the beginning the one that was drawn."""
        clients = opening.selected.clients
        asks = replace(Asks.plain(len(clients)), model=np.full(len(clients), LEAST_LOSS, dtype=np.int64))
        if opening.state.round < self.warm_start:
            model = (random_bits(0, "ifca", clients) % np.uint64(self.cohorts)).astype(np.int64)
            asks = replace(asks, model=model)
        return Plan(np.arange(len(clients)), opening.tree.leaves, asks)

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts."""
        return AdmitAll()

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move each model by the mean of those who chose it; one that nobody chose stays."""
        return Outcome(stepped(closing, gathered, aggregator)) if gathered.used else None
