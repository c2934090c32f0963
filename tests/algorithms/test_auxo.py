from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from auxo.algorithms.auxo import (
    AuxoSettings,
    CohortState,
    Folded,
    Participants,
    RateScaling,
    Returned,
    StepLengths,
    close_round,
    fold_updates,
    folds_for,
    rate_scale,
    server_step,
)
from auxo.algorithms.base import Never
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg
from auxo.core.clustering import ClusteringSettings
from auxo.core.cohort_tree import CohortTree
from auxo.core.fingerprint import Fingerprint
from auxo.core.grouping import alignments
from auxo.core.partition import Keep, Outlook, PartitionLimits, RoundEvidence, Verdict
from auxo.core.rewards import RewardSettings
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array, IntArray
from auxo.protocol.codec import to_bytes

N_PARAMS = 6
LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
FINGERPRINT = Fingerprint(N_PARAMS)
WINDOW = PartitionLimits(begin=0.0, end=0.5)


@dataclass(frozen=True)
class Asks:
    """Never partitions, and tells in its verdict how many rounds of evidence it was shown."""

    gain: float | None = None
    explains: bool = False
    limits: PartitionLimits = WINDOW
    window: int = 2

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        return Verdict(Keep(), self.gain, float(len(evidence)), 1, self.explains)


SETTINGS = AuxoSettings(
    clustering=ClusteringSettings(clusters=2),
    rewards=RewardSettings(min_known=3),
    criterion=Asks(),
    start_round=2,
    aggregator=FedAvg(),
)
FRESH = CohortState(server=FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32)))
STARTED = replace(FRESH, round=4)
OUTLOOK = Outlook(progress=0.2, total_participants=20, cohorts=1, check_ins=40.0)


def requests(n: int, cohort: CohortId = ROOT) -> Requests:
    """Return requests of clients whose first choice is ``cohort``, with a reward and labels."""
    return Requests(
        tree=TREE,
        cohort=np.full(n, TREE.index[cohort]),
        cluster=np.arange(n) % 2,
        cluster_by_fold=np.stack([np.arange(n) % 2, 1 - np.arange(n) % 2], axis=1),
        generation=np.full(n, 3),
        reward=np.full(n, 0.4),
        ranked_first=np.ones(n, dtype=np.bool_),
        supported=np.ones(n, dtype=np.bool_),
        participations=np.arange(n),
    )


def brought(
    n: int, *, known: int = 0, labels: IntArray | None = None, fold: IntArray | None = None, generation: int = 1
) -> Participants:
    """Return participants of whom the first ``known`` are members."""
    label = np.full(n, -1) if labels is None else labels
    return Participants(
        vouched=np.arange(n) < known,
        known=np.arange(n) < known,
        label=label,
        label_by_fold=np.stack([label, label], axis=1),
        generation=np.full(n, generation),
        fold=np.full(n, -1) if fold is None else fold,
    )


def alike(n: int, seed: int = 0) -> Float32Array:
    """Return updates of clients that agree but for some noise."""
    noise = stream(seed, "alike").standard_normal((n, N_PARAMS))
    updates: Float32Array = (np.eye(N_PARAMS)[0] + 0.15 * noise).astype(np.float32)
    return updates


def of_two_groups(n: int, seed: int = 0) -> Float32Array:
    updates: Float32Array = alike(n, seed) + np.eye(N_PARAMS, dtype=np.float32)[1 + np.arange(n) % 2]
    return updates


def answers(updates: Float32Array, late: Sequence[int] = ()) -> list[Returned]:
    return [Returned(row, update, 3 + row, late=row in late) for row, update in enumerate(updates)]


def folded(
    returned: Sequence[Returned], participants: Participants, *, alone: bool = False, settings: AuxoSettings = SETTINGS
) -> Folded:
    return fold_updates(iter(returned), participants, FINGERPRINT, settings, alone)


def mean_of(folds: Folded) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    assert folds.mean is not None
    return folds.mean


# What participants bring along.


def test_the_held_out_label_is_that_of_the_half_that_is_not_trained_on() -> None:
    participants = replace(
        brought(4, fold=np.array([0, 1, -1, 0])), label_by_fold=np.array([[7, 8], [7, 8], [7, 8], [7, -1]])
    )

    assert participants.held_out_label().tolist() == [8, 7, -1, -1]


