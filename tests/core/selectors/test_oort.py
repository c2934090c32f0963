"""Oort's figures, worked out by hand from section 4 of its paper and from the authors' code (SymbioticLab/Oort)."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.affinity import Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.own_state import own
from auxo.core.rng import stream
from auxo.core.selectors.oort import Oort, OortMemory, statistical_utility
from auxo.core.types import IntArray
from tests.core.made_turnouts import NEVER, turnout

FOUR = turnout([1, 2, 3, 4], losses=[1, 2, 3, 4], examples=10, seconds=[10, 20, 40, 80])


def learnt(oort: Oort, *rounds: object) -> OortMemory:
    memory = oort.begin()
    for one in rounds:
        memory = oort.learn(memory, one)  # type: ignore[arg-type]  # each is a turnout
    return own(OortMemory, memory)


def check_ins(clients: IntArray) -> CheckIns:
    return CheckIns(clients, Requests.silent(CohortTree(), np.zeros(len(clients), dtype=np.int64)))


def selected(oort: Oort, memory: OortMemory, clients: list[int], wanted: int, seed: int = 0) -> list[int]:
    found = oort.select(memory, check_ins(np.array(clients)), np.arange(len(clients)), wanted, stream(seed, "select"))
    return [clients[row] for row in found]


# Statistical utility.


def test_the_utility_of_a_client_is_its_samples_times_the_root_of_the_mean_squared_loss() -> None:
    # Two samples with losses 1 and 7: 2 * sqrt((1 + 49) / 2) = 10. The mean alone would say 2 * 4 = 8.
    one = turnout([5], losses=4.0, examples=2)
    both = replace(one, squared_loss=np.array([25.0]))

    assert statistical_utility(both).tolist() == [10.0]
    assert statistical_utility(one).tolist() == [8.0]


def test_losses_that_cannot_be_count_as_not_told() -> None:
    odd = turnout([1, 2, 3, 4], losses=[-1.0, NEVER, 1e200, 2.0], examples=3, failed=[4])

    np.testing.assert_allclose(statistical_utility(odd), [NEVER, NEVER, 3e100, NEVER])


def test_a_round_teaches_utility_time_and_turn_of_each() -> None:
    table = learnt(Oort(), FOUR).table

    assert table.clients.tolist() == [1, 2, 3, 4]
    assert table.utility.tolist() == [10, 20, 30, 40]
    assert table.usual_s.tolist() == [10, 20, 40, 80]
    assert table.last_round.tolist() == table.turns.tolist() == [1, 1, 1, 1]


def test_who_was_too_late_to_be_heard_has_the_mean_utility_of_the_others() -> None:
    table = learnt(Oort(), turnout([1, 2, 3], losses=[1, 3, 0], examples=10, seconds=[1, 2, 9], late=[3])).table

    assert table.utility.tolist() == [10, 30, 20]
    assert table.usual_s.tolist() == [1, 2, 9]


def test_a_newcomer_who_failed_stays_one_and_a_known_client_has_had_its_turn() -> None:
    after = learnt(Oort(), FOUR, turnout([4, 5], seconds=3, failed=[4, 5])).table

    assert after.clients.tolist() == [1, 2, 3, 4]
    assert after.utility.tolist() == [10, 20, 30, 40]
    assert after.usual_s.tolist() == [10, 20, 40, 80]
    assert (after.last_round.tolist(), after.turns.tolist()) == ([1, 1, 1, 2], [1, 1, 1, 2])


def test_where_nobody_tells_losses_or_times_what_was_known_stays() -> None:
    silent = turnout([1, 9], losses=NEVER)
    table = learnt(Oort(), FOUR, silent).table

    assert table.usual_s[:4].tolist() == [10, 20, 40, 80]
    assert table.utility.tolist() == [25, 20, 30, 40, 25]  # the mean of those known before


# Scores.


def test_scores_are_stretched_utility_with_age_times_system_utility() -> None:
    # Least 9.99, range 40 - 9.99 = 30.01, age sqrt(0.1 ln 2 / 1); T is the first of four times at 10 %: 10 s.
    memory, age = learnt(Oort(), FOUR), math.sqrt(0.1 * math.log(2))
    expected = [
        (10 - 9.99) / 30.01 + age,
        ((20 - 9.99) / 30.01 + age) * (10 / 20) ** 2,
        ((30 - 9.99) / 30.01 + age) * (10 / 40) ** 2,
        ((40 - 9.99) / 30.01 + age) * (10 / 80) ** 2,
    ]

    assert Oort().preferred_s(memory) == 10
    np.testing.assert_allclose(Oort().scores(memory, np.arange(4)), expected, rtol=1e-12)
    np.testing.assert_allclose(expected, [0.26361, 0.14921, 0.05813, 0.01974], atol=1e-5)


def test_whoever_was_there_longer_ago_counts_for_more() -> None:
    rounds = [turnout([1], examples=10), turnout([2], examples=10), turnout([2], examples=10)]
    scores = Oort().scores(learnt(Oort(), *rounds), np.arange(2))

    # Utilities are alike; round 4 now, last seen in 1 and in 3.
    assert scores[0] - scores[1] == pytest.approx(math.sqrt(0.1 * math.log(4)) * (1 - math.sqrt(1 / 3)))


def test_no_utility_counts_beyond_the_clipped_one() -> None:
    memory = learnt(Oort(), turnout(list(range(10)), losses=[1, 2, 3, 4, 5, 6, 7, 8, 9, 900]))
    clipped, free = replace(Oort(), clip=0.8).scores(memory, np.arange(10)), Oort().scores(memory, np.arange(10))

    # The ninth of ten is at rank int(10 * 0.8) = 8: nothing counts for more than its 9.
    assert clipped[9] == clipped[8] < free[9]
    np.testing.assert_array_equal(clipped[:8], free[:8])


@pytest.mark.parametrize(("threshold", "preferred"), [(10, 10), (30, 20), (50, 40), (99, 80), (100, math.inf)])
def test_the_percentile_says_how_long_a_round_should_last(threshold: float, preferred: float) -> None:
    memory = replace(learnt(Oort(), FOUR), threshold=threshold)

    assert Oort().preferred_s(memory) == preferred


def test_where_no_times_are_known_nobody_is_too_slow() -> None:
    slow, unknown = learnt(Oort(), FOUR), learnt(Oort(), turnout([1, 2, 3, 4], losses=[1, 2, 3, 4], examples=10))

    assert Oort().preferred_s(unknown) == math.inf
    assert Oort().scores(unknown, np.arange(4)).argmax() == 3
    assert Oort().scores(slow, np.arange(4)).argmax() == 0


# Whom it takes.


def test_a_share_of_a_round_goes_to_newcomers_and_it_decays() -> None:
    oort = Oort(exploration=0.9, exploration_decay=0.5, exploration_least=0.2)

    assert [oort.exploration_in(number) for number in (1, 2, 3, 4)] == [0.45, 0.225, 0.2, 0.2]


@pytest.mark.parametrize("seed", range(5))
def test_exploited_and_explored_are_as_many_as_the_exploration_says(seed: int) -> None:
    # Round 2: 0.9 * 0.95^2 = 0.81225, so int(20 * 0.18775) = 3 are exploited and 17 explored.
    memory = learnt(Oort(), turnout(list(range(30))))
    found = selected(Oort(), memory, list(range(100)), 20, seed)

    assert sum(client < 30 for client in found) == 3
    assert len(set(found)) == 20


def test_the_first_round_is_random() -> None:
    memory = own(OortMemory, Oort().begin())
    rounds = [set(selected(Oort(), memory, list(range(40)), 10, seed)) for seed in range(20)]

    assert all(len(one) == 10 for one in rounds)
    assert len(set().union(*rounds)) > 35


def test_without_newcomers_everything_is_exploited() -> None:
    oort = Oort(cut_off=1.0)
    memory = learnt(oort, turnout(list(range(10)), losses=list(range(1, 11))))

    # Only those at least as good as the fifth are candidates, and of five, four are drawn.
    assert set(selected(oort, memory, list(range(10)), 4)) < {5, 6, 7, 8, 9}


def test_where_newcomers_do_not_suffice_known_clients_fill_up_at_random() -> None:
    memory = learnt(Oort(), turnout(list(range(30)), losses=list(range(1, 31))))
    found = [selected(Oort(), memory, list(range(32)), 20, seed) for seed in range(30)]

    assert all({30, 31} < set(one) and len(set(one)) == 20 for one in found)
    assert set().union(*map(set, found)) == set(range(32))


def test_the_cut_off_says_who_is_a_candidate() -> None:
    scores = np.array([1.0, 0.9, 0.5, 0.36, 0.35, 0.1])

    # Of rank 2 (0.5) the share 0.7 is 0.35.
    assert Oort().candidates(scores, 2).tolist() == [0, 1, 2, 3, 4]
    assert replace(Oort(), cut_off=1.0).candidates(scores, 2).tolist() == [0, 1, 2]
    assert Oort().candidates(scores, 0).tolist() == []


def test_as_many_as_there_are_can_be_exploited() -> None:
    """Rank and number of scores may be equal: there is nobody left then, and the last of them says where to cut."""
    assert replace(Oort(), cut_off=1.0).candidates(np.array([3.0, 2.0, 1.0]), 3).tolist() == [0, 1, 2]


def test_candidates_are_drawn_in_proportion_to_their_scores() -> None:
    oort = Oort(exploration=0.0, exploration_least=0.0, cut_off=0.0)
    memory = learnt(oort, turnout([1, 2], losses=[1, 3], examples=10))
    high, low = oort.scores(memory, np.array([1, 0]))
    hits = sum(selected(oort, memory, [1, 2], 1, seed) == [2] for seed in range(2000))

    chance = high / (high + low)
    assert hits / 2000 == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / 2000))


def test_whose_utility_is_nothing_has_no_chance_while_there_are_others() -> None:
    oort = Oort(exploration=0.0, exploration_least=0.0, cut_off=0.0)
    memory = learnt(oort, *[turnout([1, 2, 3], losses=[0.0, 1.0, 1.1])] * 12)

    assert oort.scores(memory, np.arange(3)).min() == 0
    assert all(1 not in selected(oort, memory, [1, 2, 3], 2, seed) for seed in range(50))


# The blacklist.


def test_who_has_had_too_many_turns_is_blacklisted_most_first_and_not_too_many() -> None:
    oort = Oort(blacklist_after=2, blacklist_share=0.5)
    rounds = [turnout([1, 2, 3, 4]), turnout([1, 2, 3]), turnout([1, 2, 3]), turnout([2])]
    table = learnt(oort, *rounds).table

    # Turns 3, 4, 3, 1: three are over 2, and half of four clients may be listed.
    assert table.clients[oort.blacklist(table)].tolist() == [2, 1]
    assert oort.blacklist(table).dtype.kind == "i"
    assert Oort().blacklist(table).tolist() == []


def test_the_blacklisted_are_taken_where_there_is_nobody_else() -> None:
    oort = Oort(blacklist_after=1, blacklist_share=1.0)
    memory = learnt(oort, turnout([1, 2, 3]), turnout([1]))

    assert selected(oort, memory, [1, 2, 3], 2) == [2, 3]
    assert selected(oort, memory, [1, 2, 3], 3) == [1, 2, 3]
    assert set(selected(replace(oort, blacklist_after=1), learnt(oort, *[turnout([1, 2, 3])] * 2), [1, 2, 3], 2))


# The pacer.


@pytest.mark.parametrize(
    ("exploited", "expected"),
    [
        ((10.0, 10.0, 10.0, 11.9), 15.0),  # 20 -> 21.9: flat, so longer rounds
        ((10.0, 10.0, 10.0, 12.1), 10.0),  # 20 -> 22.1: neither
        ((10.0, 10.0, 5.0, 13.0), 15.0),  # 20 -> 18: flat
        ((1.0, 1.0, 6.0, 6.0), 5.0),  # 2 -> 12: sharp, so shorter ones
        ((1.0, 1.0, 6.0, 5.9), 10.0),
    ],
)
def test_the_pacer_moves_the_percentile_with_the_utility_of_two_windows(
    exploited: tuple[float, ...], expected: float
) -> None:
    oort = Oort(pacer_rounds=2)

    assert oort.paced(10.0, exploited, 4) == expected


def test_the_pacer_looks_once_in_a_window_and_stays_within_bounds() -> None:
    oort, flat = Oort(pacer_rounds=2), (1.0, 1.0, 1.0, 1.0)

    assert [oort.paced(10.0, flat, number) for number in (2, 3, 4, 5, 6)] == [10, 10, 15, 10, 15]
    assert oort.paced(98.0, flat, 4) == 100
    assert oort.paced(7.0, (1.0, 1.0, 9.0, 9.0), 4) == 5


def test_utility_of_the_exploited_is_what_the_pacer_remembers() -> None:
    oort = Oort(pacer_rounds=2)
    rounds = [
        turnout([1, 2], losses=[1, 3]),  # all of them newcomers
        turnout([1, 2, 3], losses=[2, 4, 99]),
        turnout([2, 3, 4], losses=[6, 0, 9], late=[3]),  # who was late was not heard
        turnout([5], losses=5),
        turnout([1], losses=7),
    ]
    memories = [learnt(oort, *rounds[:number]) for number in range(1, 6)]

    assert [memory.exploited for memory in memories] == [(0.0,), (0.0, 3.0), (0, 3, 6), (0, 3, 6, 0), (3, 6, 0, 7)]
    assert [memory.rounds for memory in memories] == [1, 2, 3, 4, 5]


def test_flat_utility_lets_slower_clients_in() -> None:
    oort = Oort(pacer_rounds=1, pacer_step=45)
    memory = learnt(oort, *[FOUR] * 6)

    assert memory.threshold == 100  # 10, then tightened to no less than 45 when utility first came, and up again
    assert oort.preferred_s(memory) == math.inf


# A value.


def test_a_child_begins_with_its_parents_table() -> None:
    memory = learnt(Oort(), FOUR)

    assert Oort().begin(memory) is memory
    assert own(OortMemory, Oort().begin()).threshold == 10


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 5))
def test_the_order_of_a_rounds_clients_decides_nothing(data: st.DataObject, seed: int) -> None:
    clients = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True))
    losses = {client: 0.5 + client % 7 for client in clients}
    shuffled = data.draw(st.permutations(clients))
    one, other = (
        learnt(Oort(), turnout(order, losses=[losses[client] for client in order], seconds=[1.0 + c for c in order]))
        for order in (clients, shuffled)
    )

    np.testing.assert_array_equal(one.table.clients, other.table.clients)
    np.testing.assert_array_equal(one.table.utility, other.table.utility)
    assert selected(Oort(), one, list(range(31)), 7, seed) == selected(Oort(), other, list(range(31)), 7, seed)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"exploration": 1.5}, "exploration"),
        ({"clip": -0.1}, "clip"),
        ({"threshold": 0.0}, "threshold"),
        ({"pacer_step": 101.0}, "pacer_step"),
        ({"penalty": -1.0}, "penalty"),
        ({"pacer_rounds": 0}, "pacer_rounds"),
        ({"blacklist_after": -1}, "blacklist_after"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}: expected"):
        Oort(**wrong)  # type: ignore[arg-type]  # some are whole numbers
