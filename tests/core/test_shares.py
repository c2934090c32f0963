import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.cohort_tree import CohortTree
from auxo.core.shares import equal_shares, member_shares, shares_by, whole_shares
from auxo.core.types import ROOT, CohortId

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
TREE = CohortTree().partition(ROOT, (0, 1), (3.0, 1.0)).partition(LEFT, (0, 1, 1), (0.2, 0.8))


def test_members_are_those_of_all_partitions_down_from_the_root() -> None:
    assert member_shares(TREE, TREE.leaves) == pytest.approx((0.25, 0.15, 0.6))
    assert sum(member_shares(TREE, TREE.leaves)) == pytest.approx(1)


def test_openers_that_are_no_leaves_have_the_members_of_all_their_descendants() -> None:
    assert member_shares(TREE, (ROOT,)) == member_shares(CohortTree(), (ROOT,)) == (1.0,)
    assert member_shares(TREE, (RIGHT, LEFT)) == (0.25, 0.75)


def test_equal_shares_do_not_look_at_members() -> None:
    assert equal_shares(TREE, TREE.leaves) == (1.0, 1.0, 1.0)


def test_rules_are_found_by_their_names() -> None:
    assert shares_by("members", TREE, TREE.leaves) == member_shares(TREE, TREE.leaves)
    assert shares_by("equal", TREE, TREE.leaves) == equal_shares(TREE, TREE.leaves)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12), st.integers(12, 400))
def test_whole_shares_sum_to_the_total_leave_nobody_out_and_follow_the_shares(shares: list[float], total: int) -> None:
    whole = whole_shares(shares, total)

    assert sum(whole) == total
    assert min(whole) >= 1
    for one, its_whole in zip(shares, whole, strict=True):
        assert its_whole <= max(1, total * one / sum(shares) + 1)
        for other, others_whole in zip(shares, whole, strict=True):
            assert one <= other or its_whole >= others_whole - 1


@given(st.integers(1, 12), st.integers(12, 400))
def test_of_equal_remainders_the_first_come_first(n: int, total: int) -> None:
    share, rest = divmod(total, n)

    assert whole_shares((0.1,) * n, total) == (share + 1,) * rest + (share,) * (n - rest)


@pytest.mark.parametrize(
    ("shares", "total", "expected"),
    [
        ((0.29, 0.71), 100, (29, 71)),  # 0.29 * 100 is less than 29 in floating point
        ((0.5, 0.3, 0.2), 9, (4, 3, 2)),  # 4.5, 2.7, 1.8
        ((0.25, 0.25, 0.5), 10, (3, 2, 5)),  # 2.5, 2.5, 5
        ((0.1 + 0.2, 0.3, 0.4), 11, (3, 3, 5)),  # 3.3, 3.3, 4.4
        ((0.3, 0.1 + 0.2, 0.4), 5, (2, 1, 2)),  # a tie, whatever the arithmetic makes of it
        ((1e-9, 1.0, 1e-9), 3, (1, 1, 1)),
        ((1e-9, 1.0, 1e-9), 10, (1, 8, 1)),
        ((1e308, 1e308), 4, (2, 2)),
    ],
)
def test_whole_shares_by_largest_remainder(shares: tuple[float, ...], total: int, expected: tuple[int, ...]) -> None:
    assert whole_shares(shares, total) == expected


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan"), float("inf")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="shares: expected positive numbers, got"):
        whole_shares((1.0, share), 10)


def test_more_shares_than_participants_are_refused() -> None:
    with pytest.raises(ValueError, match="expected at least one participant for each of 3, got 2"):
        whole_shares((1.0, 1.0, 1.0), 2)
