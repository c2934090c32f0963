from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.aggregators import Report
from auxo.core.rng import stream
from auxo.core.usual_updates import FEWEST_TIMES, LONGER, Move, UsualOnly, UsualUpdates, most_times
from auxo.core.validation import Reason

KNOWN = UsualUpdates((1.0, 1.2, 0.9), (20.0, 25.0, 30.0))
HUGE = 9.9e7


def sent(row: int, length: float = 1.0, examples: int = 20) -> Move:
    return Move(row, (0, 1), np.array([length, 0.0], dtype=np.float32), Report(examples), length)


def moved_and_refused(usual: UsualUpdates, moves: Sequence[Move]) -> tuple[list[int], list[tuple[int, Reason]]]:
    """Return the rows that have moved a model, in order, and those that were refused; an update lasts for one offer."""
    moved: list[int] = []
    memory = np.zeros(2, dtype=np.float32)

    def move(one: Move) -> None:
        assert one.update[0] == np.float32(one.length)
        assert one.models == (0, 1)
        moved.append(one.row)

    usual_only = UsualOnly(usual, move)
    for one in moves:
        memory[:] = one.update
        usual_only.offer(Move(one.row, one.models, memory, one.report, one.length))
        memory[:] = np.nan
    usual_only.finish()
    return moved, usual_only.refused


@pytest.mark.parametrize("usual", [UsualUpdates(), KNOWN], ids=["first round", "later round"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 40])
def test_honest_updates_move_models_in_the_order_in_which_they_came(usual: UsualUpdates, n: int) -> None:
    lengths = np.exp(stream(n, "lengths").normal(scale=0.7, size=n))
    moves = [sent(row, float(length), 20 + row) for row, length in enumerate(lengths)]
    assert moved_and_refused(usual, moves) == (list(range(n)), [])


@pytest.mark.fault(13)
@pytest.mark.parametrize("usual", [UsualUpdates(), KNOWN], ids=["first round", "later round"])
@pytest.mark.parametrize("n", [2, 3, 8, 40])
def test_one_that_is_far_longer_than_the_others_moves_nothing_wherever_it_stands(usual: UsualUpdates, n: int) -> None:
    for place in range(n):
        moves = [sent(row, HUGE) if row == place else sent(row) for row in range(n)]
        moved, refused = moved_and_refused(usual, moves)
        assert sorted(moved) == [row for row in range(n) if row != place]
        assert refused == [(place, "UNUSUAL_LENGTH")]


def counted(usual: UsualUpdates, moves: Sequence[Move], most: float) -> tuple[dict[int, int], list[int]]:
    """Return the examples that each row counts for, and the rows that count for fewer than they claim."""
    counts: dict[int, int] = {}
    usual_only = UsualOnly(usual, lambda move: counts.update({move.row: move.report.examples}), most)
    for one in moves:
        usual_only.offer(one)
    usual_only.finish()
    assert usual_only.refused == []
    return counts, usual_only.capped


@pytest.mark.fault(14)
@pytest.mark.parametrize("usual", [UsualUpdates(), UsualUpdates((1.0,), (20.0,))], ids=["first round", "later round"])
@pytest.mark.parametrize("n", [2, 3, 8, 40, 300])
@pytest.mark.parametrize("claimed", [20 * 167, 10**9])
def test_one_that_claims_many_examples_counts_and_does_not_own_the_model(
    usual: UsualUpdates, n: int, claimed: int
) -> None:
    most = most_times(0.5, n)
    for place in range(min(n, 10)):
        moves = [sent(row, examples=claimed if row == place else 20) for row in range(n)]
        counts, capped = counted(usual, moves, most)
        assert counts.pop(place) == min(claimed, 20 * max(10, n - 1))
        assert capped == ([place] if claimed > 20 * max(10, n - 1) else [])
        assert set(counts.values()) == {20}


@pytest.mark.parametrize("usual", [UsualUpdates(), UsualUpdates((1.0,), (20.0,))], ids=["first round", "later round"])
def test_where_examples_are_trusted_all_of_them_count(usual: UsualUpdates) -> None:
    moves = [sent(row, examples=10**6 if row == 3 else 20) for row in range(12)]
    counts, capped = counted(usual, moves, most_times(1.0, 12))
    assert counts[3] == 10**6
    assert capped == []


def test_where_a_third_have_many_examples_nobody_counts_for_fewer() -> None:
    moves = [sent(row, examples=10**6 if row % 3 == 0 else 20) for row in range(12)]
    counts, capped = counted(UsualUpdates(), moves, most_times(0.5, 12))
    assert counts[0] == 10**6
    assert capped == []


def test_alone_in_a_first_round_there_is_nothing_to_compare_with_and_later_there_is() -> None:
    assert moved_and_refused(UsualUpdates(), [sent(0, HUGE)]) == ([0], [])
    assert moved_and_refused(KNOWN, [sent(0, HUGE)]) == ([], [(0, "UNUSUAL_LENGTH")])


