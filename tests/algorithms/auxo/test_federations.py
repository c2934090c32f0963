"""Auxo in whole small federations: obvious groups are found, where there are none nothing happens, and runs resume."""

from dataclasses import dataclass, replace
from functools import cache

import pytest
from sklearn.metrics import adjusted_rand_score

from auxo.algorithms.auxo import Auxo, ClusteringSettings, OnTrial, Pooling
from auxo.algorithms.base import OneCohort
from auxo.core.aggregators import FedAvg
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.types import ROOT
from auxo.engines.in_process import InProcess
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import LabelPermutation, NoGroups
from auxo.population.synthetic import synthetic_population
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.events import Event, Partitioned
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.simulation.availability import AlwaysOnline
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import LocalTraining

FEATURES, CLASSES = 8, 4
TRAINER = SoftmaxTrainer(FEATURES, CLASSES)


@cache
def population(clients: int, seed: int, *, groups: bool) -> FederatedData:
    return synthetic_population(
        clients=clients,
        groups=2,
        heterogeneity=LabelPermutation() if groups else NoGroups(),
        features=FEATURES,
        classes=CLASSES,
        samples=(80, 120),
        test_samples=20,
        seed=seed,
    )


@dataclass(frozen=True)
class Small:
    """A federation in which everybody is there."""

    simulation: Simulation
    events: list[Event]

    @staticmethod
    def of(data: FederatedData, rounds: int, participants: int, seed: int, algorithm: CohortAlgorithm) -> "Small":
        clients = data.n_clients
        rules = Federation(
            algorithm=algorithm,
            aggregator=FedAvg(),
            n_params=TRAINER.n_params,
            total_participants=participants,
            total_rounds=rounds,
            seed=seed,
            overcommit=0.0,
            layers=TRAINER.layers,
        )
        world = World(
            data=replace(data, groups=None),
            devices=SyntheticDevices().draw(clients, seed),
            availability=AlwaysOnline(clients),
            engine=InProcess(TRAINER, replace(data, groups=None), LocalTraining(learning_rate=0.1), seed=seed),
        )
        events: list[Event] = []
        return Small(Simulation(rules, world, events.append), events)

    def start(self) -> SimulationState:
        return self.simulation.start(start(self.simulation.rules, TRAINER.initial_weights))

    def end(self, state: SimulationState | None = None) -> SimulationState:
        state = state or self.start()
        while not self.simulation.is_over(state):
            state = self.simulation.step(state)
        return state

    @property
    def partitions(self) -> list[int]:
        """Return the rounds in which there were some."""
        return [event.round for event in self.events if isinstance(event, Partitioned)]


@pytest.mark.parametrize("seed", [100, 101])
@pytest.mark.parametrize(("clients", "participants", "by"), [(4, 4, 11), (8, 8, 7), (30, 30, 7), (400, 60, 6)])
def test_two_obvious_groups_are_found_soon(clients: int, participants: int, by: int, seed: int) -> None:
    data = population(clients, seed, groups=True)
    small = Small.of(data, 16, participants, seed, Auxo())
    last = small.end()

    assert data.groups is not None
    assert len(small.partitions) == 1
    assert small.partitions[0] <= by
    placed = small.simulation.placement(last)
    assert placed.vouched.mean() > 0.5  # others have not been there since
    assert adjusted_rand_score(data.groups[placed.vouched], placed.cohort[placed.vouched]) > 0.98


def loss(state: SimulationState, data: FederatedData) -> float:
    """Return the mean over everybody's test samples."""
    weights = state.coordinator.cohorts[ROOT].server.weights
    return float(TRAINER.losses(weights, data.inputs(data.test.x_rows), data.test.y).mean())


@pytest.mark.parametrize("seed", [100, 101])
@pytest.mark.parametrize(("clients", "participants", "rounds"), [(4, 4, 96), (8, 8, 96), (30, 30, 40), (400, 60, 30)])
def test_where_there_are_no_groups_there_is_no_partition_and_the_model_ends_as_good_as_the_bases(
    clients: int, participants: int, rounds: int, seed: int
) -> None:
    # Very few pay for a trial, in which they train on half of their samples, until it is long past: the run ends before
    # any of them looks again.
    data = population(clients, seed, groups=False)
    auxo, base = (Small.of(data, rounds, participants, seed, one) for one in (Auxo(), OneCohort()))
    ours, theirs = auxo.end(), base.end()

    assert auxo.partitions == []
    assert loss(ours, data) <= 1.02 * loss(theirs, data)


def test_where_clients_are_many_a_trial_that_comes_to_nothing_leaves_the_very_model_that_there_were_without() -> None:
    data = population(400, 100, groups=False)
    never = Auxo(clustering=ClusteringSettings(pool_rounds=10**6, pool_most=10**9))
    tries, looks_never = (Small.of(data, 30, 60, 100, one) for one in (Auxo(), never))
    one, other = tries.start(), looks_never.start()
    phases = []
    while not tries.simulation.is_over(one):
        one, other = tries.simulation.step(one), looks_never.simulation.step(other)
        phases.append(type(phase_of(one)))
        for mine, theirs in zip(one.coordinator.cohorts.values(), other.coordinator.cohorts.values(), strict=True):
            assert mine.round == theirs.round
            assert to_bytes(mine.server) == to_bytes(theirs.server)  # optimisers included

    assert OnTrial in phases
    assert OnTrial not in phases[-3:]


def phase_of(state: SimulationState) -> object:
    return state.coordinator.cohorts[ROOT].memory


@pytest.mark.parametrize("clients", [8, 400])
@pytest.mark.parametrize("kind", [Pooling, OnTrial])
def test_a_run_resumed_in_the_middle_gives_the_same_bits(kind: type, clients: int) -> None:
    small = Small.of(population(clients, 100, groups=True), 12, min(clients, 60), 100, Auxo())
    state, stored = small.start(), list[bytes]()
    while not small.simulation.is_over(state):
        phase = phase_of(state) if state.coordinator.tree.leaves == (ROOT,) else None
        is_under_way = (isinstance(phase, Pooling) and len(phase.rounds) == 2) or (
            isinstance(phase, OnTrial) and phase.rounds == 2
        )
        if isinstance(phase, kind) and is_under_way and not stored:
            stored.append(to_bytes(state))
        state = small.simulation.step(state)
    assert small.partitions

    resumed = from_bytes(SimulationState, stored[0], Auxo().own_states)

    assert to_bytes(resumed) == stored[0]
    assert to_bytes(small.end(resumed)) == to_bytes(state)


def test_a_run_depends_on_its_seed_alone() -> None:
    one, other = (Small.of(population(8, 100, groups=True), 12, 8, 100, Auxo()) for _ in range(2))

    assert to_bytes(one.end()) == to_bytes(other.end())


def test_the_names_of_clients_decide_nothing() -> None:
    data = population(8, 100, groups=True)
    renamed = replace(data, client_names=tuple(reversed(data.client_names)))
    one, other = (Small.of(some, 12, 8, 100, Auxo()) for some in (data, renamed))

    assert to_bytes(one.end()) == to_bytes(other.end())
    assert one.partitions
