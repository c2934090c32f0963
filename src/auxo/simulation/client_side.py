"""The clients' side of a simulated federation: what they keep, what they ask for, and what they learn."""

from dataclasses import dataclass

import numpy as np

from auxo.core.affinity import FeedbackColumns
from auxo.core.client_mod import ClientMod, said_through
from auxo.core.cohort_algorithm import ClientHalf
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.types import IntArray
from auxo.simulation.client_records import ClientRecords
from auxo.simulation.visit_counts import VisitCounts

ClientSide = ClientRecords | VisitCounts
"""Affinity records where the algorithm has a client half; else how often each client has trained."""


@dataclass(frozen=True)
class ClientRules:
    """How clients behave; `ClientSide` is what changes."""

    half: ClientHalf | None
    mods: tuple[ClientMod, ...] = ()
    signed: bool = False  # the server signs what it has observed of them

    def newcomers(self, n_clients: int, tree: CohortTree) -> ClientSide:
        """Return clients that have never taken part."""
        if self.half is None:
            return VisitCounts.empty(n_clients)
        return ClientRecords.empty(n_clients, self.half.clusters, tree, signed=self.signed)

    def check_in(self, side: ClientSide, clients: IntArray, rng: np.random.Generator | None) -> CheckIns:
        """Return what these clients say when they are ready; nobody explores when ``rng`` is None."""
        if isinstance(side, VisitCounts):
            return CheckIns(clients, said_through(self.mods, clients, side.request(clients)))
        requests = said_through(self.mods, clients, side.request(clients, self._half.affinity, rng))
        return CheckIns(clients, side.with_proofs(clients, requests))

    def learn(self, side: ClientSide, clients: IntArray, feedback: FeedbackColumns | None) -> ClientSide:
        """Return the clients after these, all different, have trained and received their rows of ``feedback``.

        ``side`` is used up: what is returned shares its arrays.
        """
        if isinstance(side, VisitCounts):
            return side.learn(clients)
        if feedback is None:
            raise ValueError(
                "feedback: expected one for clients that keep a record; an algorithm with a client half "
                "says what they hear"
            )
        return side.learn(clients, feedback, self._half.affinity)

    def forget(self, side: ClientSide, share: float, rng: np.random.Generator) -> ClientSide:
        """Return the clients after a share of the records has been lost; ``side`` is used up.

        Who has never taken part has nothing to lose, and neither has who keeps no record.
        """
        if share == 0 or isinstance(side, VisitCounts):
            return side
        return side.forget(np.flatnonzero(rng.random(len(side.row)) < share))

    @property
    def _half(self) -> ClientHalf:
        if self.half is None:
            raise TypeError("expected clients without a record, got records; go on with the algorithm that made them")
        return self.half
