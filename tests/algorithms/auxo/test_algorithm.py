"""Auxo's rounds: who takes part, who is admitted, and what a round leaves behind, from the first to a partition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, ClusteringSettings, OnTrial, Pooling, TrialSettings
from auxo.algorithms.auxo.gate import Gate
from auxo.algorithms.auxo.judges import seals
from auxo.algorithms.auxo.looking import Candidate
from auxo.algorithms.auxo.sorting import Sorting
from auxo.algorithms.auxo.views import Prints, View
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg, RateScaling
from auxo.core.asking import LEAST_LOSS, Answer, Asks, Judgement
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import (
    Affinities,
    Closing,
    CohortAlgorithm,
    InitialModel,
    Opening,
    Outcome,
    Participants,
    held_by,
)
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import AdmitAll, ByDirections, Gathered, Returned, gather
from auxo.core.matching import ByRequest, CheckIns
from auxo.core.own_state import OwnState, own
from auxo.core.partition import Keep, Outlook, Partition
from auxo.core.rewards import RewardSettings
from auxo.core.rng import stream
from auxo.core.shares import Sharing
from auxo.core.types import ROOT, CohortId, Float32Array, FloatArray
from auxo.protocol.codec import to_bytes
from tests.algorithms.auxo.made_trials import heard, said_of, server_at, settled, trial_of, two_groups
from tests.core.made_updates import FINGERPRINT, N_PARAMS, alike, answers, claims, movement_of, of_two_groups

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
FRESH = CohortState(FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32)), memory=Pooling())
OUTLOOK = Outlook(progress=0.2, total_participants=20, cohorts=1, check_ins=40.0)
SEVERAL = replace(OUTLOOK, cohorts=2)
AUXO = Auxo(clustering=ClusteringSettings(clusters=3, pool_rounds=2), rewards=RewardSettings(min_known=3))
EARLY = replace(AUXO, clustering=ClusteringSettings(clusters=3, pool_rounds=1))


def closing(
    brought: Claims,
    state: CohortState = FRESH,
    outlook: Outlook = OUTLOOK,
    share: int = 20,
    asks: Asks | None = None,
) -> Closing:
    """Return a round that closes whose participants bring this along."""
    n = len(brought.known)
    participants = Participants(np.arange(n), (ROOT,), asks or Asks.plain(n), notes=brought)
    return Closing(ROOT, (state,), participants, outlook, share)


def gathered_for(now: Closing, returned: Sequence[Returned], auxo: Auxo = AUXO) -> Gathered:
    servers = (now.states[0].server, *held_by(now.states[0])[0])
    sums = [FedAvg().accumulate(server) for server in servers]
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
    def pooling(self) -> Pooling:
        return own(Pooling, self.state.memory)

    @property
    def trial(self) -> OnTrial:
        return own(OnTrial, self.state.memory)

    @property
    def told(self) -> Affinities:
        assert self.outcome.affinities is not None
        return self.outcome.affinities

    @property
    def similarity(self) -> FloatArray:
        return self.told.similarity


def close(now: Closing, returned: Sequence[Returned], auxo: Auxo = AUXO, seed: int = 0) -> Closed:
    gathered = gathered_for(now, returned, auxo)
    outcome = auxo.close(now, gathered, FedAvg(), stream(seed, "cluster"))
    assert outcome is not None
    return Closed(outcome, gathered)


def on_trial(trial: OnTrial | None = None) -> CohortState:
    """Return a cohort of round 7 with a partition on trial."""
    return replace(FRESH, round=7, memory=trial or trial_of(2))


# What it is.


def test_auxo_is_a_cohort_algorithm_whose_clients_choose_and_keep_records() -> None:
    algorithm: CohortAlgorithm = AUXO

    assert isinstance(algorithm, CohortAlgorithm)
    assert algorithm.matching == ByRequest(compares=True)
    assert AUXO.client_half.affinity == AUXO.affinity
    assert AUXO.client_half.clusters == 3


def test_auxo_begins_with_one_cohort_that_knows_nothing_and_every_leaf_opens_rounds() -> None:
    def initial(number: int) -> Float32Array:
        return np.full(3, number, dtype=np.float32)

    draw: InitialModel = initial
    start = AUXO.begin(draw)

    assert start.partition is None
    assert [model.tolist() for model in start.models] == [[0.0, 0.0, 0.0]]
    assert AUXO.memory(None) == Pooling()
    assert AUXO.openers(TREE) == (LEFT, RIGHT)


@pytest.mark.parametrize(
    "memory", [trial_of(2, trials=3).parted(ROOT, 0), Pooling(trials=3)], ids=["parted", "pooling"]
)
def test_a_child_rests_at_first_and_shares_its_ancestors_chance_of_an_error(memory: Pooling) -> None:
    child = own(Pooling, AUXO.memory(replace(FRESH, round=7, memory=memory)))

    assert child == Pooling(rests_until=14, trials=3)


def test_how_fast_losses_fell_on_trial_is_known_to_whoever_goes_on_from_it() -> None:
    trial = trial_of(2)
    trial = replace(trial, evidence=settled(trial.evidence, 0.4))
    child = own(Pooling, AUXO.memory(replace(FRESH, round=7, memory=trial.parted(ROOT, 0))))

    assert [child.steep, trial.given_up().steep] == pytest.approx([0.4, 0.4], abs=0.01)
    found = (Candidate(View(), np.inf, np.eye(N_PARAMS)[:2]),)
    again = OnTrial.begin(replace(trial.given_up(), common=trial.common), found, server_at(0.0), trial.blocks, 9)
    assert again.evidence.steepness == trial.evidence.steepness


@pytest.mark.parametrize(
    ("participants", "rounds", "words"),
    [
        (1, 100, "two cohorts need two participants a round, and there is 1; raise training.participants"),
        (20, 5, "the first can be made after round 6, and there are 5; raise training.rounds"),
        (20, 6, None),
        (2, 6, "pools updates for 4 rounds"),
        (2, 7, None),
        (2000, 4, None),
    ],
)
def test_auxo_says_beforehand_that_it_will_partition_nothing(participants: int, rounds: int, words: str | None) -> None:
    said = Auxo().why_no_partition(participants, rounds)

    assert (said is None) if words is None else (said is not None and words in said)


# The plan.


def opening(n: int, known: Sequence[int] = (), state: CohortState = FRESH, tree: CohortTree = TREE) -> Opening:
    """Return a round's opening for so many selected clients, some of whom are members."""
    cohort = tree.leaves[0]
    is_known = np.isin(np.arange(n), known)
    silent = Requests.silent(tree, np.arange(n))
    requests = replace(
        silent,
        cohort=np.where(is_known, tree.index[cohort], -1),
        cluster=np.where(is_known, np.arange(n) % 2, -1),
        reward=np.where(is_known, 0.5, 0.0),
        ranked_first=is_known,
    )
    return Opening(cohort, tree, state, CheckIns(100 + np.arange(n), requests), is_known, progress=0.2, share=n)


