from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pytest

from auxo.core.guard import Guard, Refusals, Shown, Unguarded
from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState, own
from auxo.core.types import ROOT
from auxo.core.watchful import Watchful
from auxo.testing import ContractBroken, check_guard, guards
from auxo.testing.contract import Check
from tests.testing.bans import Banned, Bans
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

TURNS = count()
WRONG: Mapping[str, Callable[[CheckIns, Refusals], Refusals]] = {
    "clients": lambda check_ins, found: replace(found, rows=check_ins.clients[found.rows]),
    "descends": lambda check_ins, found: Refusals(found.rows[::-1], found.reasons[::-1]),
    "wordless": lambda check_ins, found: replace(found, reasons=("",) * len(found.rows)),
    "terse": lambda check_ins, found: replace(found, reasons=found.reasons[:1]),
    "first come": lambda check_ins, found: Refusals(found.rows[1:], found.reasons[1:]),
    "moody": lambda check_ins, found: replace(found, reasons=tuple(f"no {next(TURNS)}" for _ in found.rows)),
}


@dataclass(frozen=True)
class Wrong:
    """Bans, and does one thing wrong."""

    kind: str
    inner: Bans = field(default_factory=Bans)

    @property
    def own_states(self) -> tuple[type, ...]:
        return () if self.kind == "undeclared" else (Banned,)

    def begin(self) -> OwnState:
        return self.inner.begin()

    def admit(self, state: OwnState, check_ins: CheckIns) -> Refusals:
        if self.kind == "sorts":
            check_ins.clients[::-1].sort()
        found = self.inner.admit(state, check_ins)
        return WRONG[self.kind](check_ins, found) if self.kind in WRONG else found

    def strike(self, state: OwnState, shown: Shown) -> OwnState:
        if self.kind == "forgives":
            own(Banned, state).rounds[:] = 1
        if self.kind == "busy":
            shown.answered.argmax()
        if self.kind == "by chance":
            return Banned(np.array([next(TURNS)]), np.array([1]))
        return self.inner.strike(state, shown)


class Loose(Wrong):
    """Not frozen."""

    __setattr__ = object.__setattr__


BROKEN: list[tuple[Check[Guard], Guard]] = [
    (guards.is_a_value, Loose("")),
    (guards.refuses_rows_with_reasons, Wrong("clients")),
    (guards.refuses_rows_with_reasons, Wrong("descends")),
    (guards.refuses_rows_with_reasons, Wrong("wordless")),
    (guards.refuses_rows_with_reasons, Wrong("terse")),
    (guards.refuses_rows_with_reasons, Wrong("busy")),
    (guards.looks_at_each_client_alone, Wrong("first come")),
    (guards.looks_at_each_client_alone, Wrong("moody")),
    (guards.leaves_arguments_alone, Wrong("sorts")),
    (guards.leaves_arguments_alone, Wrong("forgives")),
    (guards.state_goes_through_the_codec, Wrong("undeclared")),
    (guards.guards_a_federation, Wrong("by chance")),
]


@pytest.mark.parametrize(
    "guard", [Unguarded(), Bans(), Bans(1), Watchful()], ids=["nobody", "bans", "bans for a round", "watchful"]
)
@every(guards.CONTRACT.checks)
def test_guards_keep_the_contract(check: Check[Guard], guard: Guard) -> None:
    check(guard)


@each_broken(BROKEN)
def test_a_guard_that_breaks_a_promise_is_told_which(check: Check[Guard], part: Guard) -> None:
    assert_caught(check, part)


def test_every_promise_of_a_guard_can_be_broken() -> None:
    assert_all_can_fail(guards.CONTRACT.checks, BROKEN)
    with pytest.raises(ContractBroken, match="Wrong breaks a promise of a guard"):
        check_guard(Wrong("terse"))


def test_without_a_guard_nothing_is_kept() -> None:
    shown = Shown(ROOT, 1, np.arange(2), np.ones(2, dtype=np.bool_), ())

    assert Unguarded().begin() is Unguarded().strike(NOTHING, shown) is NOTHING
