from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.algorithms.auxo import AuxoSettings, Folded, Participants, RateScaling, Returned, RoundOutcome
from auxo.core.affinity import AffinityRecords, AffinitySettings, FeedbackColumns, Requests, hear, learn, request
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.clustering import ClusteringSettings
from auxo.core.cohort_tree import CohortTree
from auxo.core.partition import Keep, Outlook, Partition, PartitionLimits, RoundEvidence, Verdict
from auxo.core.rewards import RewardSettings
from auxo.core.rng import stream
from auxo.core.types import ROOT, BoolArray, CohortId, Float32Array, IntArray
from auxo.protocol.codec import to_bytes
from auxo.runtime.coordinator import ByRequest, Coordinator, CoordinatorState

N_PARAMS = 6
WEIGHTS = np.arange(N_PARAMS, dtype=np.float32)
HALVES = Partition((0, 1), (0.25, 0.75))
LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
ALWAYS = PartitionLimits(begin=0.0, end=1.0)


@dataclass(frozen=True)
class PartitionAt:
    """Partition the root when a given share of its rounds is done, whatever the evidence."""

    at: float
    partition: Partition = HALVES
    limits: PartitionLimits = ALWAYS
    window: int = 3

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        due = outlook.cohorts == 1 and outlook.progress >= self.at
        return Verdict(self.partition if due else Keep(), None, 0.0, 2 if due else 1, explains=due)


SETTINGS = AuxoSettings(
    clustering=ClusteringSettings(clusters=2),
    rewards=RewardSettings(min_known=3),
    criterion=PartitionAt(2.0),
    start_round=1,
    aggregator=FedAvg(),
    weighting="examples",
)
RULES = Coordinator(SETTINGS, N_PARAMS, total_participants=10, total_rounds=4, seed=1, overcommit=0.25)


def participants(n: int, *, known: bool | BoolArray = False, label: IntArray | None = None) -> Participants:
    is_known = np.broadcast_to(np.asarray(known), n).copy()
    labels = np.full(n, -1) if label is None else label
    return Participants(
        vouched=is_known,
        known=is_known,
        label=labels,
        label_by_fold=np.stack([labels, labels], axis=1),
        generation=np.full(n, 1),
        fold=np.full(n, -1),
    )


def updates(n: int, seed: int = 0) -> Float32Array:
    """Return updates of two groups in turn, with a direction in common."""
    directions = np.eye(N_PARAMS)[0] + np.eye(N_PARAMS)[1 + np.arange(n) % 2]
    noise = 0.1 * stream(seed, "updates").standard_normal((n, N_PARAMS))
    deltas: Float32Array = (directions + noise).astype(np.float32)
    return deltas


def answers(deltas: Float32Array, late: Sequence[int] = ()) -> list[Returned]:
    return [Returned(row, delta, row + 1, late=row in late) for row, delta in enumerate(deltas)]


def close(
    rules: Coordinator,
    state: CoordinatorState,
    returned: list[Returned],
    cohort: CohortId = ROOT,
    brought: Participants | None = None,
) -> tuple[CoordinatorState, RoundOutcome, FeedbackColumns]:
    closed = rules.close(state, cohort, brought or participants(len(returned)), iter(returned))
    assert not isinstance(closed, Folded)
    return closed


def partitioned(rules: Coordinator = RULES) -> CoordinatorState:
    return rules.start(WEIGHTS, HALVES)


# A round.


def test_before_the_first_round_there_is_one_cohort_with_the_initial_weights() -> None:
    state = RULES.start(WEIGHTS)

    assert state.tree.leaves == (ROOT,)
    np.testing.assert_array_equal(state.cohorts[ROOT].server.weights, WEIGHTS)
    assert RULES.progress(state, ROOT) == 0.25  # once the first of four rounds has closed


def test_a_round_moves_the_weights_by_the_mean_of_the_updates_weighted_by_examples() -> None:
    deltas = updates(8)
    state, outcome, _ = close(RULES, RULES.start(WEIGHTS), answers(deltas))

    expected = WEIGHTS + np.average(deltas.astype(np.float64), axis=0, weights=np.arange(1, 9))
    np.testing.assert_allclose(state.cohorts[ROOT].server.weights, expected, rtol=1e-6)
    assert outcome.folded.used == 8
    assert state.cohorts[ROOT].round == 1
    assert RULES.progress(state, ROOT) == 0.5


