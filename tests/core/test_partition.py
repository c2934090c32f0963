from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.grouping import groupings
from auxo.core.partition import (
    CrossFittedGain,
    Keep,
    Lemma,
    Outlook,
    Partition,
    PartitionCriterion,
    PartitionLimits,
    RoundEvidence,
    best_grouping,
)

CLUSTERS = 3
LIMITS = PartitionLimits(begin=0.2, end=0.6, labelled=0.5, labelled_until=0.4, min_participants=5)
GAIN = CrossFittedGain(limits=LIMITS, rounds=4, min_judged=40, min_gain=0.05)
LEMMA = Lemma(limits=LIMITS, alpha=0.01, rounds=2, reduction=0.9)
PLENTY = Outlook(progress=0.3, total_participants=100, cohorts=1, check_ins=1000.0)


def seen(
    gains: tuple[float, ...] = (0.0, 0.3, 0.0, 0.1),
    judged: int = 50,
    members: tuple[int, ...] = (30, 20, 10),
    within: float = 0.2,
) -> RoundEvidence:
    return RoundEvidence(gains if judged else (), judged, members, dispersion=1.0, dispersion_within=within)


@st.composite
def evidences(draw: st.DrawFn) -> list[RoundEvidence]:
    gains = st.tuples(*[st.floats(-0.2, 0.6)] * len(groupings(CLUSTERS)))
    members = st.tuples(*[st.integers(0, 60)] * CLUSTERS)
    rounds = st.builds(seen, gains, st.sampled_from([0, 60]), members, st.floats(0, 1))
    return draw(st.lists(rounds, min_size=1, max_size=6))


outlooks = st.builds(
    Outlook,
    progress=st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 1.0]),
    total_participants=st.integers(5, 120),
    cohorts=st.integers(1, 6),
    check_ins=st.floats(0, 150),
    labelled=st.sampled_from([0.0, 0.4, 0.5, 1.0]),
)
criteria = st.sampled_from([GAIN, LEMMA])


# What holds for every criterion.


