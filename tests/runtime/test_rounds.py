from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg
from auxo.core.asking import LEAST_LOSS
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Affinities, Opening, Outcome, Plan
from auxo.core.cohort_state import CoordinatorState
from auxo.core.matching import NOWHERE, CheckIns, Matched
from auxo.core.own_state import NOTHING, OwnState, own
from auxo.core.rng import stream
from auxo.core.turnout import Turnout
from auxo.core.types import ROOT, CohortId, IntArray
from auxo.protocol.codec import CodecError, from_bytes, to_bytes
from auxo.runtime.closing import Closed, close_round, closing_of
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.runtime.rounds import Arrived, Opened, end_round, match, open_round, there_for
from tests.core.made_updates import alike, gathered, saying
from tests.core.made_updates import answers as plain_answers
from tests.core.selectors_of_our_own import FewestTurns, Turns
from tests.runtime.made_rounds import (
    LABELS,
    LEFT,
    N_PARAMS,
    RIGHT,
    RULES,
    answers,
    begun,
    claims,
    close,
    closing_for,
    partitioned,
    updates,
)


@dataclass(frozen=True)
class TakesNobody:
    """A selector that is not asked where somebody else has chosen."""

    own_states = ()

    def begin(self, parent: OwnState | None = None) -> OwnState:
        return NOTHING

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        return rows[:0]

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        return memory


def arrived(state: CoordinatorState, positions: list[int], members: int = 0) -> Arrived:
    """Return clients 100, 101 ... who are matched to these positions, the last of them as members."""
    n = len(positions)
    is_member = np.arange(n) >= n - members
    requests = replace(
        Requests.silent(state.tree, np.arange(n)),
        cohort=np.where(is_member, positions, -1),
        reward=np.where(is_member, 0.5, 0.0),
        ranked_first=is_member,
    )
    return Arrived(CheckIns(100 + np.arange(n), requests), Matched(np.array(positions, dtype=np.int64), is_member))


def opened(rules: Federation, state: CoordinatorState, cohort: CohortId, here: Arrived, attempt: int = 0) -> Opened:
    return open_round(rules, state, there_for(rules, state, cohort, here), attempt)


# Who takes part.


@settings(max_examples=30)
@given(st.lists(st.sampled_from([NOWHERE, 1, 2]), max_size=30), st.integers(0, 3))
def test_as_many_as_are_invited_take_part_of_those_who_are_there_for_the_cohort(
    positions: list[int], seed: int
) -> None:
    state = partitioned()
    for cohort in (LEFT, RIGHT):
        mine = [100 + row for row, position in enumerate(positions) if position == state.tree.index[cohort]]
        clients = opened(RULES, state, cohort, arrived(state, positions), seed).participants.clients.tolist()

        assert len(clients) == len(set(clients)) == min(len(mine), RULES.invited(state, cohort))
        assert set(clients) <= set(mine)


def test_whom_the_matching_refuses_is_in_nobodys_round() -> None:
    state = begun()
    result = opened(RULES, state, ROOT, arrived(state, [0, NOWHERE, 0]))

    assert sorted(result.participants.clients.tolist()) == [100, 102]


def test_members_come_first_with_their_claims() -> None:
    rules, state = RULES, partitioned()
    result = opened(rules, state, LEFT, arrived(state, [1] * 7, members=2))
    asked = result.participants

    assert asked.clients.tolist() == [105, 106, 100, 101, 102, 103, 104]
    assert asked.asks.fold.tolist() == [-1] * 7
    assert own(Claims, asked.notes).known.tolist() == [True, True, False, False, False, False, False]
    assert asked.offered == (LEFT, RIGHT)
    assert asked.asks.model.tolist() == [LEAST_LOSS] * 7  # no comparison has named it for anybody
    assert result.hears_late


def test_one_round_for_several_models_offers_them_all() -> None:
    rules = replace(RULES, algorithm=Ifca(cohorts=3, warm_start=0))
    state = start(rules, lambda number: np.full(N_PARAMS, number, dtype=np.float32))
    result = opened(rules, state, ROOT, arrived(state, [0] * 4))

    assert result.participants.offered == ("0.0", "0.1", "0.2")
    assert result.participants.asks.model.tolist() == [LEAST_LOSS] * 4
    assert not result.hears_late


def test_matching_is_the_algorithms() -> None:
    silent = CheckIns(np.arange(40), Requests.silent(begun().tree, np.zeros(40, dtype=np.int64)))
    spread = match(RULES, partitioned(), silent, stream(0, "match"))
    rooted = match(replace(RULES, algorithm=OneCohort()), partitioned(), silent, stream(0, "match"))

    assert spread.check_ins is silent
    assert set(spread.matched.cohort.tolist()) == {1, 2}
    assert set(rooted.matched.cohort.tolist()) == {0}


# In two phases.


def test_who_is_there_for_a_cohort_is_known_before_anybody_is_chosen() -> None:
    state = partitioned()
    there = there_for(RULES, state, LEFT, arrived(state, [1, 2, 1, NOWHERE, 1, 2, 2]))

    assert there.rows.tolist() == [0, 2, 4]
    assert there.invited == RULES.invited(state, LEFT)


