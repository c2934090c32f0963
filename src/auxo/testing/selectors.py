"""The contract of selectors."""

import numpy as np

from auxo.algorithms.base import OneCohort
from auxo.core.affinity import Requests
from auxo.core.aggregators import ServerState
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Gathered
from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState
from auxo.core.rng import stream
from auxo.core.selectors import Selector
from auxo.core.types import IntArray
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Check, Contract, expect, expect_frozen, run_checks
from auxo.testing.locking import locked
from auxo.testing.small_federation import Trial, rules_of

CONTRACT = Contract[Selector]("a selector", "Selector in auxo.core.selectors")
_CANDIDATES, _WIDTH = 30, 5


def _candidates() -> CheckIns:
    # Clients are not rows: an id in place of a row would be out of range.
    clients = 100 + 7 * np.arange(_CANDIDATES)
    return CheckIns(clients, Requests.silent(CohortTree(), np.arange(_CANDIDATES) % 4))


def _rows() -> IntArray:
    """Return the candidates that are there for the cohort: some of them."""
    return np.arange(1, _CANDIDATES, 2)


def _gathered(count: int) -> Gathered:
    """Return the answers of so many participants: one of them is late, and of another nobody asked for the loss."""
    rng, rows = stream(0, "gathered", count), np.arange(count)
    losses = rng.random(count)
    losses[:1] = np.nan
    return Gathered(
        movements=(rng.normal(size=_WIDTH) if count else None,),
        rows=rows,
        late=rows == count - 1,
        model=np.zeros(count, dtype=np.int64),
        losses=losses,
        held_out=np.full((count, 0), np.nan),
        directions=rng.normal(size=(count, _WIDTH)),
        blocks=np.zeros(_WIDTH, dtype=np.int64),
        lengths=rng.random(count),
        examples=rng.integers(1, 50, count),
        aggregated=rows[: max(count - 1, 0)],
        misfits=0,
        rejected=((count, "NON_FINITE"),),
    )


def _memories(selector: Selector) -> list[OwnState]:
    """Return what it remembers at first, and after some rounds."""
    memories = [selector.begin()]
    for number in range(3):
        clients = _candidates().clients[number : number + 8]
        memories.append(selector.learn(memories[-1], clients, _gathered(len(clients))))
    return memories


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
        clients, gathered = candidates.clients[:8], _gathered(8)
        before = to_bytes(_kept(memory))
        with locked(memory, clients, gathered):
            selector.learn(memory, clients, gathered)
        expect(to_bytes(_kept(memory)) == before, "the memory as it was", "another")


@CONTRACT.promise
def learns_from_nobody(selector: Selector) -> None:
    """It learns from a round that nobody has answered, too."""
    nobody = np.zeros(0, dtype=np.int64)
    for memory in _memories(selector):
        after = selector.learn(memory, nobody, _gathered(0))
        found = _select(selector, after, _rows(), 4)
        expect(0 < len(found) <= 4, "between 1 and 4 rows afterwards", found)


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
    one, other = (to_bytes(Trial.of(rules_of(OneCohort(), selector=selector)).end()) for _ in range(2))
    expect(one == other, "the same bytes twice", "others")


SELECTOR_CHECKS: tuple[Check[Selector], ...] = (
    is_a_value,
    selects_some_of_the_rows,
    selects_all_where_there_are_few,
    repeats_itself,
    leaves_arguments_alone,
    learns_from_nobody,
    memory_goes_through_the_codec,
    selects_for_a_federation,
)


def check_selector(selector: Selector) -> None:
    """Check that a selector keeps its contract.

    Raises:
        ContractBroken: it does not.

    >>> from auxo.core.selectors import Uniform
    >>> check_selector(Uniform())
    """
    run_checks(SELECTOR_CHECKS, selector)
