from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.core.affinity import Requests
from auxo.core.aggregators import Aggregator, FedAvg, FedYogi
from auxo.core.asking import LEAST_LOSS, Answer, Ask, Asks
from auxo.core.cohort_algorithm import CohortAlgorithm, Plan
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import AdmitAll
from auxo.core.matching import CheckIns, ToTheRoot
from auxo.core.own_state import NOTHING
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array, FloatArray
from auxo.protocol.codec import to_bytes
from auxo.runtime.closing import Closed, Training, close_round, closing_of, returned_by
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.runtime.rounds import end_round, match, open_round, there_for
from auxo.training.trainer import Job
from tests.algorithms.short_runs import PARTICIPANTS, run
from tests.core.made_devices import train_offered

FIRST, SECOND = CohortId("0.0"), CohortId("0.1")
NO_WARM_START = Ifca(cohorts=2, warm_start=0)

# A model is one number w. A client holds as many samples as SAMPLES says, all of them the number in MEANS. Its loss is
# (mean - w)^2, and to train is to go half of the way from w to its mean.
MEANS, SAMPLES = (1.0, 2.0, 9.0), (1, 3, 2)


def mean_losses(weights: Float32Array, jobs: Sequence[Job]) -> FloatArray:
    return np.array([float((MEANS[job.client_row] - weights[0]) ** 2) for job in jobs])


def train(weights: Float32Array, jobs: Sequence[Job]) -> Iterator[Answer]:
    for job in jobs:
        delta: Float32Array = (0.5 * (MEANS[job.client_row] - weights)).astype(np.float32)
        yield Answer(delta, SAMPLES[job.client_row])


@dataclass(frozen=True)
class Toy:
    """A federation of the three clients, all of whom take part in every round."""

    algorithm: CohortAlgorithm
    aggregator: Aggregator

    @property
    def rules(self) -> Federation:
        return Federation(self.algorithm, self.aggregator, 1, total_participants=3, total_rounds=9)

    def start(self, *models: float) -> CoordinatorState:
        return start(self.rules, lambda number: np.array([models[number]], dtype=np.float32))

    def round(self, state: CoordinatorState, clients: Sequence[int] = (0, 1, 2)) -> tuple[CoordinatorState, Closed]:
        here = CheckIns(np.array(clients), Requests.silent(state.tree, np.zeros(len(clients), dtype=np.int64)))
        arrived = match(self.rules, state, here, stream(0, "match"))
        opened = open_round(self.rules, state, there_for(self.rules, state, ROOT, arrived), 0)
        asked = opened.participants
        closing = closing_of(self.rules, opened.state, ROOT, asked)
        jobs = [
            Job(int(client), 0, Ask(model=int(model)))
            for client, model in zip(asked.clients, asked.asks.model, strict=True)
        ]
        models = tuple(one.server.weights for one in closing.states)
        training = Training(np.arange(len(jobs)), jobs, np.zeros(len(jobs), dtype=np.bool_), models)
        answers = train_offered(models, jobs, train, mean_losses)
        closed = close_round(self.rules, closing, returned_by(training, answers))
        assert closed.outcome is not None
        return end_round(self.rules, opened.state, closing, closed).state, closed


def weights(state: CoordinatorState) -> list[float]:
    return [float(state.cohorts[leaf].server.weights[0]) for leaf in state.tree.leaves]


def plan(ifca: Ifca, clients: Sequence[int], rounds: int) -> Plan:
    """Return what these clients are asked to do after so many rounds."""
    toy = Toy(ifca, FedAvg())
    state = toy.start(*range(ifca.cohorts))
    mine = {leaf: replace(cohort, round=rounds) for leaf, cohort in state.cohorts.items()}
    state = replace(state, cohorts=mine)
    here = CheckIns(np.array(clients), Requests.silent(state.tree, np.zeros(len(clients), dtype=np.int64)))
    rules = replace(toy.rules, total_participants=len(clients))
    arrived = match(rules, state, here, stream(0, "match"))
    opened = open_round(rules, state, there_for(rules, state, ROOT, arrived), 0)
    asked = opened.participants
    return Plan(
        np.arange(len(clients)),
        asked.offered,
        Asks(asked.asks.fold, asked.asks.model),
        hears_late=opened.hears_late,
        notes=asked.notes,
    )


