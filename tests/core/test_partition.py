from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.fingerprint import unit_rows
from auxo.core.grouping import alignments, groupings
from auxo.core.partition import (
    CrossFittedGain,
    Keep,
    Lemma,
    Outlook,
    Partition,
    PartitionCriterion,
    PartitionLimits,
    RoundEvidence,
)
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

CLUSTERS = 3
LIMITS = PartitionLimits(begin=0.2, end=0.6, labelled=0.5, labelled_until=0.4, min_participants=5)
GAIN = CrossFittedGain(limits=LIMITS, rounds=4, min_judged=40, min_gain=0.2, min_gain_further=0.1)
LEMMA = Lemma(limits=LIMITS, alpha=0.01, rounds=2)
# With as many participants noise averages out, and gains are those of the alignments alone.
PLENTY = Outlook(progress=0.3, total_participants=10_000, cohorts=1, check_ins=100_000.0)


def seen(
    within: tuple[float, ...] = (0.1, 0.4, 0.1, 0.4),
    overall: float = 0.1,
    judged: int = 50,
    members: tuple[int, ...] = (30, 20, 10),
    dispersion_within: float = 0.2,
) -> RoundEvidence:
    return RoundEvidence(within if judged else (), overall, judged, members, 1.0, dispersion_within)


@st.composite
def evidences(draw: st.DrawFn) -> list[RoundEvidence]:
    """Return rounds that say much the same, so that it is not all chance."""
    overall = draw(st.floats(-0.1, 0.5))
    within = [overall + draw(st.floats(-0.1, 0.5)) for _ in groupings(CLUSTERS)]
    rounds = []
    for _ in range(draw(st.integers(1, 6))):
        shift = draw(st.sampled_from([0.0, 0.0, 0.01, -0.01]))
        members = draw(st.tuples(*[st.integers(0, 60)] * CLUSTERS))
        judged = draw(st.sampled_from([0, 60, 60, 60]))
        rounds.append(seen(tuple(share + shift for share in within), overall, judged, members, draw(st.floats(0, 1))))
    return rounds


outlooks = st.builds(
    Outlook,
    progress=st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 1.0]),
    total_participants=st.integers(5, 120),
    cohorts=st.integers(1, 6),
    check_ins=st.floats(0, 500),
    labelled=st.sampled_from([0.0, 0.4, 0.5, 1.0]),
    share=st.none() | st.integers(5, 120),
)
criteria = st.sampled_from([GAIN, LEMMA])


# What holds for every criterion.


