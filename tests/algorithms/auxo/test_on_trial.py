"""Auxo where a trial decides: who trains and judges which models, and what a round on trial leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, AuxoMemory, ClusteringSettings, TrialSettings
from auxo.algorithms.auxo.algorithm import _behind
from auxo.algorithms.auxo.dendrogram import Dendrogram
from auxo.algorithms.auxo.judges import are_judges
from auxo.algorithms.auxo.search import Search
from auxo.algorithms.auxo.trial import Trial
from auxo.core.affinity import Requests
from auxo.core.aggregators import Aggregator, FedAvg, FedYogi
from auxo.core.asking import LEAST_LOSS, Answer, Judgement
from auxo.core.clustering import ClusteringState
from auxo.core.cohort_algorithm import Closing, HoldsModels, Opening, Outcome, Participants, Plan, held_by
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Gathered, Returned, gather
from auxo.core.matching import CheckIns
from auxo.core.own_state import own
from auxo.core.partition import Keep, Outlook, Partition
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array, IntArray
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.events import Partitioned
from tests.algorithms.short_runs import groups, run
from tests.core.made_updates import FINGERPRINT, N_PARAMS, alike, movement_of, of_two_groups

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
HALVES = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
AUXO = Auxo(
    clustering=ClusteringSettings(clusters=3, pool_rounds=2, pool_per_cluster=4),
    trial=TrialSettings(rounds=4, min_participants=4, looks_from=8, deviations=2.0),
    judge_share=1.0,
)
GENERATION = 2
# Branches 0, 1, 2; node 3 = (0, 1), node 4 = everybody, whose model is the cohort's own. Cluster 0 is in branch 2.
DENDROGRAM = Dendrogram((2, 0, 1), ((0, 1), (2, 3)))
BRANCH_OF = np.array(DENDROGRAM.branch_of)
WEIGHTS = np.array([0.2, 0.5, 0.3])  # of the clusters
CLIENTS = 12


def on_trial(rounds: int = 0, aggregator: Aggregator | None = None) -> CohortState:
    """Return a cohort of round 20 that tries three branches, each with a model of its own."""
    server = (aggregator or FedAvg()).initial(np.zeros(N_PARAMS, dtype=np.float32))
    begun = Trial.begin(DENDROGRAM, WEIGHTS, server)
    models = [np.full(N_PARAMS, number, dtype=np.float32) for number in (1, 2, 4)]
    servers = tuple(replace(server, weights=weights) for weights in models)
    trial = replace(begun, servers=servers, rounds=rounds)
    centres = np.eye(N_PARAMS)[:3]
    clustering = ClusteringState(GENERATION, centres)
    search = Search(clustering=clustering, mean=np.zeros(N_PARAMS), blocks=FINGERPRINT.blocks, trial=trial)
    return CohortState(trial.server(DENDROGRAM.root), 20, memory=AuxoMemory(search=search))


def fresh(search: Search | None = None, round_: int = 0) -> CohortState:
    server = FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32))
    return CohortState(server, round_, memory=AuxoMemory(search=search or Search()))


def search_of(state: CohortState) -> Search:
    return own(AuxoMemory, state.memory).search


def trial_of(state: CohortState) -> Trial:
    trial = search_of(state).trial
    assert trial is not None
    return trial


def opening(
    state: CohortState,
    labels: IntArray | None = None,
    tree: CohortTree | None = None,
    confirmed: Sequence[int] | None = None,
    generation: int = GENERATION,
    share: int = CLIENTS,
) -> Opening:
    """Return a round's opening for clients who bring these labels."""
    tree = tree or CohortTree()
    cohort = tree.leaves[0]
    brought = np.full(CLIENTS, -1) if labels is None else labels
    n = len(brought)
    requests = replace(
        Requests.silent(tree, np.zeros(n, dtype=np.int64)),
        cohort=np.full(n, tree.index[cohort]),
        cluster=brought,
        generation=np.full(n, generation),
        confirmed=np.full(n, 9) if confirmed is None else np.array(confirmed),
    )
    return Opening(cohort, tree, state, CheckIns(100 + np.arange(n), requests), np.ones(n, dtype=np.bool_), 0.2, share)


def planned(now: Opening, auxo: Auxo = AUXO) -> Plan:
    plan = auxo.plan(now)
    plan.check(len(now.selected), now.tree, sum(map(len, held_by(now.state))))
    return plan


