"""Uniform selection: everybody who is there has the same chance."""

from dataclasses import dataclass

import numpy as np

from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.turnout import Turnout
from auxo.core.types import IntArray


@dataclass(frozen=True)
class Uniform:
    """Everybody who is there has the same chance."""

    own_states = ()

    def begin(self, parent: OwnState | None = None) -> OwnState:
        """Return nothing: it remembers nobody."""
        return NOTHING

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        """Return a random sample, in the order of the check-ins."""
        return np.sort(rng.permutation(rows)[:wanted])

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        """Return what it was given: nothing."""
        return memory
