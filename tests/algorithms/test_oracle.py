from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.oracle import ByGroup, KnownGroups, Oracle
from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg, RateScaling
from auxo.core.asking import Asks
from auxo.core.cohort_algorithm import Affinities, Closing, CohortAlgorithm, NeedsGroups, Opening, Outcome, Participants
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import AdmitAll
from auxo.core.matching import CheckIns
from auxo.core.partition import Keep, Outlook, Partition
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import Partitioned
from tests.algorithms.short_runs import CLIENTS, groups, run
from tests.core.made_updates import N_PARAMS, alike, answers, claims, gathered, movement_of

GROUPS = np.array([0, 1, 1, 2, 1, 0, 1, 0])
BY_GROUP = Partition((0, 1, 2), (3 / 8, 4 / 8, 1 / 8), generation=0)
TREE = CohortTree().partition(ROOT, BY_GROUP.routes, BY_GROUP.weights, BY_GROUP.generation)
FRESH = CohortState(FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32)))


def closed(
    oracle: KnownGroups, *, cohorts: int = 1, progress: float = 0.5, late: tuple[int, ...] = (), share: int = 20
) -> Outcome:
    """Return what becomes of a round of six, of whom the first four are members."""
    now = Closing(
        ROOT,
        (FRESH,),
        Participants(
            np.arange(6), (ROOT,), Asks(np.full(6, -1), np.zeros(6, dtype=np.int64)), notes=claims(6, known=4)
        ),
        Outlook(progress, 20, cohorts, 40.0),
        share,
    )
    outcome = oracle.close(now, gathered(answers(alike(6), late)), FedAvg(), stream(0, "cluster"))
    assert outcome is not None
    assert isinstance(oracle.admission(now), AdmitAll)
    return outcome


def told(outcome: Outcome) -> Affinities:
    assert outcome.affinities is not None
    return outcome.affinities


def check_ins(clients: list[int]) -> CheckIns:
    return CheckIns(np.array(clients, dtype=np.int64), Requests.silent(TREE, np.zeros(len(clients), dtype=np.int64)))


# What is asked for.


def test_the_oracle_is_told_the_groups_and_gives_one_algorithm_for_each_start() -> None:
    method = Oracle(starts=(0.0, 0.25, 1.0), rate_scaling="sqrt", sharing="equal")
    made = method.given(GROUPS)

    assert isinstance(method, NeedsGroups)
    assert not isinstance(method, CohortAlgorithm)
    assert all(isinstance(one, CohortAlgorithm) for one in made)
    assert [(one.at, one.rate_scaling) for one in made] == [(0.0, "sqrt"), (0.25, "sqrt"), (1.0, "sqrt")]
    assert {one.sharing for one in made} == {"equal"}


def test_cohorts_share_the_participants_by_the_true_sizes_of_the_groups() -> None:
    (known,) = Oracle(starts=(0.0,)).given(GROUPS)
    (equal,) = Oracle(starts=(0.0,), sharing="equal").given(GROUPS)

    assert known.shares(TREE, TREE.leaves) == (3 / 8, 4 / 8, 1 / 8)
    assert equal.shares(TREE, TREE.leaves) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("starts", [(), (-0.1,), (0.5, 1.1), (float("nan"),)])
def test_starts_beyond_the_run_are_refused(starts: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"starts: expected one or more parts of the run in \[0, 1\]"):
        Oracle(starts=starts)


# Where clients go.


@pytest.mark.parametrize("way", ["match", "place"])
def test_everybody_goes_to_the_cohort_of_its_group_once_there_are_such_cohorts(way: str) -> None:
    matching = KnownGroups(GROUPS, 0.0).matching
    assert isinstance(matching, ByGroup)
    send = matching.match if way == "match" else matching.place
    together = send(CoordinatorState(CohortTree(), {}), check_ins([3, 0, 4]), stream(0, "match"))
    apart = send(CoordinatorState(TREE, {}), check_ins([3, 0, 4]), stream(0, "match"))

    assert [CohortTree().cohorts[cohort] for cohort in together.cohort] == ["0", "0", "0"]
    assert [TREE.cohorts[cohort] for cohort in apart.cohort] == ["0.2", "0.0", "0.1"]
    assert together.vouched.all()
    assert apart.vouched.all()


def test_nobody_at_all_can_be_matched() -> None:
    assert ByGroup(GROUPS).match(CoordinatorState(TREE, {}), check_ins([]), stream(0, "match")).cohort.shape == (0,)


