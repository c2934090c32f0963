"""Guards: who of those that check in is refused, and what a closed round holds against its participants.

What a guard keeps is a value of its own beside the algorithm's. It may be a table of clients, and then says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.types import BoolArray, CohortId, FloatArray, IntArray
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
    claimed: FloatArray | None = None  # (clients,) reward for this cohort; NaN: nothing claimed; None: nobody has asked
    observed: FloatArray | None = None  # (clients,) instant reward; NaN: none was given; None: to nobody
    proved: BoolArray | None = None  # (clients,) members as the server itself has signed it; None: nobody signs
    forged: BoolArray | None = None  # (clients,) came with what we have not signed; None: nobody signs


NOBODY = Refusals(np.zeros(0, dtype=np.int64), ())
"""That all are let in."""


@runtime_checkable
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
class Ban:
    """Somebody who is refused for a while, why, and by what one can see that."""

    client: int  # number, see `auxo.runtime.client_numbers`
    reason: str
    evidence: str
    since: int  # round of the cohort that was farthest
    until: int  # the first round in which it is over
    is_lifted: bool = False  # by hand, before that


@runtime_checkable
class Bans(Protocol):
    """A guard that bans, and says whom."""

    def bans(self, state: OwnState) -> tuple[Ban, ...]:
        """Return the bans that hold."""
        ...

    def last_bans(self, state: OwnState) -> Mapping[int, int]:
        """Return by client the round of its last ban, also where that is over: no older proof of it counts again."""
        ...

    def are_suspect(self, state: OwnState, clients: IntArray) -> BoolArray:
        """Return who of these has done something that speaks against it: such clients vouch for nobody."""
        ...

    def lift(self, state: OwnState, clients: Iterable[int]) -> OwnState:
        """Return what it keeps after the bans of these clients are over, and what speaks against them is forgotten."""
        ...


@dataclass(frozen=True)
class Unguarded:
    """Nobody is refused, and nothing is kept."""

    own_states = ()

    def begin(self) -> OwnState:
        """Return that nothing is kept."""
        return NOTHING

    def admit(self, state: OwnState, check_ins: CheckIns) -> Refusals:
        """Return nobody."""
        return NOBODY

    def strike(self, state: OwnState, shown: Shown) -> OwnState:
        """Return what there was."""
        return state