@pytest.mark.parametrize("returned", [[], [Returned(0, None, 1)], [Returned(0, WEIGHTS, 1, late=True)]])
def test_a_round_without_a_usable_update_closes_nothing(returned: list[Returned]) -> None:
    assert isinstance(RULES.close(RULES.start(WEIGHTS), ROOT, participants(1), iter(returned)), Folded)


def test_closing_a_round_leaves_the_state_it_began_with_and_the_updates_untouched() -> None:
    state, _, _ = close(RULES, RULES.start(WEIGHTS), answers(updates(12)))
    deltas, brought = updates(12, seed=1), participants(12, label=np.arange(12) % 2)
    before, deltas_before, brought_before = to_bytes(state), deltas.copy(), to_bytes(brought)
    close(RULES, state, answers(deltas), brought=brought)

    assert to_bytes(state) == before
    assert to_bytes(brought) == brought_before
    np.testing.assert_array_equal(deltas, deltas_before)


def test_the_same_answers_give_the_same_state_to_the_last_bit() -> None:
    one, _, _ = close(RULES, RULES.start(WEIGHTS), answers(updates(12)))
    other, _, _ = close(RULES, RULES.start(WEIGHTS), answers(updates(12)))

    assert to_bytes(one) == to_bytes(other)


@pytest.mark.parametrize(
    ("update", "examples", "reason"),
    [
        (np.full(N_PARAMS, np.nan, dtype=np.float32), 5, "NON_FINITE"),
        (np.ones(1, dtype=np.float32), 5, "SCHEMA_MISMATCH"),
        (np.ones(N_PARAMS, dtype=np.int64), 5, "SCHEMA_MISMATCH"),
        (np.ones(N_PARAMS, dtype=np.float32), 0, "BAD_WEIGHT"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_rejected_update_counts_as_no_answer_and_has_a_reason(
    update: object, examples: object, reason: str, late: bool
) -> None:
    good = answers(updates(12))
    corrupted = [*good[:5], Returned(5, update, examples, late), *good[6:]]
    state = RULES.start(WEIGHTS)
    rejected, outcome, told = close(RULES, state, corrupted)
    failed, _, told_without = close(RULES, state, [*good[:5], *good[6:]], brought=participants(12))

    assert outcome.folded.rejected == ((5, reason),)
    assert to_bytes(rejected) == to_bytes(failed)
    assert to_bytes(told) == to_bytes(told_without)


def test_a_late_update_is_answered_but_moves_nothing() -> None:
    good = answers(updates(12), late=[11])
    state, outcome, told = close(RULES, RULES.start(WEIGHTS), good)
    without, _, _ = close(RULES, RULES.start(WEIGHTS), good[:-1], brought=participants(12))

    np.testing.assert_array_equal(state.cohorts[ROOT].server.weights, without.cohorts[ROOT].server.weights)
    assert outcome.folded.used == 11
    assert len(told.instant_reward) == 12
    assert not np.isnan(told.similarity[11]).any()


# Newcomers.


def test_a_newcomer_that_does_not_fit_moves_the_model_only_where_misfits_are_admitted() -> None:
    deltas = updates(9)[::2]  # five of one group
    stranger = -deltas[0]
    brought = participants(6, known=np.arange(6) < 5)
    everybody = answers(np.concatenate([deltas, stranger[None]]))
    _, outcome, told = close(RULES, partitioned(), everybody, LEFT, brought)
    without, _, _ = close(RULES, partitioned(), everybody[:5], LEFT, brought)
    after, _, _ = close(RULES, partitioned(), everybody, LEFT, brought)
    admitting = replace(RULES, settings=replace(SETTINGS, admit_misfits=True))
    moved, admitted, _ = close(admitting, partitioned(), everybody, LEFT, brought)

    assert (outcome.folded.used, outcome.folded.misfits) == (5, 1)
    assert (admitted.folded.used, admitted.folded.misfits) == (6, 0)
    np.testing.assert_array_equal(after.cohorts[LEFT].server.weights, without.cohorts[LEFT].server.weights)
    assert not np.array_equal(moved.cohorts[LEFT].server.weights, without.cohorts[LEFT].server.weights)
    assert told.instant_reward[5] < min(0.0, told.instant_reward[:5].min())


def test_a_newcomer_that_fits_moves_the_model() -> None:
    deltas = updates(11)[::2]
    brought = participants(6, known=np.arange(6) < 5)
    _, outcome, _ = close(RULES, partitioned(), answers(deltas), LEFT, brought)

    assert outcome.folded.used == 6


def test_with_too_few_members_or_a_single_cohort_every_newcomer_is_admitted() -> None:
    deltas = updates(9)[::2]
    everybody = answers(np.concatenate([deltas, -deltas]))
    _, few, _ = close(RULES, partitioned(), everybody, LEFT, participants(10, known=np.arange(10) < 2))
    _, alone, _ = close(RULES, RULES.start(WEIGHTS), everybody, ROOT, participants(10, known=np.arange(10) < 5))

    assert few.folded.misfits == alone.folded.misfits == 0


# Feedback.


def test_rewards_say_nothing_while_there_is_one_cohort_and_are_bounded_afterwards() -> None:
    _, _, alone = close(RULES, RULES.start(WEIGHTS), answers(updates(12)))
    _, _, together = close(RULES, partitioned(), answers(updates(12)), LEFT)

    assert np.isnan(alone.instant_reward).all()
    assert (np.abs(together.instant_reward) <= 1).all()


@pytest.mark.parametrize("folds", [1, 3])
def test_each_participant_is_told_its_own_cluster_whoever_else_answers_and_in_whatever_order(folds: int) -> None:
    forgetful = replace(RULES, settings=replace(SETTINGS, clustering=ClusteringSettings(clusters=2, centre_memory=0.0)))
    state, outcome, told = close(forgetful, forgetful.start(WEIGHTS), answers(updates(16)))
    labels = outcome.similarity.argmax(axis=1)
    assert len(set(labels[::2])) == len(set(labels[1::2])) == 1

    order = stream(0, "order").permutation(16)[:11]
    brought = replace(participants(16, label=labels), fold=np.arange(16) % folds - 1)
    some = [Returned(int(row), updates(16, seed=1)[row], 1) for row in order]
    _, later, told_later = close(forgetful, state, some, brought=brought)

    assert told.generation == told_later.generation == 1
    np.testing.assert_array_equal(later.folded.rows, order)
    np.testing.assert_array_equal(told_later.similarity.argmax(axis=1), labels[order])
    np.testing.assert_array_equal(told_later.fold, brought.fold[order])


def test_only_a_label_from_the_half_that_a_participant_does_not_train_on_is_judged() -> None:
    state, outcome, _ = close(RULES, RULES.start(WEIGHTS), answers(updates(12)))
    labels, fold, rows = outcome.similarity.argmax(axis=1), np.arange(12) // 2 % 2, np.arange(12)
    for half, judged in ((fold, 0), (1 - fold, 12)):
        by_fold = np.full((12, 2), -1)
        by_fold[rows, half] = labels
        brought = replace(participants(12, label=labels), fold=fold, label_by_fold=by_fold)
        _, later, _ = close(RULES, state, answers(updates(12, seed=1)), brought=brought)

        assert later.judged == judged
        assert later.labelled == 12


def test_without_cross_fitting_every_label_is_judged() -> None:
    rules = replace(RULES, settings=replace(SETTINGS, cross_fit=False))
    state, outcome, _ = close(rules, rules.start(WEIGHTS), answers(updates(12)))
    labels = np.where(np.arange(12) < 9, outcome.similarity.argmax(axis=1), -1)
    _, later, _ = close(rules, state, answers(updates(12, seed=1)), brought=participants(12, label=labels))

    assert later.judged == later.labelled == 9


def test_a_member_that_comes_late_does_not_move_what_the_others_are_told() -> None:
    deltas = updates(9)[::2]
    stranger = -deltas[:1]
    _, _, without = close(RULES, partitioned(), answers(deltas), LEFT, participants(5, known=True))
    everybody = answers(np.concatenate([deltas, stranger]), late=[5])
    _, _, told = close(RULES, partitioned(), everybody, LEFT, participants(6, known=True))

    np.testing.assert_allclose(told.instant_reward[:5], without.instant_reward)
    assert told.instant_reward[5] < 0


def test_before_clustering_begins_no_cluster_is_told() -> None:
    waiting = replace(RULES, settings=replace(SETTINGS, start_round=2))
    state, _, first = close(waiting, waiting.start(WEIGHTS), answers(updates(12)))
    _, _, second = close(waiting, state, answers(updates(12)))

    assert np.isnan(first.similarity).all()
    assert not np.isnan(second.similarity).any()


# Partitions.


def test_children_start_from_their_parents_weights_and_optimiser_slots() -> None:
    rules = replace(RULES, settings=replace(SETTINGS, aggregator=FedYogi(), criterion=PartitionAt(0.5)))
    keeping = replace(RULES, settings=replace(SETTINGS, aggregator=FedYogi()))
    state = rules.note_check_ins(rules.start(WEIGHTS), ROOT, 40)
    state, outcome, _ = close(rules, state, answers(updates(12)))
    assert outcome.verdict.decision == Keep()
    kept, _, _ = close(keeping, state, answers(updates(12, seed=1)))
    state, outcome, told = close(rules, state, answers(updates(12, seed=1)))

    assert outcome.verdict.decision == HALVES
    assert state.tree.leaves == tuple(state.cohorts) == (LEFT, RIGHT)
    assert told.tree == state.tree
    for child, weight in zip((LEFT, RIGHT), HALVES.weights, strict=True):
        assert to_bytes(state.cohorts[child].server) == to_bytes(kept.cohorts[ROOT].server)
        assert state.cohorts[child].round == 2
        assert state.cohorts[child].clustering.centres is None
        assert state.cohorts[child].evidence == ()
        assert state.cohorts[child].check_ins == pytest.approx(40 * weight)


def test_a_child_that_trains_does_not_move_its_sibling() -> None:
    state = partitioned()
    after, _, _ = close(RULES, state, answers(updates(12)), LEFT)

    assert to_bytes(after.cohorts[RIGHT]) == to_bytes(state.cohorts[RIGHT])
    assert not np.array_equal(after.cohorts[LEFT].server.weights, WEIGHTS)


def test_the_partition_remembers_which_clustering_its_routes_number() -> None:
    rules = replace(RULES, settings=replace(SETTINGS, criterion=PartitionAt(0.25)))
    state, outcome, _ = close(rules, rules.start(WEIGHTS), answers(updates(12)))

    assert state.tree.branches[0].generation == outcome.state.clustering.generation == 1


def test_a_run_may_begin_partitioned() -> None:
    state = partitioned()

    assert state.tree.leaves == (LEFT, RIGHT)
    for child in (LEFT, RIGHT):
        np.testing.assert_array_equal(state.cohorts[child].server.weights, WEIGHTS)


# Shares.


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 10), st.integers(2, 4)), max_size=4), st.integers(1, 300))
def test_shares_of_the_leaves_sum_to_the_total_and_differ_by_at_most_one(
    partitions: list[tuple[int, int]], total: int
) -> None:
    tree = CohortTree()
    for pick, children in partitions:
        cohort = tree.leaves[pick % len(tree.leaves)]
        tree = tree.partition(cohort, tuple(range(children)), (1.0,) * children)
    state = CoordinatorState(tree, {})
    shares = [state.share(leaf, total) for leaf in tree.leaves]

    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


