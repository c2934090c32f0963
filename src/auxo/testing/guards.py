"""The contract of guards."""

import numpy as np

from auxo.algorithms.base import OneCohort
from auxo.core.affinity import Requests
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.guard import Guard, Shown
from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState
from auxo.core.rng import stream
from auxo.core.types import ROOT, IntArray
from auxo.core.validation import Reason
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect, expect_frozen
from auxo.testing.locking import locked
from auxo.testing.small_federation import SmallFederation, in_process, rules_of
from auxo.testing.troubled_engine import Troubled, diverged, of_some

CONTRACT = Contract[Guard]("a guard", "Guard in auxo.core.guard")
check_guard = CONTRACT.check
"""Raises `ContractBroken` unless a guard keeps its contract."""

_CLIENTS = 100 + 7 * np.arange(30)  # clients are not rows: an id in place of a row would be out of range


def _check_ins(clients: IntArray) -> CheckIns:
    return CheckIns(clients, Requests.silent(CohortTree(), np.zeros(len(clients), dtype=np.int64)))


def _shown(clients: IntArray, number: int, bad: int) -> Shown:
    """Return a round in which the first few have sent no update that is one, and the last has not answered."""
    rows = np.arange(len(clients))
    reasons: tuple[Reason, Reason] = ("NON_FINITE", "UNUSUAL_LENGTH")
    rejected = tuple((row, reasons[row % 2]) for row in range(bad))
    return Shown(ROOT, number, clients, (rows >= bad) & (rows < len(rows) - 1), rejected)


def _states(guard: Guard) -> list[OwnState]:
    """Return what it keeps at first, after rounds with bad updates, after many good ones, and after one of nobody."""
    states = [guard.begin()]
    for number in range(1, 9):
        clients = _CLIENTS[number : number + 8]
        states.append(guard.strike(states[-1], _shown(clients, number, 3 if number < 4 else 0)))
    return [*states, guard.strike(states[3], _shown(_CLIENTS[:0], 9, 0))]


def _refused(guard: Guard, state: OwnState, clients: IntArray) -> dict[int, str]:
    """Return who is refused, and why, by client."""
    found = guard.admit(state, _check_ins(clients))
    return dict(zip(clients[found.rows].tolist(), found.reasons, strict=True))


@CONTRACT.promise
def is_a_value(guard: Guard) -> None:
    """A guard is a frozen value: what it keeps it takes and returns."""
    expect_frozen(guard)


@CONTRACT.promise
def refuses_rows_with_reasons(guard: Guard) -> None:
    """Whom it refuses it names by different ascending rows of the check-ins, each with a reason in words."""
    for state in _states(guard):
        for clients in (_CLIENTS, _CLIENTS[5:9], _CLIENTS[:0]):
            found = guard.admit(state, _check_ins(clients))
            is_fit = found.rows.dtype.kind == "i" and bool(np.isin(found.rows, np.arange(len(clients))).all())
            expect(is_fit and bool((np.diff(found.rows) > 0).all()), f"rows of {len(clients)}, ascending", found.rows)
            expect(len(found.reasons) == len(found.rows), f"a reason for each of {len(found.rows)}", found.reasons)
            expect(all(reason.strip() for reason in found.reasons), "reasons in words", found.reasons)


@CONTRACT.promise
def looks_at_each_client_alone(guard: Guard) -> None:
    """Neither the order of check-ins nor who else is there makes a difference to anybody, and twice gives the same."""
    others = stream(0, "order").permutation(_CLIENTS)
    for state in _states(guard):
        refused = _refused(guard, state, _CLIENTS)
        for some in (_CLIENTS, others, others[:7]):
            expected = {client: reason for client, reason in refused.items() if client in some}
            found = _refused(guard, state, some)
            expect(found == expected, f"that these are refused: {expected}", found)


@CONTRACT.promise
def leaves_arguments_alone(guard: Guard) -> None:
    """No function changes its arguments, arrays included."""
    check_ins, shown = _check_ins(_CLIENTS), _shown(_CLIENTS[:8], 1, 3)
    for state in _states(guard):
        before = to_bytes(_kept(state))
        with locked(state, check_ins, shown):
            guard.admit(state, check_ins)
            guard.strike(state, shown)
        expect(to_bytes(_kept(state)) == before, "the state as it was", "another")


@CONTRACT.promise
def state_goes_through_the_codec(guard: Guard) -> None:
    """What it keeps is of a kind in own_states, goes to bytes and back, and then refuses the same."""
    for state in _states(guard):
        data = to_bytes(_kept(state))
        again = from_bytes(CoordinatorState, data, guard.own_states)
        expect(to_bytes(again) == data, "the bytes that were read", "others")
        one, other = (_refused(guard, kept, _CLIENTS) for kept in (state, again.guard))
        expect(one == other, f"that these are refused: {one}", other)


def _kept(state: OwnState) -> CoordinatorState:
    return CoordinatorState(CohortTree(), {}, guard=state)


@CONTRACT.promise
def guards_a_federation(guard: Guard) -> None:
    """A small federation some of whose clients send no numbers trains with it to its end, twice to the same bytes."""
    rules = rules_of(OneCohort(), guard=guard)
    one, other = (SmallFederation.of(rules, Troubled(in_process(), of_some(diverged))).end() for _ in range(2))
    expect_same(to_bytes(one), to_bytes(other), "the same bytes twice")