def test_a_quarter_of_a_first_round_cannot_make_the_unusual_usual() -> None:
    moves = [sent(row, HUGE if row % 5 == 0 else 1.0) for row in range(40)]
    moved, refused = moved_and_refused(UsualUpdates(), moves)
    assert moved == [row for row in range(40) if row % 5]
    assert [row for row, _ in refused] == list(range(0, 40, 5))


@pytest.mark.parametrize("n", [3, 7, 8, 40])
def test_when_everybody_sends_longer_updates_than_before_nobody_is_at_fault(n: int) -> None:
    moved, refused = moved_and_refused(KNOWN, [sent(row, 1e4, 10**6) for row in range(n)])
    assert (sorted(moved), refused) == (list(range(n)), [])


@pytest.mark.parametrize("usual", [UsualUpdates(), KNOWN], ids=["first round", "later round"])
def test_a_client_with_fifty_times_the_samples_and_a_longer_update_for_it_counts(usual: UsualUpdates) -> None:
    moves = [sent(row, 7.0, 50 * 25) if row == 4 else sent(row, 1.0, 25) for row in range(10)]
    moved, refused = moved_and_refused(usual, moves)
    assert (sorted(moved), refused) == (list(range(10)), [])


def test_what_is_usual_follows_the_last_rounds_and_one_strange_round_does_not_change_it() -> None:
    usual = UsualUpdates()
    for length in (8.0, 4.0, 2.0, 1.0, 0.5, 0.4, 0.3):
        usual = usual.after([length] * 10, [20] * 10)
    assert usual.lengths == (2.0, 1.0, 0.5, 0.4, 0.3)
    assert UsualOnly(usual, lambda move: None).longest == LONGER * 0.5
    assert UsualOnly(usual.after([HUGE] * 3, [20] * 3), lambda move: None).longest == LONGER * 0.5


def test_a_round_that_moved_nothing_tells_nothing() -> None:
    assert KNOWN.after([], []) is KNOWN


def test_where_no_update_has_any_length_any_length_will_do() -> None:
    still = UsualUpdates((0.0,), (20.0,))
    assert moved_and_refused(still, [sent(0, 0.0), sent(1, 5.0)]) == ([0, 1], [])


@pytest.mark.parametrize("lengths", [(float("nan"),), (-1.0,), (float("inf"),), (1.0, 1.0)])
def test_what_cannot_be_usual_is_refused(lengths: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="lengths, examples: expected"):
        UsualUpdates(lengths, (1.0,))


@given(st.lists(st.tuples(st.floats(0.0, 1e8), st.integers(1, 10**9)), max_size=30), st.booleans())
def test_every_update_moves_a_model_once_or_is_refused(made: list[tuple[float, int]], is_first: bool) -> None:
    moves = [sent(row, float(np.float32(length)), examples) for row, (length, examples) in enumerate(made)]
    moved, refused = moved_and_refused(UsualUpdates() if is_first else KNOWN, moves)
    assert sorted([*moved, *(row for row, _ in refused)]) == list(range(len(made)))


@given(st.lists(st.tuples(st.floats(0.0, 1e8), st.integers(1, 10**9)), max_size=2))
def test_where_too_few_take_part_to_speak_for_themselves_the_last_rounds_bound_them(
    made: list[tuple[float, int]],
) -> None:
    moves = [sent(row, float(np.float32(length)), examples) for row, (length, examples) in enumerate(made)]
    moved, _ = moved_and_refused(KNOWN, moves)
    assert sorted(moved) == [move.row for move in moves if move.length <= LONGER * 1.0]
    assert max((counts for counts in counted_of(moves)), default=0) <= FEWEST_TIMES * 25


def counted_of(moves: Sequence[Move]) -> list[int]:
    counts: list[int] = []
    usual_only = UsualOnly(KNOWN, lambda move: counts.append(move.report.examples))
    for one in moves:
        usual_only.offer(one)
    usual_only.finish()
    return counts


@pytest.mark.parametrize("usual", [UsualUpdates(), UsualUpdates((1.0,), (20.0,))])
def test_one_in_seven_who_come_early_by_chance_do_not_make_their_length_the_usual_one(usual: UsualUpdates) -> None:
    rounds, broken = 200, 0
    for number in range(rounds):
        rng = stream(number, "attackers")
        attacks = rng.random(60) < 0.15
        moved: list[Move] = []
        only = UsualOnly(usual, moved.append)
        for row, length in enumerate(np.where(attacks, 100.0, rng.uniform(0.5, 2.0, 60)).tolist()):
            only.offer(Move(row, (0,), np.zeros(1, dtype=np.float32), Report(20), length))
        only.finish()
        broken += any(attacks[one.row] for one in moved)
        assert {one.row for one in moved} >= set(np.flatnonzero(~attacks).tolist())
    assert broken / rounds <= 0.01
