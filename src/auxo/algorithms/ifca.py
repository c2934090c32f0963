"""IFCA: every participant is sent all models and trains the one that fits its samples best.

Ghosh et al., NeurIPS 2020, Algorithm 1 with model averaging (option II). The number of cohorts is told, and every
participant finds its own anew in every round, so neither the server nor the clients remember anything.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.asking import LEAST_LOSS, Asks
from auxo.core.cohort_algorithm import InitialModel, Opening, Plan, Start
from auxo.core.plain_cohorts import OneRoundForAll
from auxo.core.rng import numbers_of
from auxo.core.settings import NonNegativeInt, PositiveInt, checked, setting


@dataclass(frozen=True)
@checked
class Ifca(OneRoundForAll):
    """A fixed number of models, of which each client trains and uses the one with the least loss on its samples."""

    cohorts: PositiveInt = setting(4, "Models (K); the method has to be told.")
    # Models that begin alike would all be alike for ever. The authors' code does the same on FEMNIST, for 20 rounds.
    warm_start: NonNegativeInt = setting(
        5, "Rounds in which clients train a model that is drawn for them once and for all, and are sent no other."
    )

    def begin(self, initial: InitialModel) -> Start:
        """Return as many models, each with a draw of its own."""
        return Start.in_equal_parts(tuple(map(initial, range(self.cohorts))), self.cohorts)

    def plan(self, opening: Opening) -> Plan:
        """Return that every participant takes the best of all models, or in the beginning the one that was drawn."""
        clients = opening.selected.clients
        asks = replace(Asks.plain(len(clients)), model=np.full(len(clients), LEAST_LOSS, dtype=np.int64))
        if opening.state.round < self.warm_start:
            asks = replace(asks, model=numbers_of(clients, "ifca", self.cohorts))
        return Plan(np.arange(len(clients)), opening.tree.leaves, asks)