def test_members_come_first_with_what_they_claim() -> None:
    plan = AUXO.plan(opening(6, known=[2, 5]))
    brought = own(Claims, plan.notes)

    assert plan.rows.tolist() == [2, 5, 0, 1, 3, 4]
    assert brought.known.tolist() == [True, True, False, False, False, False]
    assert brought.label.tolist() == [0, 1, -1, -1, -1, -1]
    assert plan.offered == (LEFT, RIGHT)
    assert plan.asks.model.tolist() == [LEAST_LOSS] * 6  # no comparison has named it for anybody


@pytest.mark.parametrize("late_feedback", [False, True])
def test_the_late_are_heard_where_they_are_to_have_feedback(late_feedback: bool) -> None:
    assert replace(AUXO, late_feedback=late_feedback).plan(opening(3)).hears_late is late_feedback


@pytest.mark.parametrize("state", [FRESH, on_trial()], ids=["pooling", "on trial"])
def test_a_plan_for_nobody_is_empty(state: CohortState) -> None:
    plan = AUXO.plan(opening(0, state=state))

    assert plan.rows.shape == plan.asks.fold.shape == plan.asks.model.shape == (0,)


@pytest.mark.parametrize("check_ins", [30.0, 3000.0], ids=["few", "many"])
def test_nobody_keeps_samples_back_from_what_is_pooled(check_ins: float) -> None:
    state = replace(FRESH, check_ins=check_ins)

    assert AUXO.plan(opening(5, state=state, tree=CohortTree())).asks.fold.tolist() == [-1] * 5