# What it is.


def test_ifca_is_a_cohort_algorithm_that_remembers_nothing() -> None:
    algorithm: CohortAlgorithm = Ifca()

    assert isinstance(algorithm, CohortAlgorithm)
    assert algorithm.client_half is None
    assert algorithm.own_states == ()
    assert algorithm.matching == ToTheRoot()
    assert algorithm.memory(None) == NOTHING


@pytest.mark.parametrize(("cohorts", "warm_start", "name"), [(0, 1, "cohorts"), (2, -1, "warm_start")])
def test_impossible_settings_are_refused_by_name(cohorts: int, warm_start: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected at least"):
        Ifca(cohorts=cohorts, warm_start=warm_start)


def test_every_cohort_begins_with_a_draw_of_its_own_and_one_round_is_for_all_of_them() -> None:
    state = Toy(Ifca(cohorts=3), FedAvg()).start(5.0, 6.0, 7.0)

    assert state.tree.leaves == ("0.0", "0.1", "0.2")
    assert weights(state) == [5.0, 6.0, 7.0]
    assert Ifca(cohorts=3).openers(state.tree) == (ROOT,)
    assert Toy(Ifca(cohorts=3), FedAvg()).rules.share(state, ROOT) == 3


# A round by hand.


def test_each_participant_trains_the_model_of_least_loss_and_each_model_moves_by_those_who_chose_it() -> None:
    toy = Toy(NO_WARM_START, FedAvg())
    state, closed = toy.round(toy.start(0.0, 10.0))

    # Losses at 0 and at 10: client 0 has 1 and 81, client 1 has 4 and 64, client 2 has 81 and 1.
    assert closed.gathered.model.tolist() == [0, 0, 1]
    assert closed.gathered.losses.tolist() == [1.0, 4.0, 1.0]
    # Updates are 0.5, 1.0 and -0.5, on 1, 3 and 2 samples: (1 * 0.5 + 3 * 1.0) / 4 = 0.875, and -0.5 alone.
    assert weights(state) == [0.875, 9.5]
    assert {cohort.round for cohort in state.cohorts.values()} == {1}

    state, closed = toy.round(state)
    # Losses at 0.875 and at 9.5: 0.015625 and 72.25; 1.265625 and 56.25; 66.015625 and 0.25.
    assert closed.gathered.losses.tolist() == [0.015625, 1.265625, 0.25]
    # Updates are 0.0625, 0.5625 and -0.25: (1 * 0.0625 + 3 * 0.5625) / 4 = 0.4375.
    assert weights(state) == [0.875 + 0.4375, 9.25]
    assert {cohort.round for cohort in state.cohorts.values()} == {2}


def test_a_choice_is_made_anew_in_every_round() -> None:
    toy = Toy(NO_WARM_START, FedAvg())

    # At 0 and at 3.5 client 1 has losses 4 and 2.25; at 0 and at 5 it has 4 and 9.
    assert toy.round(toy.start(0.0, 3.5))[1].gathered.model.tolist() == [0, 1, 1]
    assert toy.round(toy.start(0.0, 5.0))[1].gathered.model.tolist() == [0, 0, 1]


def test_of_equally_good_models_the_first_is_trained() -> None:
    toy = Toy(NO_WARM_START, FedAvg())

    # Clients 0 and 1 are as far from 0 as from 2 and as from 4: losses 1 and 1, 4 and 4.
    assert toy.round(toy.start(0.0, 2.0), clients=[0])[1].gathered.model.tolist() == [0]
    assert toy.round(toy.start(0.0, 4.0), clients=[1])[1].gathered.model.tolist() == [0]


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
def test_a_model_that_nobody_chose_keeps_its_weights_and_its_optimiser_state(aggregator: Aggregator) -> None:
    toy = Toy(NO_WARM_START, aggregator)
    before, _ = toy.round(toy.start(0.0, 10.0))  # both have moved, and FedYogi remembers how
    # Clients 0 and 1 are nearer to the first model than to the second, which is about 10.
    after, closed = toy.round(before, clients=[0, 1])

    assert closed.gathered.model.tolist() == [0, 0]
    assert closed.gathered.movements[1] is None
    assert to_bytes(after.cohorts[SECOND].server) == to_bytes(before.cohorts[SECOND].server)
    assert to_bytes(after.cohorts[FIRST].server) != to_bytes(before.cohorts[FIRST].server)
    assert after.cohorts[SECOND].round == after.cohorts[FIRST].round == 2


def test_a_round_without_a_usable_update_comes_to_nothing() -> None:
    toy = Toy(NO_WARM_START, FedAvg())
    state = toy.start(0.0, 10.0)
    here = CheckIns(np.arange(3), Requests.silent(state.tree, np.zeros(3, dtype=np.int64)))
    arrived = match(toy.rules, state, here, stream(0, "match"))
    opened = open_round(toy.rules, state, there_for(toy.rules, state, ROOT, arrived), 0)
    closing = closing_of(toy.rules, opened.state, ROOT, opened.participants)

    assert close_round(toy.rules, closing, iter([])).outcome is None
    assert isinstance(NO_WARM_START.admission(closing), AdmitAll)


# The plan.


def test_every_participant_is_offered_all_models_and_takes_the_best() -> None:
    asked = plan(Ifca(cohorts=3, warm_start=2), range(10), rounds=2)

    assert asked.offered == ("0.0", "0.1", "0.2")
    assert asked.asks.model.tolist() == [LEAST_LOSS] * 10
    assert asked.asks.fold.tolist() == [-1] * 10
    assert (asked.hears_late, asked.notes) == (False, NOTHING)


def test_a_warm_start_deals_clients_to_models_once_and_for_all() -> None:
    ifca = Ifca(cohorts=3, warm_start=2)
    first, second = (plan(ifca, range(300), rounds).asks.model for rounds in (0, 1))
    some = plan(ifca, range(100, 200), rounds=1).asks.model

    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(some, first[100:200])  # whoever else is there
    counts = np.bincount(first, minlength=3)
    assert counts.sum() == 300
    assert counts.min() > 70  # about a third each


def test_in_a_warm_start_losses_decide_nothing_and_are_not_asked_for() -> None:
    toy = Toy(Ifca(cohorts=2, warm_start=1), FedAvg())
    dealt = plan(Ifca(cohorts=2, warm_start=1), range(3), rounds=0).asks.model
    _, closed = toy.round(toy.start(0.0, 1000.0))  # for everybody the first is better

    assert closed.gathered.model.tolist() == dealt.tolist()
    assert np.isnan(closed.gathered.losses).all()


def test_models_that_begin_alike_part_in_the_warm_start() -> None:
    toy = Toy(Ifca(cohorts=2, warm_start=1), FedAvg())
    state, closed = toy.round(toy.start(0.0, 0.0))

    # Client 1 was dealt the first model, clients 0 and 2 the second. From 0 their updates are 1.0, and 0.5 and 4.5 on 1
    # and 2 samples: (1 * 0.5 + 2 * 4.5) / 3 = 19 / 6.
    assert closed.gathered.model.tolist() == [1, 0, 1]
    assert weights(state) == pytest.approx([1.0, 19 / 6])


# Whole runs.


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
@pytest.mark.parametrize("warm_start", [0, 1, 2])
def test_with_one_cohort_it_is_plain_federated_learning_bit_for_bit(warm_start: int, aggregator: Aggregator) -> None:
    one, other = run(Ifca(1, warm_start), 3, aggregator), run(OneCohort(), 3, aggregator)

    assert one.events == other.events
    assert to_bytes(one.state) == to_bytes(other.state)


def test_in_a_run_both_models_are_trained_and_clients_download_both_after_the_warm_start() -> None:
    result = run(Ifca(cohorts=2, warm_start=1), 4)
    first, second = (result.state.coordinator.cohorts[leaf] for leaf in (FIRST, SECOND))

    assert result.state.coordinator.tree == CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
    assert (first.round, second.round) == (4, 4)
    assert first.server.steps > 1
    assert second.server.steps > 1
    invited = result.state.spent.participations + result.state.spent.wasted_participations
    assert invited == 4 * PARTICIPANTS * 1.25
    assert result.state.spent.downloads == invited + 3 * PARTICIPANTS * 1.25  # a second model in three rounds of four
