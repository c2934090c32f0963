"""A trial: who trains and judges which models, whom an update moves, who is heard, and what becomes of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.auxo import OnTrial, Pooling, TrialSettings
from auxo.algorithms.auxo.evidence import OWN, Said
from auxo.algorithms.auxo.judges import first_of, seals
from auxo.algorithms.auxo.looking import Candidate
from auxo.algorithms.auxo.pooling import FIRST_LOOK
from auxo.algorithms.auxo.trial import IntoShadows
from auxo.algorithms.auxo.views import Prints, View
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg
from auxo.core.asking import LEAST_LOSS, Answer, Asks, Judgement
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Closing, Opening, Participants, Plan
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.folds import all_but
from auxo.core.gathering import AdmitAll, AdmitNone, Examined, Gathered, Returned, gather
from auxo.core.matching import CheckIns
from auxo.core.partition import Outlook
from auxo.core.types import ROOT, BoolArray, Float32Array, FloatArray, IntArray
from tests.algorithms.auxo.made_trials import (
    VIEWS,
    heard,
    said_of,
    server_at,
    settled,
    trial_of,
    two_groups,
    two_groups_and_a_doubtful_third,
)
from tests.core.made_updates import FINGERPRINT, N_PARAMS, claims, movement_of

CLIENTS = 100 + np.arange(60)
ROUND = 7
SETTINGS = TrialSettings()
HALVES = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
OUTLOOK = Outlook(progress=0.2, total_participants=60, cohorts=1, check_ins=60.0)


# The plan.


def planned(
    trial: OnTrial,
    tree: CohortTree | None = None,
    asks: Asks | None = None,
    labels: IntArray | None = None,
    settings: TrialSettings = SETTINGS,
) -> Plan:
    """Return who does what in a round of sixty on trial."""
    tree = tree or CohortTree()
    n, leaves = len(CLIENTS), tree.leaves
    here = CheckIns(CLIENTS, Requests.silent(tree, np.zeros(n, dtype=np.int64)))
    state = CohortState(server_at(0.0), ROUND, memory=trial)
    opening = Opening(leaves[0], tree, state, here, np.zeros(n, dtype=np.bool_), 0.2, n, secret="s")  # noqa: S106
    before = Plan(np.arange(n), leaves, asks or Asks.plain(n), notes=claims(n, labels=labels))
    plan = trial.plan(opening, before, settings)
    plan.check(n, tree, len(trial.servers))
    return plan


def judging_in(plan: Plan) -> BoolArray:
    """Return who is asked to judge."""
    asked = plan.asks.judges
    return np.zeros(len(CLIENTS), dtype=np.bool_) if asked is None else np.asarray(asked.max(axis=1) >= 0)


@pytest.mark.parametrize("rounds", range(FIRST_LOOK))
@pytest.mark.parametrize("everybody", [False, True])
def test_at_first_everybody_trains_the_cohorts_own_model_and_nobody_judges(everybody: bool, rounds: int) -> None:
    labels = np.zeros(60, dtype=np.int64)
    asks = planned(trial_of(rounds, everybody=everybody), labels=labels).asks

    assert set(asks.model.tolist()) == {OWN}
    assert asks.judges is None
    assert set(asks.fold.tolist()) == ({all_but(1)} if everybody else {-1})


@pytest.mark.parametrize("rounds", range(FIRST_LOOK, 16))
def test_where_clients_are_many_all_train_the_cohorts_own_model_on_all_their_samples_in_every_round(
    rounds: int,
) -> None:
    plan = planned(trial_of(rounds), labels=np.zeros(60, dtype=np.int64))

    assert set(plan.asks.model.tolist()) == {OWN}
    assert set(plan.asks.fold.tolist()) == {-1}
    assert judging_in(plan).all()  # nobody has been there before
    assert plan.asks.judges is not None
    assert (plan.asks.judges == [0, 1, 2]).all()


def test_no_more_judge_than_there_may_be_and_others_in_the_next_round() -> None:
    few = replace(SETTINGS, judges=11)

    np.testing.assert_array_equal(
        judging_in(planned(trial_of(3), settings=few)), first_of(CLIENTS, np.ones(60, dtype=np.bool_), 11, ROUND)
    )


def test_whoever_has_taken_part_in_a_trial_does_not_judge_it() -> None:
    trial = trial_of(2)
    been = seals(CLIENTS[:25], trial.generation, "s")
    after = trial.moved(trial.servers, Said.none(3), been)

    np.testing.assert_array_equal(judging_in(planned(after)), np.arange(60) >= 25)
    another = replace(after, generation=trial.generation + 1)
    assert judging_in(planned(another)).all()  # marks are of one trial


def test_nobody_judges_twice_or_after_it_has_trained_in_a_trial() -> None:
    trial, judged = trial_of(0), list[int]()
    rng = np.arange(60)
    for rounds in range(12):
        here = np.roll(rng, 7 * rounds)[:20]  # who comes this time
        asked = np.flatnonzero(judging_in(planned(trial, settings=replace(SETTINGS, judges=8))))
        some = [row for row in asked.tolist() if row in here]
        judged += some
        been = set(trial.seen.tolist())
        assert not been & set(seals(CLIENTS[some], 1, "s").tolist())
        said = replace(said_of(two_groups(len(some), 0.1)), seals=seals(CLIENTS[some], 1, "s"))
        trial = trial.moved(trial.servers, said, seals(CLIENTS[here], 1, "s"))

    assert judged
    assert len(set(judged)) == len(judged)


@pytest.mark.parametrize("everybody", [False, True])
def test_who_compares_leaves_judges_where_clients_are_many_and_branches_are_numbered_after_leaves(
    everybody: bool,
) -> None:
    """Members of a group that was not found yet compare at every visit: without them nobody would miss its branch."""
    compares = np.arange(60) < 20
    asks = replace(Asks.plain(60), model=np.where(compares, LEAST_LOSS, OWN))
    plan = planned(trial_of(2, everybody=everybody), HALVES, asks)

    assert (plan.asks.model == asks.model).all()
    assert (plan.asks.fold == (all_but(1) if everybody else -1)).all()  # whatever they choose
    judges = judging_in(plan)
    np.testing.assert_array_equal(judges, ~compares | (not everybody))
    assert plan.asks.judges is not None
    assert (plan.asks.judges[judges] == [0, 2, 3]).all()


def test_judges_are_asked_of_the_models_of_all_candidates() -> None:
    plan = planned(trial_of(2, branches=(2, 3)))

    assert plan.asks.judges is not None
    assert (plan.asks.judges == [0, 1, 2, 3, 4, 5]).all()


# The plan where everybody judges.


def test_where_everybody_judges_half_of_them_train_the_branch_that_their_label_names() -> None:
    labels = np.arange(60) % 2
    plan = planned(trial_of(5, everybody=True), labels=labels)
    stays = first_of(CLIENTS, np.ones(60, dtype=np.bool_), 30, ROUND)

    assert stays.sum() == 30
    np.testing.assert_array_equal(plan.asks.model, np.where(stays, OWN, 1 + labels))
    assert set(plan.asks.fold.tolist()) == {all_but(1)}
    assert judging_in(plan).all()
    assert plan.asks.judges is not None
    assert (plan.asks.judges == [0, 1, 2]).all()


def test_who_has_no_label_of_this_trial_or_one_of_another_candidate_trains_the_cohorts_own_model() -> None:
    losses = np.column_stack([two_groups(8, 0.0), two_groups(8, 0.5)[:, 1:]])
    evidence = heard(said_of(losses), [2, 2], everybody=True)
    trial = trial_of(5, branches=(2, 2), everybody=True, evidence=evidence)
    assert evidence.leading == 1

    for label, models in ((-1, {OWN}), (0, {OWN}), (1, {OWN}), (2, {OWN, 3}), (3, {OWN, 4}), (4, {OWN})):
        assert set(planned(trial, labels=np.full(60, label)).asks.model.tolist()) == models
    stale = replace(trial, generation=2)  # labels are of the first one
    assert set(planned(stale, labels=np.full(60, 2)).asks.model.tolist()) == {OWN}


# Whom an update moves.


def closing(
    trial: OnTrial, n: int = 60, asks: Asks | None = None, brought: Claims | None = None, clients: IntArray = CLIENTS
) -> Closing:
    asked = asks or Asks.plain(n)
    participants = Participants(clients[:n], (ROOT,), asked, notes=brought or claims(n))
    return Closing(
        ROOT,
        (CohortState(server_at(0.0), ROUND, memory=trial),),
        participants,
        OUTLOOK,
        n,
        secret="s",  # noqa: S106
    )


def gathered(now: Closing, returned: Sequence[Returned], trial: OnTrial) -> Gathered:
    sums = [FedAvg().accumulate(server) for server in (now.states[0].server, *trial.servers)]
    return gather(iter(returned), FINGERPRINT, IntoShadows(trial, len(now.models), AdmitAll()), sums)


def prints_of(gathered: Gathered) -> Prints:
    return Prints(gathered.directions, gathered.outputs, gathered.inputs)


def along(axis: int, n: int) -> Float32Array:
    return np.tile(np.eye(N_PARAMS, dtype=np.float32)[axis], (n, 1))


def examined(update: Float32Array) -> Examined:
    nothing = np.zeros(0)
    return Examined(Answer(update, 3), FINGERPRINT.of(update), 1.0, nothing, nothing)


@pytest.mark.parametrize("rounds", [0, 1, 2, 9])
def test_an_update_moves_the_own_model_and_in_its_shadow_the_branch_that_it_is_nearest_to(rounds: int) -> None:
    trial = trial_of(rounds)
    updates = np.concatenate([along(0, 4), along(1, 2)])
    result = gathered(closing(trial, 6), [Returned(row, Answer(one, 5)) for row, one in enumerate(updates)], trial)

    np.testing.assert_allclose(movement_of(result, 0), updates.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(movement_of(result, 1), updates[0])
    np.testing.assert_allclose(movement_of(result, 2), updates[4])
    assert result.aggregated.tolist() == list(range(6))


def test_an_update_moves_a_branch_of_every_candidate() -> None:
    admission = IntoShadows(trial_of(3, branches=(2, 3)), 1, AdmitAll())

    # Of the first the branches are 1 and 2, along the first axes; of the second 3, 4 and 5, along the last ones.
    assert admission.place(0, examined(along(0, 1)[0] + 0.1 * along(5, 1)[0]), OWN) == (OWN, 1, 3)
    assert admission.place(0, examined(along(1, 1)[0] + 0.1 * along(3, 1)[0]), OWN) == (OWN, 2, 5)


def test_what_an_update_has_in_common_with_all_does_not_make_it_nearer_to_a_branch() -> None:
    trial = trial_of(3)
    common = replace(trial.common, directions=FINGERPRINT.of(along(0, 1)[0])[None, :])
    update = examined((along(0, 1)[0] + 0.5 * along(1, 1)[0]).astype(np.float32))

    assert IntoShadows(trial, 1, AdmitAll()).place(0, update, OWN) == (OWN, 1)
    assert IntoShadows(replace(trial, common=common), 1, AdmitAll()).place(0, update, OWN) == (OWN, 2)


def test_who_may_not_move_the_own_model_moves_no_branch() -> None:
    update = Examined(Answer(np.zeros(N_PARAMS, dtype=np.float32), 10), np.eye(N_PARAMS)[0], 1.0)

    assert IntoShadows(trial_of(3), 1, AdmitNone()).place(0, update, OWN) is None
    assert IntoShadows(trial_of(3), 1, AdmitAll()).place(0, update, OWN) == (OWN, 1)


def test_where_claims_are_signed_who_may_not_move_the_own_model_moves_branches_alone() -> None:
    """A group that does not fit its cohort has no proof of being members, and is what the trial is for."""
    update = Examined(Answer(np.zeros(N_PARAMS, dtype=np.float32), 10), np.eye(N_PARAMS)[0], 1.0)

    assert IntoShadows(trial_of(3), 1, AdmitNone(), strangers=True).place(0, update, OWN) == (1,)
    assert IntoShadows(trial_of(3), 2, AdmitAll(), strangers=True).place(0, update, 1) is None


def test_an_update_of_another_leafs_model_moves_nothing() -> None:
    for rounds in (0, 1, 5):
        admission = IntoShadows(trial_of(rounds), 2, AdmitAll())
        update = examined(along(0, 1)[0])
        assert admission.place(0, update, 1) is None
        assert admission.place(0, update, OWN) == (OWN, 2)  # branches come after the leaves


def test_where_everybody_judges_the_leading_candidates_branches_move_by_those_who_train_them_once_some_do() -> None:
    losses = np.column_stack([two_groups(8, 0.0), two_groups(8, 0.5)[:, 1:]])
    evidence = heard(said_of(losses), [2, 2], everybody=True)
    update = examined(along(0, 1)[0] + 0.1 * along(5, 1)[0])

    early = IntoShadows(trial_of(FIRST_LOOK - 1, branches=(2, 2), everybody=True, evidence=evidence), 1, AdmitAll())
    later = IntoShadows(trial_of(FIRST_LOOK, branches=(2, 2), everybody=True, evidence=evidence), 1, AdmitAll())

    assert early.place(0, update, OWN) == (OWN, 1, 3)
    assert later.place(0, update, OWN) == (OWN, 1)
    assert [later.place(0, update, model) for model in (3, 4)] == [3, 4]


# Who is heard.


def judging(losses: Sequence[float], others: Sequence[float | None] | None = None, model: int = 0) -> Answer:
    told = others or losses
    said = tuple(Judgement(loss, None, other) for loss, other in zip(losses, told, strict=True))
    return Answer(along(0, 1)[0], 10, model=model, judged=said)


def said_in(trial: OnTrial, answers: Sequence[Answer], late: Sequence[int] = (), fold: int = -1) -> Said:
    n = len(answers)
    asks = replace(Asks.plain(n), fold=np.full(n, fold), judges=np.tile([0, 1, 2], (n, 1)))
    now = closing(trial, n, asks)
    told = gathered(now, [Returned(r, a, late=r in late) for r, a in enumerate(answers)], trial)
    return trial.said(now, told, prints_of(told))


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
    assert said_in(trial_of(2, everybody=True), [answer], fold=all_but(1)).both.tolist() == [False]


def test_who_is_late_or_has_a_single_sample_or_no_loss_of_the_own_model_is_not_heard() -> None:
    fine = judging((1.0, 0.5, 0.7))
    answers = [fine, fine, replace(fine, examples=1), judging((np.nan, 0.5, 0.7)), judging((np.inf, 0.5, 0.7)), fine]

    np.testing.assert_array_equal(said_in(trial_of(2), answers, late=[1]).seals, seals(CLIENTS[[0, 5]], 1, "s"))


def test_who_was_not_asked_or_has_not_judged_is_not_heard() -> None:
    trial, silent = trial_of(2), Answer(along(0, 1)[0], 10)
    now = closing(trial, 1)

    unasked = gathered(now, [Returned(0, judging((1.0, 0.5, 0.7)))], trial)
    assert len(trial.said(now, unasked, prints_of(unasked)).seals) == 0
    assert len(said_in(trial, [silent, silent]).seals) == 0
    assert said_in(trial, [judging((1.0, 0.5, 0.7)), silent]).losses.tolist() == [[1.0, 0.5, 0.7]]


def test_a_branch_that_has_diverged_for_a_judge_is_not_its_choice() -> None:
    said = said_in(trial_of(2), [judging((1.0, np.nan, 0.7), (1.0, np.nan, 0.6))])

    assert said.losses.tolist() == [[1.0, np.inf, 0.7]]
    assert said.other_losses.tolist() == [[1.0, np.inf, 0.6]]
    assert gains_of(said) == pytest.approx([0.35])  # the mean of both ways


def test_who_tells_one_loss_of_each_model_is_taken_to_have_the_branch_that_its_update_is_nearest_to() -> None:
    app = judging((1.0, 0.5, 0.7), (None, None, None))
    said = said_in(trial_of(2), [app, replace(app, update=along(1, 1)[0])])

    assert gains_of(said) == pytest.approx([0.5, 0.3])
    assert said.both.tolist() == [False, False]
    assert said.samples.tolist() == [2.0, 2.0]  # a fifth of what they train on


def test_where_everybody_judges_a_label_tells_more_than_an_update_of_another_model() -> None:
    # Half of the participants train branches, whose updates say nothing of where they belong.
    app, trial = judging((1.0, 0.5, 0.7), (None, None, None)), trial_of(2, everybody=True)
    asks = replace(Asks.plain(3), judges=np.tile([0, 1, 2], (3, 1)))
    brought = replace(claims(3), label=np.array([1, 0, -1]), generation=np.full(3, trial.generation))
    now = closing(trial, 3, asks, brought)
    told = gathered(now, [Returned(row, replace(app, model=model)) for row, model in enumerate((2, 0, 0))], trial)

    assert gains_of(trial.said(now, told, prints_of(told))) == pytest.approx([0.3, 0.5, 0.5])


def test_who_tells_one_loss_has_a_branch_of_each_candidate_to_choose_and_no_other() -> None:
    app = judging((1.0, 0.5, 0.7, 0.6, 0.4), (None,) * 5)
    trial = trial_of(2, branches=(2, 2))
    now = closing(trial, 1, replace(Asks.plain(1), judges=np.arange(5)[None, :]))
    update = (along(0, 1)[0] + 0.1 * along(4, 1)[0]).astype(np.float32)
    told = gathered(now, [Returned(0, replace(app, update=update))], trial)
    said = trial.said(now, told, prints_of(told))

    assert np.isfinite(said.other_losses).tolist() == [[True, True, False, False, True]]
    assert [said.gains(1.0, one, OWN).tolist() for one in trial.evidence.candidates] == [[0.5], [0.6]]


def test_samples_that_judges_say_they_judge_by_are_believed() -> None:
    said = said_in(trial_of(2), [replace(judging((1.0, 0.5, 0.7)), judged_by=3)])

    assert said.samples.tolist() == [3.0]


def gains_of(said: Said) -> FloatArray:
    """Return what judges gain by their choice among all models over the cohort's own."""
    return said.gains(1.0, np.arange(said.losses.shape[1]), OWN)


