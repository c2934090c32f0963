"""The contract of selectors."""

import numpy as np

from auxo.algorithms.base import OneCohort
from auxo.core.affinity import Requests
from auxo.core.aggregators import ServerState
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState
from auxo.core.rng import stream
from auxo.core.selectors import Selector, SetsWork, UsualWork
from auxo.core.turnout import Times, Turnout
from auxo.core.types import IntArray
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect, expect_frozen
from auxo.testing.locking import locked
from auxo.testing.small_federation import SmallFederation, rules_of

CONTRACT = Contract[Selector]("a selector", "Selector in auxo.core.selectors")
check_selector = CONTRACT.check
"""Raises `ContractBroken` unless a selector keeps its contract."""

_CANDIDATES = 30
_USUAL = UsualWork(share=4, epochs=2)


def _candidates() -> CheckIns:
    # Clients are not rows: an id in place of a row would be out of range.
    clients = 100 + 7 * np.arange(_CANDIDATES)
    return CheckIns(clients, Requests.silent(CohortTree(), np.arange(_CANDIDATES) % 4))


def _rows() -> IntArray:
    """Return the candidates that are there for the cohort: some of them."""
    return np.arange(1, _CANDIDATES, 2)


def _turnout(clients: IntArray, kind: str = "mixed") -> Turnout:
    """Return how a round of these clients went; "mixed": one is late, one failed, and of one the loss is not known."""
    count = len(clients)
    rng, rows = stream(0, "turnout", count), np.arange(count)
    late = (rows == count - 1) if kind == "mixed" else np.full(count, kind == "late")
    answered = (rows != count - 2) & ~late if kind == "mixed" else np.full(count, kind not in ("late", "failed"))
    times = rng.random((3, count)) if kind != "unknown" else np.full((3, count), np.nan)
    times[:, ~answered & ~late] = np.nan
    losses = rng.random(count) if kind != "unknown" else np.full(count, np.nan)
    losses[:1] = np.nan
    return Turnout(
        clients=clients,
        answered=answered,
        examples=np.where(answered, rng.integers(1, 50, count), 0),
        loss=np.where(answered, losses, np.nan),
        squared_loss=np.where(answered, losses**2, np.nan),
        length=np.where(answered, rng.random(count), np.nan),
        times=Times(times[0] + times[1] + times[2], times[1], times[2], late),
    )


def _memories(selector: Selector) -> list[OwnState]:
    """Return what it remembers at first, after some rounds, and in the first round of a child."""
    memories = [selector.begin(None)]
    for number in range(3):
        memories.append(selector.learn(memories[-1], _turnout(_candidates().clients[number : number + 8])))
    return [*memories, selector.begin(memories[-1])]


def _select(selector: Selector, memory: OwnState, rows: IntArray, wanted: int) -> IntArray:
    return selector.select(memory, _candidates(), rows, wanted, stream(0, "select", len(rows), wanted))


@CONTRACT.promise
def is_a_value(selector: Selector) -> None:
    """A selector is a frozen value: what it remembers it takes and returns."""
    expect_frozen(selector)


@CONTRACT.promise
def selects_some_of_the_rows(selector: Selector) -> None:
    """It selects different ones of the rows, at most as many as are wanted, and somebody where somebody is there."""
    for memory in _memories(selector):
        for wanted in (1, 4, len(_rows()) - 1):
            found = _select(selector, memory, _rows(), wanted)
            expect(bool(np.isin(found, _rows()).all()), f"some of the rows {_rows()}", found)
            expect(len(np.unique(found)) == len(found), "different rows", found)
            expect(0 < len(found) <= wanted, f"between 1 and {wanted} rows", found)


@CONTRACT.promise
def selects_all_where_there_are_few(selector: Selector) -> None:
    """It selects everybody where there are not more than are wanted, and nobody where nobody is there."""
    for memory in _memories(selector):
        for rows in (_rows(), _rows()[:1], _rows()[:0]):
            found = np.sort(_select(selector, memory, rows, len(_rows())))
            expect(np.array_equal(found, rows), f"the rows {rows}", found)


@CONTRACT.promise
def repeats_itself(selector: Selector) -> None:
    """The same memory, candidates and generator give the same choice."""
    for memory in _memories(selector):
        one, other = (_select(selector, memory, _rows(), 5) for _ in range(2))
        expect_same(one, other, "the same choice twice")