def test_a_trial_plans_its_own_rounds() -> None:
    plan = AUXO.plan(opening(12, state=on_trial(trial_of(2, everybody=True)), tree=CohortTree()))

    assert plan.asks.judges is not None
    assert (plan.asks.judges == [0, 1, 2]).all()
    few = replace(AUXO, trial=TrialSettings(judges=5)).plan(opening(12, state=on_trial(), tree=CohortTree()))
    assert few.asks.judges is not None
    assert (few.asks.judges.max(axis=1) >= 0).sum() == 5


@pytest.mark.parametrize(("sharing", "shares"), [("members", (0.75, 0.25)), ("equal", (1.0, 1.0))])
def test_cohorts_share_participants_as_they_are_told_to(sharing: Sharing, shares: tuple[float, ...]) -> None:
    tree = CohortTree().partition(ROOT, (0, 1), (0.75, 0.25))

    assert replace(AUXO, sharing=sharing).shares(tree, tree.leaves) == shares


# Admission.


@pytest.mark.parametrize(
    ("outlook", "admit_misfits"), [(OUTLOOK, False), (SEVERAL, True)], ids=["a single cohort", "misfits admitted"]
)
def test_everybody_is_admitted_where_nobody_is_to_be_compared(outlook: Outlook, admit_misfits: bool) -> None:
    auxo = replace(AUXO, admit_misfits=admit_misfits)
    now = closing(claims(7, known=6), outlook=outlook)
    result = gathered_for(now, answers(np.stack([*alike(6), -alike(1)[0]])), auxo)

    assert isinstance(auxo.admission(now), AdmitAll)
    assert (result.used, result.misfits) == (7, 0)


SORTING = Sorting(
    ROOT,
    View("input energies"),
    np.eye(2),
    Prints(*np.zeros((3, 1, 4))),
    np.zeros(N_PARAMS, dtype=np.int64),
    1,
    np.ones(2, dtype=bool),
)


@pytest.mark.parametrize(
    ("memory", "reads_layers"),
    [
        (Pooling(), True),
        (Pooling(rests_until=10), False),
        (Pooling(rests_until=10, sorting=SORTING), True),
        (trial_of(2), True),
    ],
    ids=["pools", "rests", "rests, and sorts by inputs", "on trial"],
)
def test_layers_are_read_unless_a_cohort_rests(memory: OwnState, reads_layers: bool) -> None:
    now = closing(claims(7, known=6))

    admission = AUXO.admission(replace(now, states=(replace(now.states[0], memory=memory),)))

    assert isinstance(admission, ByDirections) is not reads_layers


def test_among_several_cohorts_newcomers_are_compared_with_the_members() -> None:
    now = closing(claims(7, known=6), outlook=SEVERAL)
    result = gathered_for(now, answers(np.stack([*alike(6), -alike(1)[0]])))

    assert isinstance(AUXO.admission(now), Gate)
    assert (result.used, result.misfits) == (6, 1)


# Closing a round that pools.


@pytest.mark.parametrize("state", [FRESH, on_trial()], ids=["pooling", "on trial"])
@pytest.mark.parametrize(
    "returned",
    [[], [Returned(0, Answer(np.zeros(1, dtype=np.float32), 3))], answers(alike(2), late=[0, 1])],
    ids=["nobody", "refused", "too late"],
)
def test_a_round_without_a_usable_update_comes_to_nothing(returned: list[Returned], state: CohortState) -> None:
    now = closing(claims(2), state)

    assert AUXO.close(now, gathered_for(now, returned), FedAvg(), stream(0, "cluster")) is None


@pytest.mark.parametrize("state", [FRESH, on_trial()], ids=["pooling", "on trial"])
@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", 0.5**0.5), ("linear", 0.5)])
def test_the_server_steps_by_the_scaled_mean_and_counts_the_round(
    scaling: RateScaling, factor: float, state: CohortState
) -> None:
    auxo = replace(AUXO, rate_scaling=scaling)
    closed = close(closing(claims(6), state, share=10), answers(alike(6)), auxo)

    np.testing.assert_allclose(closed.state.server.weights, factor * movement_of(closed.gathered), rtol=1e-6)
    assert closed.state.round == state.round + 1
    np.testing.assert_array_equal(state.server.weights, np.zeros(N_PARAMS))


