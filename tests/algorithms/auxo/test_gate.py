import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.algorithms.auxo.gate import Gate
from auxo.core.rewards import RewardSettings
from tests.core.made_updates import alike, answers, gathered, movement_of

SETTINGS = RewardSettings(min_known=3)


def gate(n: int, known: int) -> Gate:
    """Return the gate of a round of ``n`` whose first ``known`` are members."""
    return Gate(SETTINGS, np.arange(n) < known)


def test_a_newcomer_far_from_the_members_is_kept_out_and_one_that_fits_is_let_in() -> None:
    members, fitting = alike(6), np.mean(alike(6), axis=0, dtype=np.float32)
    returned = answers(np.stack([*members, -fitting, fitting]))
    result = gathered(returned, gate(8, 6))

    assert result.aggregated.tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert result.misfits == 1
    assert result.rows.tolist() == list(range(8))
    only_fitting = gathered([*returned[:6], returned[7]], gate(8, 6))
    np.testing.assert_array_equal(movement_of(result), movement_of(only_fitting))


def test_a_member_is_admitted_however_far_from_the_others() -> None:
    returned = answers(np.stack([*alike(6), -alike(1)[0]]))

    assert gathered(returned, gate(7, 7)).misfits == 0


def test_everybody_is_admitted_where_there_are_too_few_members_to_compare_with() -> None:
    returned = answers(np.stack([*alike(6), -alike(1)[0]]))
    result = gathered(returned, gate(7, 2))

    assert (result.used, result.misfits) == (7, 0)


def test_members_that_come_late_do_not_open_the_gate() -> None:
    returned = answers(np.stack([*alike(6), -alike(1)[0]]), late=[0, 1, 2, 3])
    result = gathered(returned, gate(7, 6))

    assert result.misfits == 0  # two members in time are too few to compare with
    assert result.aggregated.tolist() == [4, 5, 6]


@settings(max_examples=20)
@given(members=st.permutations(range(6)), newcomers=st.permutations(range(6, 12)))
def test_the_order_of_members_and_that_of_newcomers_moves_the_mean_by_rounding_only(
    members: list[int], newcomers: list[int]
) -> None:
    updates = np.concatenate([alike(9), -alike(3, seed=1)])
    in_order = answers(updates)
    shuffled = gathered([in_order[row] for row in (*members, *newcomers)], gate(12, 6))
    straight = gathered(in_order, gate(12, 6))

    assert straight.misfits >= 3
    assert sorted(shuffled.aggregated) == sorted(straight.aggregated)
    np.testing.assert_allclose(movement_of(shuffled), movement_of(straight), rtol=1e-5, atol=1e-6)  # float32


def test_updates_are_left_as_they_came() -> None:
    updates = alike(6)
    before = updates.copy()
    gathered(answers(updates), gate(6, 3))

    np.testing.assert_array_equal(updates, before)
