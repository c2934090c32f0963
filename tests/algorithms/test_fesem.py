from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.algorithms.fesem import FeSem
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.cohort_table import CohortTable
from auxo.core.own_state import own
from auxo.core.types import ROOT
from auxo.protocol.codec import to_bytes
from tests.algorithms.short_runs import run
from tests.algorithms.toy_federation import Toy, cohorts_of, models

# One number each, and a step goes half of the way.
TARGETS = {0: (4.0,), 1: (0.0,), 2: (20.0,), 4: (24.0,), 5: (0.0,)}


def test_clients_are_first_dealt_to_centres_which_become_their_members_means() -> None:
    toy = Toy(FeSem(cohorts=2), TARGETS, rate=0.5)
    state, closed = toy.round(toy.start((0.0,)))
    dealt = closed.gathered.model.tolist()

    assert closed.gathered.rows.tolist() == [0, 1, 2, 3, 4]
    trained = {client: TARGETS[client][0] / 2 for client in TARGETS}  # from 0
    means = [
        sum(trained[client] for client, centre in zip(TARGETS, dealt, strict=True) if centre == number)
        / dealt.count(number)
        for number in (0, 1)
    ]
    assert list(models(state).values()) == [[pytest.approx(mean)] for mean in means]
    assert own(CohortTable, state.table).cohort.tolist() == [1 + centre for centre in dealt]


def test_then_each_belongs_to_the_centre_nearest_to_its_trained_model_and_moves_it_there() -> None:
    toy = Toy(FeSem(cohorts=2), {1: (0.0,), 2: (16.0,), 3: (6.0,)}, rate=0.5)
    state, _ = toy.round(toy.start((0.0,)))
    left, right = state.tree.leaves
    # Put by hand: centres at 0 and 4; 1 and 3 belong to the left, 2 to the right.
    centres = {
        leaf: replace(state.cohorts[leaf], server=FedAvg().initial(np.array([weight], dtype=np.float32)))
        for leaf, weight in ((left, 0.0), (right, 4.0))
    }
    table = CohortTable(np.array([1, 2, 3]), np.array([1, 2, 1], dtype=np.int32))
    state, closed = toy.round(replace(state, cohorts=centres, table=table))

    # Trained models are 0 (from 0), 10 (from 4) and 3 (from 0): 3 is nearer to 4 than to 0.
    assert closed.gathered.placed is not None
    assert closed.gathered.placed.tolist() == [0, 1, 1]
    # The right centre becomes the mean of the models 10 and 3, and not 4 plus the mean of the updates 6 and 3.
    assert models(state) == {left: [0.0], right: [6.5]}
    assert cohorts_of(state, toy) == {1: left, 2: right, 3: right}


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
def test_with_one_centre_it_is_plain_federated_learning_bit_for_bit(aggregator: FedAvg | FedYogi) -> None:
    one, other = run(FeSem(cohorts=1), 3, aggregator), run(OneCohort(), 3, aggregator)

    assert one.events == other.events
    assert to_bytes(one.state.coordinator.cohorts[ROOT]) == to_bytes(other.state.coordinator.cohorts[ROOT])


def test_it_costs_what_federated_averaging_costs_once_everybody_has_a_centre() -> None:
    assert run(FeSem(cohorts=3, everybody=0), 4).state.spent == run(OneCohort(), 4).state.spent
    two, none = (run(FeSem(cohorts=3, everybody=rounds), 4).state for rounds in (2, 0))
    assert two.spent.downloads == 2 * len(two.busy_until_s) + none.spent.downloads // 2


def test_who_comes_late_is_kept_by_the_centre_it_was_dealt_to() -> None:
    """Why everybody takes part at first: the centre decides, and not what the client is like."""
    toy = Toy(FeSem(cohorts=2), {1: (0.0,), 2: (100.0,), 3: (100.0,), 4: (100.0,), 5: (100.0,)}, rate=0.1)
    state, _ = toy.round(toy.start((0.0,)), clients=[1, 2])
    left, right = state.tree.leaves
    centres = {
        leaf: replace(state.cohorts[leaf], server=FedAvg().initial(np.array([weight], dtype=np.float32)))
        for leaf, weight in ((left, 0.0), (right, 100.0))
    }
    state = replace(state, cohorts=centres, table=CohortTable(np.array([1, 2]), np.array([1, 2], dtype=np.int32)))
    _, closed = toy.round(state, clients=[3, 4, 5])
    assert closed.gathered.placed is not None
    assert closed.gathered.placed.tolist() == closed.gathered.model.tolist()  # all three are at 100
    assert 0 in closed.gathered.placed.tolist()


def test_impossible_settings_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="cohorts: expected at least 1"):
        FeSem(cohorts=0)
    with pytest.raises(ValueError, match="everybody: expected at least 0, got -1"):
        FeSem(everybody=-1)
