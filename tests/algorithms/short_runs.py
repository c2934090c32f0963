"""A small simulated federation with hidden groups, to run any algorithm in."""

from dataclasses import dataclass

from auxo.core.aggregators import Aggregator, FedAvg
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.types import IntArray
from auxo.engines.in_process import InProcess
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.protocol.events import Event
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.simulation.availability import AlwaysOnline
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import LocalTraining

CLIENTS, PARTICIPANTS = 60, 20
DATA = synthetic_population(
    clients=CLIENTS,
    groups=2,
    heterogeneity=LabelPermutation(),
    features=6,
    classes=4,
    samples=(6, 12),
    test_samples=1,
)
TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
WORLD = World(
    data=DATA,
    devices=SyntheticDevices().draw(CLIENTS, 5),
    availability=AlwaysOnline(CLIENTS),
    engine=InProcess(TRAINER, DATA, LocalTraining(learning_rate=0.1), seed=5),
    dropout=0.1,
)


def groups() -> IntArray:
    """Return the true group of each client."""
    assert DATA.groups is not None
    return DATA.groups


@dataclass(frozen=True)
class Run:
    """A finished run."""

    state: SimulationState
    events: tuple[Event, ...]
    placement: IntArray  # (clients,) position in the tree of the cohort that each belongs to in the end


def run(
    algorithm: CohortAlgorithm,
    rounds: int,
    aggregator: Aggregator | None = None,
    participants: int = PARTICIPANTS,
    overcommit: float = 0.25,
    world: World = WORLD,
) -> Run:
    """Train so many rounds of every cohort."""
    rules = Federation(
        algorithm=algorithm,
        aggregator=aggregator or FedAvg(),
        n_params=TRAINER.n_params,
        total_participants=participants,
        total_rounds=rounds,
        seed=5,
        overcommit=overcommit,
    )
    events: list[Event] = []
    simulation = Simulation(rules, world, events.append)
    state = simulation.start(start(rules, lambda number: TRAINER.initial_weights(5 + number)))
    while not simulation.is_over(state):
        state = simulation.step(state)
    return Run(state, tuple(events), simulation.placement(state).cohort)
