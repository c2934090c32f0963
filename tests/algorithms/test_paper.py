"""The paper's rules: Lemma 1, and rounds that go by it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.algorithms.paper import Lemma, Paper, PaperClustering, PaperMemory, PartitionLimits, RoundEvidence
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg
from auxo.core.clustering import ClusteringState
from auxo.core.cohort_algorithm import CohortAlgorithm, Opening
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.fingerprint import unit_rows
from auxo.core.gathering import dispersion
from auxo.core.matching import CheckIns
from auxo.core.metrics import agreement
from auxo.core.partition import Keep, Outlook, Partition
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, FloatArray
from auxo.protocol.events import Partitioned, RoundClosed
from tests.algorithms.short_runs import run

CLUSTERS = 3
LIMITS = PartitionLimits(begin=0.2, end=0.6, min_participants=5)
LEMMA = Lemma(limits=LIMITS, alpha=0.01, rounds=2)
PLENTY = Outlook(progress=0.3, total_participants=10_000, cohorts=1, check_ins=100_000.0)
# Lemma 1 asks for more participants than a short run has, unless it is scaled.
READILY = Lemma(PartitionLimits(begin=0.2, end=0.8, min_participants=4), alpha=0.05)


def seen(members: tuple[int, ...] = (30, 20, 10), within: float = 0.2) -> RoundEvidence:
    return RoundEvidence(members, dispersion=1.0, dispersion_within=within)


# Lemma 1.


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(seen, members=st.tuples(*[st.integers(0, 60)] * CLUSTERS), within=st.floats(0, 1)),
        min_size=1,
        max_size=4,
    ),
    st.builds(
        Outlook,
        progress=st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 1.0]),
        total_participants=st.integers(5, 120),
        cohorts=st.integers(1, 6),
        check_ins=st.floats(0, 500),
    ),
)
def test_a_partition_is_in_time_reaches_every_child_and_leaves_each_able_to_fill_its_round(
    evidence: list[RoundEvidence], outlook: Outlook
) -> None:
    verdict = LEMMA.judge(evidence, outlook)
    if isinstance(verdict.decision, Partition):
        assert LIMITS.begin <= outlook.progress <= LIMITS.end
        assert verdict.decision.routes == tuple(range(CLUSTERS))
        assert sum(verdict.decision.weights) == pytest.approx(1.0)
        assert verdict.children == len(verdict.decision.weights) == CLUSTERS
        assert verdict.explains
        assert verdict.fall is not None
        assert verdict.fall >= verdict.needed
        after = outlook.cohorts - 1 + CLUSTERS
        assert outlook.total_participants // after >= LIMITS.min_participants
        for weight in verdict.decision.weights:
            assert weight > 0
            assert outlook.check_ins * weight >= -(-outlook.total_participants // after)


def test_the_same_evidence_decides_where_resources_suffice_and_nothing_where_they_do_not() -> None:
    evidence, enough = [seen()] * 4, Outlook(progress=0.3, total_participants=400, cohorts=1, check_ins=4000.0)

    assert isinstance(LEMMA.judge(evidence, enough).decision, Partition)
    for scarce in (
        replace(enough, check_ins=240.0),
        replace(enough, total_participants=9),
        replace(enough, cohorts=100),
        replace(enough, progress=0.19),
        replace(enough, progress=0.61),
    ):
        assert LEMMA.judge(evidence, scarce).decision == Keep()


def test_nothing_is_decided_without_evidence() -> None:
    verdict = LEMMA.judge([], PLENTY)

    assert (verdict.decision, verdict.fall, verdict.children, verdict.explains) == (Keep(), None, 1, False)


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


def test_heterogeneity_has_to_fall_by_the_root_of_the_clusters() -> None:
    bound = 1 / np.sqrt(CLUSTERS)

    assert isinstance(LEMMA.judge([seen(within=bound - 0.01)] * 2, PLENTY).decision, Partition)
    assert LEMMA.judge([seen(within=bound + 0.01)] * 2, PLENTY).decision == Keep()


def test_dispersions_are_averaged_over_the_last_rounds() -> None:
    bad, good = seen(within=0.9), seen(within=0.1)

    assert LEMMA.judge([good, bad], PLENTY).fall == pytest.approx(0.5)
    assert LEMMA.judge([bad, good, good], PLENTY).fall == pytest.approx(0.9)


def test_a_partition_is_into_all_clusters_or_not_at_all() -> None:
    decision = LEMMA.judge([seen(members=(20, 10, 30))], PLENTY).decision
    assert isinstance(decision, Partition)
    assert decision.routes == (0, 1, 2)
    assert decision.weights == pytest.approx((1 / 3, 1 / 6, 1 / 2))

    assert LEMMA.judge([seen(members=(20, 0, 30))], PLENTY).decision == Keep()


def test_a_larger_alpha_wants_more_participants_for_each_child() -> None:
    assert replace(LEMMA, alpha=100.0).judge([seen()], PLENTY).decision == Keep()


def test_identical_updates_give_nothing_to_divide() -> None:
    assert LEMMA.judge([RoundEvidence((20, 10, 30), 0.0, 0.0)], PLENTY).decision == Keep()


def updates_of_two_groups(count: int = 30) -> FloatArray:
    rows = np.eye(8)[0] + 2 * np.eye(8)[1 + np.arange(count) % 2]
    return unit_rows(rows + 0.1 * stream(0, "updates").standard_normal((count, 8)))


def test_the_evidence_is_the_dispersion_of_all_and_within_clusters() -> None:
    directions, labels = updates_of_two_groups(), np.arange(30) % 2
    found = RoundEvidence.of(directions, labels, 3)

    assert found.members == (15, 15, 0)
    assert found.dispersion == pytest.approx(dispersion(directions))
    halves = [dispersion(directions[labels == label]) for label in (0, 1)]
    assert found.dispersion_within == pytest.approx(np.mean(halves))
    assert found.dispersion_within < 0.2 * found.dispersion


@pytest.mark.parametrize(
    ("part", "name", "value", "expected"),
    [
        (PartitionLimits, "begin", 0.6, "begin, end: expected 0 <= begin <= end <= 1"),
        (PartitionLimits, "end", 1.1, "begin, end: expected 0 <= begin <= end <= 1"),
        (PartitionLimits, "min_participants", 1, "min_participants: expected at least 2, got 1"),
        (Lemma, "alpha", 0.0, "alpha: expected a positive number, got 0.0"),
        (Lemma, "rounds", 0, "rounds: expected at least 1, got 0"),
        (PaperClustering, "clusters", 1, "clusters: expected 2 to 8, got 1"),
        (PaperClustering, "restart_after", 0, "restart_after: expected at least 1, got 0"),
        (PaperClustering, "kmeans_starts", 0, "kmeans_starts: expected at least 1, got 0"),
        (Paper, "start_round", 0, "start_round: expected at least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused_by_name(part: Any, name: str, value: float, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        part(**{name: value})


# Clustering.


def test_kmeans_finds_two_groups_that_are_well_apart() -> None:
    begun = PaperClustering().start(updates_of_two_groups(), 4, stream(0, "cluster"))
    assert begun is not None
    state, clusters = begun

    assert state.generation == 5
    assert agreement(clusters.labels, np.arange(30) % 2) == 1.0


def test_too_few_participants_or_too_few_different_ones_begin_nothing() -> None:
    directions = updates_of_two_groups()

    assert PaperClustering().start(directions[:3], 0, stream(0, "cluster")) is None
    assert PaperClustering().start(np.repeat(directions[:1], 20, axis=0), 0, stream(0, "cluster")) is None


def test_labels_that_explain_nothing_for_long_are_thrown_away_with_their_evidence() -> None:
    rule = PaperClustering(restart_after=3)
    memory = PaperMemory(ClusteringState(2, np.eye(2)), (seen(),))
    for explained in (False, False, True, False, False):
        memory = memory.after(explained, rule)
        assert memory.clustering.centres is not None

    assert memory.idle_rounds == 2
    assert memory.after(False, rule) == PaperMemory(ClusteringState(2))


# Rounds.


def test_cohorts_are_parted_where_lemma_1_asks_for_little() -> None:
    found = run(Paper(criterion=READILY, start_round=2), 12)
    closed = [event for event in found.events if isinstance(event, RoundClosed)]

    assert [event for event in found.events if isinstance(event, Partitioned)]
    assert len(found.state.coordinator.tree.leaves) >= 2
    assert any(event.judged for event in closed)
    assert all(event.gain_needed == pytest.approx(1 - 0.5**0.5) for event in closed if event.gain is not None)


def test_clustering_starts_anew_when_labels_explain_nothing() -> None:
    never = Lemma(PartitionLimits(begin=0.0, end=1.0))
    found = run(Paper(criterion=never, start_round=2, clustering=PaperClustering(restart_after=1)), 12)

    assert any(event.restarted for event in found.events if isinstance(event, RoundClosed))


def test_the_paper_is_a_cohort_algorithm_with_a_client_half_of_its_own() -> None:
    algorithm: CohortAlgorithm = Paper()

    assert isinstance(algorithm, CohortAlgorithm)
    assert Paper().client_half.affinity.confirmations == 0
    assert Paper().client_half.clusters == 2
    tree = CohortTree().partition(ROOT, (0, 1), (0.7, 0.3))
    assert Paper().openers(tree) == (CohortId("0.0"), CohortId("0.1"))
    assert Paper().shares(tree, tree.leaves) == (1.0, 1.0)


def test_nobody_who_is_late_is_heard_and_all_train_on_all_their_samples_members_first() -> None:
    tree = CohortTree()
    requests = replace(
        Requests.silent(tree, np.zeros(4, dtype=np.int64)),
        cohort=np.zeros(4, dtype=np.int64),
        reward=np.array([0.0, 0.0, 0.5, 0.0]),
        ranked_first=np.ones(4, dtype=np.bool_),
    )
    state = CohortState(FedAvg().initial(np.zeros(3, dtype=np.float32)), round=9, memory=PaperMemory())
    selected = CheckIns(np.arange(4), requests)
    plan = Paper().plan(Opening(ROOT, tree, state, selected, np.ones(4, dtype=np.bool_), progress=0.3, share=4))

    assert not plan.hears_late
    assert plan.rows.tolist() == [2, 0, 1, 3]
    assert plan.asks.fold.tolist() == [-1] * 4
    assert (plan.offered, plan.asks.model.tolist()) == ((ROOT,), [0] * 4)