def test_a_request_for_the_cohort_itself_brings_its_labels_along() -> None:
    participants = Participants.of(requests(4), np.array([3, 1]), np.ones(2, dtype=np.bool_), ROOT, np.array([0, 1]))

    assert participants.label.tolist() == [1, 1]
    assert participants.label_by_fold.tolist() == [[1, 0], [1, 0]]
    assert participants.generation.tolist() == [3, 3]
    assert participants.fold.tolist() == [0, 1]


@pytest.mark.parametrize("cohort", [LEFT, RIGHT, CohortId("0.7")])
def test_a_label_for_another_cohort_says_nothing_here(cohort: CohortId) -> None:
    rows = np.arange(3)
    participants = Participants.of(requests(3), rows, np.ones(3, dtype=np.bool_), cohort, np.full(3, -1))

    assert participants.label.tolist() == participants.generation.tolist() == [-1, -1, -1]
    assert (participants.label_by_fold == -1).all()


def test_a_request_without_a_preference_brings_nothing_even_to_a_cohort_the_tree_does_not_know() -> None:
    nothing = replace(requests(3), cohort=np.full(3, -1))
    participants = Participants.of(nothing, np.arange(3), np.ones(3, dtype=np.bool_), CohortId("0.7"), np.full(3, -1))

    assert participants.label.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("vouched", "ranked_first", "reward", "known"),
    [
        (True, True, 0.4, True),
        (False, True, 0.4, False),
        (True, False, 0.4, False),
        (True, True, 0.0, False),
        (True, True, -0.4, False),
    ],
)
def test_members_come_by_their_own_request_as_first_choice_with_a_positive_reward(
    vouched: bool, ranked_first: bool, reward: float, known: bool
) -> None:
    asked = replace(requests(1, LEFT), ranked_first=np.array([ranked_first]), reward=np.array([reward]))
    participants = Participants.of(asked, np.arange(1), np.array([vouched]), LEFT, np.full(1, -1))

    assert participants.known.tolist() == [known]


@pytest.mark.parametrize("vouched", [False, True])
def test_whom_a_label_in_an_ancestor_leads_here_is_a_member_whatever_the_ancestor_gave(vouched: bool) -> None:
    asked = replace(requests(1, ROOT), reward=np.array([0.0]))
    participants = Participants.of(asked, np.arange(1), np.array([vouched]), LEFT, np.full(1, -1))

    assert participants.known.tolist() == [vouched]


def test_taking_rows_takes_them_of_every_column() -> None:
    participants = brought(5, known=2, labels=np.arange(5), fold=np.arange(5) % 2)
    some = participants.take(np.array([4, 0]))

    assert some.label.tolist() == [4, 0]
    assert some.label_by_fold.tolist() == [[4, 4], [0, 0]]
    assert some.fold.tolist() == [0, 0]
    assert some.known.tolist() == some.vouched.tolist() == [False, True]


# Halves of the samples.

VISITS = np.array([0, 1, 2, 3, 10, 11])
EVERYBODY = replace(SETTINGS, cross_fit_share=1.0)


def folds(settings: AuxoSettings, state: CohortState, progress: float) -> list[int]:
    """Return the halves of clients with these numbers of visits."""
    return [int(fold) for fold in folds_for(settings, state, progress, np.arange(len(VISITS)), VISITS)]


def test_halves_alternate_from_visit_to_visit() -> None:
    assert folds(EVERYBODY, STARTED, 0.2) == [0, 1, 0, 1, 0, 1]


def test_about_so_many_clients_judge_and_always_the_same_ones() -> None:
    clients, some = np.arange(10_000), replace(SETTINGS, cross_fit_share=0.3)
    first, second = (folds_for(some, STARTED, 0.2, clients, np.full(10_000, visit)) for visit in (0, 1))
    assert set(first.tolist()) == {-1, 0}
    assert set(second.tolist()) == {-1, 1}
    np.testing.assert_array_equal(first < 0, second < 0)
    assert (first >= 0).mean() == pytest.approx(0.3, abs=0.03)
    nobody = replace(SETTINGS, cross_fit_share=0.0)
    assert (folds_for(nobody, STARTED, 0.2, clients, clients) == -1).all()