def test_more_clients_than_updates_wanted_are_selected() -> None:
    assert RULES.wanted(RULES.start(WEIGHTS), ROOT) == (10, 13)
    assert RULES.wanted(partitioned(), LEFT) == (5, 7)


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", np.sqrt(0.5)), ("linear", 0.5)])
def test_the_server_rate_follows_a_cohorts_share_where_it_is_asked_to(scaling: RateScaling, factor: float) -> None:
    rules = replace(RULES, settings=replace(SETTINGS, rate_scaling=scaling))
    alone, _, _ = close(rules, rules.start(WEIGHTS), answers(updates(12)))
    shared, _, _ = close(rules, partitioned(rules), answers(updates(12)), LEFT)

    np.testing.assert_allclose(
        shared.cohorts[LEFT].server.weights - WEIGHTS,
        factor * (alone.cohorts[ROOT].server.weights - WEIGHTS),
        rtol=1e-5,
        atol=1e-6,
    )


def test_check_ins_are_a_running_mean_that_starts_with_the_first_count() -> None:
    state = RULES.note_check_ins(RULES.start(WEIGHTS), ROOT, 40)
    assert state.cohorts[ROOT].check_ins == 40

    for _ in range(30):
        state = RULES.note_check_ins(state, ROOT, 20)
        assert 20 < state.cohorts[ROOT].check_ins < 40
    assert state.cohorts[ROOT].check_ins == pytest.approx(20, abs=0.1)


