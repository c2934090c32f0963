from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest

from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState, own
from auxo.core.selectors import Asked, Selector, Uniform, UsualWork
from auxo.core.selectors.oort import Oort
from auxo.core.selectors.pyramidfl import PyramidFL
from auxo.core.turnout import Turnout
from auxo.core.types import IntArray
from auxo.experiments.parts import SELECTORS
from auxo.testing import ContractBroken, check_selector, selectors
from auxo.testing.contract import Check
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

TURNS = count()
WRONG: Mapping[str, Callable[[CheckIns, IntArray, int], IntArray]] = {
    "clients": lambda candidates, rows, wanted: candidates.clients[rows][:wanted],
    "twice": lambda candidates, rows, wanted: rows[np.zeros(min(wanted, len(rows)), dtype=np.int64)],
    "greedy": lambda candidates, rows, wanted: rows,
    "lazy": lambda candidates, rows, wanted: rows[: min(wanted, 2)],
    "busy": lambda candidates, rows, wanted: rows[:wanted] if len(rows) else np.arange(1),
    "moody": lambda candidates, rows, wanted: np.roll(rows, next(TURNS))[:wanted],
}


@dataclass(frozen=True)
class Visits:
    """Who has taken part, as often as it has."""

    clients: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class LeastOften:
    """Selects those who have taken part least often; it may do one thing wrong."""

    kind: str = ""

    @property
    def own_states(self) -> tuple[type, ...]:
        return () if self.kind == "undeclared" else (Visits,)

    def begin(self, parent: OwnState | None = None) -> OwnState:
        if self.kind == "estranged" and parent is not None:
            return Visits(np.full(1, next(TURNS)))
        if self.kind == "orphaned" and parent is not None:
            raise NotImplementedError
        return parent or Visits()

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        if self.kind in WRONG:
            return WRONG[self.kind](candidates, rows, wanted)
        visits = own(Visits, memory).clients
        if self.kind == "sorts":
            rows[::-1].sort()
        often = (visits[None, :] == candidates.clients[rows][:, None]).sum(axis=1)
        return np.sort(rows[np.lexsort((rng.random(len(rows)), often))][:wanted])

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        before = own(Visits, memory).clients
        if self.kind == "impatient":
            turnout.loss.argmax()
        if self.kind == "hopeful":
            turnout.loss[turnout.answered].max(initial=0.0) / turnout.answered.sum(dtype=object)
        if self.kind == "forgets":
            before[:] = 0
        return Visits(np.concatenate([before, turnout.clients[turnout.answered]]))


@dataclass(frozen=True)
class Sets(LeastOften):
    """Sets the work of participants, and may do so wrongly."""

    asks: str = "well"

    def work(self, memory: OwnState, clients: IntArray, usual: UsualWork) -> Asked:
        epochs, upload = np.full(len(clients), usual.epochs), np.ones(len(clients))
        match self.asks:
            case "nothing":
                return Asked(epochs * 0, upload)
            case "silence":
                return Asked(epochs, upload * 0)
            case "few":
                return Asked(epochs[:-1], upload[:-1])
            case "moody":
                return Asked(epochs + next(TURNS), upload)
            case "halves":
                return Asked(epochs / 2, upload)  # type: ignore[arg-type]  # that is what is wrong
        return Asked(epochs, upload)


class Loose(LeastOften):
    """Not frozen."""


CONTRACT: Mapping[str, Selector] = {"uniform": Uniform(), "oort": Oort(), "pyramidfl": PyramidFL()}
BROKEN: list[tuple[Check[Selector], Selector]] = [
    (selectors.is_a_value, Loose()),
    (selectors.selects_some_of_the_rows, LeastOften("clients")),
    (selectors.selects_some_of_the_rows, LeastOften("twice")),
    (selectors.selects_some_of_the_rows, LeastOften("greedy")),
    (selectors.selects_all_where_there_are_few, LeastOften("lazy")),
    (selectors.selects_all_where_there_are_few, LeastOften("busy")),
    (selectors.repeats_itself, LeastOften("moody")),
    (selectors.leaves_arguments_alone, LeastOften("sorts")),
    (selectors.leaves_arguments_alone, LeastOften("forgets")),
    (selectors.learns_from_nobody, LeastOften("impatient")),
    (selectors.learns_however_a_round_went, LeastOften("hopeful")),
    (selectors.children_begin_with_what_their_parent_knew, LeastOften("orphaned")),
    (selectors.children_begin_with_what_their_parent_knew, LeastOften("estranged")),
    (selectors.asks_for_work_that_can_be_done, Sets(asks="nothing")),
    (selectors.asks_for_work_that_can_be_done, Sets(asks="silence")),
    (selectors.asks_for_work_that_can_be_done, Sets(asks="few")),
    (selectors.asks_for_work_that_can_be_done, Sets(asks="moody")),
    (selectors.asks_for_work_that_can_be_done, Sets(asks="halves")),
    (selectors.memory_goes_through_the_codec, LeastOften("undeclared")),
    (selectors.selects_for_a_federation, LeastOften("moody")),
]


def test_every_selector_that_has_a_name_keeps_the_contract() -> None:
    assert {name: type(part) for name, part in CONTRACT.items()} == {
        name: SELECTORS.find(name) for name in SELECTORS.names
    }


@pytest.mark.parametrize("selector", [*CONTRACT.values(), LeastOften(), Sets()], ids=str)
@every(selectors.CONTRACT.checks)
def test_selectors_keep_the_contract(check: Check[Selector], selector: Selector) -> None:
    check(selector)


@each_broken(BROKEN)
def test_broken_promises_are_caught_by_name(check: Check[Selector], part: Selector) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(selectors.CONTRACT.checks, BROKEN)


def test_the_whole_contract_is_one_call() -> None:
    with pytest.raises(ContractBroken, match="LeastOften breaks a promise of a selector: It learns from a round"):
        check_selector(LeastOften("impatient"))


def test_a_selector_without_a_memory_needs_no_kinds() -> None:
    assert Uniform().begin() == NOTHING