def test_whom_somebody_else_has_chosen_takes_part_up_to_the_invited() -> None:
    rules, state = replace(RULES, selector=TakesNobody(), algorithm=OneCohort()), begun()
    there = there_for(rules, state, ROOT, arrived(state, [0] * 25))
    few = open_round(rules, state, there, 0, chosen=np.array([7, 3]))
    many = open_round(rules, state, there, 0, chosen=np.arange(25)[::-1])

    assert few.participants.clients.tolist() == [107, 103]
    assert many.participants.clients.tolist() == list(range(124, 124 - there.invited, -1))
    assert open_round(rules, state, there, 0).participants.clients.tolist() == []
    assert few.state.cohorts[ROOT].check_ins == 25  # all who were there, chosen or not


def test_another_attempt_selects_others_and_the_same_attempt_the_same() -> None:
    state = begun()
    here = arrived(state, [0] * 60)
    first, again, other = (opened(RULES, state, ROOT, here, attempt).participants.clients for attempt in (0, 0, 1))

    assert first.tolist() == again.tolist()
    assert set(first.tolist()) != set(other.tolist())


def test_a_round_for_nobody_opens_without_participants() -> None:
    state = begun()
    result = opened(RULES, state, ROOT, arrived(state, []))

    assert result.participants.clients.shape == (0,)


# What is noted.


def test_check_ins_are_a_running_mean_that_starts_with_the_first_count() -> None:
    state = opened(RULES, begun(), ROOT, arrived(begun(), [0] * 40)).state
    assert state.cohorts[ROOT].check_ins == 40

    for _ in range(30):
        state = opened(RULES, state, ROOT, arrived(state, [0] * 20)).state
        assert 20 < state.cohorts[ROOT].check_ins < 40
    assert state.cohorts[ROOT].check_ins == pytest.approx(20, abs=0.1)


def test_who_is_there_for_a_cohort_is_noted_by_it_alone() -> None:
    state = partitioned()
    after = opened(RULES, state, LEFT, arrived(state, [1, 1, 2, 1, NOWHERE])).state

    assert after.cohorts[LEFT].check_ins == 3
    assert after.cohorts[RIGHT] is state.cohorts[RIGHT]


def test_who_is_there_for_one_round_of_several_models_is_noted_by_all_of_them() -> None:
    rules = replace(RULES, algorithm=Ifca(cohorts=3))
    state = start(rules, lambda number: np.full(N_PARAMS, number, dtype=np.float32))
    after = opened(rules, state, ROOT, arrived(state, [0] * 8)).state

    assert [cohort.check_ins for cohort in after.cohorts.values()] == [8, 8, 8]


def test_a_cohort_whose_name_begins_like_anothers_notes_nothing_for_it() -> None:
    many = replace(RULES, algorithm=Ifca(cohorts=11))  # 0.1 and 0.10
    state = start(many, lambda number: np.full(N_PARAMS, number, dtype=np.float32))
    leaves_open = replace(RULES, algorithm=OneCohort(), total_participants=11)
    after = opened(leaves_open, state, CohortId("0.1"), arrived(state, [2] * 5)).state

    assert {leaf for leaf, cohort in after.cohorts.items() if cohort.check_ins > 0} == {"0.1"}


def test_opening_a_round_leaves_all_that_it_is_given_untouched() -> None:
    state = partitioned()
    here = arrived(state, [1, 2] * 8, members=3)
    before = to_bytes(state), to_bytes(here.check_ins), here.matched.cohort.copy(), here.matched.vouched.copy()
    one, other = (opened(RULES, state, LEFT, here) for _ in range(2))

    assert (to_bytes(state), to_bytes(here.check_ins)) == before[:2]
    np.testing.assert_array_equal(here.matched.cohort, before[2])
    np.testing.assert_array_equal(here.matched.vouched, before[3])
    assert to_bytes(one) == to_bytes(other)


# A selector with a memory.

TURNS = replace(RULES, selector=FewestTurns(), overcommit=0.0, algorithm=OneCohort())


def played(rules: Federation, state: CoordinatorState, rounds: int) -> tuple[CoordinatorState, list[list[int]]]:
    """Return the state after some rounds with 25 clients, and who took part in each."""
    took_part = []
    for _ in range(rounds):
        result = opened(rules, state, ROOT, arrived(state, [0] * 25))
        clients = result.participants.clients
        closing = closing_of(rules, result.state, ROOT, result.participants)
        closed = close_round(rules, closing, iter(answers(updates(len(clients)))))
        state = end_round(rules, result.state, closing, closed).state
        took_part.append(clients.tolist())
    return state, took_part