# Matching.


def asked(labels: IntArray, tree: CohortTree) -> Requests:
    """Return what clients ask for that have learnt these labels in the root and heard of ``tree``."""
    told = FeedbackColumns(
        cohort=ROOT,
        tree=CohortTree(),
        instant_reward=np.full(len(labels), np.nan),
        similarity=np.eye(2)[labels],
        fold=np.full(len(labels), -1),
        generation=1,
    )
    records = learn(AffinityRecords.empty(len(labels), 2), told, AffinitySettings())
    return request(hear(records, tree, AffinitySettings()), AffinitySettings(), None)


ONCE = CohortTree().partition(ROOT, (1, 0), (0.5, 0.5), generation=1)
TWICE = ONCE.partition(LEFT, (0, 1), (0.5, 0.5), generation=1)


@pytest.mark.parametrize("heard_of", [CohortTree(), ONCE])
def test_requests_of_any_age_lead_every_client_to_the_child_of_its_own_label(heard_of: CohortTree) -> None:
    labels = stream(0, "labels").integers(0, 2, 50)
    matched = ByRequest().match(ONCE, np.arange(50), asked(labels, heard_of), stream(0, "match"))

    assert matched.vouched.all()
    assert [ONCE.cohorts[leaf] for leaf in matched.leaf] == [(RIGHT, LEFT)[label] for label in labels]