def test_a_settled_cohort_trains_on_all_samples() -> None:
    assert set(folds(EVERYBODY, replace(STARTED, settled=True), 0.2)) == {-1}


@pytest.mark.parametrize(
    ("settings", "round_", "progress"),
    [
        (SETTINGS, 0, 0.0),  # the first round, and the second is the first that is clustered
        (SETTINGS, 4, 0.51),
        (replace(SETTINGS, cross_fit=False), 4, 0.2),
        (replace(SETTINGS, criterion=Never()), 4, 0.2),
    ],
    ids=["before clustering", "after the window", "without cross-fitting", "without partitions"],
)
def test_everybody_trains_on_all_samples_where_no_partition_is_in_question(
    settings: AuxoSettings, round_: int, progress: float
) -> None:
    assert set(folds(replace(settings, cross_fit_share=1.0), replace(FRESH, round=round_), progress)) == {-1}


def test_halves_begin_with_the_first_round_that_is_clustered() -> None:
    assert folds(EVERYBODY, replace(FRESH, round=1), 0.1) == [0, 1, 0, 1, 0, 1]


def test_halves_end_with_the_last_round_in_which_a_partition_is_possible() -> None:
    assert folds(EVERYBODY, STARTED, 0.5) == [0, 1, 0, 1, 0, 1]


# The rate of the server.


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", 0.5), ("linear", 0.25)])
def test_the_rate_follows_the_share_as_it_is_told_to(scaling: RateScaling, factor: float) -> None:
    assert rate_scale(scaling, 5, 20) == pytest.approx(factor)
    assert rate_scale(scaling, 20, 20) == 1.0


# Folding.


