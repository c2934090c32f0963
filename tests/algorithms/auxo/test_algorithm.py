"""Auxo between trials: who takes part, who is admitted, and what a round that looks for groups leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, AuxoMemory
from auxo.algorithms.auxo.gate import Gate
from auxo.algorithms.auxo.judges import are_judges
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg, RateScaling
from auxo.core.asking import LEAST_LOSS, Answer, Asks
from auxo.core.claims import Claims
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
from auxo.core.gathering import AdmitAll, Gathered, Returned, gather
from auxo.core.matching import ByRequest, CheckIns
from auxo.core.own_state import own
from auxo.core.partition import Keep, Outlook
from auxo.core.rng import stream
from auxo.core.shares import Sharing
from auxo.core.types import ROOT, CohortId, FloatArray
from auxo.protocol.codec import to_bytes
from tests.algorithms.planned_partitions import CLUSTERS, FOLLOWS
from tests.core.made_updates import FINGERPRINT, N_PARAMS, alike, answers, claims, movement_of, of_two_groups

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
FRESH = CohortState(FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32)), memory=AuxoMemory())
OUTLOOK = Outlook(progress=0.2, total_participants=20, cohorts=1, check_ins=40.0)
SEVERAL = replace(OUTLOOK, cohorts=2)


def memory_of(state: CohortState) -> AuxoMemory:
    return own(AuxoMemory, state.memory)


def closing(
    brought: Claims,
    state: CohortState = FRESH,
    outlook: Outlook = OUTLOOK,
    share: int = 20,
) -> Closing:
    """Return a round that closes whose participants bring this along."""
    n = len(brought.known)
    participants = Participants(np.arange(n), (ROOT,), Asks(np.full(n, -1), np.zeros(n, dtype=np.int64)), notes=brought)
    return Closing(ROOT, (state,), participants, outlook, share)


def gathered_for(now: Closing, returned: Sequence[Returned], auxo: Auxo = FOLLOWS) -> Gathered:
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


def close(now: Closing, returned: Sequence[Returned], auxo: Auxo = FOLLOWS, seed: int = 0) -> Closed:
    gathered = gathered_for(now, returned, auxo)
    outcome = auxo.close(now, gathered, FedAvg(), stream(seed, "cluster"))
    assert outcome is not None
    return Closed(outcome, gathered)


def started() -> CohortState:
    """Return a cohort that has begun to cluster two groups, in turn."""
    return close(closing(claims(12)), answers(of_two_groups(12))).state


# What it is.


def test_auxo_is_a_cohort_algorithm_whose_clients_choose_and_keep_records() -> None:
    algorithm: CohortAlgorithm = FOLLOWS

    assert isinstance(algorithm, CohortAlgorithm)
    assert algorithm.matching == ByRequest(compares=True)
    assert FOLLOWS.client_half.affinity == FOLLOWS.affinity
    assert FOLLOWS.client_half.clusters == 2


def test_auxo_begins_with_one_cohort_that_knows_nothing_and_every_leaf_opens_rounds() -> None:
    def initial(number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.full(3, number, dtype=np.float32)

    draw: InitialModel = initial
    start = FOLLOWS.begin(draw)

    assert start.partition is None
    assert [model.tolist() for model in start.models] == [[0.0, 0.0, 0.0]]
    assert FOLLOWS.memory(None) == FOLLOWS.memory(started()) == AuxoMemory()
    assert FOLLOWS.openers(TREE) == (LEFT, RIGHT)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("judge_share", 1.1, r"a value in \[0, 1\], got 1.1"),
        ("judge_share", -0.1, r"a value in \[0, 1\], got -0.1"),
    ],
)
def test_impossible_settings_are_refused_by_name(name: str, value: float, expected: str) -> None:
    setting: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=f"{name}: expected {expected}"):
        Auxo(**setting)


# The plan.


def opening(n: int, known: Sequence[int] = (), cohort: CohortId = LEFT, state: CohortState = FRESH) -> Opening:
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


def test_members_come_first_with_what_they_claim() -> None:
    plan = FOLLOWS.plan(opening(6, known=[2, 5]))
    brought = own(Claims, plan.notes)

    assert plan.rows.tolist() == [2, 5, 0, 1, 3, 4]
    assert plan.asks.fold.tolist() == [-1] * 6
    assert brought.known.tolist() == [True, True, False, False, False, False]
    assert brought.label.tolist() == [0, 1, -1, -1, -1, -1]
    assert plan.offered == (LEFT, RIGHT)
    assert plan.asks.model.tolist() == [LEAST_LOSS] * 6  # no comparison has named it for anybody


@pytest.mark.parametrize("late_feedback", [False, True])
def test_the_late_are_heard_where_they_are_to_have_feedback(late_feedback: bool) -> None:
    assert replace(FOLLOWS, late_feedback=late_feedback).plan(opening(3)).hears_late is late_feedback


def test_a_plan_for_nobody_is_empty() -> None:
    plan = FOLLOWS.plan(opening(0))

    assert plan.rows.shape == plan.asks.fold.shape == plan.asks.model.shape == (0,)


def test_about_so_many_clients_judge_and_always_the_same_ones() -> None:
    clients = np.arange(10_000)

    assert are_judges(clients, 0.3).mean() == pytest.approx(0.3, abs=0.03)
    np.testing.assert_array_equal(are_judges(clients[::-1], 0.3)[::-1], are_judges(clients, 0.3))
    assert (are_judges(clients, 0.2) <= are_judges(clients, 0.3)).all()
    assert not are_judges(clients, 0.0).any()
    assert are_judges(clients, 1.0).all()


@pytest.mark.parametrize(("sharing", "shares"), [("members", (0.75, 0.25)), ("equal", (1.0, 1.0))])
def test_cohorts_share_participants_as_they_are_told_to(sharing: Sharing, shares: tuple[float, ...]) -> None:
    tree = CohortTree().partition(ROOT, (0, 1), (0.75, 0.25))

    assert replace(FOLLOWS, sharing=sharing).shares(tree, tree.leaves) == shares


# Admission.


@pytest.mark.parametrize(
    ("outlook", "admit_misfits"), [(OUTLOOK, False), (SEVERAL, True)], ids=["a single cohort", "misfits admitted"]
)
def test_everybody_is_admitted_where_nobody_is_to_be_compared(outlook: Outlook, admit_misfits: bool) -> None:
    auxo = replace(FOLLOWS, admit_misfits=admit_misfits)
    now = closing(claims(7, known=6), outlook=outlook)
    result = gathered_for(now, answers(np.stack([*alike(6), -alike(1)[0]])), auxo)

    assert isinstance(auxo.admission(now), AdmitAll)
    assert (result.used, result.misfits) == (7, 0)


def test_among_several_cohorts_newcomers_are_compared_with_the_members() -> None:
    now = closing(claims(7, known=6), outlook=SEVERAL)
    result = gathered_for(now, answers(np.stack([*alike(6), -alike(1)[0]])))

    assert isinstance(FOLLOWS.admission(now), Gate)
    assert (result.used, result.misfits) == (6, 1)


# Closing.


@pytest.mark.parametrize(
    "returned",
    [[], [Returned(0, Answer(np.zeros(1, dtype=np.float32), 3))], answers(alike(2), late=[0, 1])],
    ids=["nobody", "refused", "too late"],
)
def test_a_round_without_a_usable_update_comes_to_nothing(returned: list[Returned]) -> None:
    now = closing(claims(2))

    assert FOLLOWS.close(now, gathered_for(now, returned), FedAvg(), stream(0, "cluster")) is None


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", 0.5**0.5), ("linear", 0.5)])
def test_the_server_steps_by_the_scaled_mean_and_counts_the_round(scaling: RateScaling, factor: float) -> None:
    auxo = replace(FOLLOWS, rate_scaling=scaling)
    closed = close(closing(claims(6), FRESH, share=10), answers(alike(6)), auxo)

    np.testing.assert_allclose(closed.state.server.weights, factor * movement_of(closed.gathered), rtol=1e-6)
    assert closed.state.round == 1
    np.testing.assert_array_equal(FRESH.server.weights, np.zeros(N_PARAMS))


def test_closing_leaves_all_that_it_is_given_untouched() -> None:
    now = closing(claims(12, known=4, labels=np.arange(12) % 2), started(), SEVERAL)
    result = gathered_for(now, answers(of_two_groups(12, seed=1), late=[3]))
    movement = movement_of(result).copy()
    before = to_bytes(now), result.directions.copy(), result.lengths.copy()
    FOLLOWS.close(now, result, FedAvg(), stream(0, "cluster"))

    assert to_bytes(now) == before[0]
    np.testing.assert_array_equal(result.directions, before[1])
    np.testing.assert_array_equal(result.lengths, before[2])
    np.testing.assert_array_equal(movement_of(result), movement)


def test_participants_are_told_their_clusters_the_late_as_well() -> None:
    first = close(closing(claims(12)), answers(of_two_groups(12)))
    labels = first.similarity.argmax(axis=1)
    assert len(set(labels[::2])) == len(set(labels[1::2])) == 1
    assert labels[0] != labels[1]
    again = closing(claims(12, labels=labels), first.state)
    later = close(again, answers(of_two_groups(12, seed=1), late=[3, 8, 9]), seed=1)

    assert later.similarity.argmax(axis=1).tolist() == labels.tolist()
    assert later.outcome.notes.labelled == 12
    assert (first.told.generation, later.told.generation) == (1, 1)


def test_late_participants_move_nothing_that_the_others_are_clustered_by() -> None:
    again = closing(claims(12, labels=np.arange(12) % 2), started())
    returned = answers(of_two_groups(12, seed=1), late=[3, 8, 9])
    in_time = [answer for answer in returned if not answer.late]
    one, other = (close(again, which, seed=1) for which in (returned, in_time))

    assert to_bytes(one.state) == to_bytes(other.state)
    np.testing.assert_array_equal(one.similarity[~one.gathered.late], other.similarity)


def test_labels_of_another_start_of_the_clustering_are_none() -> None:
    stale = claims(12, labels=np.arange(12) % 2, generation=7)

    assert close(closing(stale, started()), answers(of_two_groups(12))).outcome.notes.labelled == 0


def test_nobody_is_clustered_before_the_pool_is_full_nor_where_too_few_would_judge() -> None:
    patient = replace(FOLLOWS, clustering=replace(CLUSTERS, pool_rounds=2))
    first = close(closing(claims(12)), answers(of_two_groups(12)), patient)
    second = close(closing(claims(12), first.state), answers(of_two_groups(12, seed=1)), patient)
    few = close(closing(claims(12), share=FOLLOWS.trial.looks_from - 1), answers(of_two_groups(12)))

    assert np.isnan(first.similarity).all()
    assert np.isnan(few.similarity).all()
    assert first.similarity.shape == few.similarity.shape == (12, 2)
    assert not np.isnan(second.similarity).any()
    assert few.memory == AuxoMemory()


def test_a_partition_is_tried_before_it_is_made() -> None:
    labelled = claims(12, labels=np.arange(12) % 2)
    closed = close(closing(labelled, started()), answers(of_two_groups(12, seed=1)), seed=1)

    assert closed.outcome.decision == Keep()
    assert closed.memory.search.trial is not None
    assert closed.memory.search.trial.dendrogram.branches == 2
    assert closed.outcome.notes.gain is None


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