@settings(max_examples=300, deadline=None)
@given(criteria, evidences(), outlooks)
def test_no_partition_leaves_a_child_unable_to_fill_its_round(
    criterion: CrossFittedGain | Lemma, evidence: list[RoundEvidence], outlook: Outlook
) -> None:
    decision = criterion.judge(evidence, outlook).decision
    if isinstance(decision, Partition):
        after = outlook.cohorts - 1 + len(decision.weights)
        equal = {outlook.total_participants // after, -(-outlook.total_participants // after)}
        for weight in decision.weights:
            shares = equal if outlook.share is None else {outlook.share * weight}
            assert min(shares) >= LIMITS.min_participants - 1e-9
            assert outlook.check_ins * weight >= max(shares)


@settings(max_examples=200, deadline=None)
@given(criteria, evidences(), outlooks)
def test_no_partition_outside_the_window(
    criterion: CrossFittedGain | Lemma, evidence: list[RoundEvidence], outlook: Outlook
) -> None:
    too_few_labels = outlook.labelled < LIMITS.labelled and outlook.progress < LIMITS.labelled_until
    if not LIMITS.begin <= outlook.progress <= LIMITS.end or too_few_labels:
        assert criterion.judge(evidence, outlook).decision == Keep()


@settings(max_examples=200, deadline=None)
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
        assert verdict.explains
        assert verdict.gain is not None
        assert verdict.gain >= verdict.needed


@pytest.mark.parametrize("criterion", [GAIN, LEMMA])
def test_the_same_evidence_decides_where_resources_suffice_and_nothing_where_they_do_not(
    criterion: PartitionCriterion,
) -> None:
    evidence, enough = [seen()] * 4, Outlook(progress=0.3, total_participants=400, cohorts=1, check_ins=4000.0)

    assert isinstance(criterion.judge(evidence, enough).decision, Partition)
    for scarce in (
        replace(enough, check_ins=240.0),
        replace(enough, total_participants=9),
        replace(enough, cohorts=100),
        replace(enough, progress=0.19),
        replace(enough, progress=0.61),
        replace(enough, labelled=0.49),
    ):
        assert criterion.judge(evidence, scarce).decision == Keep()


@pytest.mark.parametrize("criterion", [replace(GAIN, limits=PartitionLimits.closed()), Lemma(PartitionLimits.closed())])
def test_closed_limits_never_let_a_partition_through(criterion: PartitionCriterion) -> None:
    # Progress counts the round that closes, so it is above 0 from the first one on.
    for progress in (1e-6, 0.1, 0.3, 1.0):
        assert criterion.judge([seen()] * 4, replace(PLENTY, progress=progress)).decision == Keep()


@pytest.mark.parametrize("criterion", [GAIN, LEMMA])
def test_nothing_is_decided_without_evidence(criterion: PartitionCriterion) -> None:
    verdict = criterion.judge([], PLENTY)

    assert verdict.decision == Keep()
    assert verdict.gain is None
    assert verdict.children == 1
    assert not verdict.explains


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


def test_where_shares_follow_members_the_smallest_child_needs_enough_of_its_cohorts_share() -> None:
    weights = np.array([0.71, 0.29])
    cohort = replace(PLENTY, total_participants=1000, cohorts=4, share=100, check_ins=100.0)

    assert replace(LIMITS, min_participants=29).allow(weights, cohort)
    assert not replace(LIMITS, min_participants=30).allow(weights, cohort)
    assert replace(LIMITS, min_participants=30).allow(weights, replace(cohort, share=None, check_ins=1000.0))
    assert not LIMITS.allow(weights, replace(cohort, check_ins=99.9))  # each child's own share, from its own members
    assert LIMITS.allow(np.array([0.9, 0.1]), cohort)  # with equal shares 200 would be wanted of a tenth of them


def test_after_a_while_nobody_waits_for_labels_any_longer() -> None:
    few_labels = replace(PLENTY, labelled=0.1)

    assert not LIMITS.is_open(replace(few_labels, progress=0.39))
    assert LIMITS.is_open(replace(few_labels, progress=0.4))


# What the cross-fitted gain decides.


def test_rounds_that_judged_nobody_are_no_evidence() -> None:
    verdict = GAIN.judge([seen(judged=0)] * 10, PLENTY)

    assert verdict.decision == Keep()
    assert verdict.gain is None


def test_nothing_is_decided_before_a_full_window_of_judged_rounds() -> None:
    for rounds in range(GAIN.rounds):
        assert GAIN.judge([seen(judged=1000)] * rounds, PLENTY).decision == Keep()
    assert isinstance(GAIN.judge([seen(judged=1000)] * GAIN.rounds, PLENTY).decision, Partition)
    one_missing = [seen(judged=1000)] * 9 + [seen(judged=0)] + [seen(judged=1000)] * (GAIN.rounds - 1)
    assert GAIN.judge(one_missing, PLENTY).decision == Keep()


def test_too_few_judged_participants_decide_nothing() -> None:
    assert GAIN.judge([seen(judged=9)] * 4, PLENTY).decision == Keep()
    assert isinstance(GAIN.judge([seen(judged=10)] * 4, PLENTY).decision, Partition)


def test_only_the_last_rounds_count() -> None:
    good, bad = seen(), seen(within=(0.1, 0.1, 0.1, 0.1))

    assert GAIN.judge([good] * 10 + [bad] * GAIN.window, PLENTY).decision == Keep()
    assert isinstance(GAIN.judge([bad] * 10 + [good] * GAIN.window, PLENTY).decision, Partition)


def test_alignments_are_averaged_over_participants() -> None:
    few, many = seen(within=(0.1, 0.7, 0.1, 0.7), overall=0.2, judged=20), seen(judged=60)
    mean = np.array([0.1, 0.475, 0.1, 0.475])  # a quarter of the first, three quarters of the second
    verdict = GAIN.judge([few, many] * 2, PLENTY)

    assert verdict.gain == pytest.approx(GAIN.gains(mean, 0.125, PLENTY)[1])


@pytest.mark.parametrize(("swing", "partitions"), [(0.11, True), (0.13, False)])
def test_a_difference_within_chance_decides_nothing(swing: float, partitions: bool) -> None:
    # A mean of 0.3 over four rounds with a deviation of 0.12 is five deviations of the mean away from none.
    up, down = (seen(within=(0.1, 0.4 + turn, 0.1, 0.4 + turn)) for turn in (swing, -swing))
    verdict = GAIN.judge([up, down] * 2, PLENTY)

    assert isinstance(verdict.decision, Partition) == partitions
    assert verdict.explains == partitions
    assert verdict.children == (2 if partitions else 1)


def test_a_larger_gain_by_chance_does_not_stand_in_the_way_of_one_that_is_none() -> None:
    evidence = [seen(within=(0.1, 0.4, lucky, 0.4)) for lucky in (0.1, 0.9, 0.1, 0.9)]
    decision = GAIN.judge(evidence, PLENTY).decision

    assert isinstance(decision, Partition)
    assert decision.routes == groupings(CLUSTERS)[1]


def test_deviations_say_how_much_chance_may_explain() -> None:
    evidence = [seen(within=(0.1, share, 0.1, share)) for share in (0.2, 0.6, 0.2, 0.6)]

    assert GAIN.judge(evidence, PLENTY).decision == Keep()
    assert isinstance(replace(GAIN, deviations=2.0).judge(evidence, PLENTY).decision, Partition)


def test_labels_can_explain_something_that_does_not_pay() -> None:
    verdict = GAIN.judge([seen(within=(0.1, 0.11, 0.1, 0.11))] * 4, PLENTY)

    assert verdict.decision == Keep()
    assert verdict.gain == pytest.approx(1 / 11, abs=0.001)
    assert verdict.needed == pytest.approx(GAIN.min_gain)
    assert verdict.children == 1
    assert verdict.explains


def test_labels_of_groups_that_are_less_alike_than_everybody_explain_nothing() -> None:
    assert not GAIN.judge([seen(within=(0.1, 0.1, 0.1, 0.1), overall=0.2)] * 4, PLENTY).explains


def test_labels_of_groups_that_are_hardly_more_alike_explain_nothing_to_few_participants() -> None:
    evidence = [seen(within=(0.1, 0.11, 0.1, 0.11))] * 4

    assert not GAIN.judge(evidence, replace(PLENTY, total_participants=1)).explains


NOTHING = seen((0.1, 0.101, 0.1, 0.101))  # nothing to gain


@pytest.mark.parametrize(
    ("evidence", "progress", "is_hopeless"),
    [
        ([NOTHING] * 4, 0.2, True),
        ([NOTHING] * 4, 0.19, False),  # partitions are not in question yet, and groups may show later
        ([NOTHING] * 3, 0.3, False),  # not a full window
        ([replace(NOTHING, judged=9)] * 4, 0.3, False),  # too few judged
        ([seen()] * 4, 0.3, False),
    ],
)
def test_a_cohort_gives_up_when_a_full_window_shows_next_to_nothing(
    evidence: list[RoundEvidence], progress: float, is_hopeless: bool
) -> None:
    assert GAIN.judge(evidence, replace(PLENTY, progress=progress)).is_hopeless is is_hopeless


def test_how_little_is_hopeless_is_a_setting() -> None:
    verdict = GAIN.judge([seen((0.1, 0.115, 0.1, 0.115))] * 4, PLENTY)
    assert verdict.gain is not None
    assert 0 < verdict.gain < verdict.needed
    share = verdict.gain / GAIN.price(2, PLENTY)
    for hopeless, is_hopeless in ((0.9 * share, False), (1.1 * share, True)):
        judged = replace(GAIN, hopeless=hopeless).judge([seen((0.1, 0.115, 0.1, 0.115))] * 4, PLENTY)
        assert judged.is_hopeless is is_hopeless


def test_the_grouping_that_gains_most_after_its_price_is_made() -> None:
    for number, grouping in enumerate(groupings(CLUSTERS)):
        within = np.full(len(groupings(CLUSTERS)), 0.11)
        within[number] = within[-1] = 0.4
        decision = GAIN.judge([seen(within=tuple(within))] * 4, PLENTY).decision

        assert isinstance(decision, Partition)
        assert decision.routes == grouping


def test_a_further_child_must_pay_for_itself() -> None:
    # Apart all have 0.5 in common and gain 0.8; two children gain 0.8 less 0.9 or 1.1 times the further child's price.
    for shortfall, children in ((0.9 * GAIN.min_gain_further, 2), (1.1 * GAIN.min_gain_further, 3)):
        within = (0.5 - 0.5 * shortfall, 0.1, 0.1, 0.5)

        assert GAIN.judge([seen(within=within)] * 4, PLENTY).children == children


def test_shares_of_children_are_those_of_their_clusters_members() -> None:
    evidence = [seen(members=(10, 40, 50)), seen(members=(30, 20, 50))] * 2
    decision = GAIN.judge(evidence, PLENTY).decision

    assert isinstance(decision, Partition)
    assert decision.routes == (0, 1, 0)
    assert decision.weights == pytest.approx((0.7, 0.3))


def test_a_grouping_with_a_child_of_nobody_is_never_chosen() -> None:
    # Apart gains most by far, but nobody is in the second cluster.
    decision = GAIN.judge([seen(within=(0.1, 0.1, 0.3, 0.5), members=(50, 0, 50))] * 4, PLENTY).decision

    assert isinstance(decision, Partition)
    assert decision.routes == (0, 1, 1)
    assert decision.weights == pytest.approx((0.5, 0.5))


def test_where_no_grouping_can_be_made_the_gain_is_still_told() -> None:
    verdict = GAIN.judge([seen()] * 4, replace(PLENTY, check_ins=0.0))

    assert verdict.decision == Keep()
    assert verdict.children == 1
    assert verdict.gain == pytest.approx(0.75, abs=0.01)
    assert verdict.explains


def test_the_price_rises_with_children_and_with_cohorts() -> None:
    prices = np.array(
        [[GAIN.price(children, replace(PLENTY, cohorts=cohorts)) for children in (2, 3, 4)] for cohorts in (1, 2, 4, 7)]
    )

    np.testing.assert_allclose(prices[0], [0.2, 0.3, 0.4])
    np.testing.assert_allclose(prices[2], 2 * prices[0])
    assert (np.diff(prices, axis=0) > 0).all()
    assert (np.diff(prices, axis=1) > 0).all()


def test_a_partition_below_the_root_needs_more() -> None:
    evidence = [seen(within=(0.1, 0.135, 0.1, 0.135))] * 4  # gains 0.26

    assert isinstance(GAIN.judge(evidence, PLENTY).decision, Partition)
    assert GAIN.judge(evidence, replace(PLENTY, cohorts=2)).decision == Keep()


# What the gain is.

shares_of_signal = st.floats(0.001, 0.4)


def test_the_gain_is_what_the_group_gives_less_what_everybody_gives() -> None:
    outlook = replace(PLENTY, total_participants=10)  # 100 updates over the horizon
    gain = GAIN.gains(np.array([0.04]), 0.01, outlook)

    # Alone 50 updates with a share of 0.04: 2 / 3 of it. Together 100 with 0.01: a half of it.
    assert gain == pytest.approx([(0.04 * 2 / 3 - 0.01 / 2) / 0.04])
    # Two cohorts have half the updates each.
    halved = GAIN.gains(np.array([0.04]), 0.01, replace(outlook, cohorts=2))
    assert halved == pytest.approx([(0.04 / 2 - 0.01 / 3) / 0.04])


@given(shares_of_signal, st.integers(1, 10**5))
def test_nothing_is_to_be_gained_where_groups_are_no_more_alike_than_everybody(share: float, total: int) -> None:
    gains = GAIN.gains(np.full(14, share), share, replace(PLENTY, total_participants=total))

    assert (gains < 0).all()


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4), st.floats(-1, 1), st.integers(1, 10**5))
def test_gains_are_between_minus_one_and_one(within: list[float], overall: float, total: int) -> None:
    gains = GAIN.gains(np.array(within), overall, replace(PLENTY, total_participants=total))

    assert np.isfinite(gains).all()
    assert (np.abs(gains) <= 1).all()