def test_the_mean_is_weighted_by_examples_unless_it_is_told_otherwise() -> None:
    updates = alike(5)
    uniform = replace(SETTINGS, weighting="uniform")

    by_examples = np.average(updates.astype(np.float64), axis=0, weights=np.arange(3, 8))
    np.testing.assert_allclose(mean_of(folded(answers(updates), brought(5))), by_examples, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        mean_of(folded(answers(updates), brought(5), settings=uniform)),
        updates.astype(np.float64).mean(axis=0),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_newcomer_far_from_the_members_is_kept_out_and_one_that_fits_is_let_in() -> None:
    members, fitting = alike(6), np.mean(alike(6), axis=0, dtype=np.float32)
    returned = answers(np.stack([*members, -fitting, fitting]))
    result = folded(returned, brought(8, known=6))

    assert result.aggregated.tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert result.misfits == 1
    assert result.rows.tolist() == list(range(8))
    only_fitting = folded([*returned[:6], returned[7]], brought(8, known=6))
    np.testing.assert_array_equal(mean_of(result), mean_of(only_fitting))


def test_a_member_is_admitted_however_far_from_the_others() -> None:
    returned = answers(np.stack([*alike(6), -alike(1)[0]]))

    assert folded(returned, brought(7, known=7)).misfits == 0


@pytest.mark.parametrize(
    ("known", "alone", "admit_misfits"),
    [(2, False, False), (6, True, False), (6, False, True)],
    ids=["too few members to compare with", "a single cohort", "misfits admitted"],
)
def test_everybody_is_admitted_where_there_is_nothing_to_compare_with(
    known: int, alone: bool, admit_misfits: bool
) -> None:
    returned = answers(np.stack([*alike(6), -alike(1)[0]]))
    result = folded(
        returned, brought(7, known=known), alone=alone, settings=replace(SETTINGS, admit_misfits=admit_misfits)
    )

    assert (result.used, result.misfits) == (7, 0)


def test_members_that_come_late_do_not_open_the_gate() -> None:
    returned = answers(np.stack([*alike(6), -alike(1)[0]]), late=[0, 1, 2, 3])
    result = folded(returned, brought(7, known=6))

    assert result.misfits == 0  # two members in time are too few to compare with
    assert result.aggregated.tolist() == [4, 5, 6]


def test_late_answers_are_in_the_fingerprints_but_not_in_the_mean() -> None:
    returned = answers(alike(6), late=[1, 4])
    result = folded(returned, brought(6))
    in_time = [answer for answer in returned if not answer.late]

    assert result.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert result.late.tolist() == [False, True, False, False, True, False]
    assert result.aggregated.tolist() == [0, 2, 3, 5]
    np.testing.assert_array_equal(mean_of(result), mean_of(folded(in_time, brought(6))))


def test_nothing_to_aggregate_gives_no_mean() -> None:
    refused = [Returned(0, np.full(N_PARAMS, np.nan, dtype=np.float32), 3), Returned(1, None, 3)]
    for returned in ([], refused, answers(alike(2), late=[0, 1])):
        result = folded(returned, brought(2))

        assert result.mean is None
        assert result.used == 0
    assert folded(refused, brought(2)).rejected == ((0, "NON_FINITE"), (1, "SCHEMA_MISMATCH"))


@examples(max_examples=20)
@given(members=st.permutations(range(6)), newcomers=st.permutations(range(6, 12)))
def test_the_order_of_members_and_that_of_newcomers_moves_the_mean_by_rounding_only(
    members: list[int], newcomers: list[int]
) -> None:
    updates = np.concatenate([alike(9), -alike(3, seed=1)])
    in_order = answers(updates)
    shuffled = folded([in_order[row] for row in (*members, *newcomers)], brought(12, known=6))
    straight = folded(in_order, brought(12, known=6))

    assert straight.misfits >= 3
    assert sorted(shuffled.aggregated) == sorted(straight.aggregated)
    np.testing.assert_allclose(mean_of(shuffled), mean_of(straight), rtol=1e-5, atol=1e-6)  # float32


def test_updates_are_left_as_they_came() -> None:
    updates = alike(6)
    before = updates.copy()
    folded(answers(updates), brought(6, known=3))

    np.testing.assert_array_equal(updates, before)


# Closing.


def test_an_empty_mean_moves_nothing_and_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at least one usable update"):
        server_step(FRESH, folded([], brought(0)), SETTINGS, 1.0)


def test_the_server_steps_by_the_scaled_mean_and_counts_the_round() -> None:
    result = folded(answers(alike(6)), brought(6))
    moved = server_step(FRESH, result, SETTINGS, 0.5)

    np.testing.assert_allclose(moved.server.weights, 0.5 * mean_of(result), rtol=1e-6)
    assert moved.round == 1
    np.testing.assert_array_equal(FRESH.server.weights, np.zeros(N_PARAMS))


def test_late_participants_are_clustered_and_answered_but_not_judged() -> None:
    first = folded(answers(of_two_groups(12)), brought(12), alone=True)
    started = close_round(STARTED, brought(12), first, OUTLOOK, SETTINGS, stream(0, "cluster"))
    labels = started.similarity.argmax(axis=1)
    assert set(zip(labels.tolist(), [row % 2 for row in range(12)], strict=True)) in (
        {(0, 0), (1, 1)},
        {(0, 1), (1, 0)},
    )

    again = brought(12, labels=labels, fold=np.arange(12) // 2 % 2)
    later = folded(answers(of_two_groups(12, seed=1), late=[3, 8, 9]), again, alone=True)
    outcome = close_round(started.state, again, later, OUTLOOK, SETTINGS, stream(1, "cluster"))

    assert outcome.similarity.argmax(axis=1).tolist() == labels.tolist()
    assert (outcome.labelled, outcome.judged) == (12, 9)


def test_late_participants_move_nothing_that_the_others_are_clustered_or_judged_by() -> None:
    first = folded(answers(of_two_groups(12)), brought(12), alone=True)
    started = close_round(STARTED, brought(12), first, OUTLOOK, SETTINGS, stream(0, "cluster"))
    again = brought(12, labels=np.arange(12) % 2, fold=np.zeros(12, dtype=np.int64))
    returned = answers(of_two_groups(12, seed=1), late=[3, 8, 9])
    in_time = [answer for answer in returned if not answer.late]
    outcomes = [
        close_round(started.state, again, folded(which, again, alone=True), OUTLOOK, SETTINGS, stream(1, "cluster"))
        for which in (returned, in_time)
    ]

    assert to_bytes(outcomes[0].state) == to_bytes(outcomes[1].state)
    np.testing.assert_array_equal(outcomes[0].similarity[~outcomes[0].folded.late], outcomes[1].similarity)


def test_the_evidence_is_how_alike_those_judged_are() -> None:
    first = folded(answers(of_two_groups(12)), brought(12), alone=True)
    started = close_round(STARTED, brought(12), first, OUTLOOK, SETTINGS, stream(0, "cluster"))
    labels = np.where(np.arange(12) < 9, np.arange(12) % 2, -1)  # three bring none
    again = brought(12, labels=labels, fold=np.zeros(12, dtype=np.int64))
    result = folded(answers(of_two_groups(12, seed=1)), again, alone=True)
    seen = close_round(started.state, again, result, OUTLOOK, SETTINGS, stream(1, "cluster")).state.evidence[-1]
    within, overall = alignments(result.directions[:9], labels[:9], 2)

    assert seen.judged == 9
    assert seen.alignments == tuple(within.tolist())
    assert seen.alignment == overall
    assert seen.alignments[0] > seen.alignment


def test_labels_of_another_start_of_the_clustering_are_not_judged() -> None:
    first = folded(answers(of_two_groups(12)), brought(12), alone=True)
    started = close_round(STARTED, brought(12), first, OUTLOOK, SETTINGS, stream(0, "cluster"))
    stale = brought(12, labels=np.arange(12) % 2, fold=np.zeros(12, dtype=np.int64), generation=7)
    outcome = close_round(started.state, stale, folded(answers(of_two_groups(12)), stale), OUTLOOK, SETTINGS, stream(1))

    assert (outcome.labelled, outcome.judged) == (0, 0)


@pytest.mark.parametrize(
    ("state", "progress", "settings"),
    [
        (replace(FRESH, round=1), 0.2, SETTINGS),
        (STARTED, 0.6, SETTINGS),
        (STARTED, 0.2, replace(SETTINGS, criterion=Never())),
    ],
    ids=["before clustering", "after the window", "without partitions"],
)
def test_nobody_is_clustered_where_no_partition_is_in_question(
    state: CohortState, progress: float, settings: AuxoSettings
) -> None:
    result = folded(answers(of_two_groups(12)), brought(12), alone=True)
    outcome = close_round(state, brought(12), result, replace(OUTLOOK, progress=progress), settings, stream(0))

    assert np.isnan(outcome.similarity).all()
    assert outcome.similarity.shape == (12, 2)
    assert outcome.state.clustering == state.clustering
    assert outcome.state.evidence == ()


def test_no_more_evidence_is_kept_than_the_criterion_wants() -> None:
    state = STARTED
    seen = []
    for number in range(4):
        result = folded(answers(of_two_groups(12, seed=number)), brought(12), alone=True)
        outcome = close_round(state, brought(12), result, OUTLOOK, SETTINGS, stream(number))
        state = outcome.state
        seen.append(outcome.verdict.needed)

    assert seen == [1, 2, 2, 2]
    assert len(state.evidence) == 2


def test_labels_that_explain_nothing_for_long_are_thrown_away_with_their_evidence() -> None:
    settings = replace(SETTINGS, clustering=ClusteringSettings(clusters=2, restart_after=2), criterion=Asks(gain=-0.1))
    labelled = brought(12, labels=np.arange(12) % 2, fold=np.zeros(12, dtype=np.int64))
    state = STARTED
    restarted = []
    for number in range(3):
        result = folded(answers(of_two_groups(12, seed=number)), labelled, alone=True)
        outcome = close_round(state, labelled, result, OUTLOOK, settings, stream(number))
        state = outcome.state
        restarted.append(outcome.restarted)

    assert restarted == [False, False, True]  # the first round only starts the clustering and judges nobody
    assert state.clustering.centres is None
    assert state.evidence == ()


@pytest.mark.parametrize(
    ("most_starts", "participants", "rounds"),
    [(1, 60, 2), (2, 60, 4), (0, 60, None), (1, 20, None)],
    ids=["after the first", "after the second", "never", "never with few that were judged"],
)
def test_cohort_stops_looking_when_its_labels_have_explained_nothing(
    most_starts: int, participants: int, rounds: int | None
) -> None:
    clustering = ClusteringSettings(clusters=2, restart_after=1, most_starts=most_starts)
    settings = replace(SETTINGS, clustering=clustering, criterion=Asks(gain=-0.1))
    state, settled = STARTED, []
    for number in range(6):
        labelled = replace(
            brought(participants, labels=np.arange(participants) % 2, fold=np.zeros(participants, dtype=np.int64)),
            generation=np.full(participants, state.clustering.generation),
        )
        result = folded(answers(of_two_groups(participants, seed=number)), labelled, alone=True)
        state = close_round(state, labelled, result, OUTLOOK, settings, stream(number)).state
        settled.append(state.settled)

    # The first round of a start judges nobody.
    assert settled == [rounds is not None and number + 1 >= rounds for number in range(6)]


def test_cohort_whose_model_has_taken_off_starts_anew_before_it_stops_looking() -> None:
    clustering = ClusteringSettings(clusters=2, restart_after=1, most_starts=1)
    settings = replace(SETTINGS, clustering=clustering, criterion=Asks(gain=-0.1))
    state, seen = STARTED, []
    for number, length in enumerate((1.0, 2.0, 2.0, 2.0)):
        labelled = replace(
            brought(60, labels=np.arange(60) % 2, fold=np.zeros(60, dtype=np.int64)),
            generation=np.full(60, state.clustering.generation),
        )
        result = folded(answers(of_two_groups(60, seed=number)), labelled, alone=True)
        assert result.mean is not None
        result = replace(result, mean=result.mean * (length / np.linalg.norm(result.mean)))
        outcome = close_round(state, labelled, result, OUTLOOK, settings, stream(number))
        state = outcome.state
        seen.append((outcome.restarted, state.settled))

    assert seen == [(False, False), (True, False), (False, False), (True, True)]


@pytest.mark.parametrize(("lengths", "has_grown"), [((1, 2, 1), True), ((1, 1.4, 1), False), ((5, 1, 2), False)])
def test_a_model_takes_off_when_its_steps_grow(lengths: tuple[float, ...], has_grown: bool) -> None:
    steps = StepLengths()
    for number, length in enumerate(lengths):
        steps = steps.after(length, has_started=number == 0)

    assert steps.has_grown is has_grown
    assert not steps.after(1.0, has_started=True).has_grown


@pytest.mark.parametrize("criterion", [Asks(gain=-0.1, explains=True), Asks(gain=None)], ids=["explain", "not judged"])
def test_labels_that_explain_something_or_cannot_be_judged_yet_are_kept(criterion: Asks) -> None:
    settings = replace(SETTINGS, clustering=ClusteringSettings(clusters=2, restart_after=1), criterion=criterion)
    labelled = brought(12, labels=np.arange(12) % 2, fold=np.zeros(12, dtype=np.int64))
    state = STARTED
    for number in range(4):
        result = folded(answers(of_two_groups(12, seed=number)), labelled, alone=True)
        outcome = close_round(state, labelled, result, OUTLOOK, settings, stream(number))
        state = outcome.state

        assert not outcome.restarted
    assert state.clustering.generation == 1


def test_rewards_are_given_only_where_there_are_several_cohorts() -> None:
    result = folded(answers(alike(6)), brought(6, known=6))
    alone = close_round(STARTED, brought(6, known=6), result, OUTLOOK, SETTINGS, stream(0))
    several = replace(OUTLOOK, cohorts=2)
    together = close_round(STARTED, brought(6, known=6), result, several, SETTINGS, stream(0))

    assert np.isnan(alone.instant_reward).all()
    assert (np.abs(together.instant_reward) <= 1).all()


def test_feedback_has_a_row_for_each_valid_update_in_the_order_of_its_participant() -> None:
    spoilt = answers(of_two_groups(12))
    spoilt[4] = Returned(4, None, 3)
    participants = brought(12, fold=np.arange(12) % 2)
    result = folded(spoilt, participants, alone=True)
    outcome = close_round(STARTED, participants, result, OUTLOOK, SETTINGS, stream(0))
    feedback = outcome.feedback(ROOT, TREE, participants)

    assert result.rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert feedback.fold.tolist() == [row % 2 for row in result.rows]
    assert len(feedback.instant_reward) == len(feedback.similarity) == 11
    assert (feedback.cohort, feedback.tree, feedback.generation) == (ROOT, TREE, 1)
