"""The affinity records of a population: rows for those who have taken part, and four bytes for everybody else.

Clients own their records; a simulation holds them all, and changes them in place: what a round costs depends on who is
on line and who takes part, not on how many clients there are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.affinity import (
    AffinityRecords,
    AffinitySettings,
    ClusterIndices,
    FeedbackColumns,
    Requests,
    learn,
    request_rows,
    widen,
)
from auxo.core.cohort_tree import CohortTree
from auxo.core.columns import Columns, arrays_of, take
from auxo.core.proofs import FORGED, observe, proofs
from auxo.core.types import FloatArray, IntArray

_FIRST_ROWS = 1024  # room to begin with; our choice

_Int32Array = NDArray[np.int32]
_Learns = Callable[[AffinityRecords, FeedbackColumns, AffinitySettings], AffinityRecords]


@dataclass(frozen=True)
class ClientRecords:
    """Everybody's records. `learn` writes into these arrays; `copy` first to keep what they hold."""

    row: _Int32Array  # (clients,) in ``held``; -1: has never had feedback
    count: int  # rows of ``held`` that are in use, in the order in which clients had their first feedback
    held: AffinityRecords
    indices: ClusterIndices  # of ``held``
    # What the server has observed, and would have signed for each to bring along; None: it signs nothing.
    signed: "ClientRecords | None" = None

    @staticmethod
    def empty(n_clients: int, n_clusters: int, tree: CohortTree, *, signed: bool = False) -> "ClientRecords":
        """Return the records of clients that have never taken part; of a server that signs, with what it has signed."""
        held = widen(AffinityRecords.empty(0, n_clusters), tree)
        row = np.full(n_clients, -1, dtype=np.int32)
        also = ClientRecords.empty(n_clients, n_clusters, tree) if signed else None
        return ClientRecords(row=row, count=0, held=held, indices=ClusterIndices.of(held), signed=also)

    def copy(self) -> "ClientRecords":
        """Return the same records in arrays of their own."""
        room = len(self.held.heard)
        return replace(
            self,
            row=self.row.copy(),
            held=_with_room(self.held, room),
            indices=_with_room(self.indices, room),
            signed=None if self.signed is None else self.signed.copy(),
        )

    def participations(self, clients: IntArray) -> IntArray:
        """Return how often each of these clients has had feedback."""
        rows = self.row[clients]
        counts = np.zeros(len(rows), dtype=np.int64)
        counts[rows >= 0] = self.held.participations[rows[rows >= 0]]
        return counts

    def rewards(self, clients: IntArray, cohorts: IntArray) -> FloatArray:
        """Return the reward that each of these clients remembers for a cohort, a position in the tree; NaN: none."""
        rows = self.row[clients]
        known = np.flatnonzero((rows >= 0) & (cohorts < self.held.reward.shape[1]))
        rewards = np.full(len(rows), np.nan)
        rewards[known] = self.held.reward[rows[known], cohorts[known]]
        return rewards

    def of(self, clients: IntArray) -> AffinityRecords:
        """Return the records of these clients, one row each."""
        rows = self.row[clients]
        known = np.flatnonzero(rows >= 0)
        some = widen(AffinityRecords.empty(len(rows), self.held.similarity.shape[-1]), self.held.tree)
        _put(some, known, take(self.held, rows[known].astype(np.int64)))
        return some

    def request(self, clients: IntArray, settings: AffinitySettings, rng: np.random.Generator | None) -> Requests:
        """Return what these clients ask for at check-in; nobody explores when ``rng`` is None."""
        asked = request_rows(self.held, self.indices, self.row[clients].astype(np.int64), settings, rng)
        if self.signed is None:
            return asked
        rewards = self.signed.rewards(clients, asked.cohort)
        return replace(asked, reward=np.where(asked.cohort >= 0, np.nan_to_num(rewards), asked.reward))

    def with_proofs(self, clients: IntArray, asked: Requests) -> Requests:
        """Return what clients ask, whatever they say, with what is proved of it, where the server signs.

        Who presents a forged signature says so in ``asked.proof``; nobody can say that it has a good one.
        """
        if self.signed is None:
            return asked
        mine = self.signed
        found = proofs(mine.held, mine.indices, mine.row[clients].astype(np.int64), asked, mine.held.tree)
        return replace(asked, proof=found if asked.proof is None else np.where(asked.proof == FORGED, FORGED, found))

    def learn(self, clients: IntArray, feedback: FeedbackColumns, settings: AffinitySettings) -> "ClientRecords":
        """Return the records after each of these clients, all different, has received its row of ``feedback``.

        These records are used up: what is returned shares their arrays.
        """
        after = self._learnt(clients, feedback, settings, learn)
        return (
            after
            if self.signed is None
            else replace(after, signed=self.signed._learnt(clients, feedback, settings, observe))
        )

    def _learnt(
        self, clients: IntArray, feedback: FeedbackColumns, settings: AffinitySettings, by: _Learns
    ) -> "ClientRecords":
        known = self._widened(feedback.tree)
        learnt = by(known.of(clients), feedback, settings)
        roomy = known._with_rows_for(clients)
        rows = roomy.row[clients].astype(np.int64)
        _put(roomy.held, rows, learnt)
        _put(roomy.indices, rows, ClusterIndices.of(learnt))
        return roomy

    def forget(self, clients: IntArray) -> "ClientRecords":
        """Return the records after these clients, all different, have lost theirs: they have never taken part.

        What a server has signed for them is lost, too. These records are used up: what is returned shares their arrays.
        """
        lost = np.sort(self.row[clients][self.row[clients] >= 0]).astype(np.int64)
        count = self.count - len(lost)
        self.row[clients] = -1
        # The last rows in use move into the gaps, so that all in use are the first ones again.
        holders = np.flatnonzero(self.row >= count)
        gaps, last = lost[lost < count], self.row[holders].astype(np.int64)
        for columns in (self.held, self.indices):
            _put(columns, gaps, take(columns, last))
        self.row[holders] = gaps
        return replace(self, count=count, signed=None if self.signed is None else self.signed.forget(clients))

    def _widened(self, tree: CohortTree) -> "ClientRecords":
        """Return the records with a column for every cohort of ``tree``; once for each partition, in new arrays."""
        if len(tree.cohorts) == len(self.held.tree.cohorts):
            return self
        held = widen(take(self.held, slice(self.count)), tree)
        return replace(self, held=held, indices=take(self.indices, slice(self.count)).widened(held))

    def _with_rows_for(self, clients: IntArray) -> "ClientRecords":
        """Return the records with a row for each of these clients; new ones hold nothing yet."""
        newcomers = clients[self.row[clients] < 0]
        count, room = self.count + len(newcomers), len(self.held.heard)
        self.row[newcomers] = np.arange(self.count, count)
        if count <= room:
            return replace(self, count=count)
        room = min(max(_FIRST_ROWS, 2 * count), len(self.row))
        return replace(self, count=count, held=_with_room(self.held, room), indices=_with_room(self.indices, room))


def _put(columns: Columns, rows: IntArray, some: Columns) -> None:
    """Write rows into the arrays of ``columns``."""
    values = arrays_of(some)
    for name, array in arrays_of(columns).items():
        array[rows] = values[name]


def _with_room(columns: Columns, room: int) -> Columns:
    """Return a copy with so many rows; those beyond what there was hold zeros."""

    def copied(array: NDArray[Any]) -> NDArray[Any]:
        copy = np.zeros((room, *array.shape[1:]), dtype=array.dtype)  # takes no memory until it is written to
        copy[: len(array)] = array
        return copy

    return replace(columns, **{name: copied(array) for name, array in arrays_of(columns).items()})
