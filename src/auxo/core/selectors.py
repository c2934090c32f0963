"""Client selection: which of the clients that are there for a cohort take part in its round."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from auxo.core.gathering import Gathered
from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.types import IntArray


@runtime_checkable
class Selector(Protocol):
    """Selects participants; what it remembers of a cohort's clients is a value that it takes and returns."""

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the kinds of what it remembers, for the codec."""
        ...

    def begin(self) -> OwnState:
        """Return what it remembers before a cohort's first round."""
        ...

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        """Return at most ``wanted`` of ``rows``, all different.

        Args:
            memory: what it remembers of the cohort.
            candidates: all check-ins.
            rows: those of them that are there for the cohort.
            wanted: how many to invite.
            rng: of this attempt.
        """
        ...

    def learn(self, memory: OwnState, clients: IntArray, gathered: Gathered) -> OwnState:
        """Return what it remembers after a round of these participants, in the order of ``gathered``'s rows."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Everybody who is there has the same chance."""

    own_states = ()

    def begin(self) -> OwnState:
        """Return nothing: it remembers nobody."""
        return NOTHING

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        """Return a random sample, in the order of the check-ins."""
        return np.sort(rng.permutation(rows)[:wanted])

    def learn(self, memory: OwnState, clients: IntArray, gathered: Gathered) -> OwnState:
        """Return what it was given: nothing."""
        return memory