def test_a_request_for_a_cohort_that_has_been_partitioned_since_leads_below_it() -> None:
    labels = stream(0, "labels").integers(0, 2, 50)
    matched = ByRequest().match(TWICE, np.arange(50), asked(labels, ONCE), stream(0, "match"))
    leaves = np.array(TWICE.cohorts)[matched.leaf]

    assert set(leaves[labels == 0]) == {"0.1"}
    assert set(leaves[labels == 1]) == {"0.0.0", "0.0.1"}
    np.testing.assert_array_equal(matched.vouched, labels == 0)


def test_a_cohort_this_server_never_had_counts_as_no_preference() -> None:
    labels = np.ones(200, dtype=np.int64)
    requests = asked(labels, ONCE)
    assert set(requests.cohort.tolist()) == {ONCE.index[LEFT]}
    matched = ByRequest().match(CohortTree(), np.arange(200), requests, stream(0, "match"))

    assert not matched.vouched.any()
    np.testing.assert_array_equal(matched.leaf, np.zeros(200))


@pytest.mark.parametrize("position", [-(2**40), -2, -1, 3, 2**40])
def test_a_position_that_means_nothing_counts_as_no_preference(position: int) -> None:
    requests = replace(asked(np.ones(300, dtype=np.int64), ONCE), cohort=np.full(300, position))
    matched = ByRequest().match(ONCE, np.arange(300), requests, stream(0, "match"))

    assert not matched.vouched.any()
    assert {ONCE.cohorts[leaf] for leaf in matched.leaf} == {LEFT, RIGHT}


# Settings.


def test_a_federation_without_participants_or_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="total_participants: expected at least 1, got 0"):
        replace(RULES, total_participants=0)
    with pytest.raises(ValueError, match="total_rounds: expected at least 1, got 0"):
        replace(RULES, total_rounds=0)