@pytest.mark.parametrize("state", [FRESH, on_trial()], ids=["pooling", "on trial"])
def test_closing_leaves_all_that_it_is_given_untouched(state: CohortState) -> None:
    now = closing(claims(12, known=4, labels=np.arange(12) % 2), state, SEVERAL)
    result = gathered_for(now, answers(of_two_groups(12, seed=1), late=[3]))
    movement = movement_of(result).copy()
    before = to_bytes(now), result.directions.copy(), result.lengths.copy()
    AUXO.close(now, result, FedAvg(), stream(0, "cluster"))

    assert to_bytes(now) == before[0]
    np.testing.assert_array_equal(result.directions, before[1])
    np.testing.assert_array_equal(result.lengths, before[2])
    np.testing.assert_array_equal(movement_of(result), movement)


def test_updates_are_pooled_until_there_are_enough_and_then_a_partition_is_tried() -> None:
    first = close(closing(claims(12)), answers(of_two_groups(12)))
    second = close(closing(claims(12), first.state), answers(of_two_groups(12, seed=1)))

    assert len(first.pooling.rounds) == 1
    assert np.isnan(first.similarity).all()
    assert first.similarity.shape == (12, 3)
    assert second.outcome.decision == Keep()
    assert len(second.trial.servers) == 2
    assert (second.trial.generation, second.trial.rounds, second.trial.resumes.trials) == (1, 0, 1)
    assert all(np.array_equal(one.weights, second.state.server.weights) for one in second.trial.servers)
    nearest = second.trial.nearest(_prints(second.gathered))[:, 0]
    assert len(set(nearest[::2])) == len(set(nearest[1::2])) == 1
    assert nearest[0] != nearest[1]


def _prints(gathered: Gathered) -> Prints:
    return Prints(gathered.directions, gathered.outputs, gathered.inputs)


def test_late_participants_and_those_of_other_models_are_not_pooled() -> None:
    returned = answers(of_two_groups(12), late=[3, 8, 9])
    in_time = [answer for answer in returned if not answer.late]
    one, other = (close(closing(claims(12)), which) for which in (returned, in_time))

    assert to_bytes(one.state) == to_bytes(other.state)
    assert len(one.told.instant_reward) == 12


def test_where_updates_are_all_alike_a_cohort_looks_again_later() -> None:
    same = np.tile(alike(1), (12, 1))
    closed = close(closing(claims(12), replace(FRESH, round=4)), answers(same), EARLY)

    assert closed.pooling == Pooling(rests_until=10, needs=1, clients=40.0)  # everybody has been seen
    many = close(closing(claims(12), replace(FRESH, round=4), replace(OUTLOOK, check_ins=4000.0)), answers(same), EARLY)
    assert many.pooling.needs == 2


def test_a_cohort_that_rests_pools_nothing() -> None:
    rests = replace(FRESH, round=4, memory=Pooling(rests_until=10, needs=6))

    assert close(closing(claims(12), rests), answers(of_two_groups(12))).pooling == rests.memory
    awake = replace(rests, round=10)
    assert len(close(closing(claims(12), awake), answers(of_two_groups(12))).pooling.rounds) == 1


@pytest.mark.parametrize(("trials", "progress", "pools"), [(1, 0.1, True), (1, 0.9, False), (0, 0.9, True)])
def test_no_trial_is_prepared_that_would_be_in_the_way_when_a_run_ends_unless_it_is_the_first(
    trials: int, progress: float, pools: bool
) -> None:
    state = replace(FRESH, round=19, memory=Pooling(trials=trials))
    closed = close(closing(claims(12), state, replace(OUTLOOK, progress=progress)), answers(of_two_groups(12)))

    assert bool(closed.pooling.rounds) is pools


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


@pytest.mark.parametrize("state", [FRESH, on_trial()], ids=["pooling", "on trial"])
def test_every_valid_update_is_answered_in_the_order_of_its_participant(state: CohortState) -> None:
    spoilt = answers(of_two_groups(12))
    spoilt[4] = Returned(4, Answer(np.zeros(1, dtype=np.float32), 3))
    closed = close(closing(claims(12), state), spoilt)

    assert closed.gathered.rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert len(closed.told.instant_reward) == len(closed.told.similarity) == 11


# Closing a round on trial.


def judging(n: int, gain: float) -> list[Returned]:
    """Return answers of judges for whom in turn the first and the second branch is better than the own model."""
    losses = two_groups(n, gain)
    return [
        Returned(row, Answer(update, 20, judged=tuple(Judgement(loss, None, loss) for loss in losses[row].tolist())))
        for row, update in enumerate(alike(n))
    ]