def test_groups_of_opposite_directions_have_all_to_gain() -> None:
    assert GAIN.gains(np.array([0.3]), 0.0, PLENTY) == pytest.approx([1.0], abs=0.001)


@pytest.mark.parametrize("overall", [-1e-5, -0.2])
def test_an_alignment_below_zero_is_none(overall: float) -> None:
    within = np.array([0.1, -0.1, 0.2, 0.3])

    np.testing.assert_array_equal(GAIN.gains(within, overall, PLENTY), GAIN.gains(np.maximum(within, 0), 0.0, PLENTY))


def test_the_gain_is_a_share_of_what_clusters_apart_have_in_common() -> None:
    gains = GAIN.gains(np.array([0.2, 0.1, 0.1, 0.1]), 0.15, PLENTY)

    assert gains[0] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("nothing", [0.0, -0.2])
def test_without_anything_in_common_there_is_nothing_to_gain(nothing: float) -> None:
    np.testing.assert_array_equal(GAIN.gains(np.full(4, nothing), 0.0, PLENTY), np.full(4, -1.0))


@given(shares_of_signal, st.floats(1, 5), st.integers(1, 10**4), st.floats(1, 50))
def test_more_participants_never_lower_what_is_gained(overall: float, ratio: float, total: int, more: float) -> None:
    # Below zero they may: where the noise drowns everything, everybody together gets out of it first.
    within = np.full(14, ratio * overall)
    before = GAIN.gains(within, overall, replace(PLENTY, total_participants=total))
    after = GAIN.gains(within, overall, replace(PLENTY, total_participants=int(np.ceil(total * more))))

    assert (after[before > 0] >= before[before > 0] - 1e-12).all()


