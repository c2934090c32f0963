"""Matching: which cohort's round a check-in joins, and whose model a client uses (section 5.1)."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from auxo.core.affinity import Requests
from auxo.core.cohort_state import CoordinatorState
from auxo.core.types import BoolArray, IntArray

NOWHERE = -1
"""The position of no cohort: such a check-in joins no round, and such a client compares models to find its own."""


@dataclass(frozen=True)
class CheckIns:
    """Clients that are ready to train, one row each."""

    clients: IntArray  # who they are: rows of a simulated population, or ids
    requests: Requests  # what they say of themselves, row aligned

    def __len__(self) -> int:
        return len(self.clients)

    def take(self, rows: IntArray) -> "CheckIns":
        """Return the check-ins in ``rows``, in that order."""
        return CheckIns(self.clients[rows], self.requests.take(rows))


@dataclass(frozen=True)
class Matched:
    """Where each check-in goes."""

    cohort: IntArray  # position in tree.cohorts; `NOWHERE`: in nobody's round
    vouched: BoolArray  # by the client's own request or a table, not by a draw
    compares: bool = False  # whoever is not vouched for compares models when it comes to train; the draw is no matter

    def without(self, rows: IntArray) -> "Matched":
        """Return the same with some in nobody's round."""
        if not len(rows):
            return self
        cohort = self.cohort.copy()
        cohort[rows] = NOWHERE
        return replace(self, cohort=cohort)


class Matching(Protocol):
    """Sends check-ins to cohorts. It decides for all of them at once: there may be a million."""

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return whose round each check-in joins, if it is selected."""
        ...

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the leaf whose model each client is to use; ``vouched`` where it has reason to, beyond a guess.

        A client without a reason is lost: it compares the leaves' models on its own samples and uses the best. One that
        is placed `NOWHERE` does the same, but is not lost: the algorithm has no other way.
        """
        ...


@dataclass(frozen=True)
class ByRequest:
    """The client has chosen; the coordinator finds the leaf its request of any age leads to."""

    compares: bool = False  # newcomers compare models wherever they are sent, see `Matched`

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the leaves of the requests; a cohort the tree does not know counts as no preference."""
        tree, requests = state.tree, check_ins.requests
        cohorts = requests.cohort
        if requests.tree != tree:
            names = [tree.index.get(cohort, -1) for cohort in requests.tree.cohorts]
            cohorts = np.array([-1, *names, -1])[np.clip(cohorts, -1, len(names)) + 1]
        leaf, vouched = tree.resolve(cohorts, requests.cluster, requests.generation, rng)
        return Matched(leaf, vouched, self.compares)

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the same leaves; a request that only follows a predicted reward gives no reason to use a model."""
        matched = self.match(state, check_ins, rng)
        return Matched(matched.cohort, matched.vouched & check_ins.requests.supported, self.compares)


@dataclass(frozen=True)
class ToTheRoot:
    """Everybody joins the root's rounds; those of several leaves that clients choose among are there in one."""

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the root for everybody."""
        return Matched(np.zeros(len(check_ins), dtype=np.int64), np.ones(len(check_ins), dtype=np.bool_))

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the root; where there are several leaves, that everybody compares their models."""
        position = 0 if len(state.tree.leaves) == 1 else NOWHERE
        return Matched(np.full(len(check_ins), position, dtype=np.int64), np.ones(len(check_ins), dtype=np.bool_))
