"""Clients without a record of their own: all that is known of them is how often they have trained."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auxo.core.affinity import Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import IntArray


@dataclass(frozen=True)
class VisitCounts:
    """Everybody's visits. `learn` writes into the array; `copy` first to keep what it holds."""

    visits: NDArray[np.int32]  # (clients,)

    @staticmethod
    def empty(n_clients: int) -> "VisitCounts":
        """Return the counts of clients that have never taken part."""
        return VisitCounts(np.zeros(n_clients, dtype=np.int32))

    def copy(self) -> "VisitCounts":
        """Return the same counts in an array of their own."""
        return replace(self, visits=self.visits.copy())

    def participations(self, clients: IntArray) -> IntArray:
        """Return how often each of these clients has taken part."""
        return self.visits[clients].astype(np.int64)

    def request(self, clients: IntArray) -> Requests:
        """Return that these clients ask for nothing."""
        return Requests.silent(CohortTree(), self.participations(clients))

    def learn(self, clients: IntArray) -> "VisitCounts":
        """Return the counts after one more visit of each of these clients, all different."""
        self.visits[clients] += 1
        return self