@given(shares_of_signal, st.floats(1, 5))
def test_participants_without_end_gain_what_the_group_has_in_common_beyond_everybody(
    overall: float, ratio: float
) -> None:
    gains = GAIN.gains(np.full(14, ratio * overall), overall, replace(PLENTY, total_participants=10**7))

    np.testing.assert_allclose(gains, 1 - 1 / ratio, atol=0.001)


# From updates to a verdict.

WINDOW = CrossFittedGain(limits=LIMITS, rounds=6, min_judged=100)


def updates(signal: FloatArray, noise_power: float, seed: int) -> FloatArray:
    """Return unit updates of the rows of ``signal`` and noise of its own for each."""
    rng = stream(seed, "updates")
    return unit_rows(signal + np.sqrt(noise_power / signal.shape[1]) * rng.standard_normal(signal.shape))


def evidence_of(directions: FloatArray, labels: IntArray, clusters: int) -> RoundEvidence:
    within, overall = alignments(directions, labels, clusters)
    members = tuple(np.bincount(labels, minlength=clusters).tolist())
    return RoundEvidence(tuple(within.tolist()), overall, len(labels), members, 1.0, 1.0)


def signals(groups: IntArray, common: float, width: int) -> FloatArray:
    """Return a common part of squared length ``common``, and one of length one: opposite for groups 0, 2 and 1, 3."""
    axes = np.eye(width)
    own: FloatArray = np.where(groups < 2, 1.0, -1.0)[:, None] * axes[1 + groups % 2]
    return np.asarray(own + np.sqrt(common) * axes[0])


