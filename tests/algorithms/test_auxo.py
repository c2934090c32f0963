from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, AuxoMemory, StepLengths
from auxo.core import asking
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg, RateScaling
from auxo.core.asking import LEAST_LOSS, Answer
from auxo.core.claims import Claims
from auxo.core.clustering import ClusteringSettings
from auxo.core.cohort_algorithm import (
    Affinities,
    Closing,
    CohortAlgorithm,
    InitialModel,
    Opening,
    Outcome,
    Participants,
)
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gate import Gate
from auxo.core.gathering import AdmitAll, Gathered, Returned, gather
from auxo.core.grouping import alignments
from auxo.core.matching import ByRequest, CheckIns
from auxo.core.own_state import own
from auxo.core.partition import Keep, Outlook, Partition, PartitionLimits, RoundEvidence, Verdict
from auxo.core.rewards import RewardSettings
from auxo.core.rng import stream
from auxo.core.shares import Sharing
from auxo.core.types import ROOT, CohortId, FloatArray, IntArray
from auxo.protocol.codec import to_bytes
from tests.core.made_updates import FINGERPRINT, N_PARAMS, alike, answers, claims, movement_of, of_two_groups, saying

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
WINDOW = PartitionLimits(begin=0.0, end=0.5)
HALVES = Partition((0, 1), (0.5, 0.5))


@dataclass(frozen=True)
class Asks:
    """Never partitions, and tells in its verdict how many rounds of evidence it was shown."""

    gain: float | None = None
    explains: bool = False
    limits: PartitionLimits = WINDOW
    window: int = 2
    is_hopeless: bool = False

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        return Verdict(Keep(), self.gain, float(len(evidence)), 1, self.explains, self.is_hopeless)


@dataclass(frozen=True)
class Divides:
    """Partitions whenever it is asked."""

    limits: PartitionLimits = WINDOW
    window: int = 2

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        return Verdict(HALVES, 0.7, 0.3, 2, explains=True)


NO_PARTITIONS = Asks(limits=PartitionLimits.closed())
SETTINGS = Auxo(
    clustering=ClusteringSettings(clusters=2),
    rewards=RewardSettings(min_known=3),
    decides="criterion",
    criterion=Asks(),
    start_round=2,
)
FRESH = CohortState(FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32)), memory=AuxoMemory())
STARTED = replace(FRESH, round=4)
OUTLOOK = Outlook(progress=0.2, total_participants=20, cohorts=1, check_ins=40.0)
SEVERAL = replace(OUTLOOK, cohorts=2)


def memory_of(state: CohortState) -> AuxoMemory:
    return own(AuxoMemory, state.memory)


def closing(
    brought: Claims,
    state: CohortState = STARTED,
    outlook: Outlook = OUTLOOK,
    fold: IntArray | None = None,
    share: int = 20,
) -> Closing:
    """Return a round that closes whose participants bring this along."""
    n = len(brought.known)
    folds = np.full(n, -1) if fold is None else fold
    participants = Participants(np.arange(n), (ROOT,), asking.Asks(folds, np.zeros(n, dtype=np.int64)), notes=brought)
    return Closing(ROOT, (state,), participants, outlook, share)


def gathered_for(now: Closing, returned: Sequence[Returned], auxo: Auxo = SETTINGS) -> Gathered:
    sums = [FedAvg().accumulate(now.states[0].server)]
    return gather(iter(returned), FINGERPRINT, auxo.admission(now), sums)


@dataclass(frozen=True)
class Closed:
    """A round that has closed with something to learn from."""

    outcome: Outcome
    gathered: Gathered

    @property
    def state(self) -> CohortState:
        return self.outcome.states[0]

    @property
    def memory(self) -> AuxoMemory:
        return memory_of(self.state)

    @property
    def told(self) -> Affinities:
        assert self.outcome.affinities is not None
        return self.outcome.affinities

    @property
    def similarity(self) -> FloatArray:
        return self.told.similarity


def close(now: Closing, returned: Sequence[Returned], auxo: Auxo = SETTINGS, seed: int = 0) -> Closed:
    gathered = gathered_for(now, returned, auxo)
    outcome = auxo.close(now, gathered, FedAvg(), stream(seed, "cluster"))
    assert outcome is not None
    return Closed(outcome, gathered)


def started() -> CohortState:
    """Return a cohort that has begun to cluster two groups, in turn."""
    return close(closing(claims(12)), answers(of_two_groups(12))).state