# The plan.


def following(round_: int = 0) -> CohortState:
    """Return a cohort that has clusters, and no trial yet."""
    return fresh(Search(clustering=ClusteringState(GENERATION, np.eye(N_PARAMS)[:3])), round_)


def test_nobody_keeps_samples_back_before_there_are_clusters_to_judge() -> None:
    assert set(planned(opening(fresh())).asks.fold.tolist()) == {-1}


ASIDE = replace(AUXO, judge_share=0.5)


def test_nobody_trains_on_a_half_unless_most_clients_judge_and_so_have_to_train_branches_as_well() -> None:
    many = np.full(2000, -1)
    some, all_but_few = (planned(opening(following(), many), replace(AUXO, judge_share=share)) for share in (0.5, 0.8))

    assert set(some.asks.fold.tolist()) == {-1}
    assert (all_but_few.asks.fold == 1).mean() == pytest.approx(0.8, abs=0.05)
    assert set(all_but_few.asks.model.tolist()) == {0}
    assert some.asks.judges is None
    assert all_but_few.asks.judges is None


def test_a_judges_half_does_not_depend_on_how_often_it_has_trained() -> None:
    now = opening(following())
    requests = replace(now.selected.requests, participations=np.arange(CLIENTS))
    later = replace(now, selected=CheckIns(now.selected.clients, requests))

    np.testing.assert_array_equal(planned(now).asks.fold, planned(later).asks.fold)


@pytest.mark.parametrize(
    ("state", "share"),
    [(fresh(Search(rests_until=21), round_=20), CLIENTS), (fresh(), 7)],
    ids=["at rest", "no two branches could fill a round"],
)
def test_everybody_trains_on_all_samples_where_nobody_looks(state: CohortState, share: int) -> None:
    plan = planned(opening(state, share=share))

    assert set(plan.asks.fold.tolist()) == {-1}
    assert plan.asks.judges is None


def test_a_cohort_looks_again_after_its_rest_and_a_trial_goes_on_with_few_participants() -> None:
    rested = Search(clustering=ClusteringState(GENERATION, np.eye(N_PARAMS)[:3]), rests_until=20)
    assert -1 not in planned(opening(fresh(rested, round_=20))).asks.fold
    assert -1 not in planned(opening(on_trial(), share=2)).asks.fold


LABELS = np.array([0, 1, 2, -1] * 3)


def test_on_trial_each_trains_the_model_of_its_branch_and_those_without_a_label_the_cohorts_own() -> None:
    plan = planned(opening(on_trial(), LABELS))

    assert plan.offered == (ROOT,)
    assert plan.asks.model.tolist() == [1 + 2, 1 + 0, 1 + 1, 0] * 3
    assert planned(opening(on_trial(), LABELS, generation=1)).asks.model.tolist() == [0] * CLIENTS


@pytest.mark.parametrize(("rounds", "asks"), [(0, False), (1, False), (2, True), (3, True)])
def test_judges_are_asked_about_all_models_in_the_second_half_of_a_trial(rounds: int, asks: bool) -> None:
    plan = planned(opening(on_trial(rounds), LABELS))
    assert plan.asks.judges is not None

    # Branches are numbered 1, 2 and 3 here, node 3 is number 4, and the rival of all of them is number 5.
    assert plan.asks.judges.tolist() == [[1, 2, 3, 4, 5] if asks else [-1] * 5] * CLIENTS


def judges_of(now: Opening) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    found = are_judges(now.selected.clients, ASIDE.judge_share)
    assert 0 < found.sum() < CLIENTS
    return found


def test_only_judges_are_asked_and_they_train_the_cohorts_own_model_on_all_samples() -> None:
    now = opening(on_trial(2), LABELS)
    plan, judges = planned(now, ASIDE), judges_of(now)
    assert plan.asks.judges is not None

    np.testing.assert_array_equal((plan.asks.judges >= 0).any(axis=1), judges)
    assert set(plan.asks.model[judges].tolist()) == {0}
    assert plan.asks.model[~judges].tolist() == [{0: 3, 1: 1, 2: 2, -1: 0}[label] for label in LABELS[~judges].tolist()]
    assert set(plan.asks.fold.tolist()) == {-1}


