"""A guest: a guard that keeps clients away for some rounds after an update that was rejected."""

from dataclasses import dataclass, field

import numpy as np

from auxo.core.guard import Refusals, Shown
from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState, own
from auxo.core.types import IntArray


def _nobody() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Banned:
    """Who is away, and for how many more rounds."""

    clients: IntArray = field(default_factory=_nobody)
    rounds: IntArray = field(default_factory=_nobody)


@dataclass(frozen=True)
class Bans:
    """Bans the sender of a rejected update from as many rounds of the federation."""

    rounds: int = 3

    @property
    def own_states(self) -> tuple[type, ...]:
        return (Banned,)

    def begin(self) -> OwnState:
        return Banned()

    def admit(self, state: OwnState, check_ins: CheckIns) -> Refusals:
        banned = own(Banned, state)
        rows = np.flatnonzero(np.isin(check_ins.clients, banned.clients))
        left = dict(zip(banned.clients.tolist(), banned.rounds.tolist(), strict=True))
        return Refusals(rows, tuple(f"banned for {left[one]} more rounds" for one in check_ins.clients[rows].tolist()))

    def strike(self, state: OwnState, shown: Shown) -> OwnState:
        banned = own(Banned, state)
        left = dict(zip(banned.clients.tolist(), (banned.rounds - 1).tolist(), strict=True))
        left |= {int(shown.clients[row]): self.rounds for row, _ in shown.rejected}
        stay = {client: rounds for client, rounds in sorted(left.items()) if rounds > 0}
        return Banned(np.array(list(stay), dtype=np.int64), np.array(list(stay.values()), dtype=np.int64))