def window(groups: IntArray, labels: Sequence[IntArray], clusters: int, noise_power: float) -> list[RoundEvidence]:
    return [
        evidence_of(updates(signals(groups, 0.1, 200), noise_power, seed), each, clusters)
        for seed, each in enumerate(labels)
    ]


def test_four_true_groups_become_four_children() -> None:
    groups = np.arange(160) % 4
    verdict = WINDOW.judge(window(groups, [groups] * 6, 4, noise_power=5.0), PLENTY)

    assert isinstance(verdict.decision, Partition)
    assert verdict.decision.routes == (0, 1, 2, 3)
    assert verdict.gain == pytest.approx(1 / 1.1, abs=0.05)


def test_two_true_groups_cut_into_four_clusters_at_random_become_two_children() -> None:
    groups = np.arange(160) % 2 * 2  # opposite to each other
    labels = [groups // 2 + 2 * stream(seed, "cut").integers(0, 2, 160) for seed in range(6)]
    verdict = WINDOW.judge(window(groups, labels, 4, noise_power=5.0), PLENTY)

    assert isinstance(verdict.decision, Partition)
    assert verdict.decision.routes == (0, 1, 0, 1)
    assert verdict.gain == pytest.approx(1 / 1.1, abs=0.05)


def test_labels_at_random_of_true_groups_explain_nothing() -> None:
    groups = np.arange(160) % 4
    labels = [stream(seed, "labels").integers(0, 4, 160) for seed in range(6)]
    verdict = WINDOW.judge(window(groups, labels, 4, noise_power=5.0), PLENTY)

    assert verdict.decision == Keep()
    assert not verdict.explains


def test_ten_times_the_dimensions_of_noise_do_not_shrink_the_gain() -> None:
    groups = np.arange(400) % 2 * 2
    found = []
    for width in (200, 2000):
        directions = updates(signals(groups, 1.0, width), noise_power=width / 10, seed=width)
        within, overall = alignments(directions, groups // 2, 2)
        found.append((overall, WINDOW.gains(within, overall, PLENTY)[0]))
    (few, gain), (many, gain_with_more_noise) = found

    assert few == pytest.approx(1 / 22, rel=0.1)
    assert many == pytest.approx(1 / 202, rel=0.1)
    assert gain == pytest.approx(0.5, abs=0.05)
    assert gain_with_more_noise == pytest.approx(gain, abs=0.05)


@pytest.mark.parametrize("common", [0.02, 0.3])
def test_clients_that_are_all_alike_are_never_partitioned(common: float) -> None:
    criterion = CrossFittedGain(limits=LIMITS)
    signal = np.sqrt(common) * np.eye(24)[np.zeros(40, dtype=np.int64)]
    gains = []
    for number in range(200):
        rng = stream(number, "alike", int(100 * common))
        rounds = []
        for _ in range(criterion.rounds):
            noise = np.sqrt((1 - common) / 24) * rng.standard_normal(signal.shape)
            rounds.append(evidence_of(unit_rows(signal + noise), rng.integers(0, 4, 40), 4))
        verdict = criterion.judge(rounds, PLENTY)
        assert verdict.decision == Keep()
        assert verdict.gain is not None
        gains.append(verdict.gain)

    assert np.mean(gains) == pytest.approx(0.0, abs=0.1)


# The lemma.


def test_the_lemma_wants_heterogeneity_to_fall_by_the_root_of_the_clusters() -> None:
    bound = 1 / np.sqrt(CLUSTERS)

    assert isinstance(LEMMA.judge([seen(dispersion_within=bound - 0.01)] * 2, PLENTY).decision, Partition)
    assert LEMMA.judge([seen(dispersion_within=bound + 0.01)] * 2, PLENTY).decision == Keep()


def test_the_lemma_partitions_into_all_clusters_or_not_at_all() -> None:
    decision = LEMMA.judge([seen(members=(20, 10, 30))], PLENTY).decision

    assert isinstance(decision, Partition)
    assert decision.routes == (0, 1, 2)
    assert decision.weights == pytest.approx((1 / 3, 1 / 6, 1 / 2))
    assert LEMMA.judge([seen(members=(20, 0, 30))], PLENTY).decision == Keep()


def test_a_larger_alpha_wants_more_participants_for_each_child() -> None:
    assert replace(LEMMA, alpha=100.0).judge([seen()], PLENTY).decision == Keep()


def test_identical_updates_give_the_lemma_nothing_to_divide() -> None:
    nothing = replace(seen(), dispersion=0.0, dispersion_within=0.0)

    assert LEMMA.judge([nothing], PLENTY).decision == Keep()


# Settings.


def test_the_resource_is_shared_equally_with_the_remainder_in_turn() -> None:
    hundred = replace(PLENTY, total_participants=100)

    three, four = (
        [share.tolist() for share in replace(hundred, cohorts=cohorts).shares(np.array([0.9, 0.1]))]
        for cohorts in (2, 3)
    )
    assert three == [[33, 33], [34, 34]]
    assert four == [[25, 25], [25, 25]]
    assert replace(hundred, cohorts=4).participants == 25


def test_where_shares_follow_members_children_divide_what_their_cohort_has() -> None:
    forty = replace(PLENTY, total_participants=100, cohorts=3, share=40)

    for share in forty.shares(np.array([0.75, 0.25])):
        np.testing.assert_allclose(share, [30, 10])
    assert forty.participants == 40


def test_a_gain_is_that_of_the_participants_that_the_cohort_has() -> None:
    within, overall = np.array([0.04]), 0.01
    half, all_of_half = replace(PLENTY, total_participants=20, cohorts=2), replace(PLENTY, total_participants=10)

    assert GAIN.gains(within, overall, replace(half, share=10)) == GAIN.gains(within, overall, all_of_half)
    assert GAIN.gains(within, overall, replace(half, share=15)) > GAIN.gains(within, overall, half)


@pytest.mark.parametrize(("begin", "end"), [(-0.1, 0.5), (0.6, 0.5), (0.5, 1.1)])
def test_impossible_windows_are_refused(begin: float, end: float) -> None:
    with pytest.raises(ValueError, match="begin, end: expected"):
        PartitionLimits(begin=begin, end=end)


def test_children_of_a_single_participant_are_refused() -> None:
    with pytest.raises(ValueError, match="min_participants: expected at least 2, got 1"):
        PartitionLimits(min_participants=1)


@pytest.mark.parametrize("name", ["rounds", "min_judged", "horizon"])
def test_a_criterion_without_rounds_or_judged_participants_is_refused(name: str) -> None:
    setting: dict[str, Any] = {name: 0}

    with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
        CrossFittedGain(**setting)


@pytest.mark.parametrize("name", ["hopeless", "min_gain", "min_gain_further"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_criterion_with_a_share_that_is_none_is_refused(name: str, value: float) -> None:
    setting: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=rf"{name}: expected a value in \[0, 1\], got {value}"):
        CrossFittedGain(**setting)


@pytest.mark.parametrize("name", ["labelled", "labelled_until"])
def test_limits_with_a_share_that_is_none_are_refused(name: str) -> None:
    setting: dict[str, Any] = {name: 1.5}

    with pytest.raises(ValueError, match=rf"{name}: expected a value in \[0, 1\], got 1.5"):
        PartitionLimits(**setting)


def test_deviations_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="deviations: expected a number >= 0, got -1"):
        CrossFittedGain(deviations=-1)


def test_a_lemma_without_a_scale_or_a_round_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha: expected a positive number, got 0"):
        Lemma(alpha=0.0)
    with pytest.raises(ValueError, match="rounds: expected at least 1, got 0"):
        Lemma(rounds=0)