def asked(n: int) -> Asks:
    return replace(Asks.plain(n), judges=np.tile([0, 1, 2], (n, 1)))


def test_each_branch_moves_by_those_who_are_nearest_to_it_and_stays_if_nobody_is() -> None:
    closed = close(closing(claims(6), on_trial()), answers(alike(6)))  # all of them along the first axis
    before = own(OnTrial, on_trial().memory).servers

    np.testing.assert_allclose(closed.trial.servers[0].weights, before[0].weights + movement_of(closed.gathered, 1))
    np.testing.assert_allclose(movement_of(closed.gathered, 1), movement_of(closed.gathered, 0))
    np.testing.assert_array_equal(closed.trial.servers[1].weights, before[1].weights)
    np.testing.assert_allclose(closed.state.server.weights, movement_of(closed.gathered, 0), rtol=1e-6)
    assert closed.trial.rounds == 3


def test_where_everybody_judges_a_branch_moves_by_those_who_trained_it_and_the_own_model_by_the_others() -> None:
    trained = [replace(one, answer=replace(own(Answer, one.answer), model=2)) for one in answers(alike(6))[:3]]
    others = answers(alike(6))[3:]
    state = on_trial(trial_of(2, everybody=True))
    closed = close(closing(claims(6), state), [*trained, *others])
    before = own(OnTrial, state.memory).servers
    alone = close(closing(claims(6), state), others)

    np.testing.assert_array_equal(closed.trial.servers[0].weights, before[0].weights)
    np.testing.assert_allclose(closed.trial.servers[1].weights, before[1].weights + movement_of(closed.gathered, 2))
    np.testing.assert_array_equal(closed.state.server.weights, alone.state.server.weights)


@pytest.mark.parametrize("returned", [answers(alike(6)), answers(of_two_groups(6), late=[2])], ids=["alike", "groups"])
def test_a_round_on_trial_moves_the_own_model_bit_for_bit_as_one_without(returned: list[Returned]) -> None:
    rests = replace(on_trial(), memory=Pooling(rests_until=99))
    with_trial, without = (close(closing(claims(6), state), returned) for state in (on_trial(), rests))

    assert to_bytes(with_trial.state.server) == to_bytes(without.state.server)


def test_clusters_are_seen_without_what_those_shared_who_trained_the_own_model_in_the_last_round() -> None:
    returned = answers(of_two_groups(6), late=[3])
    assert isinstance(returned[1].answer, Answer)
    returned[1] = replace(returned[1], answer=replace(returned[1].answer, model=1))
    asks = replace(Asks.plain(6), model=np.array([0, 1, 0, 0, 0, 0]))
    closed = close(closing(claims(6), on_trial(), asks=asks), returned)
    rows = np.flatnonzero(np.isin(closed.gathered.rows, [0, 2, 4, 5]))

    assert len(rows) == 4
    np.testing.assert_array_equal(
        closed.trial.common.directions, closed.gathered.directions[rows].mean(axis=0, keepdims=True)
    )


def test_whoever_takes_part_in_a_trial_is_marked_even_if_it_is_late_or_has_not_judged() -> None:
    first = close(closing(claims(6), on_trial(trial_of(0))), answers(alike(6), late=[4])[1:])
    marks = seals(np.arange(1, 6), first.trial.generation, "")

    assert first.trial.seen.tolist() == sorted(marks.tolist())
    second = close(closing(claims(6), first.state), answers(alike(6))[:2])
    assert set(second.trial.seen.tolist()) == {*marks.tolist(), *seals(np.arange(1), 1, "").tolist()}


def test_judges_who_are_sure_part_the_cohort_at_once() -> None:
    closed = close(closing(claims(40), on_trial(), asks=asked(40)), judging(40, 0.5))
    decision = closed.outcome.decision

    assert isinstance(decision, Partition)
    assert decision.weights == (0.5, 0.5)
    assert decision.routes == (0, 1)
    assert decision.generation == 1
    notes = closed.outcome.notes
    assert (notes.judged, notes.children, notes.gives_up) == (40, 2, False)
    assert notes.gain == pytest.approx(0.5)
    assert closed.similarity.tolist() == [[1, 0, 0]] * 40  # their updates are nearest to the first branch