# Labels.


def labels_in(trial: OnTrial, answers: Sequence[Answer], clusters: int = 4) -> FloatArray:
    models, n = 1 + len(trial.servers), len(answers)
    asks = replace(Asks.plain(n), judges=np.tile(np.arange(models), (n, 1)))
    now = closing(trial, n, asks)
    told = gathered(now, [Returned(row, one) for row, one in enumerate(answers)], trial)
    return trial.labels(told, prints_of(told), clusters)


def test_a_label_is_the_branch_that_an_update_of_the_own_model_is_nearest_to() -> None:
    told = labels_in(trial_of(3), [Answer(along(axis, 1)[0], 5) for axis in (0, 1)])

    np.testing.assert_array_equal(told, [[1, 0, 0, 0], [0, 1, 0, 0]])


def test_where_everybody_judges_a_label_is_the_branch_with_the_least_loss_on_the_half_that_one_trains_on() -> None:
    trial = trial_of(3, everybody=True)
    second = judging((1.0, 0.1, 0.9), (1.0, 0.8, 0.6))  # kept out, and trained on
    silent = Answer(along(0, 1)[0], 5)
    of_branch = Answer(along(0, 1)[0], 5, model=2)

    np.testing.assert_array_equal(
        labels_in(trial, [second, silent, of_branch]), [[0, 1, 0, 0], [1, 0, 0, 0], [np.nan] * 4]
    )