@CONTRACT.promise
def leaves_arguments_alone(selector: Selector) -> None:
    """No function changes its arguments, arrays included."""
    candidates, rows = _candidates(), _rows()
    for memory in _memories(selector):
        with locked(memory, candidates, rows):
            selector.select(memory, candidates, rows, 5, stream(0, "select"))
        turnout = _turnout(candidates.clients[:8])
        before = to_bytes(_kept(memory))
        with locked(memory, turnout):
            selector.learn(memory, turnout)
            selector.begin(memory)
            if isinstance(selector, SetsWork):
                selector.work(memory, candidates.clients[:8], _USUAL)
        expect(to_bytes(_kept(memory)) == before, "the memory as it was", "another")


@CONTRACT.promise
def learns_from_nobody(selector: Selector) -> None:
    """It learns from a round that nobody has answered, too."""
    nobody = np.zeros(0, dtype=np.int64)
    for memory in _memories(selector):
        after = selector.learn(memory, _turnout(nobody))
        found = _select(selector, after, _rows(), 4)
        expect(0 < len(found) <= 4, "between 1 and 4 rows afterwards", found)


@CONTRACT.promise
def learns_however_a_round_went(selector: Selector) -> None:
    """It learns from rounds in which all were late, all failed, or nobody knows losses and times, and then selects."""
    for memory in _memories(selector):
        for kind in ("late", "failed", "unknown"):
            after = selector.learn(memory, _turnout(_candidates().clients[5:15], kind))
            found = _select(selector, after, _rows(), 4)
            expect(0 < len(found) <= 4, f"between 1 and 4 rows after a round of the kind {kind}", found)


@CONTRACT.promise
def children_begin_with_what_their_parent_knew(selector: Selector) -> None:
    """A child of a partition may begin from whatever its parent knew, and every child with the same."""
    for memory in _memories(selector):
        one, other = (to_bytes(_kept(selector.begin(memory))) for _ in range(2))
        expect(one == other, "the same bytes for both children", "others")


@CONTRACT.promise
def asks_for_work_that_can_be_done(selector: Selector) -> None:
    """If it sets how much participants do, it says so for each: at least one epoch, a share of the upload, twice alike.

    Of nobody it asks nothing, and whether times are known does not matter.
    """
    if not isinstance(selector, SetsWork):
        return
    everybody = _candidates().clients
    for memory in (*_memories(selector), selector.learn(selector.begin(None), _turnout(everybody, "unknown"))):
        for clients in (everybody, everybody[3:9], everybody[:0]):
            one, other = (selector.work(memory, clients, _USUAL) for _ in range(2))
            for name, found in (("epochs", one.epochs), ("upload", one.upload)):
                expect(len(found) == len(clients), f"{name} of each of {len(clients)} participants", found)
            expect(one.epochs.dtype.kind == "i" and bool((one.epochs >= 1).all()), "at least 1 epoch each", one.epochs)
            possible = bool(((one.upload > 0) & (one.upload <= 1)).all())
            expect(possible, "shares of the upload above 0 and up to 1", one.upload)
            expect_same(one.epochs, other.epochs, "the same epochs twice")
            expect_same(one.upload, other.upload, "the same upload twice")


@CONTRACT.promise
def memory_goes_through_the_codec(selector: Selector) -> None:
    """What it remembers is of a kind in own_states, goes to bytes and back, and then leads to the same choices."""
    for memory in _memories(selector):
        data = to_bytes(_kept(memory))
        again = from_bytes(CohortState, data, selector.own_states)
        expect(to_bytes(again) == data, "the bytes that were read", "others")
        one, other = (_select(selector, kept, _rows(), 5) for kept in (memory, again.selection))
        expect_same(one, other, "the same choice")


def _kept(memory: OwnState) -> CohortState:
    return CohortState(ServerState(np.zeros(1, dtype=np.float32), (), 0), selection=memory)


@CONTRACT.promise
def selects_for_a_federation(selector: Selector) -> None:
    """A small federation trains with it to its end, twice to the same bytes."""
    one, other = (to_bytes(SmallFederation.of(rules_of(OneCohort(), selector=selector)).end()) for _ in range(2))
    expect(one == other, "the same bytes twice", "others")
