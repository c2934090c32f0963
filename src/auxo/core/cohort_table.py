"""A table keyed by client: whose cohort each client was found to belong to, for methods that must remember it.

It grows with the population, unlike all that Auxo keeps: 12 bytes a client, 12 MB for a million.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auxo.core.asking import LEAST_LOSS
from auxo.core.cohort_algorithm import Closing, Opening, Plan
from auxo.core.cohort_state import CoordinatorState
from auxo.core.gathering import Gathered
from auxo.core.matching import CheckIns, Matched, ToTheRoot
from auxo.core.own_state import own
from auxo.core.types import IntArray

UNKNOWN = -1
"""The cohort of a client that is not in the table."""


@dataclass(frozen=True)
class CohortTable:
    """A cohort for each client that was ever assigned to one.

    >>> table = CohortTable.empty().assigned(np.array([7, 3]), np.array([1, 2])).assigned(np.array([7]), np.array([2]))
    >>> table.of(np.array([3, 5, 7])).tolist()
    [2, -1, 2]
    """

    clients: IntArray  # (clients,) ascending
    cohort: NDArray[np.int32]  # (clients,) position in the tree's cohorts, which stays as it is when the tree grows

    @staticmethod
    def empty() -> "CohortTable":
        """Return a table of nobody."""
        return CohortTable(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))

    def of(self, clients: IntArray) -> IntArray:
        """Return the cohort of each of these clients, `UNKNOWN` for those that are not in the table."""
        if len(self.clients) == 0:
            return np.full(len(clients), UNKNOWN, dtype=np.int64)
        at = np.searchsorted(self.clients, clients).clip(max=len(self.clients) - 1)
        return np.where(self.clients[at] == clients, self.cohort[at], UNKNOWN).astype(np.int64)

    def assigned(self, clients: IntArray, cohorts: IntArray) -> "CohortTable":
        """Return the table after these clients, all different, were assigned to these cohorts."""
        everybody = np.union1d(self.clients, clients)
        cohort = np.empty(len(everybody), dtype=np.int32)
        cohort[np.searchsorted(everybody, self.clients)] = self.cohort
        cohort[np.searchsorted(everybody, clients)] = cohorts
        return CohortTable(everybody, cohort)


def leaf_in_table(state: CoordinatorState, clients: IntArray) -> IntArray:
    """Return the leaf that the table has for each client; `UNKNOWN`: none, or a cohort that was partitioned since."""
    found = own(CohortTable, state.table).of(clients)
    is_leaf = (found >= 0) & state.tree.is_leaf[np.where(found >= 0, found, 0)]
    return np.where(is_leaf, found, UNKNOWN)


@dataclass(frozen=True)
class ByTable:
    """Clients go to the leaf that the table has for them.

    Others are drawn to one. To use a model they compare all, on their own samples; so do they to train one, where the
    method plans it so (`newcomers_compare`).
    """

    at_the_root: bool = False  # one round is for all leaves, and everybody joins it

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return each client's leaf, or the root."""
        if self.at_the_root:
            return ToTheRoot().match(state, check_ins, rng)
        return self.place(state, check_ins, rng)

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return each client's leaf; the table vouches for it."""
        tree = state.tree
        if len(tree.leaves) == 1:
            only = np.full(len(check_ins), tree.index[tree.leaves[0]], dtype=np.int64)
            return Matched(only, np.ones(len(check_ins), dtype=np.bool_))
        leaf = leaf_in_table(state, check_ins.clients)
        nothing = np.full(len(check_ins), -1, dtype=np.int64)
        drawn, _ = tree.resolve(nothing, nothing, nothing, rng)
        return Matched(np.where(leaf >= 0, leaf, drawn), leaf >= 0, compares=True)


def newcomers_compare(opening: Opening, plan: Plan) -> Plan:
    """Return the plan of a leaf's round in which clients that the table does not know compare all leaves' models.

    They train the best one, and are charged for the comparison. A paper that only knows clients that were there from
    the beginning says nothing of them; this is our choice.
    """
    leaves = opening.tree.leaves
    clients = opening.selected.clients[plan.rows]
    known = own(CohortTable, opening.table).of(clients) == opening.tree.index[opening.cohort]
    if len(leaves) == 1 or known.all():
        return plan
    others = (leaf for leaf in leaves if leaf != opening.cohort)
    asks = replace(plan.asks, model=np.where(known, plan.asks.model, LEAST_LOSS))
    return replace(plan, offered=(opening.cohort, *others), asks=asks)


def with_newcomers(closing: Closing, gathered: Gathered) -> CohortTable:
    """Return the table after a leaf's round: those who had to compare models belong where they found the best."""
    compared = closing.participants.asks.model[gathered.rows] == LEAST_LOSS
    return with_members(closing, gathered.rows[compared], gathered.model[compared])


def with_members(closing: Closing, rows: IntArray, models: IntArray) -> CohortTable:
    """Return the table after a round in which these participants were found to belong to these offered models."""
    table = own(CohortTable, closing.table)
    if not len(rows):
        return table
    positions = np.array([closing.tree.index[leaf] for leaf in closing.participants.offered])
    return table.assigned(closing.participants.clients[rows], positions[models])
