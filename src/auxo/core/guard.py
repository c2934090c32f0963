"""Guards: who of those that check in is refused, and what a closed round holds against its participants.

What a guard keeps is a value of its own beside the algorithm's. It may be a table of clients, and then says so.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.types import BoolArray, CohortId, IntArray
from auxo.core.validation import Reason


@dataclass(frozen=True)
class Refusals:
    """Check-ins that join nobody's round."""

    rows: IntArray  # of the check-ins, ascending
    reasons: tuple[str, ...]  # (rows,) in words


@dataclass(frozen=True)
class Shown:
    """What a closed round showed of its participants, also where nothing came of it."""

    cohort: CohortId  # that opened it
    round: int  # its number
    clients: IntArray  # that had been selected
    answered: BoolArray  # (clients,) with an update that is one
    rejected: tuple[tuple[int, Reason], ...]  # (row in clients, why): no update, or too unusual to move a model


NOBODY = Refusals(np.zeros(0, dtype=np.int64), ())
"""That all are let in."""


class Guard(Protocol):
    """Stands before matching. It decides for all check-ins at once: there may be a million."""

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the kinds of all states of its own, for the codec."""
        ...

    def begin(self) -> OwnState:
        """Return what it keeps before the first round."""
        ...

    def admit(self, state: OwnState, check_ins: CheckIns) -> Refusals:
        """Return who is refused, and why; who else is there makes no difference."""
        ...

    def strike(self, state: OwnState, shown: Shown) -> OwnState:
        """Return what it keeps after a round."""
        ...


@dataclass(frozen=True)
class Unguarded:
    """Nobody is refused, and nothing is kept."""

    own_states: tuple[type, ...] = ()

    def begin(self) -> OwnState:
        """Return that nothing is kept."""
        return NOTHING

    def admit(self, state: OwnState, check_ins: CheckIns) -> Refusals:
        """Return nobody."""
        return NOBODY

    def strike(self, state: OwnState, shown: Shown) -> OwnState:
        """Return what there was."""
        return state
