import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.algorithms.icfl import Icfl, LeavesInUse, two_sides
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.cohort_state import CoordinatorState
from auxo.core.own_state import own
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from tests.algorithms.short_runs import run
from tests.algorithms.toy_federation import Toy, cohorts_of, models

# Three clients up and two down, from the origin; a step goes half of the way.
TARGETS = {1: (0.0, 8.0), 2: (0.0, 8.0), 3: (0.0, 8.0), 4: (0.0, -8.0), 5: (0.0, -8.0), 6: (0.0, -8.0)}
EAGER = Icfl(most=3, smallest=2, wait=1)
FIRST, SECOND = CohortId("0.0"), CohortId("0.1")


def test_two_sides_are_told_apart_by_the_mean_cosine_within_and_across() -> None:
    directions = np.array([[0.0, 1.0], [0.6, 0.8], [0.0, -1.0]])
    side, gap = two_sides(directions)

    assert side.tolist() == [False, False, True]
    # Within, the one pair has cosine 0.8, counted both ways; across, cosines are -1 and -0.8.
    assert gap == pytest.approx(0.8 + 0.9)


def test_a_cluster_that_falls_apart_splits_and_the_smaller_side_goes_on_with_a_copy() -> None:
    toy = Toy(EAGER, TARGETS, rate=0.5)
    state, _ = toy.round(toy.start((0.0, 0.0)), clients=[1, 2, 3, 4, 5])

    # The mean update is (0, 0.8): half of 8 three times, and of -8 twice, over 5.
    assert models(state)[FIRST] == models(state)[SECOND] == pytest.approx([0.0, 0.8])
    assert own(LeavesInUse, state.cohorts[FIRST].memory).used == (0, 1)
    assert _known(toy, [1, 2, 3, 4, 5], state) == {1: FIRST, 2: FIRST, 3: FIRST, 4: SECOND, 5: SECOND}


def _known(toy: Toy, clients: list[int], state: CoordinatorState) -> dict[int, CohortId]:
    return cohorts_of(state, Toy(toy.algorithm, {client: TARGETS[client] for client in clients}, toy.rate))


def test_a_newcomer_whose_update_points_to_another_cluster_belongs_there_and_moves_nothing() -> None:
    toy = Toy(EAGER, TARGETS, rate=0.5)
    state, _ = toy.round(toy.start((0.0, 0.0)), clients=[1, 2, 3, 4, 5])
    state, _ = toy.round(state, clients=[1, 2, 3, 4, 5])
    # Both go half of the way from (0, 0.8): to (0, 4.4) and (0, -3.6).
    before = models(state)
    assert before[FIRST] == pytest.approx([0.0, 4.4])
    assert before[SECOND] == pytest.approx([0.0, -3.6])

    opened = toy.opened(state, CohortId("0"), [6])
    assert opened.participants.asks.model.tolist() == [0]  # the largest cluster's
    state, closed = toy.round(state, clients=[1, 6])
    assert closed.gathered.placed is not None
    assert closed.gathered.placed.tolist() == [0, 1]
    assert closed.gathered.used == 1
    assert closed.gathered.misfits == 1
    assert _known(toy, [6], state) == {6: SECOND}
    assert models(state)[SECOND] == before[SECOND]


def test_clusters_that_go_the_same_way_are_merged() -> None:
    # With settings that split whatever can be, 4 and 5 part from the others, to whose side they are but a little.
    targets = {1: (0.0, 8.0), 2: (0.0, 8.0), 3: (0.0, 8.0), 4: (1.0, 8.0), 5: (1.0, 8.0)}
    toy = Toy(Icfl(most=3, smallest=2, wait=1, gap=0.0, attach=1.0, merge=0.9), targets, rate=0.5)
    state, _ = toy.round(toy.start((0.0, 0.0)))
    assert own(LeavesInUse, state.cohorts[FIRST].memory).used == (0, 1)

    state, _ = toy.round(state)
    # From where they parted one goes straight up and the other nearly so: they are one again, in the larger.
    assert own(LeavesInUse, state.cohorts[FIRST].memory).used == (0,)
    assert set(cohorts_of(state, toy).values()) == {FIRST}


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"most": 1}, "most"), ({"attach": -1.0}, "attach"), ({"gap": 3.0}, "gap"), ({"merge": np.inf}, "merge"),
     ({"smallest": 0}, "smallest"), ({"wait": 0}, "wait")],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected"):
        Icfl(**settings)  # type: ignore[arg-type]  # one at a time


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
def test_a_cluster_that_never_splits_is_plain_federated_learning_bit_for_bit(aggregator: FedAvg | FedYogi) -> None:
    one, other = run(Icfl(gap=2.0), 8, aggregator).state, run(OneCohort(), 8, aggregator).state

    assert own(LeavesInUse, one.coordinator.cohorts[FIRST].memory).used == (0,)
    assert to_bytes(one.coordinator.cohorts[FIRST].server) == to_bytes(other.coordinator.cohorts[ROOT].server)
    assert one.spent == other.spent
