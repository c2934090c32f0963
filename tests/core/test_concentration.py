"""Concentration: newcomers and unproved claims have a share of a cohort's round, and no more where others are there."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.aggregators import Report
from auxo.core.concentration import Allowance, places_for
from auxo.core.usual_updates import Move, UsualOnly, UsualUpdates


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 100), st.floats(0.05, 1.0))
def test_those_without_a_proof_get_their_share_or_what_others_leave(
    unproved: int, others: int, wanted: int, most: float
) -> None:
    there = np.array([True] * unproved + [False] * others, dtype=np.bool_)
    places = places_for(there, wanted, most)
    if places is None:  # by chance they have no more than their share, or all are wanted
        assert unproved + others <= wanted or unproved <= most * (unproved + others)
    else:
        assert places <= max(most * wanted, wanted - others)
        assert places <= unproved
        assert wanted - places <= others


@given(st.lists(st.booleans()), st.floats(0.05, 0.9))
def test_on_their_own_word_no_more_move_a_model_than_their_share(stream_: list[bool], most: float) -> None:
    allowance, granted, others = Allowance(most), 0, 0
    for is_other in stream_:
        if is_other:
            allowance.counts()
            others += 1
        else:
            granted += allowance.grant()
    assert granted <= most * (granted + others) + 1e-9


def test_an_unproved_update_counts_for_what_is_usual_and_says_nothing_of_it() -> None:
    """Fault 13: 100 times its length, from somebody whom nobody knows, moves a model no farther than a usual one."""
    moved: list[Move] = []
    only = UsualOnly(UsualUpdates((2.0,), (10.0,)), moved.append)
    only.offer(Move(0, (0,), np.array([100.0, 0.0], dtype=np.float32), Report(1000), 100.0, bounded=True))
    only.finish()
    (move,) = moved
    assert (move.length, move.report.examples, only.refused) == (2.0, 10, [])
    np.testing.assert_allclose(move.update, [2.0, 0.0])


def test_what_another_framework_takes_as_it_came_is_refused_where_it_is_too_long() -> None:
    moved: list[Move] = []
    only = UsualOnly(UsualUpdates((2.0,), (10.0,)), moved.append)
    for row, length in enumerate((50.0, 100.0)):
        only.offer(
            Move(row, (0,), np.full(1, length, dtype=np.float32), Report(5, None, "a reply"), length, bounded=True)
        )
    assert ([one.row for one in moved], only.refused) == ([0], [(1, "UNUSUAL_LENGTH")])