def test_a_selector_remembers_from_round_to_round_whom_it_has_selected() -> None:
    state, took_part = played(TURNS, begun(TURNS), 5)
    turns = own(Turns, state.cohorts[ROOT].selection)

    # Ten of 25 in each of five rounds: everybody twice.
    assert took_part[0] == list(range(100, 110))
    assert took_part[1] == list(range(110, 120))
    assert took_part[2] == [*range(100, 105), *range(120, 125)]
    assert turns.clients.tolist() == list(range(100, 125))
    assert turns.counts.tolist() == [2] * 25


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_what_a_selector_remembers_goes_through_bytes_and_on_from_there(rounds: int) -> None:
    whole, everybody = played(TURNS, begun(TURNS), 5)
    half, first = played(TURNS, begun(TURNS), rounds)
    data = to_bytes(half)
    again, second = played(TURNS, from_bytes(CoordinatorState, data, own=TURNS.own_states), 5 - rounds)

    assert first + second == everybody
    assert to_bytes(again) == to_bytes(whole)
    with pytest.raises(
        CodecError,
        match=r"CoordinatorState.*selection: expected the state of one of Nothing, Pooling, OnTrial",
    ):
        from_bytes(CoordinatorState, data, own=RULES.own_states)


def test_a_selector_is_not_given_what_another_remembers() -> None:
    with pytest.raises(TypeError, match="expected a state of kind Turns, got Nothing"):
        opened(TURNS, begun(RULES), ROOT, arrived(begun(RULES), [0] * 5))


@dataclass(frozen=True)
class Takes:
    """Selects what it is told to."""

    rows: tuple[int, ...]
    own_states = ()

    def begin(self, parent: OwnState | None = None) -> OwnState:
        return NOTHING

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        return np.array(self.rows, dtype=np.int64)

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        return memory


@pytest.mark.parametrize("rows", [(1, 1), (0, 9), tuple(range(14))])
def test_a_selector_that_takes_one_twice_somebody_else_or_too_many_is_named(rows: tuple[int, ...]) -> None:
    state = begun()
    rules = replace(RULES, selector=Takes(rows))
    here = arrived(state, [0] * 9 + [NOWHERE] + [0] * 10)  # 13 are invited

    with pytest.raises(ValueError, match=r"Takes\.select: expected at most 13 different ones of the 19 rows"):
        opened(rules, state, ROOT, here)


def test_an_algorithm_is_shown_its_table_of_clients() -> None:
    @dataclass(frozen=True)
    class Table:
        rows: int

    @dataclass(frozen=True)
    class Looks:
        inner: OneCohort = field(default_factory=OneCohort)
        seen: list[OwnState] = field(default_factory=list)

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def plan(self, opening: Opening) -> Plan:
            self.seen.append(opening.table)
            return self.inner.plan(opening)

    looks = Looks()
    rules = Federation(looks, FedAvg(), N_PARAMS, total_participants=2, total_rounds=1)  # type: ignore[arg-type]
    opened(rules, replace(begun(), table=Table(7)), ROOT, arrived(begun(), [0, 0]))

    assert looks.seen == [Table(7)]


# What it leaves behind.


def test_a_round_without_use_leaves_the_state_as_it_was_and_nobody_hears_anything() -> None:
    result = opened(RULES, begun(), ROOT, arrived(begun(), [0] * 12))
    closing = closing_of(RULES, result.state, ROOT, result.participants)
    ended = end_round(RULES, result.state, closing, close_round(RULES, closing, iter([])))

    assert to_bytes(ended.state) == to_bytes(result.state)
    assert ended.feedback is None


def test_a_round_that_was_of_use_moves_the_model_and_its_participants_hear_of_it() -> None:
    result = opened(RULES, begun(), ROOT, arrived(begun(), [0] * 12))
    closing = closing_of(RULES, result.state, ROOT, result.participants)
    closed = close_round(RULES, closing, iter(answers(updates(len(result.participants.clients)))))
    ended = end_round(RULES, result.state, closing, closed)

    assert ended.state.cohorts[ROOT].round == 1
    assert ended.feedback is not None
    assert len(ended.feedback.instant_reward) == len(closed.gathered.rows)
    assert ended.feedback.tree == ended.state.tree


def test_feedback_has_a_row_for_each_valid_update_in_the_order_of_its_participant() -> None:
    spoilt = answers(updates(12))
    spoilt[4] = saying(spoilt[4], update=None)
    closed = close(LABELS, begun(), spoilt, fold=np.arange(12) % 2)

    assert closed.gathered.rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert closed.told.fold.tolist() == [row % 2 for row in closed.gathered.rows]
    assert len(closed.told.instant_reward) == len(closed.told.similarity) == 11
    assert (closed.told.cohort, closed.told.tree, closed.told.generation) == (ROOT, closed.state.tree, 1)


def test_participants_hear_nothing_where_the_algorithm_says_nothing() -> None:
    rules = replace(RULES, algorithm=OneCohort())
    state = begun(rules)
    closing = closing_for(rules, state, claims(3))
    result = gathered(plain_answers(alike(3)))
    silent = Outcome(closing.states)
    heard = Outcome(closing.states, affinities=Affinities(np.zeros(3), np.zeros((3, 2)), generation=7))

    assert end_round(rules, state, closing, Closed(result, silent)).feedback is None
    told = end_round(rules, state, closing, Closed(result, heard)).feedback
    assert told is not None
    assert (told.generation, told.cohort, told.fold.tolist()) == (7, ROOT, [-1, -1, -1])
