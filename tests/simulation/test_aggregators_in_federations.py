"""Every aggregator under every cohort method: rounds close, states survive, engines agree, and hostile updates show."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.core.aggregators import Aggregator, FedAvg
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.aggregators.robust import Krum, Median, MultiKrum, TrimmedMean
from auxo.core.asking import Answer
from auxo.core.client_algorithms.fedprox import FedProx
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.runtime.coordinator import start
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.simulation.availability import AlwaysOnline
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.testing.methods import algorithms_of
from auxo.testing.small_federation import SmallFederation, in_process, rules_of
from auxo.testing.troubled_engine import Troubled, none
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.testing.test_aggregators import CONTRACT
from tests.testing.test_methods import EAGER, PARTS

INTERRUPTED_AT = 17  # events; rounds are open there


@pytest.mark.parametrize("aggregator", CONTRACT)
@pytest.mark.parametrize("method", PARTS)
def test_every_aggregator_goes_with_every_method(aggregator: str, method: str) -> None:
    part = CONTRACT[aggregator]
    for algorithm in algorithms_of(PARTS[method]):
        rules = rules_of(algorithm, part)
        *_, last = SmallFederation.of(rules).states()
        slots = len(part.initial(np.zeros(3, dtype=np.float32)).slots)
        for state in last.coordinator.cohorts.values():
            assert np.isfinite(state.server.weights).all()
            assert [slot.shape for slot in state.server.slots] == [state.server.weights.shape] * slots
        assert any(state.server.steps for state in last.coordinator.cohorts.values())


@pytest.mark.parametrize("aggregator", CONTRACT)
@pytest.mark.parametrize("method", EAGER)
def test_a_run_that_was_written_and_read_back_goes_on_with_the_same_bits(aggregator: str, method: str) -> None:
    rules = rules_of(EAGER[method], CONTRACT[aggregator])
    written = [to_bytes(state) for state in SmallFederation.of(rules).states()]  # each is used up by the next
    again = SmallFederation.of(rules).end(from_bytes(SimulationState, written[INTERRUPTED_AT], rules.own_states))

    assert to_bytes(again) == written[-1]


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerProcesses]:
    with WorkerProcesses(in_process(), workers=2) as engine:
        yield engine


@pytest.mark.parametrize("aggregator", CONTRACT)
def test_worker_processes_give_the_bits_of_one_process_with_any_aggregator(
    aggregator: str, workers: WorkerProcesses
) -> None:
    rules = rules_of(EAGER["auxo"], CONTRACT[aggregator])

    assert to_bytes(SmallFederation.of(rules, workers).end()) == to_bytes(SmallFederation.of(rules).end())


# Equalities, through whole runs.


def weights_of(aggregator: Aggregator) -> bytes:
    ended = SmallFederation.of(rules_of(OneCohort(), aggregator)).end()
    return b"".join(state.server.weights.tobytes() for state in ended.coordinator.cohorts.values())


def test_without_q_a_run_has_the_bits_of_federated_averaging_with_uniform_weights() -> None:
    assert weights_of(QFedAvg(q=0.0)) == weights_of(FedAvg(weighting="uniform"))
    assert weights_of(QFedAvg(q=1.0, learning_rate=0.1)) != weights_of(QFedAvg(q=0.0))


def test_without_mu_a_run_has_the_bits_of_plain_local_sgd() -> None:
    def run(mu: float) -> bytes:
        inner = in_process()
        engine = replace(inner, settings=replace(inner.settings, proximal=FedProx(mu=mu).proximal))
        return to_bytes(SmallFederation.of(rules_of(OneCohort()), engine).end())

    assert run(0.0) == to_bytes(SmallFederation.of(rules_of(OneCohort())).end())
    assert run(0.1) != run(0.0)


# Hostile updates.

CLIENTS, FEATURES, CLASSES, ROUNDS = 20, 8, 4, 20
DATA = synthetic_population(
    clients=CLIENTS,
    groups=1,
    heterogeneity=LabelPermutation(),
    features=FEATURES,
    classes=CLASSES,
    samples=(20, 30),
    test_samples=20,
)
SOFTMAX = SoftmaxTrainer(FEATURES, CLASSES)


def ascending(job: Job, answer: Answer) -> Answer:
    """Answer ten times the update, backwards: every fifth client does."""
    return replace(answer, update=-10 * answer.update) if job.client_row % 5 == 0 else answer


def accuracy_under(aggregator: Aggregator, engine: Engine) -> float:
    rules = Federation(OneCohort(), aggregator, SOFTMAX.n_params, total_participants=CLIENTS, total_rounds=ROUNDS)
    world = World(DATA, SyntheticDevices().draw(CLIENTS, 0), AlwaysOnline(CLIENTS), engine)
    simulation = Simulation(rules, world, lambda event: None)
    state = simulation.start(start(rules, SOFTMAX.initial_weights))
    while not simulation.is_over(state):
        state = simulation.step(state)
    (cohort,) = state.coordinator.cohorts.values()
    predicted = SOFTMAX.predict(cohort.server.weights, DATA.inputs(DATA.test.x_rows))
    return float((predicted == DATA.test.y).mean())


def test_a_fifth_of_hostile_updates_undoes_a_mean_but_not_a_robust_aggregator() -> None:
    engine = InProcess(SOFTMAX, DATA, LocalTraining(learning_rate=0.1), seed=0)
    honest = accuracy_under(FedAvg(), Troubled(engine, none))
    found = {
        type(part).__name__: accuracy_under(part, Troubled(engine, ascending))
        for part in (FedAvg(), Median(), TrimmedMean(), Krum(), MultiKrum())
    }

    assert honest > 0.8
    assert found.pop("FedAvg") < 1 / CLASSES + 0.1
    assert {name: accuracy for name, accuracy in found.items() if accuracy < honest - 0.05} == {}