def test_where_everybody_judges_labels_are_of_the_leading_candidate() -> None:
    losses = np.column_stack([two_groups(8, 0.0), two_groups(8, 0.5)[:, 1:]])
    leads = heard(said_of(losses), [2, 2], everybody=True)
    trial = trial_of(3, branches=(2, 2), everybody=True, evidence=leads)
    answer = judging((1.0, 0.1, 0.2, 0.8, 0.7))

    np.testing.assert_array_equal(labels_in(trial, [answer]), [[0, 0, 0, 1]])


# How it begins and goes on.


def pool_of(*, everybody: bool = False) -> Pooling:
    nothing = np.zeros((1, 0))
    return Pooling(trials=1, common=Prints(np.zeros((1, N_PARAMS)), nothing, nothing), everybody=everybody)


def candidate(place: int, clusters: int, shown: float) -> Candidate:
    return Candidate(View(VIEWS[place]), shown, np.eye(N_PARAMS)[:clusters])


@pytest.mark.parametrize("everybody", [False, True])
def test_every_branch_starts_from_the_cohorts_model_and_the_pool_is_forgotten(everybody: bool) -> None:
    found = (candidate(0, 2, 2.0), candidate(1, 3, 1.2))
    trial = OnTrial.begin(pool_of(everybody=everybody), found, server_at(3.0), FINGERPRINT.blocks, 8)

    # Where everybody judges, participants train the branches of one candidate.
    assert [len(shadow.servers) for shadow in trial.shadows] == ([2] if everybody else [2, 3])
    candidates = [one.tolist() for one in trial.evidence.candidates]
    assert candidates == ([[0, 1, 2]] if everybody else [[0, 1, 2], [0, 3, 4, 5]])
    assert all(np.array_equal(one.weights, server_at(3.0).weights) for one in trial.servers)
    assert (trial.resumes.trials, trial.resumes.rounds, trial.resumes.common, trial.generation) == (2, (), None, 2)
    assert trial.evidence.everybody is everybody
    assert trial.held_servers() == trial.servers
    assert trial.held_models() == ()
    assert (trial.rounds, len(trial.seen)) == (0, 0)