# What it is.


def test_auxo_is_a_cohort_algorithm_whose_clients_choose_and_keep_records() -> None:
    algorithm: CohortAlgorithm = SETTINGS

    assert isinstance(algorithm, CohortAlgorithm)
    assert algorithm.matching == ByRequest(compares=True)
    assert SETTINGS.client_half.affinity == SETTINGS.affinity
    assert SETTINGS.client_half.clusters == 2


def test_auxo_begins_with_one_cohort_that_knows_nothing_and_every_leaf_opens_rounds() -> None:
    def initial(number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.full(3, number, dtype=np.float32)

    draw: InitialModel = initial
    start = SETTINGS.begin(draw)

    assert start.partition is None
    assert [model.tolist() for model in start.models] == [[0.0, 0.0, 0.0]]
    assert SETTINGS.memory(None) == SETTINGS.memory(started()) == AuxoMemory()
    assert SETTINGS.openers(TREE) == (LEFT, RIGHT)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("cross_fit_share", 1.1, r"a value in \[0, 1\], got 1.1"),
        ("cross_fit_share", -0.1, r"a value in \[0, 1\], got -0.1"),
        ("start_round", 0, "at least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused_by_name(name: str, value: float, expected: str) -> None:
    setting: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=f"{name}: expected {expected}"):
        Auxo(**setting)


# The plan.


def opening(n: int, known: Sequence[int] = (), cohort: CohortId = LEFT, state: CohortState = STARTED) -> Opening:
    """Return a round's opening for so many selected clients, some of whom are members."""
    is_known = np.isin(np.arange(n), known)
    silent = Requests.silent(TREE, np.arange(n))
    requests = replace(
        silent,
        cohort=np.where(is_known, TREE.index[cohort], -1),
        cluster=np.where(is_known, np.arange(n) % 2, -1),
        reward=np.where(is_known, 0.5, 0.0),
        ranked_first=is_known,
    )
    return Opening(cohort, TREE, state, CheckIns(100 + np.arange(n), requests), is_known, progress=0.2, share=n)


def test_members_come_first_with_what_they_claim_and_the_half_that_is_theirs() -> None:
    plan = replace(SETTINGS, cross_fit_share=1.0).plan(opening(6, known=[2, 5]))
    brought = own(Claims, plan.notes)

    assert plan.rows.tolist() == [2, 5, 0, 1, 3, 4]
    assert plan.asks.fold.tolist() == [0, 1, 0, 1, 1, 0]  # by their visits, which are their rows here
    assert brought.known.tolist() == [True, True, False, False, False, False]
    assert brought.label.tolist() == [0, 1, -1, -1, -1, -1]
    assert plan.offered == (LEFT, RIGHT)
    assert plan.asks.model.tolist() == [LEAST_LOSS] * 6  # no comparison has named it for anybody


@pytest.mark.parametrize("late_feedback", [False, True])
def test_the_late_are_heard_where_they_are_to_have_feedback(late_feedback: bool) -> None:
    assert replace(SETTINGS, late_feedback=late_feedback).plan(opening(3)).hears_late is late_feedback


def test_a_plan_for_nobody_is_empty() -> None:
    plan = SETTINGS.plan(opening(0))

    assert plan.rows.shape == plan.asks.fold.shape == plan.asks.model.shape == (0,)


# Halves of the samples.

VISITS = np.array([0, 1, 2, 3, 10, 11])
EVERYBODY = replace(SETTINGS, cross_fit_share=1.0)


def folds(auxo: Auxo, state: CohortState, progress: float) -> list[int]:
    """Return the halves of clients with these numbers of visits."""
    found = auxo.folds(memory_of(state), state.round, progress, np.arange(len(VISITS)), VISITS)
    return [int(fold) for fold in found]


def test_halves_alternate_from_visit_to_visit() -> None:
    assert folds(EVERYBODY, STARTED, 0.2) == [0, 1, 0, 1, 0, 1]


def test_about_so_many_clients_judge_and_always_the_same_ones() -> None:
    clients, some = np.arange(10_000), replace(SETTINGS, cross_fit_share=0.3)
    first, second = (some.folds(AuxoMemory(), 4, 0.2, clients, np.full(10_000, visit)) for visit in (0, 1))
    assert set(first.tolist()) == {-1, 0}
    assert set(second.tolist()) == {-1, 1}
    np.testing.assert_array_equal(first < 0, second < 0)
    assert (first >= 0).mean() == pytest.approx(0.3, abs=0.03)
    nobody = replace(SETTINGS, cross_fit_share=0.0)
    assert (nobody.folds(AuxoMemory(), 4, 0.2, clients, clients) == -1).all()


def test_a_settled_cohort_trains_on_all_samples() -> None:
    assert set(folds(EVERYBODY, replace(STARTED, memory=AuxoMemory(settled=True)), 0.2)) == {-1}


@pytest.mark.parametrize(
    ("auxo", "round_", "progress"),
    [
        (SETTINGS, 0, 0.0),  # the first round, and the second is the first that is clustered
        (SETTINGS, 4, 0.51),
        (replace(SETTINGS, cross_fit=False), 4, 0.2),
        (replace(SETTINGS, criterion=NO_PARTITIONS), 4, 0.2),
    ],
    ids=["before clustering", "after the window", "without cross-fitting", "without partitions"],
)
def test_everybody_trains_on_all_samples_where_no_partition_is_in_question(
    auxo: Auxo, round_: int, progress: float
) -> None:
    assert set(folds(replace(auxo, cross_fit_share=1.0), replace(FRESH, round=round_), progress)) == {-1}


def test_halves_begin_with_the_first_round_that_is_clustered() -> None:
    assert folds(EVERYBODY, replace(FRESH, round=1), 0.1) == [0, 1, 0, 1, 0, 1]


def test_halves_end_with_the_last_round_in_which_a_partition_is_possible() -> None:
    assert folds(EVERYBODY, STARTED, 0.5) == [0, 1, 0, 1, 0, 1]


# Shares.


@dataclass(frozen=True)
class Listens(Asks):
    """Tells in its verdict which share of the participants it was told of."""

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        return Verdict(Keep(), None, -1.0 if outlook.share is None else float(outlook.share), 1, explains=False)


@pytest.mark.parametrize(("sharing", "told", "shares"), [("members", 7.0, (0.75, 0.25)), ("equal", -1.0, (1.0, 1.0))])
def test_the_criterion_is_told_how_children_would_share_the_participants(
    sharing: Sharing, told: float, shares: tuple[float, ...]
) -> None:
    auxo = replace(SETTINGS, criterion=Listens(), sharing=sharing)
    tree = CohortTree().partition(ROOT, (0, 1), (0.75, 0.25))

    assert auxo.shares(tree, tree.leaves) == shares
    assert close(closing(claims(12), share=7), answers(of_two_groups(12)), auxo).outcome.notes.gain_needed == told


# Admission.


@pytest.mark.parametrize(
    ("outlook", "admit_misfits"), [(OUTLOOK, False), (SEVERAL, True)], ids=["a single cohort", "misfits admitted"]
)
def test_everybody_is_admitted_where_nobody_is_to_be_compared(outlook: Outlook, admit_misfits: bool) -> None:
    auxo = replace(SETTINGS, admit_misfits=admit_misfits)
    now = closing(claims(7, known=6), outlook=outlook)
    result = gathered_for(now, answers(np.stack([*alike(6), -alike(1)[0]])), auxo)

    assert isinstance(auxo.admission(now), AdmitAll)
    assert (result.used, result.misfits) == (7, 0)


def test_among_several_cohorts_newcomers_are_compared_with_the_members() -> None:
    now = closing(claims(7, known=6), outlook=SEVERAL)
    result = gathered_for(now, answers(np.stack([*alike(6), -alike(1)[0]])))

    assert isinstance(SETTINGS.admission(now), Gate)
    assert (result.used, result.misfits) == (6, 1)


# Closing.


@pytest.mark.parametrize(
    "returned",
    [[], [Returned(0, Answer(np.zeros(1, dtype=np.float32), 3))], answers(alike(2), late=[0, 1])],
    ids=["nobody", "refused", "too late"],
)
def test_a_round_without_a_usable_update_comes_to_nothing(returned: list[Returned]) -> None:
    now = closing(claims(2))

    assert SETTINGS.close(now, gathered_for(now, returned), FedAvg(), stream(0, "cluster")) is None


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", 0.5**0.5), ("linear", 0.5)])
def test_the_server_steps_by_the_scaled_mean_and_counts_the_round(scaling: RateScaling, factor: float) -> None:
    auxo = replace(SETTINGS, rate_scaling=scaling)
    closed = close(closing(claims(6), FRESH, share=10), answers(alike(6)), auxo)

    np.testing.assert_allclose(closed.state.server.weights, factor * movement_of(closed.gathered), rtol=1e-6)
    assert closed.state.round == 1
    np.testing.assert_array_equal(FRESH.server.weights, np.zeros(N_PARAMS))


def test_closing_leaves_all_that_it_is_given_untouched() -> None:
    state, labels = started(), np.arange(12) % 2
    now = closing(claims(12, known=4, labels=labels), state, SEVERAL, fold=np.zeros(12, dtype=np.int64))
    result = gathered_for(now, answers(of_two_groups(12, seed=1), late=[3]))
    movement = movement_of(result).copy()
    before = to_bytes(now), result.directions.copy(), result.lengths.copy()
    SETTINGS.close(now, result, FedAvg(), stream(0, "cluster"))

    assert to_bytes(now) == before[0]
    np.testing.assert_array_equal(result.directions, before[1])
    np.testing.assert_array_equal(result.lengths, before[2])
    np.testing.assert_array_equal(movement_of(result), movement)


def test_late_participants_are_clustered_and_answered_but_not_judged() -> None:
    first = close(closing(claims(12)), answers(of_two_groups(12)))
    labels = first.similarity.argmax(axis=1)
    assert set(zip(labels.tolist(), [row % 2 for row in range(12)], strict=True)) in (
        {(0, 0), (1, 1)},
        {(0, 1), (1, 0)},
    )

    again = closing(claims(12, labels=labels), first.state, fold=np.arange(12) // 2 % 2)
    later = close(again, answers(of_two_groups(12, seed=1), late=[3, 8, 9]), seed=1)

    assert later.similarity.argmax(axis=1).tolist() == labels.tolist()
    assert (later.outcome.notes.labelled, later.outcome.notes.judged) == (12, 9)


def test_late_participants_move_nothing_that_the_others_are_clustered_or_judged_by() -> None:
    again = closing(claims(12, labels=np.arange(12) % 2), started(), fold=np.zeros(12, dtype=np.int64))
    returned = answers(of_two_groups(12, seed=1), late=[3, 8, 9])
    in_time = [answer for answer in returned if not answer.late]
    one, other = (close(again, which, seed=1) for which in (returned, in_time))

    assert to_bytes(one.state) == to_bytes(other.state)
    np.testing.assert_array_equal(one.similarity[~one.gathered.late], other.similarity)


def test_the_evidence_is_how_alike_those_judged_are() -> None:
    labels = np.where(np.arange(12) < 9, np.arange(12) % 2, -1)  # three bring none
    again = closing(claims(12, labels=labels), started(), fold=np.zeros(12, dtype=np.int64))
    later = close(again, answers(of_two_groups(12, seed=1)), seed=1)
    seen = later.memory.evidence[-1]
    within, overall = alignments(later.gathered.directions[:9], labels[:9], 2)

    assert seen.judged == 9
    assert seen.alignments == tuple(within.tolist())
    assert seen.alignment == overall
    assert seen.alignments[0] > seen.alignment


def test_only_a_label_from_the_half_that_a_participant_does_not_train_on_is_judged() -> None:
    first = close(closing(claims(12)), answers(of_two_groups(12)))
    labels, fold, rows = first.similarity.argmax(axis=1), np.arange(12) // 2 % 2, np.arange(12)
    for half, judged in ((fold, 0), (1 - fold, 12)):
        by_fold = np.full((12, 2), -1)
        by_fold[rows, half] = labels
        brought = replace(claims(12, labels=labels), label_by_fold=by_fold)
        later = close(closing(brought, first.state, fold=fold), answers(of_two_groups(12, seed=1)))

        assert later.outcome.notes.judged == judged
        assert later.outcome.notes.labelled == 12


def test_without_cross_fitting_every_label_is_judged() -> None:
    auxo = replace(SETTINGS, cross_fit=False)
    first = close(closing(claims(12)), answers(of_two_groups(12)), auxo)
    labels = np.where(np.arange(12) < 9, first.similarity.argmax(axis=1), -1)
    later = close(closing(claims(12, labels=labels), first.state), answers(of_two_groups(12, seed=1)), auxo)

    assert later.outcome.notes.judged == later.outcome.notes.labelled == 9


def test_who_has_a_single_sample_is_not_judged_on_what_its_label_comes_from() -> None:
    labels, fold = np.arange(12) % 2, np.zeros(12, dtype=np.int64)
    again = closing(claims(12, labels=labels), started(), fold=fold)
    found = answers(of_two_groups(12, seed=1))
    single = [saying(answer, examples=1) if answer.row < 5 else answer for answer in found]
    two = [saying(answer, examples=2) for answer in found]

    assert close(again, found, seed=1).outcome.notes.judged == 12
    assert close(again, single, seed=1).outcome.notes.judged == 7
    assert close(again, two, seed=1).outcome.notes.judged == 12  # halves of one sample each


def test_labels_of_another_start_of_the_clustering_are_not_judged() -> None:
    stale = claims(12, labels=np.arange(12) % 2, generation=7)
    later = close(closing(stale, started(), fold=np.zeros(12, dtype=np.int64)), answers(of_two_groups(12)), seed=1)

    assert (later.outcome.notes.labelled, later.outcome.notes.judged) == (0, 0)


@pytest.mark.parametrize(
    ("state", "progress", "auxo"),
    [
        (replace(FRESH, round=0), 0.2, SETTINGS),
        (STARTED, 0.6, SETTINGS),
        (STARTED, 0.2, replace(SETTINGS, criterion=NO_PARTITIONS)),
        (replace(STARTED, memory=AuxoMemory(settled=True)), 0.2, SETTINGS),
    ],
    ids=["before clustering", "after the window", "without partitions", "settled"],
)
def test_nobody_is_clustered_where_no_partition_is_in_question(state: CohortState, progress: float, auxo: Auxo) -> None:
    outlook = replace(OUTLOOK, progress=progress)
    closed = close(closing(claims(12), state, outlook), answers(of_two_groups(12)), auxo)

    assert np.isnan(closed.similarity).all()
    assert closed.similarity.shape == (12, 2)
    assert closed.memory.clustering == memory_of(state).clustering
    assert closed.memory.evidence == ()


def test_clustering_begins_with_the_round_it_is_told_to() -> None:
    first = close(closing(claims(12), FRESH), answers(of_two_groups(12)))
    second = close(closing(claims(12), first.state), answers(of_two_groups(12)))

    assert np.isnan(first.similarity).all()
    assert not np.isnan(second.similarity).any()
    assert (first.told.generation, second.told.generation) == (0, 1)


def test_no_more_evidence_is_kept_than_the_criterion_wants() -> None:
    state = STARTED
    seen = []
    for number in range(4):
        closed = close(closing(claims(12), state), answers(of_two_groups(12, seed=number)), seed=number)
        state = closed.state
        seen.append(closed.outcome.notes.gain_needed)

    assert seen == [1, 2, 2, 2]
    assert len(memory_of(state).evidence) == 2


def test_labels_that_explain_nothing_for_long_are_thrown_away_with_their_evidence() -> None:
    auxo = replace(SETTINGS, clustering=ClusteringSettings(clusters=2, restart_after=2), criterion=Asks(gain=-0.1))
    labelled = claims(12, labels=np.arange(12) % 2)
    state = STARTED
    restarted = []
    for number in range(3):
        now = closing(labelled, state, fold=np.zeros(12, dtype=np.int64))
        closed = close(now, answers(of_two_groups(12, seed=number)), auxo, number)
        state = closed.state
        restarted.append(closed.outcome.notes.restarted)

    assert restarted == [False, False, True]  # the first round only starts the clustering and judges nobody
    assert memory_of(state).clustering.centres is None
    assert memory_of(state).evidence == ()


@pytest.mark.parametrize(
    ("most_starts", "participants", "rounds"),
    [(1, 60, 2), (2, 60, 4), (0, 60, None), (1, 20, None)],
    ids=["after the first", "after the second", "never", "never with few that were judged"],
)
def test_cohort_stops_looking_when_its_labels_have_explained_nothing(
    most_starts: int, participants: int, rounds: int | None
) -> None:
    clustering = ClusteringSettings(clusters=2, restart_after=1, most_starts=most_starts)
    auxo = replace(SETTINGS, clustering=clustering, criterion=Asks(gain=-0.1))
    state, settled, gives_up = STARTED, [], []
    for number in range(6):
        labelled = claims(
            participants,
            labels=np.arange(participants) % 2,
            generation=memory_of(state).clustering.generation,
        )
        now = closing(labelled, state, fold=np.zeros(participants, dtype=np.int64))
        closed = close(now, answers(of_two_groups(participants, seed=number)), auxo, number)
        state = closed.state
        settled.append(closed.memory.settled)
        gives_up.append(closed.outcome.notes.gives_up)

    # The first round of a start judges nobody.
    assert settled == [rounds is not None and number + 1 >= rounds for number in range(6)]
    assert gives_up == [number + 1 == rounds for number in range(6)]  # it is said once


def test_cohort_stops_looking_at_once_when_the_criterion_says_that_it_is_hopeless() -> None:
    auxo = replace(SETTINGS, criterion=Asks(is_hopeless=True))
    closed = close(closing(claims(12)), answers(of_two_groups(12)), auxo)
    unclustered = close(closing(claims(12), FRESH), answers(of_two_groups(12)), auxo)

    assert closed.memory.settled
    assert closed.outcome.notes.gives_up
    assert not unclustered.memory.settled


def test_cohort_whose_model_has_taken_off_starts_anew_before_it_stops_looking() -> None:
    clustering = ClusteringSettings(clusters=2, restart_after=1, most_starts=1)
    auxo = replace(SETTINGS, clustering=clustering, criterion=Asks(gain=-0.1))
    state, seen = STARTED, []
    for number, length in enumerate((1.0, 2.0, 2.0, 2.0)):
        labelled = claims(60, labels=np.arange(60) % 2, generation=memory_of(state).clustering.generation)
        now = closing(labelled, state, fold=np.zeros(60, dtype=np.int64))
        result = gathered_for(now, answers(of_two_groups(60, seed=number)), auxo)
        movement = movement_of(result)
        result = replace(result, movements=(movement * (length / np.linalg.norm(movement)),))
        outcome = auxo.close(now, result, FedAvg(), stream(number))
        assert outcome is not None
        (state,) = outcome.states
        seen.append((outcome.notes.restarted, memory_of(state).settled))

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
    auxo = replace(SETTINGS, clustering=ClusteringSettings(clusters=2, restart_after=1), criterion=criterion)
    labelled = claims(12, labels=np.arange(12) % 2)
    state = STARTED
    for number in range(4):
        now = closing(labelled, state, fold=np.zeros(12, dtype=np.int64))
        closed = close(now, answers(of_two_groups(12, seed=number)), auxo, number)
        state = closed.state

        assert not closed.outcome.notes.restarted
    assert memory_of(state).clustering.generation == 1


def test_a_partition_says_in_which_start_of_the_clustering_its_routes_are_numbered() -> None:
    auxo = replace(SETTINGS, criterion=Divides())
    unclustered = close(closing(claims(12), FRESH), answers(of_two_groups(12)), auxo)
    closed = close(closing(claims(12)), answers(of_two_groups(12)), auxo)

    assert unclustered.outcome.decision == replace(HALVES, generation=0)
    assert closed.outcome.decision == replace(HALVES, generation=1)
    assert (closed.outcome.notes.gain, closed.outcome.notes.children) == (0.7, 2)


def test_rewards_are_given_only_where_there_are_several_cohorts() -> None:
    alone = close(closing(claims(6, known=6)), answers(alike(6)))
    together = close(closing(claims(6, known=6), outlook=SEVERAL), answers(alike(6)))

    assert np.isnan(alone.told.instant_reward).all()
    assert (np.abs(together.told.instant_reward) <= 1).all()


def test_a_member_that_comes_late_does_not_move_what_the_others_are_told() -> None:
    members = alike(5)
    without = close(closing(claims(5, known=5), outlook=SEVERAL), answers(members))
    everybody = answers(np.concatenate([members, -members[:1]]), late=[5])
    together = close(closing(claims(6, known=6), outlook=SEVERAL), everybody)

    np.testing.assert_allclose(together.told.instant_reward[:5], without.told.instant_reward)
    assert together.told.instant_reward[5] < 0
    assert (without.outcome.notes.known, together.outcome.notes.known) == (5, 5)


def test_every_valid_update_is_answered_in_the_order_of_its_participant() -> None:
    spoilt = answers(of_two_groups(12))
    spoilt[4] = Returned(4, Answer(np.zeros(1, dtype=np.float32), 3))
    closed = close(closing(claims(12)), spoilt)

    assert closed.gathered.rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert len(closed.told.instant_reward) == len(closed.told.similarity) == 11
    assert closed.told.generation == 1
