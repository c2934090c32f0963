"""A small federation to try parts in: forty clients of two hidden groups, of whom some are late and some give up."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from auxo.core.aggregators import Aggregator, FedAvg
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.guard import Guard, Unguarded
from auxo.core.rng import stream
from auxo.core.selectors import Selector, Uniform
from auxo.core.types import Float32Array, IntArray
from auxo.engines.in_process import InProcess
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.runtime.coordinator import start
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.simulation.availability import DayNightPattern
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.testing.contract import expect
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import LocalTraining

# Our choices, all of them: small enough for a fraction of a second, large enough for cohorts of several clients.
N_CLIENTS, FEATURES, CLASSES = 40, 4, 3
ROUNDS, PARTICIPANTS = 12, 10
_SEED = 7
_MOST_EVENTS = 5000  # a cohort that finds nobody gives up after a thousand

TRAINER = SoftmaxTrainer(FEATURES, CLASSES)
TRAINING = LocalTraining(learning_rate=0.1)


@cache
def population() -> FederatedData:
    """Return the clients' data, with the groups that only a reference may know."""
    return synthetic_population(
        clients=N_CLIENTS,
        groups=2,
        heterogeneity=LabelPermutation(),
        features=FEATURES,
        classes=CLASSES,
        samples=(6, 14),
        test_samples=1,
    )


def true_groups() -> IntArray:
    """Return the group of each client."""
    groups = population().groups
    return np.zeros(N_CLIENTS, dtype=np.int64) if groups is None else groups


def in_process(data: FederatedData | None = None) -> InProcess:
    """Return an engine for it, or for other data of the same clients."""
    return InProcess(TRAINER, replace(data or population(), groups=None), TRAINING, _SEED)


def rules_of(
    algorithm: CohortAlgorithm,
    aggregator: Aggregator | None = None,
    selector: Selector | None = None,
    guard: Guard | None = None,
) -> Federation:
    """Return the rules of a federation with these parts."""
    return Federation(
        algorithm=algorithm,
        aggregator=aggregator or FedAvg(),
        n_params=TRAINER.n_params,
        total_participants=PARTICIPANTS,
        total_rounds=ROUNDS,
        seed=_SEED,
        overcommit=0.5,
        selector=selector or Uniform(),
        layers=TRAINER.layers,
        guard=guard or Unguarded(),
    )


def initial_model(number: int) -> Float32Array:
    """Return initial weights; each number's are others."""
    return (0.1 * stream(_SEED, "initial", number).standard_normal(TRAINER.n_params)).astype(np.float32)


@dataclass(frozen=True)
class SmallFederation:
    """A federation in the small world."""

    simulation: Simulation

    @staticmethod
    def of(rules: Federation, engine: Engine | None = None, data: FederatedData | None = None) -> "SmallFederation":
        """Return one of these rules, in this process or with another engine, which may have data of its own."""
        world = World(
            data=replace(data or population(), groups=None),
            devices=SyntheticDevices().draw(N_CLIENTS, _SEED),
            availability=DayNightPattern(share=0.8).draw(N_CLIENTS, _SEED),
            engine=engine or in_process(),
            dropout=0.1,
        )
        return SmallFederation(Simulation(rules, world, on_event=lambda event: None))

    def start(self) -> SimulationState:
        """Return the state before the first event."""
        return self.simulation.start(start(self.simulation.rules, initial_model))

    def states(self, state: SimulationState | None = None) -> Iterator[SimulationState]:
        """Yield the state after each event, from the start or from a state on; each is used up by the next.

        Raises:
            Unkept: there is no end to it.
        """
        state = state or self.start()
        yield state
        events = 0
        while not self.simulation.is_over(state):
            expect(events < _MOST_EVENTS, "that every cohort ends", f"a run that goes on after {events} events")
            state = self.simulation.step(state)
            events += 1
            yield state

    def end(self, state: SimulationState | None = None) -> SimulationState:
        """Return the state after the last event."""
        *_, last = self.states(state)
        return last
