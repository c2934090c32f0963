import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.core.affinity import Requests
from auxo.core.aggregators import Aggregator, FedAvg, FedYogi
from auxo.core.asking import Asks
from auxo.core.cohort_algorithm import Closing, CohortAlgorithm, Opening, Participants, RoundNotes
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import AdmitAll
from auxo.core.matching import CheckIns, ToTheRoot
from auxo.core.own_state import NOTHING
from auxo.core.partition import Keep, Outlook
from auxo.core.rng import stream
from auxo.core.types import ROOT
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import CohortEnded, RoundClosed
from tests.algorithms.short_runs import PARTICIPANTS, run
from tests.core.made_updates import N_PARAMS, alike, answers, gathered, movement_of

AGGREGATORS = pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])


def closing(n: int, state: CohortState) -> Closing:
    nothing = np.full(n, -1)
    participants = Participants(np.arange(n), (ROOT,), Asks(nothing, np.zeros(n, dtype=np.int64)))
    return Closing(ROOT, (state,), participants, Outlook(0.1, n, 1, 40.0), share=n)


def test_the_base_is_a_cohort_algorithm_without_a_client_half_or_states_of_its_own() -> None:
    algorithm: CohortAlgorithm = OneCohort()

    assert isinstance(algorithm, CohortAlgorithm)
    assert algorithm.client_half is None
    assert algorithm.own_states == ()
    assert algorithm.matching == ToTheRoot()
    assert algorithm.memory(None) == NOTHING


def test_there_is_one_model_and_one_cohort_that_opens_rounds() -> None:
    start = OneCohort().begin(lambda number: np.full(2, number, dtype=np.float32))

    assert [model.tolist() for model in start.models] == [[0.0, 0.0]]
    assert start.partition is None
    assert OneCohort().openers(CohortTree()) == (ROOT,)
    assert OneCohort().shares(CohortTree(), (ROOT,)) == (1.0,)


def test_all_train_the_one_model_on_all_their_samples_in_the_order_selected() -> None:
    selected = CheckIns(np.array([7, 3, 5]), Requests.silent(CohortTree(), np.zeros(3, dtype=np.int64)))
    state = CohortState(FedAvg().initial(np.zeros(2, dtype=np.float32)))
    opening = Opening(ROOT, CohortTree(), state, selected, np.zeros(3, dtype=np.bool_), progress=0.1, share=3)
    plan = OneCohort().plan(opening)

    assert plan.rows.tolist() == [0, 1, 2]
    assert plan.asks.fold.tolist() == [-1, -1, -1]
    assert plan.asks.model.tolist() == [0, 0, 0]
    assert plan.offered == (ROOT,)
    assert (plan.hears_late, plan.notes) == (False, NOTHING)


@AGGREGATORS
def test_a_round_is_the_aggregators_step_and_nothing_else(aggregator: Aggregator) -> None:
    state = CohortState(aggregator.initial(np.zeros(N_PARAMS, dtype=np.float32)), round=3, check_ins=12.0)
    result, now = gathered(answers(alike(6), late=[2])), closing(6, state)
    before = to_bytes(now)
    outcome = OneCohort().close(now, result, aggregator, stream(0, "cluster"))

    assert outcome is not None
    assert isinstance(OneCohort().admission(now), AdmitAll)
    (after,) = outcome.states
    assert to_bytes(after.server) == to_bytes(aggregator.step(state.server, movement_of(result)))
    assert (after.round, after.check_ins) == (4, 12.0)
    assert (outcome.decision, outcome.affinities, outcome.table, outcome.notes) == (Keep(), None, None, RoundNotes())
    assert to_bytes(now) == before


def test_a_round_without_a_usable_update_comes_to_nothing() -> None:
    state = CohortState(FedAvg().initial(np.zeros(N_PARAMS, dtype=np.float32)))

    for result in (gathered([]), gathered(answers(alike(2), late=[0, 1]))):
        assert OneCohort().close(closing(2, state), result, FedAvg(), stream(0, "cluster")) is None


@AGGREGATORS
def test_a_whole_run_trains_one_cohort_to_its_end(aggregator: Aggregator) -> None:
    result = run(OneCohort(), 5, aggregator)
    closed = [event for event in result.events if isinstance(event, RoundClosed)]

    assert [event.round for event in closed] == [1, 2, 3, 4, 5]
    assert {event.participants for event in closed} == {PARTICIPANTS}
    assert isinstance(result.events[-1], CohortEnded)
    assert result.state.coordinator.tree.leaves == (ROOT,)
    assert result.state.spent.participations == 5 * PARTICIPANTS