@settings(max_examples=300)
@given(criteria, evidences(), outlooks)
def test_no_partition_leaves_a_child_unable_to_fill_its_round(
    criterion: CrossFittedGain | Lemma, evidence: list[RoundEvidence], outlook: Outlook
) -> None:
    decision = criterion.judge(evidence, outlook).decision
    if isinstance(decision, Partition):
        after = outlook.cohorts - 1 + len(decision.weights)
        shares = {outlook.total_participants // after, -(-outlook.total_participants // after)}
        assert min(shares) >= LIMITS.min_participants
        for weight in decision.weights:
            assert outlook.check_ins * weight >= max(shares)


@settings(max_examples=200)
@given(criteria, evidences(), outlooks)
def test_no_partition_outside_the_window(
    criterion: CrossFittedGain | Lemma, evidence: list[RoundEvidence], outlook: Outlook
) -> None:
    too_few_labels = outlook.labelled < LIMITS.labelled and outlook.progress < LIMITS.labelled_until
    if not LIMITS.begin <= outlook.progress <= LIMITS.end or too_few_labels:
        assert criterion.judge(evidence, outlook).decision == Keep()


@settings(max_examples=200)
@given(criteria, evidences(), outlooks)
def test_every_cluster_is_routed_every_child_is_reached_and_shares_sum_to_one(
    criterion: CrossFittedGain | Lemma, evidence: list[RoundEvidence], outlook: Outlook
) -> None:
    verdict = criterion.judge(evidence, outlook)
    if isinstance(verdict.decision, Partition):
        assert len(verdict.decision.routes) == CLUSTERS
        assert set(verdict.decision.routes) == set(range(len(verdict.decision.weights)))
        assert sum(verdict.decision.weights) == pytest.approx(1.0)
        assert min(verdict.decision.weights) > 0
        assert verdict.children == len(verdict.decision.weights)
        assert verdict.gain is not None
        assert verdict.gain >= verdict.needed


@pytest.mark.parametrize("criterion", [GAIN, LEMMA])
def test_the_same_evidence_decides_where_resources_suffice_and_nothing_where_they_do_not(
    criterion: PartitionCriterion,
) -> None:
    evidence = [seen()] * 4

    assert isinstance(criterion.judge(evidence, PLENTY).decision, Partition)
    for scarce in (
        replace(PLENTY, check_ins=60.0),
        replace(PLENTY, total_participants=9),
        replace(PLENTY, cohorts=25),
        replace(PLENTY, progress=0.19),
        replace(PLENTY, progress=0.61),
        replace(PLENTY, labelled=0.49),
    ):
        assert criterion.judge(evidence, scarce).decision == Keep()


@pytest.mark.parametrize("criterion", [GAIN, LEMMA])
def test_nothing_is_decided_without_evidence(criterion: PartitionCriterion) -> None:
    verdict = criterion.judge([], PLENTY)

    assert verdict.decision == Keep()
    assert verdict.gain is None
    assert verdict.children == 1


@pytest.mark.parametrize(
    ("total", "needed"),
    [
        (100, 200.0),  # shares of 50, from a quarter of the check-ins
        (101, 204.0),  # the larger share of 51
    ],
)
def test_the_smallest_child_needs_enough_check_ins_for_the_largest_share(total: int, needed: float) -> None:
    weights = np.array([0.75, 0.25])
    outlook = replace(PLENTY, total_participants=total)

    assert LIMITS.allow(weights, replace(outlook, check_ins=needed + 0.1))
    assert not LIMITS.allow(weights, replace(outlook, check_ins=needed - 0.1))


def test_after_a_while_nobody_waits_for_labels_any_longer() -> None:
    few_labels = replace(PLENTY, labelled=0.1)

    assert not LIMITS.is_open(replace(few_labels, progress=0.39))
    assert LIMITS.is_open(replace(few_labels, progress=0.4))


# The cross-fitted gain.


def test_rounds_that_judged_nobody_are_no_evidence() -> None:
    verdict = GAIN.judge([seen(judged=0)] * 10, PLENTY)

    assert verdict.decision == Keep()
    assert verdict.gain is None


def test_too_few_judged_participants_decide_nothing() -> None:
    assert GAIN.judge([seen(judged=13)] * 3, PLENTY).decision == Keep()
    assert isinstance(GAIN.judge([seen(judged=13)] * 4, PLENTY).decision, Partition)


def test_only_the_last_rounds_count() -> None:
    good, bad = seen(), seen(gains=(-0.1, -0.1, -0.1, -0.1))

    assert GAIN.judge([good] * 10 + [bad] * GAIN.window, PLENTY).decision == Keep()
    assert isinstance(GAIN.judge([bad] * 10 + [good] * GAIN.window, PLENTY).decision, Partition)


def test_gains_are_averaged_over_participants() -> None:
    verdict = GAIN.judge([seen(gains=(0.0, 0.4, 0.0, 0.0), judged=30), seen(gains=(0.0,) * 4, judged=90)], PLENTY)

    assert verdict.gain == pytest.approx(0.1)


def test_the_grouping_that_gains_most_after_its_price_is_made() -> None:
    for number, grouping in enumerate(groupings(CLUSTERS)):
        gains = np.full(len(groupings(CLUSTERS)), 0.01)
        gains[number] = 0.3
        decision = GAIN.judge([seen(gains=tuple(gains))], PLENTY).decision

        assert isinstance(decision, Partition)
        assert decision.routes == grouping


def test_a_further_child_must_pay_for_itself() -> None:
    one_child_less, all_apart = groupings(3).index((0, 0, 1)), groupings(3).index((0, 1, 2))
    gains = np.full(4, 0.0)
    gains[one_child_less], gains[all_apart] = 0.2, 0.2 + 0.9 * GAIN.min_gain
    joined = GAIN.judge([seen(gains=tuple(gains))], PLENTY)
    gains[all_apart] = 0.2 + 1.1 * GAIN.min_gain
    apart = GAIN.judge([seen(gains=tuple(gains))], PLENTY)

    assert joined.children == 2
    assert apart.children == 3


def test_a_gain_below_its_price_is_kept_and_told() -> None:
    verdict = GAIN.judge([seen(gains=(0.0, 0.04, 0.0, 0.0))], PLENTY)

    assert verdict.decision == Keep()
    assert verdict.gain == pytest.approx(0.04)
    assert verdict.needed == pytest.approx(GAIN.min_gain)
    assert verdict.children == 1


def test_shares_of_children_are_those_of_their_clusters_members() -> None:
    number = groupings(3).index((0, 1, 0))
    gains = np.zeros(4)
    gains[number] = 0.5
    decision = GAIN.judge([seen(gains=tuple(gains), members=(10, 40, 50))] * 2, PLENTY).decision

    assert isinstance(decision, Partition)
    assert decision.weights == pytest.approx((0.6, 0.4))


def test_a_grouping_with_a_child_of_nobody_is_never_chosen() -> None:
    best = best_grouping(np.array([0.1, 0.2, 0.3, 0.9]), np.array([50, 0, 50]), PLENTY, LIMITS, price=0.0)

    assert best is not None
    number, weights = best
    assert 0 not in weights
    assert groupings(3)[number] == (0, 1, 1)


def test_no_grouping_is_best_when_none_is_allowed() -> None:
    hungry = replace(PLENTY, check_ins=0.0)

    assert best_grouping(np.full(4, 0.9), np.array([30, 30, 30]), hungry, LIMITS, price=0.0) is None


# The lemma.


def test_the_lemma_waits_until_heterogeneity_has_fallen_far_enough() -> None:
    assert isinstance(LEMMA.judge([seen(within=0.85)] * 2, PLENTY).decision, Partition)
    assert LEMMA.judge([seen(within=0.95)] * 2, PLENTY).decision == Keep()


def test_the_lemma_to_the_letter_wants_heterogeneity_to_fall_by_the_root_of_the_clusters() -> None:
    letter = replace(LEMMA, reduction=None)
    bound = 1 / np.sqrt(CLUSTERS)

    assert isinstance(letter.judge([seen(within=bound - 0.01)], PLENTY).decision, Partition)
    assert letter.judge([seen(within=bound + 0.01)], PLENTY).decision == Keep()


def test_the_lemma_partitions_into_all_clusters_or_not_at_all() -> None:
    decision = LEMMA.judge([seen(members=(20, 10, 30))], PLENTY).decision

    assert isinstance(decision, Partition)
    assert decision.routes == (0, 1, 2)
    assert decision.weights == pytest.approx((1 / 3, 1 / 6, 1 / 2))
    assert LEMMA.judge([seen(members=(20, 0, 30))], PLENTY).decision == Keep()


def test_a_larger_alpha_wants_more_participants_for_each_child() -> None:
    assert replace(LEMMA, alpha=10.0).judge([seen()], PLENTY).decision == Keep()


def test_identical_updates_give_the_lemma_nothing_to_divide() -> None:
    nothing = replace(seen(), dispersion=0.0, dispersion_within=0.0)

    assert LEMMA.judge([nothing], PLENTY).decision == Keep()


# Settings.


def test_the_resource_is_shared_equally_with_the_remainder_in_turn() -> None:
    assert replace(PLENTY, cohorts=3).shares(2) == (25, 25)
    assert replace(PLENTY, cohorts=2).shares(2) == (33, 34)


@pytest.mark.parametrize(("begin", "end"), [(-0.1, 0.5), (0.6, 0.5), (0.5, 1.1)])
def test_impossible_windows_are_refused(begin: float, end: float) -> None:
    with pytest.raises(ValueError, match="begin, end: expected"):
        PartitionLimits(begin=begin, end=end)


def test_children_of_a_single_participant_are_refused() -> None:
    with pytest.raises(ValueError, match="min_participants: expected at least 2, got 1"):
        PartitionLimits(min_participants=1)


def test_a_criterion_without_rounds_or_judged_participants_is_refused() -> None:
    with pytest.raises(ValueError, match="rounds: expected at least 1, got 0"):
        CrossFittedGain(rounds=0)
    with pytest.raises(ValueError, match="min_judged: expected at least 1, got 0"):
        CrossFittedGain(min_judged=0)