def test_as_many_candidates_are_on_trial_as_there_is_room_for_and_the_best_ones_first() -> None:
    found = (candidate(0, 3, 2.0), candidate(1, 3, 1.5), replace(candidate(0, 2, 1.4), view=View("input energies")))
    trial = OnTrial.begin(pool_of(), found, server_at(3.0), FINGERPRINT.blocks, 5)

    assert [shadow.candidate for shadow in trial.shadows] == [found[0], found[2]]
    assert trial.others  # the second shows groups, too, and has to wait


@pytest.mark.parametrize(("shown", "others"), [(1.5, True), (1.2, False), (np.inf, False)])
def test_others_wait_for_their_turn_only_where_they_show_groups(shown: float, others: bool) -> None:
    found = (candidate(0, 3, 2.0), candidate(1, 3, shown))

    assert OnTrial.begin(pool_of(), found, server_at(3.0), FINGERPRINT.blocks, 5).others is others
    assert not OnTrial.begin(pool_of(), found, server_at(3.0), FINGERPRINT.blocks, 6).others


def test_a_round_counts_and_is_looked_at_when_it_is_time() -> None:
    said, nobody = said_of(two_groups(6, 0.2)), np.zeros(0, dtype=np.int64)
    before = trial_of(2, everybody=True)
    after = before.moved(before.servers, said, np.array([5, 3]))

    assert (after.rounds, after.evidence.looks, after.seen.tolist()) == (3, 0, [3, 5])
    again = after.moved(after.servers, said, np.array([4, 5]))
    assert (again.evidence.looks, again.seen.tolist()) == (1, [3, 4, 5])
    assert again.moved(again.servers, said, nobody).evidence.looks == 1
    assert [one for one in range(34) if trial_of(one).is_look] == [3, 7, 15, 31]