def test_judges_move_the_cohorts_own_model_and_no_branch_and_are_heard_once() -> None:
    labels = np.arange(CLIENTS) % 3
    now = opening(on_trial(2), labels)
    judges, updates = judges_of(now), updates_of(labels)
    first = closed(now, updates, auxo=ASIDE)
    again = closed(opening(first.state, labels), updates, auxo=ASIDE)

    for branch, number in enumerate((1, 2, 0)):  # clusters
        mine = updates[~judges & (labels == number)]
        start = trial_of(now.state).servers[branch].weights
        np.testing.assert_allclose(trial_of(first.state).servers[branch].weights, start + mine.mean(axis=0), rtol=1e-6)
    moved = first.state.server.weights - now.state.server.weights
    np.testing.assert_allclose(moved, updates.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert (first.outcome.notes.judged, again.outcome.notes.judged) == (judges.sum(), 0)
    assert (planned(opening(first.state, labels), ASIDE).asks.model[judges] == 0).all()  # nor once they have been


def test_who_trains_on_everything_has_its_halves_judge_each_others_choice() -> None:
    labels = np.arange(CLIENTS) % 3
    now = opening(on_trial(2), labels)
    judges = int(judges_of(now).sum())
    losses, others = {number: 1.0 + number for number in range(6)}, {number: 2.0 + number for number in range(6)}
    aside = trial_of(closed(now, updates_of(labels), losses=losses, others=others, auxo=ASIDE).state).heard
    taking_part = trial_of(closed(now, updates_of(labels), losses=losses, others=others).state).heard

    assert (aside.judges, len(aside.seals)) == (judges, 2 * judges)
    assert (aside.losses[0, 0], aside.held_in[0, 0]) == (2.0, 3.0)
    assert (aside.losses[-1, 0], aside.held_in[-1, 0]) == (3.0, 2.0)
    assert (taking_part.judges, len(taking_part.seals)) == (CLIENTS, CLIENTS)  # of what it trains on it says too much


def test_judges_that_do_not_choose_are_where_their_labels_lead_and_judge_once() -> None:
    labels = np.arange(CLIENTS) % 3
    now = opening(on_trial(2), labels)
    losses, others = {number: 1.0 + number for number in range(6)}, {number: 2.0 + number for number in range(6)}
    told = replace(ASIDE, trial=replace(ASIDE.trial, judges_choose=False))
    heard = trial_of(closed(now, updates_of(labels), losses=losses, others=others, auxo=told).state).heard
    judges = judges_of(now)

    assert (heard.judges, len(heard.seals)) == (judges.sum(), judges.sum())
    assert (heard.losses[:, 0] == 2.0).all()
    assert np.isnan(heard.held_in).all()
    led_to = search_of(now.state).branches(labels[judges], np.full(judges.sum(), GENERATION))
    assert sorted(heard.branch) == sorted(led_to)


def test_with_several_leaves_offered_the_cohorts_models_follow_theirs_and_who_compares_judges_nothing() -> None:
    confirmed = [9] * 8 + [0] * 4
    plan = planned(opening(on_trial(2), LABELS, HALVES, confirmed))
    assert plan.asks.judges is not None

    assert plan.offered == (LEFT, RIGHT)
    assert plan.asks.model.tolist() == [2 + 2, 2 + 0, 2 + 1, 0] * 2 + [LEAST_LOSS] * 4
    assert plan.asks.judges[:4].tolist() == [[2, 3, 4, 5, 6]] * 4
    assert set(plan.asks.judges[8:].ravel().tolist()) == {-1}


def test_a_plan_for_nobody_is_empty() -> None:
    plan = planned(opening(on_trial(2), np.zeros(0, dtype=np.int64)))

    assert plan.rows.shape == plan.asks.fold.shape == plan.asks.model.shape == (0,)


def test_the_numbers_of_the_plan_are_those_of_the_models_that_the_memory_holds() -> None:
    state = on_trial()
    assert isinstance(state.memory, HoldsModels)
    servers, models = held_by(state)

    assert [server.weights[0] for server in servers] == [1, 2, 4]
    # Node 3 holds the clusters 1 and 2, whose weights are 0.5 and 0.3; the last is the rival.
    assert [model[0] for model in models] == pytest.approx(
        [(0.5 * 1 + 0.3 * 2) / 0.8, trial_of(state).rival.weights[0]]
    )
    assert held_by(fresh()) == ((), ())


# Closing.


@dataclass(frozen=True)
class Closed:
    """A round that has closed."""

    closing: Closing
    gathered: Gathered
    outcome: Outcome

    @property
    def state(self) -> CohortState:
        return self.outcome.states[0]

    @property
    def told(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        assert self.outcome.affinities is not None
        return self.outcome.affinities.similarity


def updates_of(directions: IntArray, seed: int = 0) -> Float32Array:
    """Return updates each of which is near to one of the centres."""
    updates: Float32Array = (np.eye(N_PARAMS)[directions] + 0.1 * alike(len(directions), seed)).astype(np.float32)
    return updates


def close(  # noqa: PLR0913 - one for each thing that a round depends on
    now: Opening,
    updates: Float32Array,
    *,
    losses: dict[int, float] | None = None,
    others: dict[int, float] | None = None,
    late: Sequence[int] = (),
    chosen: int = 0,
    aggregator: Aggregator | None = None,
    auxo: Auxo = AUXO,
) -> Closed | None:
    """Close the round as it was planned, with these losses of models on held-out samples, and on the others.

    Who compares takes the leaf ``chosen``.
    """
    aggregator, plan = aggregator or FedAvg(), planned(now, auxo)
    clients = now.selected.clients[plan.rows]
    participants = Participants(clients, plan.offered, plan.asks, notes=plan.notes)
    others_models = {leaf: np.full(N_PARAMS, 9, dtype=np.float32) for leaf in plan.offered[1:]}
    outlook = Outlook(0.2, 20, len(now.tree.leaves), 40.0)
    closing = Closing(now.cohort, (now.state,), participants, outlook, now.share, shelved=others_models)
    returned = []
    for row, update in enumerate(updates):
        asked = () if plan.asks.judges is None else tuple(int(one) for one in plan.asks.judges[row] if one >= 0)
        model = chosen if plan.asks.model[row] == LEAST_LOSS else int(plan.asks.model[row])
        said = [(losses or {}).get(number, 1.0) for number in asked]
        chosen_by = [others[number] if others else None for number in asked]
        judged = tuple(Judgement(loss, other_loss=other) for loss, other in zip(said, chosen_by, strict=True))
        returned.append(Returned(row, Answer(update, 4, model=model, judged=judged), late=row in late))
    servers = (*(now.state.server for _ in plan.offered), *held_by(now.state)[0])
    sums = [aggregator.accumulate(server) for server in servers]
    gathered = gather(iter(returned), FINGERPRINT, auxo.admission(closing), sums)
    outcome = auxo.close(closing, gathered, aggregator, stream(0, "cluster"))
    return None if outcome is None else Closed(closing, gathered, outcome)


def closed(now: Opening, updates: Float32Array, **rest: object) -> Closed:
    found = close(now, updates, **rest)  # type: ignore[arg-type]  # as above
    assert found is not None
    return found


def mean_of(trial: Trial) -> Float32Array:
    """Return the mean of the branches by their believed members."""
    mean = sum(weight * server.weights for weight, server in zip((0.5, 0.3, 0.2), trial.servers, strict=True))
    return np.asarray(mean, dtype=np.float32)


def test_branches_move_by_those_who_have_trained_them_and_the_cohorts_own_model_by_all() -> None:
    labels = np.array([0, 1, 0, 1])
    updates = updates_of(np.array([1, 1, 0, 2]))  # what they are like now does not matter
    after = closed(opening(on_trial(), labels), updates)
    trial = trial_of(after.state)

    np.testing.assert_allclose(trial.servers[2].weights, 4 + updates[[0, 2]].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(trial.servers[0].weights, 1 + updates[[1, 3]].mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(trial.servers[1].weights, np.full(N_PARAMS, 2))  # nobody has trained it
    before = after.closing.states[0].server
    np.testing.assert_allclose(after.state.server.weights, before.weights + updates.mean(axis=0), rtol=1e-6)
    assert (after.state.round, trial.rounds) == (21, 1)
    assert after.state.server.steps == 1
    assert after.outcome.decision == Keep()
    assert (after.outcome.notes.labelled, after.outcome.notes.gives_up) == (4, False)
    assert after.gathered.used == 4


def test_in_a_round_with_nobody_labelled_each_moves_the_branch_that_it_is_nearest_to_and_is_told() -> None:
    updates = updates_of(np.array([0, 1, 2, 0]))
    after = closed(opening(on_trial(2), np.full(4, -1)), updates)
    trial = trial_of(after.state)

    np.testing.assert_allclose(trial.servers[2].weights, 4 + updates[[0, 3]].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(trial.servers[0].weights, 1 + updates[1], rtol=1e-6)
    np.testing.assert_allclose(trial.servers[1].weights, 2 + updates[2], rtol=1e-6)
    assert after.told.argmax(axis=1).tolist() == [0, 1, 2, 0]
    assert after.outcome.affinities is not None
    assert after.outcome.affinities.generation == GENERATION
    assert (after.outcome.notes.labelled, after.outcome.notes.judged) == (0, 0)


def test_who_has_trained_a_branch_is_told_nothing_new_for_its_update_cannot_be_compared() -> None:
    after = closed(opening(on_trial(), np.array([0, -1])), updates_of(np.array([0, 1])))

    assert np.isnan(after.told[0]).all()
    assert not np.isnan(after.told[1]).any()


def test_the_late_move_nothing_and_are_told_where_they_belong() -> None:
    updates = updates_of(np.array([0, 1, 2]))
    after = closed(opening(on_trial(), np.array([0, -1, -1])), updates, late=[0, 2])
    trial = trial_of(after.state)

    assert [server.weights[0] == start for server, start in zip(trial.servers, (1, 2, 4), strict=True)] == [
        False,
        True,
        True,
    ]
    assert after.told[2].argmax() == 2


@pytest.mark.parametrize("late", [[], [0, 1]], ids=["nobody", "too late"])
def test_a_round_on_trial_without_an_update_in_time_comes_to_nothing(late: list[int]) -> None:
    updates = updates_of(np.array([0, 1])) if late else np.zeros((0, N_PARAMS), dtype=np.float32)

    assert close(opening(on_trial(), np.array([0, -1])), updates, late=late) is None


def test_who_has_trained_another_leafs_model_moves_no_branch_and_is_told_where_it_belongs() -> None:
    now = opening(on_trial(2), np.array([0, 1, 2]), HALVES, confirmed=[9, 0, 0])
    updates = updates_of(np.array([0, 1, 2]))
    gone, stayed = (closed(now, updates, chosen=chosen) for chosen in (1, 0))

    assert (gone.gathered.used, gone.gathered.misfits) == (1, 2)
    assert stayed.gathered.used == 3
    np.testing.assert_allclose(trial_of(stayed.state).servers[0].weights, 1 + updates[1], rtol=1e-6)
    np.testing.assert_array_equal(trial_of(gone.state).servers[0].weights, np.ones(N_PARAMS))
    for found, place in ((gone, 1), (stayed, 0)):
        assert found.outcome.affinities is not None
        assert found.outcome.affinities.placed is not None
        assert found.outcome.affinities.placed.tolist() == [-1, place, place]
        assert len(found.outcome.states) == 1


def test_what_judges_say_is_kept_by_node_also_with_several_leaves() -> None:
    labels, updates = np.array([0, 1, 2]), updates_of(np.array([0, 1, 2]))
    alone = closed(opening(on_trial(2), labels), updates, losses={1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0})
    among = closed(
        opening(on_trial(2), labels, HALVES, [9, 9, 0]), updates, losses={2: 1.0, 3: 2.0, 4: 3.0, 5: 4.0, 6: 5.0}
    )

    rows = [[1.0, 2.0, 3.0, 4.0, 5.0]] * 3
    np.testing.assert_array_equal(trial_of(alone.state).heard.losses, rows)
    np.testing.assert_array_equal(trial_of(among.state).heard.losses, rows[:2])  # the third compares
    assert trial_of(alone.state).heard.branch.tolist() == [2, 0, 1]
    assert (alone.outcome.notes.judged, among.outcome.notes.judged) == (3, 2)


def last_round(losses: dict[int, float], aggregator: Aggregator | None = None) -> Closed:
    """Close the last round of a trial of which judges said this in all rounds."""
    labels = np.arange(CLIENTS) % 3
    found = closed(opening(on_trial(2, aggregator), labels), updates_of(labels), losses=losses, aggregator=aggregator)
    assert found.outcome.decision == Keep()  # nothing is decided before the end
    return closed(opening(found.state, labels), updates_of(labels, 1), losses=losses, aggregator=aggregator)


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()], ids=["FedAvg", "FedYogi"])
def test_a_trial_that_pays_ends_with_a_partition_that_carries_the_branches_models(aggregator: Aggregator) -> None:
    # Branches 1 and 2 by number are no better than their node 4; branch 3 is better alone.
    after = last_round({5: 2.0, 4: 1.0, 1: 1.0, 2: 1.0, 3: 0.5}, aggregator)
    decision = after.outcome.decision
    assert isinstance(decision, Partition)
    branch, rest = sorted(range(2), key=lambda child: decision.weights[child])

    assert decision.routes == tuple(branch if cluster == 0 else rest for cluster in range(3))
    assert decision.generation == GENERATION
    assert (decision.weights[branch], decision.weights[rest]) == pytest.approx((0.2, 0.8))
    assert [server.steps for server in decision.servers] == [2, 2]
    assert not np.array_equal(decision.servers[branch].weights, decision.servers[rest].weights)
    assert len(decision.servers[rest].slots) == len(after.state.server.slots)
    assert (after.outcome.notes.children, after.outcome.notes.gives_up) == (2, False)
    assert after.outcome.notes.gain == pytest.approx((4 * 1.5 + 8 * 1.0) / 12 / 2.0)


def test_a_trial_that_does_not_pay_ends_with_a_rest_and_the_cohorts_own_model() -> None:
    after = last_round({5: 1.0, 4: 1.1, 1: 1.2, 2: 1.2, 3: 1.1})

    assert after.outcome.decision == Keep()
    assert (after.outcome.notes.children, after.outcome.notes.gives_up) == (1, True)
    assert search_of(after.state) == Search(clustering=ClusteringState(GENERATION), rests_until=44)
    assert held_by(after.state) == ((), ())
    moved = np.mean([movement_of(after.gathered, 1 + branch) for branch in range(3)], axis=0)  # as many in each
    np.testing.assert_allclose(after.state.server.weights, after.closing.states[0].server.weights + moved, rtol=1e-6)


def test_where_the_other_view_shows_structure_as_well_it_has_its_turn_without_a_rest() -> None:
    state = on_trial(2)
    both = replace(state, memory=AuxoMemory(search=replace(search_of(state), other="plain")))
    labels = np.arange(CLIENTS) % 3
    losses = {5: 1.0, 4: 1.1, 1: 1.2, 2: 1.2, 3: 1.1}
    first = closed(opening(both, labels), updates_of(labels), losses=losses)
    last = closed(opening(first.state, labels), updates_of(labels, 1), losses=losses)

    assert last.outcome.notes.gives_up
    assert search_of(last.state) == Search(clustering=ClusteringState(GENERATION), only="plain")


def test_children_rest_as_long_as_the_cohort_that_they_were_on_trial_in() -> None:
    parent = fresh(Search(rests_until=44))

    assert own(AuxoMemory, AUXO.memory(parent)) == AuxoMemory(search=Search(rests_until=44))
    assert own(AuxoMemory, AUXO.memory(None)) == AuxoMemory()


def test_an_update_that_was_refused_has_no_weight_in_the_cohorts_own_model() -> None:
    labels = np.array([0, 1, 0, 1])
    found = closed(opening(on_trial(), labels), updates_of(labels)).gathered
    refused = replace(found, aggregated=found.aggregated[1:], examples=np.array([10**7, 4, 4, 4]))

    assert _behind(found, FedAvg(), 1, 3).tolist() == [0, 8, 0, 8]
    assert _behind(refused, FedAvg(), 1, 3).tolist() == [0, 8, 0, 4]
    assert _behind(found, FedAvg(weighting="uniform"), 1, 3).tolist() == [0, 2, 0, 2]


def test_optimisers_of_the_branches_go_their_own_ways_and_the_cohorts_as_if_there_were_no_trial() -> None:
    labels = np.array([0, 1, 0, 1])
    after = closed(opening(on_trial(0, FedYogi()), labels), updates_of(labels), aggregator=FedYogi())
    trial = trial_of(after.state)

    mean = (movement_of(after.gathered, 1) + movement_of(after.gathered, 3)) / 2  # two have trained each
    alone = FedYogi().step(after.closing.states[0].server, mean)
    np.testing.assert_allclose(after.state.server.weights, alone.weights, rtol=1e-6)
    for mine, theirs in zip(after.state.server.slots, alone.slots, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    assert not np.array_equal(trial.servers[0].slots[0], trial.servers[2].slots[0])
    assert [server.steps for server in trial.servers] == [1, 0, 1]


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()], ids=["FedAvg", "FedYogi"])
def test_a_cohort_on_trial_goes_to_bytes_and_back_and_goes_on_alike(aggregator: Aggregator) -> None:
    labels = np.arange(CLIENTS) % 3
    state = closed(opening(on_trial(2, aggregator), labels), updates_of(labels), aggregator=aggregator).state
    again = from_bytes(CohortState, to_bytes(state), AUXO.own_states)
    one, other = (
        closed(opening(which, labels), updates_of(labels, 1), aggregator=aggregator) for which in (state, again)
    )

    assert trial_of(state).heard.judges == CLIENTS
    assert to_bytes(again) == to_bytes(state)
    assert to_bytes(one.outcome) == to_bytes(other.outcome)


def test_closing_on_trial_leaves_all_that_it_is_given_untouched() -> None:
    state, labels = on_trial(2), np.array([0, 1, 2, -1])
    before = to_bytes(state)
    after = closed(opening(state, labels), updates_of(np.array([0, 1, 2, 0])))

    assert to_bytes(state) == before
    assert after.closing.states[0] is state


# From the first round on.


def test_a_cohort_pools_clusters_and_begins_a_trial() -> None:
    auxo = replace(AUXO, clustering=replace(AUXO.clustering, clusters=2))
    state, labels, stages = fresh(), np.full(CLIENTS, -1), []
    for number in range(4):
        found = closed(opening(state, labels, generation=1), of_two_groups(CLIENTS, seed=number), auxo=auxo)
        state = found.state
        labels = np.where(np.isnan(found.told).any(axis=1), labels, np.nan_to_num(found.told).argmax(axis=1))
        search = search_of(state)
        stages.append((search.pool.sketches, search.clustering.generation, search.trial is not None))

    assert stages == [(CLIENTS, 0, False), (0, 1, False), (0, 1, True), (0, 1, True)]
    assert trial_of(state).rounds == 1
    assert labels.tolist() in ([0, 1] * 6, [1, 0] * 6)


def test_the_late_of_a_round_that_is_clustered_are_told_where_they_belong_and_change_nothing() -> None:
    auxo = replace(AUXO, clustering=replace(AUXO.clustering, clusters=2))
    pooled = closed(opening(fresh()), of_two_groups(CLIENTS), auxo=auxo).state
    together = closed(opening(pooled), of_two_groups(CLIENTS, seed=1), late=[10, 11], auxo=auxo)
    alone = closed(opening(pooled), of_two_groups(CLIENTS, seed=1)[:10], auxo=auxo)

    assert to_bytes(search_of(together.state)) == to_bytes(search_of(alone.state))
    assert together.told.argmax(axis=1).tolist() in ([0, 1] * 6, [1, 0] * 6)


def test_a_cohort_where_no_two_branches_could_fill_a_round_pools_nothing() -> None:
    after = closed(opening(fresh(), share=7), of_two_groups(CLIENTS))

    assert search_of(after.state) == Search()
    assert np.isnan(after.told).all()


def purity(cohorts: IntArray, true: IntArray) -> float:
    """Return the share of clients that are of their cohort's most frequent group."""
    return sum(int(np.bincount(true[cohorts == cohort]).max()) for cohort in np.unique(cohorts)) / len(true)


def test_hidden_groups_are_found_by_a_trial_in_a_short_run() -> None:
    auxo = Auxo(
        clustering=ClusteringSettings(clusters=2, pool_rounds=3, pool_per_cluster=20),
        trial=TrialSettings(rounds=6, min_participants=4, looks_from=8, waits_for=0.6),
    )
    found = run(auxo, 40)

    assert [event.cohort for event in found.events if isinstance(event, Partitioned)][:1] == [ROOT]
    assert purity(found.placement, groups()) > 0.9
