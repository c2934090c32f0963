"""The state of a run, taken to bytes and back at many of its events, open rounds included."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, ClusteringSettings
from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.paper import Lemma, Paper, PartitionLimits
from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Aggregator, FedAvg, FedYogi
from auxo.core.cohort_algorithm import CohortAlgorithm
from auxo.core.own_state import own
from auxo.core.selectors import Selector, Uniform
from auxo.core.selectors.oort import Oort, OortMemory
from auxo.core.selectors.pyramidfl import PyramidFL
from auxo.engines.in_process import InProcess
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.protocol.codec import CodecError, from_bytes, to_bytes
from auxo.protocol.events import Event, Partitioned
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.simulation.availability import DayNightPattern
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import LocalTraining
from tests.algorithms.planned_partitions import FOLLOWS, PlannedPartitions

CLIENTS, EVERY = 80, 9  # odd, for with one cohort every other state has an open round
TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
DATA = synthetic_population(
    clients=CLIENTS,
    groups=2,
    heterogeneity=LabelPermutation(),
    features=6,
    classes=4,
    samples=(8, 16),
    test_samples=1,
)
ABUNDANT = World(
    data=DATA,
    devices=SyntheticDevices().draw(CLIENTS, 5),
    availability=DayNightPattern(share=0.9).draw(CLIENTS, 3),
    engine=InProcess(TRAINER, DATA, LocalTraining(learning_rate=0.1), seed=5),
    dropout=0.1,
)
SCARCE = replace(ABUNDANT, availability=DayNightPattern(share=0.4).draw(CLIENTS, 3), cooldown_s=20.0)


@dataclass(frozen=True)
class Case:
    """One way a run may go."""

    algorithm: CohortAlgorithm
    aggregator: Aggregator
    world: World
    selector: Selector = field(default_factory=Uniform)


# The root a fifth of the way, and whichever cohort is first half-way.
TWICE = PlannedPartitions(
    (0.2, 0.5), auxo=replace(FOLLOWS, affinity=AffinitySettings(exploration=0.3, confirmations=0))
)
TRIES = Auxo(clustering=ClusteringSettings(clusters=2, pool_rounds=2))
PAPER = Paper(criterion=Lemma(PartitionLimits(begin=0.0, end=0.9, min_participants=4), alpha=0.1), start_round=2)
GROUPS_FOUND: dict[str, Case] = {
    "many rounds open at once": Case(TWICE, FedYogi(), ABUNDANT),
    "cohorts that wait for clients": Case(TWICE, FedAvg(), SCARCE),
    "a partition that was found": Case(TRIES, FedAvg(), ABUNDANT),
    "the paper's rules": Case(PAPER, FedAvg(), ABUNDANT),
    "a table of clients": Case(TWICE, FedYogi(), ABUNDANT, Oort(pacer_rounds=2)),
}
CASES: dict[str, Case] = GROUPS_FOUND | {
    "one cohort": Case(OneCohort(), FedYogi(), SCARCE),
    "work by participant": Case(
        OneCohort(), FedAvg(), replace(ABUNDANT, epochs=2, deadline_s=60.0, sends_partial_work=True), PyramidFL()
    ),
    "several models in one round": Case(Ifca(cohorts=3, warm_start=2), FedYogi(), ABUNDANT),
    "participants that do less than all": Case(
        OneCohort(), FedAvg(), replace(ABUNDANT, epochs=4, deadline_s=6.0, sends_partial_work=True)
    ),
}
ALL_CASES = pytest.mark.parametrize("case", CASES)


@dataclass(frozen=True)
class Run:
    """Every state of a run, and how many of the events had been told by then."""

    simulation: Simulation
    states: list[SimulationState]
    told: list[int]
    events: list[Event]


def simulation(case: str, events: list[Event]) -> Simulation:
    rules = Federation(
        CASES[case].algorithm,
        CASES[case].aggregator,
        TRAINER.n_params,
        total_participants=16,
        total_rounds=16,
        seed=7,
        overcommit=0.25,
        selector=CASES[case].selector,
        layers=TRAINER.layers,
        by_unit=False,
        epochs=CASES[case].world.epochs,
    )
    return Simulation(rules, CASES[case].world, events.append)


def read_back(case: str, data: bytes) -> SimulationState:
    return from_bytes(SimulationState, data, finished(case).simulation.rules.own_states)


@cache
def finished(case: str) -> Run:
    events: list[Event] = []
    whole = simulation(case, events)
    states, told = [whole.start(start(whole.rules, TRAINER.initial_weights))], [0]
    while not whole.is_over(states[-1]):
        assert len(states) < 2000, "the run does not end"
        states.append(whole.step(states[-1].copy()))
        told.append(len(events))
    return Run(whole, states, told, events)


def open_rounds(state: SimulationState) -> int:
    return sum(pace.open_round is not None for pace in state.paces.values())


def epochs_of(state: SimulationState) -> list[int]:
    rounds = [pace.open_round for pace in state.paces.values() if pace.open_round is not None]
    return [number for opened in rounds if opened.epochs is not None for number in opened.epochs.tolist()]


def is_waiting(state: SimulationState) -> bool:
    return any(pace.waiting_since_s is not None for pace in state.paces.values())


def interruptions(case: str) -> range:
    return range(0, len(finished(case).states), EVERY)


def assert_same(one: object, other: object, path: str) -> None:
    """Compare value by value, so that a loss that the bytes share does not go unseen."""
    assert type(one) is type(other), path
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        assert one.dtype == other.dtype, path
        np.testing.assert_array_equal(one, other, err_msg=path, strict=True)
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        assert list(one) == list(other), path
        for key in one:
            assert_same(one[key], other[key], f"{path}[{key}]")
    elif isinstance(one, tuple) and isinstance(other, tuple):
        assert len(one) == len(other), path
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert_same(mine, theirs, f"{path}[{place}]")
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{path}.{field.name}")
    else:
        assert one == other, path


def test_the_cases_are_what_they_are_called() -> None:
    states = {case: [finished(case).states[number] for number in interruptions(case)] for case in CASES}

    assert max(open_rounds(state) for state in states["many rounds open at once"]) > 1
    assert any(is_waiting(state) for state in states["cohorts that wait for clients"])
    for case in GROUPS_FOUND:
        assert any(isinstance(event, Partitioned) for event in finished(case).events)
    for case in CASES:
        assert any(open_rounds(state) for state in states[case])
    assert len(states["several models in one round"][-1].coordinator.cohorts) == 3
    done = [epochs for state in states["participants that do less than all"] for epochs in epochs_of(state)]
    assert {1, 2, 3, 4} <= set(done)
    assert {2, 3, 5} <= {epochs for state in states["work by participant"] for epochs in epochs_of(state)}
    cohorts = states["a table of clients"][-1].coordinator.cohorts.values()
    tables = [own(OortMemory, cohort.selection).table for cohort in cohorts]
    assert len(tables) == 3
    assert all(len(table) > 40 for table in tables)


@ALL_CASES
def test_the_state_goes_to_bytes_and_back_without_loss(case: str) -> None:
    for number in interruptions(case):
        state = finished(case).states[number]
        data = to_bytes(state)
        again = read_back(case, data)

        assert_same(again, state, f"state {number}")
        assert to_bytes(again) == data


@ALL_CASES
def test_a_run_that_goes_on_from_bytes_ends_with_the_bits_of_the_uninterrupted_one(case: str) -> None:
    run = finished(case)
    for number in interruptions(case):
        events: list[Event] = []
        again = simulation(case, events)
        state = read_back(case, to_bytes(run.states[number]))
        while not again.is_over(state):
            state = again.step(state)

        assert to_bytes(state) == to_bytes(run.states[-1])
        assert events == run.events[run.told[number] :]


def test_a_run_that_is_interrupted_at_every_event_ends_with_the_same_bits() -> None:
    case = "many rounds open at once"
    run = finished(case)
    events: list[Event] = []
    state = run.states[0]
    for _ in run.states[1:]:
        state = simulation(case, events).step(read_back(case, to_bytes(state)))

    assert to_bytes(state) == to_bytes(run.states[-1])
    assert events == run.events


def test_a_state_of_other_parts_is_refused_by_naming_the_kind() -> None:
    found = to_bytes(finished("a partition that was found").states[-1])
    with pytest.raises(CodecError, match=r"Pooling|OnTrial"):
        from_bytes(SimulationState, found, OneCohort().own_states)
