"""A trial: who trains and judges which models, whom an update moves, who is heard, and what becomes of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.auxo import OnTrial, Pooling, TrialSettings
from auxo.algorithms.auxo.evidence import OWN, Evidence, Said
from auxo.algorithms.auxo.judges import TRAINS_ON, are_controls, are_judges, seals
from auxo.algorithms.auxo.looking import Candidate
from auxo.algorithms.auxo.number_of_clusters import Structure
from auxo.algorithms.auxo.trial import to_branches
from auxo.algorithms.auxo.views import Prints, View
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg
from auxo.core.asking import BEST_ON_TRIAL, LEAST_LOSS, Answer, Asks, Judgement
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Closing, Opening, Participants, Plan
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Examined, Gathered, Returned, gather
from auxo.core.matching import CheckIns
from auxo.core.partition import Outlook
from auxo.core.types import ROOT, Float32Array, FloatArray, IntArray
from tests.algorithms.auxo.made_trials import JUDGE_SHARE, heard, said_of, server_at, trial_of, two_groups
from tests.core.made_updates import FINGERPRINT, N_PARAMS, claims, movement_of

CLIENTS = 100 + np.arange(60)
SETTINGS = TrialSettings()
JUDGES = are_judges(CLIENTS, JUDGE_SHARE)
HALVES = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
OUTLOOK = Outlook(progress=0.2, total_participants=60, cohorts=1, check_ins=60.0)


# The plan.


def planned(trial: OnTrial, tree: CohortTree | None = None, asks: Asks | None = None) -> Plan:
    """Return who does what in a round of sixty on trial."""
    tree = tree or CohortTree()
    n, leaves = len(CLIENTS), tree.leaves
    here = CheckIns(CLIENTS, Requests.silent(tree, np.zeros(n, dtype=np.int64)))
    state = CohortState(server_at(0.0), 7, memory=trial)
    opening = Opening(leaves[0], tree, state, here, np.zeros(n, dtype=np.bool_), 0.2, n, secret="s")  # noqa: S106
    plan = trial.plan(opening, Plan(np.arange(n), leaves, asks or Asks.plain(n)))
    plan.check(n, tree, len(trial.servers))
    return plan


@pytest.mark.parametrize("everybody", [False, True])
def test_in_the_first_round_everybody_trains_the_cohorts_own_model_and_nobody_judges(everybody: bool) -> None:
    asks = planned(trial_of(0, everybody=everybody)).asks

    assert set(asks.model.tolist()) == {OWN}
    assert asks.judges is None
    assert set(asks.fold.tolist()) == ({0} if everybody else {-1})


def test_afterwards_judges_and_one_half_train_the_cohorts_own_model_and_the_others_the_best_branch() -> None:
    asks = planned(trial_of(1)).asks
    controls = are_controls(CLIENTS, 7)

    assert controls.sum() == 30
    np.testing.assert_array_equal(asks.model == BEST_ON_TRIAL, ~controls & ~JUDGES)
    assert set(asks.model.tolist()) == {OWN, BEST_ON_TRIAL}
    assert set(asks.fold.tolist()) == {-1}
    assert asks.on_trial == 2


@pytest.mark.parametrize("rounds", range(20))
def test_sampled_judges_never_train_a_branch(rounds: int) -> None:
    asks = planned(trial_of(rounds)).asks

    assert not (JUDGES & (asks.model != OWN)).any()
    assert asks.judges is None or not (~JUDGES & (asks.judges.max(axis=1) >= 0)).any()


def test_where_everybody_judges_all_train_on_one_half_of_their_samples_and_half_of_them_a_branch() -> None:
    asks = planned(trial_of(5, everybody=True)).asks

    np.testing.assert_array_equal(asks.model == BEST_ON_TRIAL, ~are_controls(CLIENTS, 7))
    assert set(asks.fold.tolist()) == {0}
    assert asks.judges is not None
    assert (asks.judges == [0, 1, 2]).all()


def test_few_sampled_judges_are_heard_at_first_and_more_later_and_everybody_always() -> None:
    assert [one for one in range(34) if trial_of(one).hears] == [2, 4, 7, 8, *range(13, 17), *range(25, 33)]
    assert [one for one in range(34) if trial_of(one, everybody=True).hears] == list(range(2, 34))
    assert [one for one in range(34) if trial_of(one).is_look] == [2, 4, 8, 16, 32]


def test_a_judge_is_asked_of_all_models_and_once_in_a_trial() -> None:
    told = seals(CLIENTS[JUDGES][:5], 1, "s")
    nobody = Evidence.begin(3, everybody=False)
    some = replace(nobody, said=replace(said_of(two_groups(5, 0.1)), seals=told))
    asked, fewer = (planned(trial_of(2, evidence=one)).asks.judges for one in (nobody, some))

    assert asked is not None
    assert fewer is not None
    np.testing.assert_array_equal(asked.max(axis=1) >= 0, JUDGES)
    assert (asked[JUDGES] == [0, 1, 2]).all()
    np.testing.assert_array_equal(fewer.max(axis=1) >= 0, JUDGES & ~np.isin(CLIENTS, CLIENTS[JUDGES][:5]))


def test_who_compares_leaves_goes_on_doing_so_and_branches_are_numbered_after_these() -> None:
    compares = np.arange(60) < 20
    asks = replace(Asks.plain(60), model=np.where(compares, LEAST_LOSS, OWN))
    plan = planned(trial_of(2, everybody=True), HALVES, asks)

    assert (plan.asks.model[compares] == LEAST_LOSS).all()
    assert (plan.asks.fold == TRAINS_ON).all()  # whatever they choose, their other half has to stay unseen
    assert set(plan.asks.model[~compares].tolist()) == {OWN, BEST_ON_TRIAL}
    assert plan.asks.judges is not None
    assert (plan.asks.judges[compares] == -1).all()
    assert (plan.asks.judges[~compares] == [0, 2, 3]).all()


# Whom an update moves.


def closing(
    trial: OnTrial, n: int = 60, asks: Asks | None = None, brought: Claims | None = None, clients: IntArray = CLIENTS
) -> Closing:
    asked = asks or Asks.plain(n)
    participants = Participants(clients[:n], (ROOT,), asked, notes=brought or claims(n))
    return Closing(
        ROOT,
        (CohortState(server_at(0.0), 7, memory=trial),),
        participants,
        OUTLOOK,
        n,
        secret="s",  # noqa: S106
    )


def gathered(now: Closing, returned: Sequence[Returned], trial: OnTrial) -> Gathered:
    sums = [FedAvg().accumulate(server) for server in (now.states[0].server, *trial.servers)]
    return gather(iter(returned), FINGERPRINT, to_branches(trial, now), sums)


def along(axis: int, n: int) -> Float32Array:
    return np.tile(np.eye(N_PARAMS, dtype=np.float32)[axis], (n, 1))


def examined(update: Float32Array) -> Examined:
    return Examined(Answer(update, 3), FINGERPRINT.of(update), 1.0)


def test_in_the_first_round_an_update_moves_the_own_model_and_the_branch_that_it_is_nearest_to() -> None:
    trial = trial_of(0, everybody=True)
    updates = np.concatenate([along(0, 4), along(1, 2)])
    result = gathered(closing(trial, 6), [Returned(row, Answer(one, 5)) for row, one in enumerate(updates)], trial)

    np.testing.assert_allclose(movement_of(result, 0), updates.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(movement_of(result, 1), updates[0])
    np.testing.assert_allclose(movement_of(result, 2), updates[4])
    assert result.aggregated.tolist() == list(range(6))


def test_updates_of_sampled_judges_move_no_branch() -> None:
    trial = trial_of(0)
    place = to_branches(trial, closing(trial)).place
    moved = [place(row, examined(along(1, 1)[0]), OWN) for row in range(60)]

    assert moved == [OWN if judge else (OWN, 2) for judge in JUDGES]


@pytest.mark.parametrize("everybody", [False, True])
def test_after_the_first_round_an_update_moves_what_was_trained(everybody: bool) -> None:
    trial = trial_of(1, everybody=everybody)
    admission = to_branches(trial, closing(trial))
    update = examined(along(1, 1)[0])

    assert [admission.place(0, update, model) for model in (0, 1, 2)] == [0, 1, 2]


def test_an_update_of_another_leafs_model_moves_nothing() -> None:
    for rounds in (0, 1):
        trial = trial_of(rounds)
        admission = replace(to_branches(trial, closing(trial)), offered=2)
        assert admission.place(0, examined(along(0, 1)[0]), 1) is None


# Who is heard.


def judging(losses: Sequence[float], others: Sequence[float | None] | None = None, model: int = 0) -> Answer:
    told = others or losses
    said = tuple(Judgement(loss, None, other) for loss, other in zip(losses, told, strict=True))
    return Answer(along(0, 1)[0], 10, model=model, judged=said)


def said_in(
    trial: OnTrial,
    answers: Sequence[Answer],
    late: Sequence[int] = (),
    brought: Claims | None = None,
    fold: int = -1,
) -> Said:
    n = len(answers)
    asks = replace(Asks.plain(n), fold=np.full(n, fold), judges=np.tile([0, 1, 2], (n, 1)), on_trial=2)
    now = closing(trial, n, asks, brought)
    return trial.said(now, gathered(now, [Returned(r, a, late=r in late) for r, a in enumerate(answers)], trial))


def test_judges_are_heard_with_what_they_said_on_either_half() -> None:
    said = said_in(trial_of(2), [judging((1.0, 0.5, 0.7), (0.9, 0.4, 0.6)), judging((1.0, 2.0, 3.0))])

    assert said.losses.tolist() == [[1.0, 0.5, 0.7], [1.0, 2.0, 3.0]]
    assert said.other_losses.tolist() == [[0.9, 0.4, 0.6], [1.0, 2.0, 3.0]]
    assert said.samples.tolist() == [5.0, 5.0]
    assert said.rounds.tolist() == [2, 2]
    np.testing.assert_array_equal(said.seals, seals(CLIENTS[:2], 1, "s"))


def test_halves_may_change_places_only_where_a_judge_has_trained_on_neither_alone() -> None:
    answer = judging((1.0, 0.5, 0.7))

    assert said_in(trial_of(2), [answer]).both.tolist() == [True]
    assert said_in(trial_of(2), [answer], fold=0).both.tolist() == [False]
    assert said_in(trial_of(2, everybody=True), [answer], fold=0).both.tolist() == [False]


def test_who_is_late_or_has_a_single_sample_or_no_loss_of_the_own_model_is_not_heard() -> None:
    fine = judging((1.0, 0.5, 0.7))
    answers = [fine, fine, replace(fine, examples=1), judging((np.nan, 0.5, 0.7)), judging((np.inf, 0.5, 0.7)), fine]

    np.testing.assert_array_equal(said_in(trial_of(2), answers, late=[1]).seals, seals(CLIENTS[[0, 5]], 1, "s"))


def test_who_was_not_asked_or_has_not_judged_is_not_heard() -> None:
    trial, silent = trial_of(2), Answer(along(0, 1)[0], 10)
    now = closing(trial, 1)

    assert len(trial.said(now, gathered(now, [Returned(0, judging((1.0, 0.5, 0.7)))], trial)).seals) == 0
    assert len(said_in(trial, [silent, silent]).seals) == 0
    assert said_in(trial, [judging((1.0, 0.5, 0.7)), silent]).losses.tolist() == [[1.0, 0.5, 0.7]]


def test_a_branch_that_has_diverged_for_a_judge_is_not_its_choice() -> None:
    said = said_in(trial_of(2), [judging((1.0, np.nan, 0.7), (1.0, np.nan, 0.6))])

    assert said.losses.tolist() == [[1.0, np.inf, 0.7]]
    assert said.other_losses.tolist() == [[1.0, np.inf, 0.6]]
    assert said.gains(1.0).tolist() == pytest.approx([0.35])  # the mean of both ways


def test_who_tells_one_loss_of_each_model_is_taken_to_have_the_branch_it_has_settled_in_before() -> None:
    app = judging((1.0, 0.5, 0.7), (None, None, None))
    labels = np.array([1, -1, 0, 0, 7])
    brought = replace(claims(5, labels=labels), generation=np.array([1, 1, 1, 9, 1]))
    said = said_in(trial_of(2), [app] * 5, brought=brought, fold=0)

    np.testing.assert_array_equal(said.seals, seals(CLIENTS[[0, 2]], 1, "s"))  # others have settled nowhere here
    assert said.gains(1.0).tolist() == pytest.approx([0.3, 0.5])
    assert said.samples.tolist() == [2.0, 2.0]  # a fifth of what they train on


def test_participants_settle_in_the_branch_that_they_trained_or_found_best() -> None:
    trial = trial_of(2)
    answers = [Answer(along(0, 1)[0], 10, model=2), Answer(along(0, 1)[0], 10), judging((1.0, 0.5, 0.7))]
    now = closing(trial, 3, replace(Asks.plain(3), judges=np.tile([0, 1, 2], (3, 1)), on_trial=2))
    settled = trial.settled(gathered(now, [Returned(row, one) for row, one in enumerate(answers)], trial), 1)

    np.testing.assert_array_equal(settled, [[0, 1, 0], [np.nan] * 3, [1, 0, 0]])


# How it begins and goes on.


def test_every_branch_starts_from_the_cohorts_model_and_the_pool_is_forgotten() -> None:
    nothing = np.zeros((1, 0))
    pooling = Pooling(trials=1, common=Prints(np.zeros((1, N_PARAMS)), nothing, nothing), share=1.0)
    centres = np.eye(N_PARAMS)[:4]
    views = [Candidate(View(), Structure(shown, 2), centres) for shown in (2.0, 1.2, 0.8)]
    trial = OnTrial.begin(pooling, tuple(views), server_at(3.0), FINGERPRINT.blocks, 2)

    assert len(trial.servers) == 2
    assert all(np.array_equal(one.weights, server_at(3.0).weights) for one in trial.servers)
    assert (trial.resumes.trials, trial.resumes.rounds, trial.generation, trial.evidence.everybody) == (2, (), 2, True)
    assert trial.others
    assert not OnTrial.begin(pooling, (views[0], views[2]), server_at(3.0), FINGERPRINT.blocks, 2).others
    assert trial.held_servers() == trial.servers
    assert trial.held_models() == ()


def test_a_round_counts_and_is_looked_at_when_it_is_time() -> None:
    said = said_of(two_groups(6, 0.2))
    before = trial_of(2, everybody=True)
    after = before.moved(before.servers, said, np.array([1, 0, 1]))

    assert (after.rounds, after.evidence.looks) == (3, 1)
    assert after.moved(after.servers, said, np.array([1])).evidence.looks == 1
    assert after.settlers.tolist() == [1, 2]
    assert after.moved(after.servers, said, np.array([], dtype=np.int64)).settlers.tolist() == [1, 2]


# What becomes of it.


def verdict(
    losses: FloatArray, *, rounds: int = 3, everybody: bool = False, scores: FloatArray | None = None
) -> OnTrial:
    """Return a trial whose judges have all said this in its last round."""
    evidence = heard(said_of(losses, scores=scores, round_=rounds - 1), everybody=everybody)
    return trial_of(rounds, branches=losses.shape[1] - 1, clusters=4, evidence=evidence, everybody=everybody)


@pytest.mark.parametrize("everybody", [False, True])
def test_what_judges_are_sure_of_becomes_cohorts_with_the_models_that_they_chose(everybody: bool) -> None:
    losses = two_groups(60, 0.5)
    losses[1::8] = two_groups(1, 0.5)  # some of the others are the first's as well
    partition = verdict(losses, everybody=everybody).partition(server_at(0.0), 9, SETTINGS)

    assert partition is not None
    assert partition.routes == (0, 1, 0, 0)  # there are but two clusters
    assert partition.weights == pytest.approx((38 / 60, 22 / 60))
    assert [one.weights[0] for one in partition.servers] == [1.0, 2.0]
    assert partition.generation == 1


def test_a_branch_that_is_not_missed_goes_where_its_judges_would() -> None:
    losses = two_groups(80, 0.5, models=4)
    losses[:, 3] = losses[:, 2]  # the third branch is the second, and for some a little better
    losses[3::4, 3] -= 1e-6
    partition = verdict(losses).partition(server_at(0.0), 9, SETTINGS)

    assert partition is not None
    assert len(partition.servers) == 2
    assert partition.routes == (0, 1, 1, 0)


def test_who_has_trained_a_branch_counts_as_its_member_as_judges_do() -> None:
    trial = replace(verdict(two_groups(60, 0.5)), settlers=np.array([90.0, 30.0]))
    partition = trial.partition(server_at(0.0), 9, SETTINGS)

    assert partition is not None
    assert partition.weights == pytest.approx((120 / 180, 60 / 180))


def test_children_go_on_with_the_optimiser_of_the_cohort() -> None:
    parent = replace(server_at(0.0), slots=(np.ones(N_PARAMS),), steps=9)
    partition = verdict(two_groups(60, 0.5)).partition(parent, 9, SETTINGS)

    assert partition is not None
    assert [(one.slots, one.steps) for one in partition.servers] == [(parent.slots, 9)] * 2


def test_the_cohorts_own_model_may_be_one_child() -> None:
    losses = np.tile([0.4, 0.9], (60, 1))  # most are served well as it is
    losses[::4] = [2.0, 0.3]
    trial = replace(verdict(losses), settlers=np.array([500.0]))  # who had no other choice tells nothing
    partition = trial.partition(server_at(0.0), 9, SETTINGS)

    assert partition is not None
    assert [one.weights[0] for one in partition.servers] == [0.0, 1.0]
    assert partition.routes[0] == 1
    assert partition.weights == pytest.approx((0.75, 0.25))


@pytest.mark.parametrize("everybody", [False, True])
def test_judges_who_gain_nothing_make_no_partition(everybody: bool) -> None:
    assert verdict(np.ones((60, 3)), everybody=everybody).partition(server_at(0.0), 9, SETTINGS) is None
    nobody = trial_of(3, everybody=everybody)
    assert nobody.partition(server_at(0.0), 9, SETTINGS) is None


def test_too_many_children_for_the_participants_make_no_partition() -> None:
    trial = verdict(two_groups(60, 0.5))

    assert trial.partition(server_at(0.0), 2, SETTINGS) is not None
    assert trial.partition(server_at(0.0), 1, SETTINGS) is None


def test_a_gain_that_is_sure_and_small_makes_no_partition() -> None:
    trial = verdict(two_groups(2000, 0.03))

    assert trial.evidence.is_sure(1e-6)
    assert trial.partition(server_at(0.0), 9, replace(SETTINGS, min_gain=0.02)) is not None
    assert trial.partition(server_at(0.0), 9, replace(SETTINGS, min_gain=0.04)) is None


@pytest.mark.parametrize(("better", "parts"), [(0.1, True), (0.0, False), (-0.1, False), (np.nan, True)])
def test_a_smaller_loss_without_a_better_score_makes_no_partition(better: float, parts: bool) -> None:
    losses = two_groups(60, 0.5)
    scores = np.where(losses < 1, 0.5 + better, 0.5 + 0 * better)
    partition = verdict(losses, scores=scores).partition(server_at(0.0), 9, SETTINGS)

    assert (partition is not None) is parts


def test_where_everybody_judges_a_partition_is_made_after_a_look_only() -> None:
    losses = two_groups(12, 0.5)
    made = [
        verdict(losses, rounds=rounds, everybody=True).partition(server_at(0.0), 9, SETTINGS) is not None
        for rounds in range(3, 11)
    ]

    assert made == [True, False, True, False, False, False, True, False]


def test_the_more_trials_a_cohort_has_had_the_more_must_be_shown() -> None:
    trial = verdict(two_groups(20, 0.5))

    assert trial.partition(server_at(0.0), 9, SETTINGS) is not None
    later = replace(trial, resumes=replace(trial.resumes, trials=20))
    assert later.partition(server_at(0.0), 9, SETTINGS) is None


def test_it_is_given_up_when_judges_gain_too_little_but_not_at_once() -> None:
    nothing, much = np.ones((60, 3)), two_groups(60, 0.5)

    assert [verdict(nothing, rounds=rounds).is_over(SETTINGS) for rounds in (3, 4, 5)] == [False, False, True]
    assert not verdict(much, rounds=5).is_over(SETTINGS)
    everybody = [verdict(nothing, rounds=rounds, everybody=True).is_over(SETTINGS) for rounds in range(3, 10)]
    assert everybody == [False, False, True, False, False, False, True]


@pytest.mark.parametrize("everybody", [False, True])
def test_a_trial_that_is_sure_of_nothing_ends_and_sooner_where_nobody_judges(everybody: bool) -> None:
    for losses, rounds in ((np.zeros((0, 3)), 8), (two_groups(2, 0.5), 32)):
        assert not verdict(losses, rounds=rounds, everybody=everybody).is_over(SETTINGS)
        assert verdict(losses, rounds=rounds + 1, everybody=everybody).is_over(SETTINGS)


def test_what_judges_gain_is_told_and_zero_before_they_have_been_heard() -> None:
    assert trial_of(1).gain() == 0.0
    assert verdict(two_groups(60, 0.25)).gain() == pytest.approx(0.25)