def test_a_partition_needs_participants_for_all_cohorts() -> None:
    full = replace(OUTLOOK, total_participants=9, cohorts=9)
    closed = close(closing(claims(40), on_trial(), full, asks=asked(40)), judging(40, 0.5))

    assert closed.outcome.decision == Keep()


def test_a_trial_that_gives_up_rests_or_lets_another_view_have_its_turn() -> None:
    nothing = heard(said_of(np.ones((60, 3))))
    for others, rests_until in ((False, 16), (True, 8)):
        trial = trial_of(4, evidence=nothing, others=others)
        closed = close(closing(claims(6), on_trial(trial)), answers(alike(6)))

        assert closed.outcome.notes.gives_up
        assert closed.outcome.decision == Keep()
        assert (closed.pooling.rests_until, closed.pooling.tried, closed.pooling.trials) == (rests_until, ("plain",), 1)


def test_a_promising_trial_is_looked_at_again_soon_and_its_views_are_not_used_up() -> None:
    # By loss judges are sure, by score they are worse off.
    losses, last = two_groups(60, 0.5), AUXO.trial.most_rounds - 1
    worse, better = (heard(said_of(losses, scores=sign * losses)) for sign in (1, -1))
    closed = close(closing(claims(6), on_trial(trial_of(last, evidence=worse))), answers(alike(6)))

    assert closed.outcome.notes.gives_up
    assert closed.outcome.decision == Keep()
    assert (closed.pooling.rests_until, closed.pooling.tried, closed.pooling.trials) == (10, (), 1)
    assert closed.pooling.pools(11)  # a quarter of the rounds behind it, not all of them
    assert closed.pooling.kept is not None
    np.testing.assert_array_equal(closed.pooling.kept.centres, trial_of(last).shadows[0].centres)
    many, said = two_groups(60, 0.5, models=4), trial_of(last, branches=(3,))
    alone = replace(said, evidence=heard(said_of(many, scores=many)))  # would leave no room for what is found by then
    closed = close(closing(claims(6), on_trial(alone)), answers(alike(6)))
    assert (closed.pooling.rests_until, closed.pooling.kept) == (10, None)
    parted = close(closing(claims(6), on_trial(trial_of(last, evidence=better))), answers(alike(6)))
    assert isinstance(parted.outcome.decision, Partition)


@pytest.mark.parametrize(("share", "parts"), [(20, True), (10, True), (4, False)])
def test_the_smaller_a_cohorts_share_of_the_participants_the_more_must_be_gained(share: int, parts: bool) -> None:
    # Of 20 participants: 2 % of the loss is asked for, 4 % and 10 %; judges gain 6 %.
    evidence = settled(heard(said_of(two_groups(600, 0.06))))
    last = on_trial(trial_of(AUXO.trial.most_rounds - 1, evidence=evidence))
    decision = close(closing(claims(6), last, share=share), answers(alike(6))).outcome.decision

    assert isinstance(decision, Partition) is parts


def test_a_trial_in_which_nobody_judges_ends() -> None:
    state, rounds = on_trial(trial_of(0)), 0
    while isinstance(state.memory, OnTrial):
        state = close(closing(claims(6), state), answers(alike(6))).state
        rounds += 1

    assert rounds == 4  # and not only after most_rounds


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_branch_whose_model_has_diverged_is_no_child_and_keeps_no_other_from_being_one(bad: float) -> None:
    losses = [(1.6, 0.5, bad) if row % 2 else (0.4, 1.9, bad) for row in range(40)]
    returned = [
        Returned(row, Answer(update, 20, judged=tuple(Judgement(loss, None, loss) for loss in losses[row])))
        for row, update in enumerate(alike(40))
    ]
    before = on_trial()
    closed = close(closing(claims(40), before, asks=asked(40)), returned)
    decision, branch = closed.outcome.decision, own(OnTrial, before.memory).servers[0]
    movement = closed.gathered.movements[1]
    branch = branch if movement is None else FedAvg().step(branch, movement)

    assert closed.outcome.notes.gain == pytest.approx(0.5)  # half of them gain 1.1, the usual loss and no more
    assert isinstance(decision, Partition)
    for server, model in zip(decision.servers, (closed.state.server, branch), strict=True):
        np.testing.assert_array_equal(server.weights, model.weights)
    assert decision.weights == (0.5, 0.5)
