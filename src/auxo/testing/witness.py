"""A cohort algorithm under observation: what it is asked and what it answers is written down."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import (
    ClientHalf,
    Closing,
    CohortAlgorithm,
    InitialModel,
    Opening,
    Outcome,
    Plan,
    Start,
    Wants,
)
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, Belongs, Examined, Gathered, KeepsUpdates
from auxo.core.matching import CheckIns, Matched, Matching
from auxo.core.own_state import OwnState
from auxo.core.types import CohortId

Note = TypeVar("Note")


class Watch(Protocol):
    """Watches over the arguments of a function while it runs."""

    def __call__(self, *values: object) -> AbstractContextManager[None]:
        """Return what the function runs in."""
        ...


def unwatched(*values: object) -> AbstractContextManager[None]:
    """Watch nothing."""
    return nullcontext()


@dataclass(frozen=True)
class SeenMatch:
    """Check-ins that were sent somewhere."""

    state: CoordinatorState
    check_ins: CheckIns
    matched: Matched


@dataclass(frozen=True)
class SeenPlan:
    """A round that was planned."""

    opening: Opening
    plan: Plan


@dataclass(frozen=True)
class SeenClose:
    """A round that was closed."""

    closing: Closing
    gathered: Gathered
    outcome: Outcome | None


@dataclass(frozen=True)
class Notebook:
    """What a witness has seen, in its order."""

    matches: list[SeenMatch] = field(default_factory=list)
    places: list[SeenMatch] = field(default_factory=list)
    plans: list[SeenPlan] = field(default_factory=list)
    closes: list[SeenClose] = field(default_factory=list)


def taken(notes: list[Note]) -> list[Note]:
    """Return some of a notebook's pages, and tear them out: a wrong answer is best told before it does harm."""
    pages = notes.copy()
    notes.clear()
    return pages


@dataclass(frozen=True)
class Witness:
    """Does what an algorithm does, under a watch, and writes it down."""

    inner: CohortAlgorithm
    watch: Watch = unwatched
    seen: Notebook = field(default_factory=Notebook)

    @property
    def matching(self) -> Matching:
        """Return the algorithm's, watched."""
        return _WatchedMatching(self.inner.matching, self.watch, self.seen)

    @property
    def client_half(self) -> ClientHalf | None:
        """Return the algorithm's."""
        return self.inner.client_half

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the algorithm's."""
        return self.inner.own_states

    def begin(self, initial: InitialModel) -> Start:
        """Return the algorithm's start."""
        return self.inner.begin(initial)

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return what a new cohort remembers."""
        with self.watch(parent):
            return self.inner.memory(parent)

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the cohorts that open rounds."""
        with self.watch(tree):
            return self.inner.openers(tree)

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return the openers' shares."""
        with self.watch(tree):
            return self.inner.shares(tree, openers)

    def wants(self, state: CohortState, share: int) -> int:
        """Return how many updates a round wants: the share, if the algorithm has nothing to say."""
        if not isinstance(self.inner, Wants):
            return share
        with self.watch(state):
            return self.inner.wants(state, share)

    def plan(self, opening: Opening) -> Plan:
        """Return the plan."""
        with self.watch(opening):
            plan = self.inner.plan(opening)
        self.seen.plans.append(SeenPlan(opening, plan))
        return plan

    def admission(self, closing: Closing) -> Admission:
        """Return who decides, watched."""
        with self.watch(closing):
            return _WatchedAdmission(self.inner.admission(closing), self.watch)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Return what becomes of the cohorts."""
        with self.watch(closing, gathered):
            outcome = self.inner.close(closing, gathered, aggregator, rng)
        self.seen.closes.append(SeenClose(closing, gathered, outcome))
        return outcome


@dataclass(frozen=True)
class _WatchedMatching:
    inner: Matching
    watch: Watch
    seen: Notebook

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        with self.watch(state, check_ins):
            matched = self.inner.match(state, check_ins, rng)
        self.seen.matches.append(SeenMatch(state, check_ins, matched))
        return matched

    def place(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        with self.watch(state, check_ins):
            matched = self.inner.place(state, check_ins, rng)
        self.seen.places.append(SeenMatch(state, check_ins, matched))
        return matched


@dataclass(frozen=True)
class _WatchedAdmission:
    inner: Admission
    watch: Watch

    def place(self, row: int, examined: Examined, model: int) -> int | tuple[int, ...] | Belongs | None:
        with self.watch(examined):
            return self.inner.place(row, examined, model)

    @property
    def keeps_updates(self) -> bool:
        return isinstance(self.inner, KeepsUpdates) and self.inner.keeps_updates