# When they part.


@pytest.mark.parametrize(("at", "partition"), [(0.0, BY_GROUP), (0.25, None)])
def test_groups_never_meet_or_begin_together(at: float, partition: Partition | None) -> None:
    start = KnownGroups(GROUPS, at).begin(lambda number: np.full(2, number, dtype=np.float32))

    assert start.partition == partition
    assert [model.tolist() for model in start.models] == [[0.0, 0.0]]  # one for all of them


@pytest.mark.parametrize(
    ("at", "progress", "cohorts", "parts"),
    [(0.25, 0.2, 1, False), (0.25, 0.25, 1, True), (0.25, 0.5, 3, False), (0.0, 0.5, 1, False)],
    ids=["not yet", "now", "already", "from the start"],
)
def test_groups_part_once_when_their_time_has_come(at: float, progress: float, cohorts: int, parts: bool) -> None:
    outcome = closed(KnownGroups(GROUPS, at), cohorts=cohorts, progress=progress)

    assert outcome.decision == (BY_GROUP if parts else Keep())


# A round.


def test_members_come_first_and_all_train_on_all_their_samples() -> None:
    left = CohortId("0.0")
    requests = replace(
        Requests.silent(TREE, np.zeros(3, dtype=np.int64)),
        cohort=np.full(3, TREE.index[left]),
        reward=np.array([0.0, 0.3, 0.0]),
        ranked_first=np.ones(3, dtype=np.bool_),
    )
    selected = CheckIns(np.array([0, 5, 7]), requests)
    plan = KnownGroups(GROUPS, 0.0).plan(Opening(left, TREE, FRESH, selected, np.ones(3, dtype=np.bool_), 0.1, 3))

    assert plan.rows.tolist() == [1, 0, 2]
    assert plan.asks.fold.tolist() == [-1, -1, -1]
    assert (plan.offered, plan.asks.model.tolist(), plan.hears_late) == ((left,), [0, 0, 0], False)


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", 0.5), ("linear", 0.25)])
def test_the_rate_follows_the_share_where_it_is_asked_to(scaling: RateScaling, factor: float) -> None:
    outcome = closed(KnownGroups(GROUPS, 0.0, scaling), cohorts=3, share=5)
    movement = movement_of(gathered(answers(alike(6))))

    np.testing.assert_allclose(outcome.states[0].server.weights, factor * movement, rtol=1e-6)
    assert outcome.states[0].round == 1


def test_rewards_are_given_among_several_cohorts_and_nobody_hears_of_clusters() -> None:
    alone, together = (told(closed(KnownGroups(GROUPS, 0.0), cohorts=cohorts)) for cohorts in (1, 3))

    assert np.isnan(alone.instant_reward).all()
    assert (np.abs(together.instant_reward) <= 1).all()
    assert together.similarity.shape == (6, KnownGroups.client_half.clusters)
    assert np.isnan(together.similarity).all()
    assert together.generation == 0


def test_a_round_without_a_usable_update_comes_to_nothing() -> None:
    oracle = KnownGroups(GROUPS, 0.25)
    participants = Participants(np.arange(0), (ROOT,), Asks(np.arange(0), np.arange(0)), notes=claims(0))
    now = Closing(ROOT, (FRESH,), participants, Outlook(0.5, 20, 1, 40.0), 20)

    assert oracle.close(now, gathered([]), FedAvg(), stream(0, "cluster")) is None


# A run.


@pytest.mark.parametrize("at", [0.0, 0.5])
def test_in_a_run_every_group_gets_a_cohort_that_its_members_alone_train(at: float) -> None:
    result = run(KnownGroups(groups(), at), 6)
    tree = result.state.coordinator.tree
    here = CheckIns(np.arange(CLIENTS), Requests.silent(tree, np.zeros(CLIENTS, dtype=np.int64)))
    placed = ByGroup(groups()).place(result.state.coordinator, here, stream(0, "place"))

    assert tree.leaves == ("0.0", "0.1")
    assert {state.round for state in result.state.coordinator.cohorts.values()} == {6}
    assert [tree.cohorts[leaf] for leaf in placed.cohort] == [f"0.{group}" for group in groups()]
    assert len([event for event in result.events if isinstance(event, Partitioned)]) == (at > 0)


def test_the_same_run_gives_the_same_bits() -> None:
    one, other = (run(KnownGroups(groups(), 0.0), 3) for _ in range(2))

    assert to_bytes(one.state.coordinator) == to_bytes(other.state.coordinator)
