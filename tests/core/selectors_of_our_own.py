"""A selector with a memory, as somebody may plug one in."""

from dataclasses import dataclass

import numpy as np

from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState, own
from auxo.core.turnout import Turnout
from auxo.core.types import IntArray


@dataclass(frozen=True)
class Turns:
    """How often each client has taken part in a cohort's rounds; those who never have are not listed."""

    clients: IntArray  # ascending
    counts: IntArray

    def of(self, clients: IntArray) -> IntArray:
        """Return the turns of these clients."""
        counts = dict(zip(self.clients.tolist(), self.counts.tolist(), strict=True))
        return np.array([counts.get(client, 0) for client in clients.tolist()], dtype=np.int64)


@dataclass(frozen=True)
class FewestTurns:
    """Prefers those who have had the fewest turns; of equals those who come first."""

    own_states = (Turns,)

    def begin(self, parent: OwnState | None = None) -> Turns:
        if parent is not None:
            return own(Turns, parent)
        return Turns(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        turns = own(Turns, memory).of(candidates.clients[rows])
        return np.sort(rows[np.argsort(turns, kind="stable")[:wanted]])

    def learn(self, memory: OwnState, turnout: Turnout) -> Turns:
        clients = turnout.clients[turnout.answered]
        everybody = np.union1d(own(Turns, memory).clients, clients)
        return Turns(everybody, own(Turns, memory).of(everybody) + np.isin(everybody, clients))