def test_who_is_near_to_which_cluster_is_seen_without_what_the_last_rounds_updates_shared() -> None:
    trial, nothing = trial_of(2), np.zeros((8, 0))
    mine, shared = np.eye(N_PARAMS)[np.arange(8) % 2], 5.0 * np.eye(N_PARAMS)[0]  # all have turned towards the first
    updates = Prints(mine + shared, nothing, nothing)
    after = trial.seen_from(updates)

    assert trial.nearest(updates)[:, 0].tolist() == [0] * 8
    assert after.nearest(updates)[:, 0].tolist() == [0, 1] * 4
    for few in (0, 1):  # in whom nobody can tell what is shared
        assert after.seen_from(updates.take(np.arange(few))) is after


@pytest.mark.parametrize(("shown", "first"), [((0.0, 0.0), 0), ((0.0, 2.0), 1), ((2.0, 2.0), 0)])
def test_labels_are_of_the_candidate_that_is_waited_for(shown: tuple[float, float], first: int) -> None:
    trial = side_by_side((0.5, 0.4))  # by the first of which judges gain more
    shadows = tuple(replace(one, shown=much) for one, much in zip(trial.shadows, shown, strict=True))
    axes, nothing = np.vstack([one.centres for one in trial.shadows]), np.zeros((4, 0))
    updates = Prints(axes, nothing, nothing)
    trial = replace(trial, shadows=shadows, common=Prints(np.zeros((1, N_PARAMS)), nothing[:1], nothing[:1]))
    returned = [Returned(row, Answer(np.eye(N_PARAMS, dtype=np.float32)[row], 5)) for row in range(4)]
    gathered = gather(iter(returned), FINGERPRINT, AdmitAll(), [FedAvg().accumulate(server_at(0.0))])
    labels = trial.labels(gathered, updates, 4).argmax(axis=1)

    assert {int(one) // 2 for one in labels[2 * first : 2 * first + 2]} == {first}
    assert labels[2 * first : 2 * first + 2].tolist() == [2 * first, 2 * first + 1]


def test_models_that_have_moved_go_to_the_candidate_whose_they_are() -> None:
    trial = trial_of(2, branches=(2, 3))
    moved = tuple(server_at(10.0 + place) for place in range(5))
    after = trial.moved(moved, Said.none(6), np.zeros(0, dtype=np.int64))

    assert [[one.weights[0] for one in shadow.servers] for shadow in after.shadows] == [[10, 11], [12, 13, 14]]


# What becomes of it.


def verdict(
    losses: FloatArray,
    *,
    rounds: int = 4,
    branches: Sequence[int] = (),
    everybody: bool = False,
    scores: FloatArray | None = None,
) -> OnTrial:
    """Return a trial whose judges have all said this in its last round."""
    candidates = branches or [losses.shape[1] - 1]
    evidence = heard(said_of(losses, scores=scores, round_=rounds - 1), candidates, everybody=everybody)
    return trial_of(rounds, branches=candidates, evidence=evidence, everybody=everybody)


@pytest.mark.parametrize("everybody", [False, True])
def test_what_judges_are_sure_of_becomes_cohorts_with_the_models_that_they_chose(everybody: bool) -> None:
    losses = two_groups(60, 0.5)
    losses[1::12] = two_groups(1, 0.5)  # some of the others are the first's as well
    partition = verdict(losses, everybody=everybody).verdict(server_at(0.0), 9, SETTINGS)[1]

    assert partition is not None
    assert partition.routes == (0, 1)
    assert partition.weights == pytest.approx((35 / 60, 25 / 60))
    assert [one.weights[0] for one in partition.servers] == [1.0, 2.0]
    assert partition.generation == 1


def test_a_branch_that_is_not_missed_goes_where_its_judges_would() -> None:
    losses = two_groups(80, 0.5, models=4)
    losses[:, 3] = losses[:, 2]  # the third branch is the second, and for some a little better
    losses[3::4, 3] -= 1e-6
    partition = verdict(losses).verdict(server_at(0.0), 9, SETTINGS)[1]

    assert partition is not None
    assert len(partition.servers) == 2
    assert partition.routes == (0, 1, 1)


def test_children_go_on_with_the_optimiser_of_the_cohort() -> None:
    parent = replace(server_at(0.0), slots=(np.ones(N_PARAMS),), steps=9)
    partition = verdict(two_groups(60, 0.5)).verdict(parent, 9, SETTINGS)[1]

    assert partition is not None
    assert [(one.slots, one.steps) for one in partition.servers] == [(parent.slots, 9)] * 2


def test_the_cohorts_own_model_may_be_one_child_which_no_label_leads_to() -> None:
    losses = np.tile([0.4, 2.9], (60, 1))  # most are served well as it is
    losses[::4] = [2.0, 0.3]
    partition = verdict(losses).verdict(server_at(0.0), 9, SETTINGS)[1]

    assert partition is not None
    assert [one.weights[0] for one in partition.servers] == [0.0, 1.0]
    assert partition.routes == (1, 0)  # there is but one branch, and so but one label
    assert partition.weights == pytest.approx((0.75, 0.25))


@pytest.mark.parametrize("everybody", [False, True])
def test_judges_who_gain_nothing_make_no_partition(everybody: bool) -> None:
    assert verdict(np.ones((60, 3)), everybody=everybody).verdict(server_at(0.0), 9, SETTINGS)[1] is None
    nobody = trial_of(4, everybody=everybody)
    assert nobody.verdict(server_at(0.0), 9, SETTINGS)[1] is None


@pytest.mark.parametrize("everybody", [False, True])
def test_branches_that_are_merely_ahead_for_everybody_make_no_partition(everybody: bool) -> None:
    ahead = np.tile([1.0, 0.5, 0.6], (60, 1))

    assert verdict(ahead, everybody=everybody).verdict(server_at(0.0), 9, SETTINGS)[1] is None
    ahead[:, 2] = np.where(np.arange(60) % 2, 0.1, 0.9)  # for half of them the second is better still
    assert verdict(ahead, everybody=everybody).verdict(server_at(0.0), 9, SETTINGS)[1] is not None


def test_too_many_children_for_the_participants_make_no_partition() -> None:
    trial = verdict(two_groups(60, 0.5))

    assert trial.verdict(server_at(0.0), 2, SETTINGS)[1] is not None
    assert trial.verdict(server_at(0.0), 1, SETTINGS)[1] is None


def test_a_gain_that_is_sure_and_small_makes_no_partition() -> None:
    trial = verdict(two_groups(3000, 0.03), rounds=SETTINGS.most_rounds)
    trial = replace(trial, evidence=settled(trial.evidence))

    assert trial.evidence.is_sure(0, 1e-6)
    assert trial.verdict(server_at(0.0), 9, replace(SETTINGS, min_gain=0.029))[1] is not None
    assert trial.verdict(server_at(0.0), 9, replace(SETTINGS, min_gain=0.031))[1] is None


@pytest.mark.parametrize(("rounds", "needed"), [(4, 0.05), (8, 0.1), (16, 0.2), (17, 0.2)])
def test_the_earlier_it_is_the_less_must_be_gained_for_branches_part_round_by_round(rounds: int, needed: float) -> None:
    settings = replace(SETTINGS, min_gain=0.2)

    def parts(gain: float) -> bool:
        trial = verdict(two_groups(6000, gain), rounds=rounds)
        settled_trial = replace(trial, evidence=settled(trial.evidence))
        return settled_trial.verdict(server_at(0.0), 9, settings)[1] is not None

    assert [parts(factor * needed) for factor in (0.95, 1.05)] == [False, True]


@pytest.mark.parametrize(("steepness", "parts"), [(0.0, True), (0.5, True), (1.5, False)])
def test_what_is_but_a_few_rounds_ahead_while_losses_fall_fast_is_no_reason_to_part(
    steepness: float, parts: bool
) -> None:
    # Of two halves .019 is asked for where losses fall with the root of the rounds, and .17; judges gain .05.
    trial = verdict(two_groups(3000, 0.05), rounds=SETTINGS.most_rounds)
    trial = replace(trial, evidence=settled(trial.evidence, steepness))

    assert (trial.verdict(server_at(0.0), 9, SETTINGS)[1] is not None) is parts
    assert trial.is_promising(SETTINGS)


@pytest.mark.parametrize(("clients", "parts"), [(8, False), (12, True), (2000, True)])
def test_few_samples_are_parted_only_for_much(clients: float, parts: bool) -> None:
    # Each has 200 samples, so that another model costs 8 of them 2.5 % of their loss, and 12 only 1.7; judges gain 2.2.
    trial = verdict(two_groups(3000, 0.022), rounds=SETTINGS.most_rounds)
    evidence = replace(settled(trial.evidence), clients=clients)

    made = replace(trial, evidence=evidence).verdict(server_at(0.0), 9, SETTINGS)[1]

    assert evidence.price == pytest.approx(40 / (200 * clients))
    assert (made is not None) is parts


@pytest.mark.parametrize(("clients", "over"), [(5, True), (2000, False)])
def test_a_trial_without_hope_of_a_branchs_price_is_given_up_and_not_tried_again_at_once(
    clients: float, over: bool
) -> None:
    trial = verdict(two_groups(20, 0.03), rounds=8, everybody=True)
    trial = replace(trial, evidence=replace(trial.evidence, clients=clients, won=30.0))

    assert (trial.evidence.price > 0.03) is over
    assert trial.is_over(SETTINGS) is over
    assert trial.is_promising(SETTINGS) is not over


def test_a_trial_knows_how_many_clients_there_are() -> None:
    pool = Pooling(common=Prints(*np.zeros((3, 1, 1))), clients=30.0)
    candidate = Candidate(View(), 1.5, np.eye(2))

    trial = OnTrial.begin(pool, (candidate,), server_at(0.0), np.zeros(1, dtype=np.int64), 8)

    assert trial.evidence.clients == 30.0


def test_a_minority_costs_the_others_little_and_is_asked_for_less_while_losses_fall_fast() -> None:
    losses = np.tile([1.0, 1.2, 1.2], (3000, 1))
    losses[::20, 1] = 0  # one in twenty gains all there is, and nobody else anything
    trial = verdict(losses, rounds=SETTINGS.most_rounds)
    made = replace(trial, evidence=settled(trial.evidence)).verdict(server_at(0.0), 9, SETTINGS)[1]
    halves = verdict(two_groups(3000, 0.05), rounds=SETTINGS.most_rounds)
    fast = [replace(one, evidence=settled(one.evidence, 1.2)) for one in (trial, halves)]

    assert [one.verdict(server_at(0.0), 9, SETTINGS)[1] is not None for one in fast] == [True, False]
    assert made is not None
    assert sorted(made.weights) == pytest.approx([0.05, 0.95])


@pytest.mark.parametrize("others", [False, True])
def test_parts_of_a_cloud_have_their_turn_last_and_not_before_another_view_that_stands_out(others: bool) -> None:
    losses = np.ones((600, 5))
    losses[:, 3:] = two_groups(600, 0.5)[:, 1:]  # judges gain by the second candidate alone
    trial = verdict(losses, rounds=SETTINGS.most_rounds, branches=(2, 2))
    first, second = trial.shadows
    trial = replace(trial, shadows=(replace(first, shown=2.0), second), others=others)

    assert (trial.verdict(server_at(0.0), 9, SETTINGS)[0] == 1) is not others
    early = replace(trial, rounds=SETTINGS.most_rounds - 1)
    assert early.verdict(server_at(0.0), 9, SETTINGS)[0] is None


@pytest.mark.parametrize(("better", "parts"), [(0.1, True), (0.0, False), (-0.1, False), (np.nan, True)])
def test_a_smaller_loss_without_a_better_score_makes_no_partition_and_is_promising(better: float, parts: bool) -> None:
    losses = two_groups(60, 0.5)
    scores = np.where(losses < 1, 0.5 + better, 0.5 + 0 * better)
    trial = verdict(losses, scores=scores)

    assert (trial.verdict(server_at(0.0), 9, SETTINGS)[1] is not None) is parts
    assert trial.is_promising(SETTINGS)


def test_what_nobody_is_sure_of_promises_nothing() -> None:
    assert not verdict(np.ones((60, 3))).is_promising(SETTINGS)
    assert not verdict(np.tile([1.0, 0.5, 0.6], (60, 1))).is_promising(SETTINGS)  # ahead for everybody
    assert not trial_of(5).is_promising(SETTINGS)
    assert trial_of(5).sure_of(SETTINGS) is None


def test_of_candidates_that_judges_are_sure_of_the_one_is_named_that_they_gain_most_by() -> None:
    for gains, place in (((0.5, 0.2), 0), ((0.2, 0.5), 1), ((0.0, 0.5), 1)):
        trial = side_by_side(gains, 60)
        named = trial.sure_of(SETTINGS)
        assert named is not None
        assert named.view == trial.shadows[place].view
        np.testing.assert_array_equal(named.centres, trial.shadows[place].centres)


def test_where_everybody_judges_a_partition_is_made_after_a_look_only() -> None:
    losses = two_groups(12, 0.5)
    made = [
        verdict(losses, rounds=rounds, everybody=True).verdict(server_at(0.0), 9, SETTINGS)[1] is not None
        for rounds in range(3, 10)
    ]

    assert made == [False, True, False, False, False, True, False]
    assert verdict(two_groups(60, 0.5), rounds=3).verdict(server_at(0.0), 9, SETTINGS)[1] is not None  # a sample


def test_the_more_trials_a_cohort_has_had_the_more_must_be_shown() -> None:
    trial = verdict(two_groups(20, 0.5))

    assert trial.verdict(server_at(0.0), 9, SETTINGS)[1] is not None
    later = replace(trial, resumes=replace(trial.resumes, trials=20))
    assert later.verdict(server_at(0.0), 9, SETTINGS)[1] is None


# Candidates side by side.


def side_by_side(gains: tuple[float, float], judges: int = 60, rounds: int = 4) -> OnTrial:
    """Return a trial of two candidates of two branches each, by which judges gain so much."""
    one, other = (two_groups(judges, gain) for gain in gains)
    return verdict(np.column_stack([one, other[:, 1:]]), rounds=rounds, branches=(2, 2))


@pytest.mark.parametrize(("gains", "kept"), [((0.4, 0.5), [3.0, 4.0]), ((0.5, 0.4), [1.0, 2.0])])
def test_the_candidate_by_which_judges_gain_most_is_taken(gains: tuple[float, float], kept: list[float]) -> None:
    trial = side_by_side(gains)
    assert all(trial.evidence.is_sure(one, 0.001) for one in range(2))
    partition = trial.verdict(server_at(0.0), 9, SETTINGS)[1]

    assert partition is not None
    assert [one.weights[0] for one in partition.servers] == kept
    assert partition.weights == pytest.approx((0.5, 0.5))
    assert len(partition.routes) == 4  # any label that there may be leads somewhere
    assert set(partition.routes) == {0, 1}


def test_labels_of_another_candidate_lead_where_its_judges_would_go() -> None:
    losses = np.column_stack([two_groups(80, 0.3), two_groups(80, 0.5)[::-1, 1:]])
    partition = verdict(losses, branches=(2, 2)).verdict(server_at(0.0), 9, SETTINGS)[1]

    assert partition is not None
    assert [one.weights[0] for one in partition.servers] == [3.0, 4.0]
    assert partition.routes == (1, 0, 0, 1)  # groups come the other way round in the second


def hesitates(rounds: int) -> OnTrial:
    """Return a trial whose judges gain most by the second candidate, and are sure of the first one only."""
    trial = side_by_side((0.2, 0.3), rounds=rounds)
    stakes = trial.evidence.log_stakes.copy()
    stakes[1] = 0.0
    return replace(trial, evidence=replace(trial.evidence, log_stakes=stakes))


def test_the_candidate_by_which_judges_gain_most_is_waited_for_while_the_trial_goes_on() -> None:
    assert hesitates(SETTINGS.most_rounds - 1).verdict(server_at(0.0), 9, SETTINGS)[1] is None
    last = hesitates(SETTINGS.most_rounds).verdict(server_at(0.0), 9, SETTINGS)[1]

    assert last is not None
    assert [one.weights[0] for one in last.servers] == [1.0, 2.0]


@pytest.mark.parametrize(("rounds", "kept"), [(4, [1.0, 2.0]), (SETTINGS.most_rounds, [3.0, 4.0])])
def test_groups_that_stand_out_are_taken_before_parts_of_a_cloud_that_gain_more_until_the_last_round(
    rounds: int, kept: list[float]
) -> None:
    trial = side_by_side((0.3, 0.5), rounds=rounds)
    first, second = trial.shadows
    partition = replace(trial, shadows=(replace(first, shown=2.0), second)).verdict(server_at(0), 9, SETTINGS)[1]

    assert partition is not None
    assert [one.weights[0] for one in partition.servers] == kept


@pytest.mark.parametrize(("stands_out", "rounds", "parts"), [(True, 4, False), (False, 4, True), (True, 16, True)])
def test_groups_that_stand_out_are_not_put_together_while_few_judges_say_so(
    stands_out: bool, rounds: int, parts: bool
) -> None:
    evidence = heard(two_groups_and_a_doubtful_third(60), (3,))
    trial = trial_of(rounds, branches=(3,), evidence=evidence)
    trial = replace(trial, shadows=(replace(trial.shadows[0], shown=2.0 * stands_out),))
    assert (trial.verdict(server_at(0.0), 9, SETTINGS)[1] is not None) is parts


def test_candidates_share_the_chance_of_an_error() -> None:
    # So many judges are sure enough of one candidate alone, and not of one of two.
    alone = [verdict(two_groups(judges, 0.5)).verdict(server_at(0.0), 9, SETTINGS)[1] for judges in range(8, 40)]
    shared = [side_by_side((0.5, 0.0), judges).verdict(server_at(0.0), 9, SETTINGS)[1] for judges in range(8, 40)]
    first, second = (next(place for place, one in enumerate(made) if one is not None) for made in (alone, shared))
    half = replace(SETTINGS, alpha=SETTINGS.alpha / 2)

    assert first < second
    assert verdict(two_groups(8 + second, 0.5)).verdict(server_at(0.0), 9, half)[1] is not None
    assert verdict(two_groups(7 + second, 0.5)).verdict(server_at(0.0), 9, half)[1] is None


# The end.


def test_it_is_given_up_when_judges_gain_too_little_but_not_at_once() -> None:
    nothing, much = np.ones((60, 3)), two_groups(60, 0.5)

    assert [verdict(nothing, rounds=rounds).is_over(SETTINGS) for rounds in (3, 4, 5)] == [False, True, True]
    assert not verdict(much, rounds=5).is_over(SETTINGS)
    everybody = [verdict(nothing, rounds=rounds, everybody=True).is_over(SETTINGS) for rounds in range(3, 10)]
    assert everybody == [False, True, False, False, False, True, False]


@pytest.mark.parametrize("everybody", [False, True])
def test_a_trial_that_is_sure_of_nothing_ends_and_sooner_where_nobody_judges(everybody: bool) -> None:
    unsure, silence = (
        [
            verdict(losses, rounds=rounds, everybody=everybody).is_over(SETTINGS)
            for rounds in range(3, SETTINGS.most_rounds + 1)
        ]
        for losses in (two_groups(2, 0.5), np.zeros((0, 3)))
    )

    assert unsure == [False] * (SETTINGS.most_rounds - 3) + [True]
    assert 3 + silence.index(True) == 4


def test_a_trial_goes_on_while_one_of_its_candidates_may_pay() -> None:
    assert not side_by_side((0.0, 0.3), rounds=8).is_over(SETTINGS)
    assert side_by_side((0.0, 0.0), rounds=8).is_over(SETTINGS)
