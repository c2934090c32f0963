import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Accumulator, FedAvg, FedYogi, Report, ServerState, WeightedMean
from auxo.core.asking import LEAST_LOSS, Answer, Failure
from auxo.core.cohort_algorithm import Closing, CohortAlgorithm
from auxo.core.metrics import agreement
from auxo.core.thin_models import SHARE
from auxo.core.types import ROOT, BoolArray, CohortId, Float32Array, FloatArray, IntArray
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import CohortEnded, EmptyRound, Event, Partitioned, RoundClosed, UpdateRejected
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.coordinator import start
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.simulation.availability import AlwaysOnline, Availability, DayNightPattern
from auxo.simulation.client_records import ClientRecords
from auxo.simulation.devices import Devices, EqualDevices, SyntheticDevices
from auxo.simulation.virtual_time import OpenRound, Simulation, SimulationState, World
from auxo.training.local_samples import local_positions
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.algorithms.planned_partitions import FOLLOWS, PlannedPartitions

CLIENTS = 60


def population(fewest: int, most: int) -> FederatedData:
    return synthetic_population(
        clients=CLIENTS,
        groups=2,
        heterogeneity=LabelPermutation(),
        features=6,
        classes=4,
        samples=(fewest, most),
        test_samples=1,
    )


DATA = population(6, 12)
TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
TRAINING = LocalTraining(learning_rate=0.1)
ENGINE = InProcess(TRAINER, DATA, TRAINING, seed=5)
LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")


@dataclass(frozen=True)
class Sessions:
    """Everybody is on line in these sessions (from, until) and never otherwise."""

    sessions: tuple[tuple[float, float], ...]

    def online(self, time_s: float) -> BoolArray:
        return np.full(CLIENTS, any(start <= time_s < end for start, end in self.sessions))

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        ends = [end for start, end in self.sessions if start <= time_s < end]
        return np.full(len(rows), ends[0] if ends else time_s)

    def next_change_s(self, time_s: float) -> float:
        return min((start for start, _ in self.sessions if start > time_s), default=math.inf)


Spoil = Callable[[int, Job, Answer], Answer | Failure]
E = TypeVar("E", bound=Event)


@dataclass
class SpoiltBy:
    """An engine some of whose answers are replaced on the way; calls are numbered."""

    spoil: Spoil
    calls: int = 0

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        answers = self.train(training.models, training.jobs)
        return close_round(rules, closing, returned_by(training, answers))

    def train(self, models: Sequence[Float32Array], jobs: Sequence[Job]) -> Iterator[Answer | Failure]:
        number, self.calls = self.calls, self.calls + 1
        for job, answer in zip(jobs, ENGINE.answers(models, jobs), strict=True):
            yield answer if isinstance(answer, Failure) else self.spoil(number, job, answer)


@dataclass
class Run:
    """A finished run: every state and every event, in order."""

    simulation: Simulation
    states: list[SimulationState]
    events: list[Event]

    @property
    def last(self) -> SimulationState:
        return self.states[-1]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def openings(self) -> Iterator[tuple[SimulationState, SimulationState, CohortId, OpenRound]]:
        """Yield each round as it opens: the states before and after, its cohort, and the round."""
        for before, after in pairwise(self.states):
            for cohort, pace in after.paces.items():
                was_open = cohort in before.paces and before.paces[cohort].open_round is not None
                if pace.open_round is not None and not was_open:
                    yield before, after, cohort, pace.open_round


def auxo(*at: float, label_trust: float = 1.0) -> PlannedPartitions:
    """Return Auxo that is partitioned after these shares of the rounds, with one cohort, with two ..."""
    settings = AffinitySettings(exploration=0.3, label_trust=label_trust)
    return PlannedPartitions(at, auxo=replace(FOLLOWS, affinity=settings))


def federation(algorithm: CohortAlgorithm) -> Federation:
    return Federation(
        algorithm,
        FedYogi(),
        n_params=TRAINER.n_params,
        total_participants=16,
        total_rounds=8,
        seed=7,
        overcommit=0.25,
    )


def rules(*at: float) -> Federation:
    return federation(auxo(*at))


ONE_COHORT = pytest.mark.parametrize("alone", [rules(), federation(OneCohort())], ids=["auxo", "base"])


def world(
    *,
    engine: Engine = ENGINE,
    availability: Availability | None = None,
    dropout: float = 0.0,
) -> World:
    devices = SyntheticDevices().draw(CLIENTS, 5)
    return World(DATA, devices, availability or AlwaysOnline(CLIENTS), engine, dropout=dropout)


def run(federation: Federation, around: World, max_steps: int = 1000) -> Run:
    events: list[Event] = []
    simulation = Simulation(federation, around, events.append)
    states = [simulation.start(start(federation, TRAINER.initial_weights))]
    while not simulation.is_over(states[-1]):
        assert len(states) <= max_steps, "the run does not end"
        states.append(simulation.step(states[-1].copy()))
    return Run(simulation, states, list(events))


def records(state: SimulationState) -> ClientRecords:
    assert isinstance(state.clients, ClientRecords)
    return state.clients


def open_rounds(state: SimulationState) -> list[OpenRound]:
    return [pace.open_round for pace in state.paces.values() if pace.open_round is not None]


@pytest.fixture(scope="module")
def finished() -> Run:
    return run(rules(0.4), world(dropout=0.1))


# Ends.


def test_every_cohort_ends_after_all_its_rounds(finished: Run) -> None:
    assert finished.last.coordinator.tree.leaves == (LEFT, RIGHT)
    assert sorted(event.cohort for event in finished.of(CohortEnded)) == [LEFT, RIGHT]
    for leaf in (LEFT, RIGHT):
        assert finished.last.coordinator.cohorts[leaf].round == finished.simulation.rules.total_rounds
        rounds = [event.round for event in finished.of(RoundClosed) if event.cohort in (leaf, ROOT)]
        assert rounds == list(range(1, 9))


def test_a_cohort_that_ends_does_not_end_the_run(finished: Run) -> None:
    first_end = next(number for number, event in enumerate(finished.events) if isinstance(event, CohortEnded))
    ended = finished.of(CohortEnded)[0].cohort
    later = [event.cohort for event in finished.events[first_end + 1 :] if isinstance(event, RoundClosed)]

    assert later
    assert ended not in later


def test_the_clock_never_goes_back_and_events_carry_it(finished: Run) -> None:
    clocks = [state.clock_s for state in finished.states]

    assert clocks == sorted(clocks)
    assert [event.time_s for event in finished.events] == sorted(event.time_s for event in finished.events)


@pytest.mark.fault(25)
@ONE_COHORT
def test_with_nobody_on_line_the_clock_goes_on_until_somebody_is(alone: Federation) -> None:
    gaps = Sessions(((0.0, 5.0), (9_000.0, 9_003.0), (50_000.0, math.inf)))
    finished = run(alone, world(availability=gaps))

    assert finished.last.coordinator.cohorts[ROOT].round == 8
    assert finished.last.clock_s > 50_000
    for event in finished.of(RoundClosed):
        opened = event.time_s - event.duration_s
        assert any(start <= opened < end for start, end in gaps.sessions)


@pytest.mark.fault(25)
def test_a_population_that_never_comes_back_ends_the_cohorts_instead_of_hanging() -> None:
    finished = run(rules(0.2), world(availability=Sessions(((0.0, 8.0),))))

    assert sorted(event.cohort for event in finished.of(CohortEnded)) == sorted(finished.last.coordinator.tree.leaves)
    assert all(event.round < 8 for event in finished.of(CohortEnded))


@ONE_COHORT
def test_a_population_that_was_never_there_ends_the_run_at_once(alone: Federation) -> None:
    finished = run(alone, world(availability=Sessions(())))

    assert [type(event) for event in finished.events] == [EmptyRound, CohortEnded]
    assert finished.last.spent.participations == 0


def test_a_daily_pattern_of_few_clients_comes_to_its_end() -> None:
    finished = run(rules(0.4), world(availability=DayNightPattern(share=0.2).draw(CLIENTS, 1)))

    for leaf in finished.last.coordinator.tree.leaves:
        assert finished.last.coordinator.cohorts[leaf].round == 8


@dataclass(frozen=True)
class FewAtFirst:
    """Five clients are on line from the start, all of them from a given time on."""

    all_from_s: float

    def online(self, time_s: float) -> BoolArray:
        return (np.arange(CLIENTS) < 5) | (time_s >= self.all_from_s)

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        return np.full(len(rows), math.inf)

    def next_change_s(self, time_s: float) -> float:
        return self.all_from_s if time_s < self.all_from_s else math.inf


@ONE_COHORT
@pytest.mark.parametrize(("patience_s", "opens_s", "selected"), [(600.0, 200.0, 20), (0.0, 0.0, 5)])
def test_a_round_waits_for_as_many_clients_as_it_wants_while_its_patience_lasts(
    alone: Federation, patience_s: float, opens_s: float, selected: int
) -> None:
    finished = run(alone, replace(world(availability=FewAtFirst(200.0)), patience_s=patience_s))
    _, _, _, first = next(finished.openings())

    assert first.opened_s == opens_s
    assert len(first.participants.clients) == selected


def test_a_client_that_has_taken_part_stays_away_for_its_cooldown() -> None:
    finished = run(rules(0.4), replace(world(), cooldown_s=500.0))
    last_opened = np.full(CLIENTS, -math.inf)
    for _, _, _, opened in finished.openings():
        assert (opened.opened_s - last_opened[opened.participants.clients] > 500.0).all()
        last_opened[opened.participants.clients] = opened.opened_s

    assert finished.last.coordinator.cohorts[LEFT].round == 8


@pytest.mark.fault(26)
@ONE_COHORT
@pytest.mark.parametrize("overcommit", [0.0, 0.25])
@pytest.mark.parametrize("spoilt", [Failure("battery"), Answer(np.full(1, np.nan, dtype=np.float32), 1)])
def test_a_round_that_came_to_nothing_is_tried_again(
    alone: Federation, overcommit: float, spoilt: Answer | Failure
) -> None:
    def spoil(number: int, job: Job, answer: Answer) -> Answer | Failure:
        return spoilt if number == 1 else answer

    finished = run(replace(alone, overcommit=overcommit), world(engine=SpoiltBy(spoil)))

    assert [event.round for event in finished.of(EmptyRound)] == [2]
    assert finished.last.coordinator.cohorts[ROOT].round == 8


@ONE_COHORT
def test_what_was_refused_in_a_round_that_came_to_nothing_is_told_all_the_same(alone: Federation) -> None:
    def spoil(number: int, job: Job, answer: Answer) -> Answer:
        return replace(answer, examples=0) if number == 1 else answer

    finished = run(alone, world(engine=SpoiltBy(spoil)))

    assert len(finished.of(EmptyRound)) == 1
    assert len(finished.of(UpdateRejected)) >= 16


@ONE_COHORT
def test_an_engine_that_never_answers_does_not_hang_the_run(alone: Federation) -> None:
    def spoil(number: int, job: Job, answer: Answer) -> Answer | Failure:
        return Failure("broken")

    finished = run(alone, world(engine=SpoiltBy(spoil)))

    assert not finished.of(RoundClosed)
    assert finished.last.spent.participations == 0
    assert finished.last.spent.wasted_participations > 0


# Busy clients.


def is_in_two_rounds(state: SimulationState) -> bool:
    """Return whether a client trains in two open rounds; one that has failed in the first is free for another."""
    rounds = [opened.participants.clients[opened.kept | opened.late] for opened in open_rounds(state)]
    clients = np.concatenate([np.zeros(0, dtype=np.int64), *rounds])
    return len(clients) != len(np.unique(clients))


def test_nobody_is_in_two_rounds_at_once(finished: Run) -> None:
    assert any(len(open_rounds(state)) == 2 for state in finished.states)
    assert not any(is_in_two_rounds(state) for state in finished.states)


def test_rounds_that_close_at_the_same_time_do_not_lend_each_other_clients() -> None:
    alike = population(8, 8)
    around = replace(world(engine=InProcess(TRAINER, alike, TRAINING, seed=5)), data=alike)
    finished = run(rules(0.2), replace(around, devices=EqualDevices().draw(CLIENTS, 0)))

    assert any(len(open_rounds(state)) == 2 for state in finished.states)
    assert not any(is_in_two_rounds(state) for state in finished.states)


def test_only_clients_that_are_on_line_and_free_are_selected_and_are_busy_from_then_on() -> None:
    availability = DayNightPattern(share=0.3).draw(CLIENTS, 2)
    finished = run(rules(0.4), world(availability=availability, dropout=0.1))

    for before, after, _, opened in finished.openings():
        assert availability.online(opened.opened_s)[opened.participants.clients].all()
        assert (before.busy_until_s[opened.participants.clients] <= opened.opened_s).all()
        assert (after.busy_until_s[opened.participants.clients] > opened.opened_s).all()


def test_no_client_trains_on_the_same_visit_twice() -> None:
    trained: set[tuple[int, int]] = set()

    def note(number: int, job: Job, answer: Answer) -> Answer:
        assert (job.client_row, job.visit) not in trained
        trained.add((job.client_row, job.visit))
        return answer

    run(rules(0.4), world(engine=SpoiltBy(note)))

    assert len(trained) > 16 * 8


# Partitions.


def test_children_start_from_their_parents_weights_and_optimiser_slots() -> None:
    finished, kept = run(rules(0.4), world()), run(rules(), world())
    number = next(i for i, state in enumerate(finished.states) if len(state.coordinator.tree.leaves) == 2)
    parent = kept.states[number].coordinator.cohorts[ROOT]
    children = finished.states[number].coordinator.cohorts

    assert set(children) == {LEFT, RIGHT}
    for child in (LEFT, RIGHT):
        assert to_bytes(children[child].server) == to_bytes(parent.server)
        assert children[child].round == parent.round
        assert finished.states[number].paces[child].next_event_s == finished.states[number].clock_s


def test_a_partition_is_told_with_shares_that_sum_to_the_total(finished: Run) -> None:
    (event,) = finished.of(Partitioned)

    assert (event.cohort, event.children) == ("0", ("0.0", "0.1"))
    assert sum(event.shares) == finished.simulation.rules.total_participants


def test_in_every_state_shares_sum_to_the_total_and_the_leaves_are_those_that_run(finished: Run) -> None:
    for state in finished.states:
        leaves = state.coordinator.tree.leaves
        assert sum(finished.simulation.rules.share(state.coordinator, leaf) for leaf in leaves) == 16
        assert set(state.paces) == set(state.coordinator.cohorts) == set(leaves)


@pytest.mark.parametrize("label_trust", [0.0, 1.0])
def test_after_a_partition_every_labelled_client_is_placed_in_the_child_of_its_label(label_trust: float) -> None:
    finished = run(federation(auxo(0.6, label_trust=label_trust)), world())
    state = next(state for state in finished.states if len(state.coordinator.tree.leaves) == 2)
    labels = records(state).of(np.arange(CLIENTS)).clusters()[:, 0]
    has_label = labels >= 0
    placed = finished.simulation.placement(state)

    assert has_label.sum() > CLIENTS / 2
    np.testing.assert_array_equal(placed.cohort[has_label], 1 + labels[has_label])


def test_placement_says_where_everybody_belongs_without_changing_anything(finished: Run) -> None:
    before = to_bytes(finished.last)
    one, other = finished.simulation.placement(finished.last), finished.simulation.placement(finished.last)

    np.testing.assert_array_equal(one.cohort, other.cohort)
    assert finished.last.coordinator.tree.is_leaf[one.cohort].all()
    assert to_bytes(finished.last) == before


def test_placement_of_some_says_of_those_with_a_reason_what_it_says_of_all(finished: Run) -> None:
    some = np.array([3, 17, 40, 41, 59])
    of_all, of_some = finished.simulation.placement(finished.last), finished.simulation.placement(finished.last, some)

    assert of_some.vouched.any()
    np.testing.assert_array_equal(of_some.vouched, of_all.vouched[some])
    np.testing.assert_array_equal(of_some.cohort[of_some.vouched], of_all.cohort[some][of_some.vouched])


# Bits.


def test_a_step_depends_on_the_state_alone_and_a_copy_keeps_it(finished: Run) -> None:
    for number in range(0, len(finished.states) - 1, 3):
        before = to_bytes(finished.states[number])
        again = finished.simulation.step(finished.states[number].copy())

        assert to_bytes(again) == to_bytes(finished.states[number + 1])
        assert to_bytes(finished.states[number]) == before


def test_worker_processes_give_the_bits_of_one_process(finished: Run) -> None:
    with WorkerProcesses(ENGINE, workers=2) as engine:
        with_workers = run(rules(0.4), world(engine=engine, dropout=0.1))

    assert to_bytes(with_workers.last) == to_bytes(finished.last)
    assert with_workers.events == finished.events


def test_the_names_of_clients_decide_nothing() -> None:
    def bad(number: int, job: Job, answer: Answer) -> Answer:
        return replace(answer, examples=0) if job.client_row % 9 == 0 else answer

    backwards = dict(zip(DATA.client_names, reversed(DATA.client_names), strict=True))
    renamed = replace(DATA, client_names=tuple(backwards[name] for name in DATA.client_names))
    one = run(rules(0.4), world(engine=SpoiltBy(bad)))
    other = run(rules(0.4), replace(world(engine=SpoiltBy(bad)), data=renamed))

    assert to_bytes(other.last) == to_bytes(one.last)
    assert one.of(UpdateRejected)
    assert other.events == [
        replace(event, client=backwards[event.client]) if isinstance(event, UpdateRejected) else event
        for event in one.events
    ]


def wrong_shape(delta: Float32Array) -> NDArray[Any]:
    return delta[:1]


def not_finite(delta: Float32Array) -> NDArray[Any]:
    return np.where(np.arange(len(delta)) == 3, np.nan, delta).astype(np.float32)


def whole_numbers(delta: Float32Array) -> NDArray[Any]:
    return np.zeros(len(delta), dtype=np.int64)


def unchanged(delta: Float32Array) -> NDArray[Any]:
    return delta


@pytest.mark.fault(11)
@pytest.mark.parametrize(
    ("corrupt", "examples", "reason"),
    [
        (not_finite, None, "NON_FINITE"),
        (wrong_shape, None, "SCHEMA_MISMATCH"),
        (whole_numbers, None, "SCHEMA_MISMATCH"),
        (unchanged, 0, "BAD_WEIGHT"),
    ],
)
def test_a_rejected_update_leaves_the_bits_that_a_failure_of_the_same_participant_leaves(
    corrupt: Callable[[Float32Array], NDArray[Any]], examples: int | None, reason: str
) -> None:
    culprits = (3, 17, 40)

    def bad(number: int, job: Job, answer: Answer) -> Answer | Failure:
        if job.client_row not in culprits:
            return answer
        return Answer(corrupt(answer.update), answer.examples if examples is None else examples)

    def failed(number: int, job: Job, answer: Answer) -> Answer | Failure:
        return Failure("battery") if job.client_row in culprits else answer

    rejecting = run(rules(0.4), world(engine=SpoiltBy(bad)))
    failing = run(rules(0.4), world(engine=SpoiltBy(failed)))
    refused = rejecting.of(UpdateRejected)

    assert to_bytes(rejecting.last) == to_bytes(failing.last)
    assert {event.reason for event in refused} == {reason}
    assert {event.client for event in refused} <= {DATA.client_names[row] for row in culprits}
    assert not failing.of(UpdateRejected)
    assert sum(event.rejected for event in rejecting.of(RoundClosed)) == len(refused)


# Accounts.


def test_feedback_goes_to_those_whose_update_was_valid_and_to_nobody_else() -> None:
    valid: Counter[int] = Counter()

    def fail_some(number: int, job: Job, answer: Answer) -> Answer | Failure:
        if (job.client_row + number) % 3 == 0:
            return Failure("battery")
        valid[job.client_row] += 1
        return answer

    finished = run(rules(0.4), world(engine=SpoiltBy(fail_some)))

    participations = finished.last.clients.participations(np.arange(CLIENTS))
    np.testing.assert_array_equal(participations, [valid[row] for row in range(CLIENTS)])


def test_the_labels_that_clients_hold_are_those_of_their_own_groups() -> None:
    finished = run(rules(), world(dropout=0.2))
    labels = records(finished.last).of(np.arange(CLIENTS)).clusters()[:, 0]
    has_label = labels >= 0

    assert has_label.sum() > CLIENTS / 2
    assert DATA.groups is not None
    assert agreement(labels[has_label], DATA.groups[has_label]) > 0.8


def test_participations_spent_are_the_updates_that_rounds_aggregated(finished: Run) -> None:
    assert finished.last.spent.participations == sum(event.participants for event in finished.of(RoundClosed))


def test_everybody_who_was_selected_is_accounted_for_once(finished: Run) -> None:
    spent = finished.last.spent

    assert spent.participations + spent.wasted_participations == sum(
        len(opened.participants.clients) for _, _, _, opened in finished.openings()
    )


@ONE_COHORT
def test_every_participant_of_a_round_is_counted_once_in_what_is_told_of_it(alone: Federation) -> None:
    def bad(number: int, job: Job, answer: Answer) -> Answer | Failure:
        return replace(answer, examples=0) if job.client_row % 4 == 0 else answer

    finished = run(alone, world(engine=SpoiltBy(bad), dropout=0.1))
    selected = [len(opened.participants.clients) for _, _, _, opened in finished.openings()]
    told = [event.participants + event.late + event.failed + event.rejected for event in finished.of(RoundClosed)]

    assert finished.of(UpdateRejected)
    assert told == selected


# Several models in one round.


IFCA = federation(Ifca(cohorts=3, warm_start=2))
MODEL_BITS = 8 * 4 * TRAINER.n_params
SLOW_DEVICE = Devices(np.full(CLIENTS, 0.3), np.full(CLIENTS, 100.0 * MODEL_BITS), np.full(CLIENTS, 50.0 * MODEL_BITS))


@pytest.fixture(scope="module")
def compared() -> Run:
    return run(IFCA, replace(world(), devices=SLOW_DEVICE))


def test_one_round_is_for_all_models_and_each_has_all_its_rounds(compared: Run) -> None:
    assert set(compared.last.paces) == {ROOT}
    assert [event.round for event in compared.of(RoundClosed)] == list(range(1, 9))
    assert [event.cohort for event in compared.of(CohortEnded)] == [ROOT]
    assert [state.round for state in compared.last.coordinator.cohorts.values()] == [8, 8, 8]


def test_a_participant_that_compares_models_downloads_all_and_tries_each_on_its_samples(compared: Run) -> None:
    for before, _, _, opened in compared.openings():
        samples = DATA.train.counts(opened.participants.clients)
        is_warm_start = before.coordinator.cohorts[CohortId("0.0")].round < 2
        models = 1 if is_warm_start else 3
        # A hundredth of a second for each model sent, two for the update, and a third of a step for a loss.
        compares_s = 0.0 if is_warm_start else 3 * 0.1 * samples
        np.testing.assert_allclose(opened.spent_s, models * 0.01 + compares_s + 0.3 * samples + 0.02)


def test_models_sent_are_counted(compared: Run) -> None:
    # Two rounds of the warm start and six in which all three are compared, of 20 participants each.
    assert compared.last.spent.downloads == 2 * 20 + 6 * 20 * 3


@pytest.mark.parametrize("algorithm", [OneCohort(), auxo(), Ifca(cohorts=1)])
def test_where_there_is_one_model_every_participant_is_sent_one(algorithm: CohortAlgorithm) -> None:
    finished = run(federation(algorithm), replace(world(), devices=SLOW_DEVICE))
    _, _, _, opened = next(finished.openings())
    samples = DATA.train.counts(opened.participants.clients)

    np.testing.assert_allclose(opened.spent_s, 0.01 + 0.3 * samples + 0.02)
    assert finished.last.spent.downloads == 8 * 20


@dataclass(frozen=True)
class ByLoss:
    """Weighs updates by the participant's loss at the model it was sent, as q-FedAvg does."""

    told: list[float | None] = field(default_factory=list)
    asks_for_loss = True

    def initial(self, weights: Float32Array) -> ServerState:
        return FedAvg().initial(weights)

    def accumulate(self, state: ServerState) -> Accumulator:
        return Weighed(WeightedMean(len(state.weights), "uniform"), self.told)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        return FedAvg().step(state, movement, rate_scale)


@dataclass(frozen=True)
class Weighed:
    inner: WeightedMean
    told: list[float | None]

    def add(self, update: Float32Array, report: Report) -> None:
        self.told.append(report.loss)
        self.inner.add(np.float32(report.loss or 0.0) * update, report)

    def result(self) -> FloatArray | None:
        return self.inner.result()


def test_a_part_that_asks_for_losses_is_told_them_and_the_forward_pass_is_charged() -> None:
    asks = ByLoss()
    finished = run(replace(federation(OneCohort()), aggregator=asks), replace(world(), devices=SLOW_DEVICE))
    _, _, _, opened = next(finished.openings())
    samples = DATA.train.counts(opened.participants.clients)

    np.testing.assert_allclose(opened.spent_s, 0.01 + 0.1 * samples + 0.3 * samples + 0.02)
    losses = [loss for loss in asks.told if loss is not None]
    assert len(losses) == len(asks.told) == 8 * 16  # those that were in time
    assert losses[:16] == pytest.approx([np.log(DATA.n_classes)] * 16)  # of a model of zeros


def test_participants_choose_the_model_of_their_group() -> None:
    chosen: dict[int, int] = {}

    def note(number: int, job: Job, answer: Answer) -> Answer:
        if number == 7:
            chosen[job.client_row] = answer.model or 0
        return answer

    run(federation(Ifca(cohorts=2, warm_start=2)), world(engine=SpoiltBy(note)))
    clients = np.array(list(chosen))
    assert DATA.groups is not None

    assert agreement(np.array(list(chosen.values())), DATA.groups[clients]) > 0.9


@pytest.mark.parametrize("algorithm", [OneCohort(), Ifca(cohorts=3, warm_start=2), auxo(0.4)])
def test_worker_processes_give_the_bits_of_one_process_with_any_algorithm(algorithm: CohortAlgorithm) -> None:
    alone = run(federation(algorithm), world(dropout=0.1))
    with WorkerProcesses(ENGINE, workers=2) as engine:
        with_workers = run(federation(algorithm), world(engine=engine, dropout=0.1))

    assert to_bytes(with_workers.last) == to_bytes(alone.last)
    assert with_workers.events == alone.events


# Cohorts whose participants compare the leaves' models.


@dataclass
class Seen:
    """An engine that writes down what was offered when a round closed, and what was chosen."""

    rounds: list[tuple[Closing, Training, Closed]] = field(default_factory=list)

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        closed = ENGINE.run_round(rules, closing, training)
        self.rounds.append((closing, training, closed))
        return closed


@pytest.fixture(scope="module")
def comparing() -> tuple[Run, Seen]:
    seen = Seen()
    around = replace(world(engine=seen, dropout=0.1), devices=SyntheticDevices().draw(CLIENTS, 5))
    # A cohort that everybody has left, because comparisons say so, is given up after a thousand empty rounds.
    return run(replace(federation(auxo(0.25, 0.5, 0.5)), total_rounds=12), around, max_steps=3000), seen


def mean_losses(models: Sequence[Float32Array], job: Job, fold: int | None = None) -> list[float]:
    at = local_positions(DATA, replace(job, ask=replace(job.ask, fold=fold)))
    x, y = DATA.inputs(DATA.train.x_rows[at]), DATA.train.y[at]
    return [float(TRAINER.losses(weights, x, y).mean()) for weights in models]


def test_a_client_that_compares_ends_in_the_leaf_with_the_least_loss_or_stays_where_none_is_clearly_better(
    comparing: tuple[Run, Seen],
) -> None:
    compared, stays = 0, 0
    for closing, training, closed in comparing[1].rounds:
        said = None if closed.outcome is None else closed.outcome.affinities
        if said is None or said.placed is None:
            continue
        jobs = dict(zip(training.rows.tolist(), training.jobs, strict=True))
        for row, placed in zip(closed.gathered.rows.tolist(), said.placed.tolist(), strict=True):
            if placed >= 0:
                losses, margin = mean_losses(training.models, jobs[row]), jobs[row].ask.margin
                assert margin in (0.0, 0.05)  # of newcomers, and of who has reason to be where it is
                own, *others = losses
                best = int(np.argmin([own * (1 - margin), *others]))
                if best > 0 and margin > 0:  # it has to be better on both halves
                    halves = [mean_losses(training.models, jobs[row], fold) for fold in (0, 1)]
                    best = best if all(half[best] < half[0] * (1 - margin) for half in halves) else 0
                assert placed == best
                assert closing.participants.asks.model[row] == LEAST_LOSS
                compared += 1
                stays += losses[placed] > min(losses)
    assert compared > 50
    assert stays


def test_clients_keep_what_comparisons_have_named(comparing: tuple[Run, Seen]) -> None:
    held = records(comparing[0].last).held

    assert held.confirmed[:, 1:].max() >= 2
    assert not held.confirmed[:, 0].any()  # there was nothing to compare the root with


def test_a_leaf_may_be_partitioned_while_its_model_is_offered_in_a_round_of_another(
    comparing: tuple[Run, Seen],
) -> None:
    run_, seen = comparing
    opened = {(cohort, one.participants.clients.tobytes()): one for _, _, cohort, one in run_.openings()}
    others = [
        closing
        for closing, _, _ in seen.rounds
        if closing.participants.offered
        != opened[closing.cohort, closing.participants.clients.tobytes()].participants.offered
    ]

    assert others  # some rounds have closed with other leaves than they opened with
    assert len(run_.of(Partitioned)) == 3
    assert {event.cohort for event in run_.of(CohortEnded)} == set(run_.last.coordinator.tree.leaves)


def test_a_round_moves_no_other_leaf(comparing: tuple[Run, Seen]) -> None:
    for before, after in pairwise(comparing[0].states):
        same = set(before.coordinator.cohorts) & set(after.coordinator.cohorts)
        moved = {
            leaf for leaf in same if before.coordinator.cohorts[leaf].round != after.coordinator.cohorts[leaf].round
        }
        assert len(moved) <= 1
        for leaf in same - moved:
            assert before.coordinator.cohorts[leaf].server is after.coordinator.cohorts[leaf].server


def test_all_models_that_are_compared_are_paid_for() -> None:
    finished = run(rules(0.4), replace(world(), devices=SLOW_DEVICE))
    downloads = 0.0
    for _, _, _, opened in finished.openings():
        asked = opened.participants
        samples = DATA.train.counts(asked.clients)
        half = np.where(samples > 1, (samples + 1 - asked.asks.fold) // 2, samples)
        looked_at = np.where(asked.asks.fold < 0, samples, half)
        trained = np.where(asked.asks.fold < 0, samples, half)
        compares = asked.asks.model == LEAST_LOSS
        models = np.where(compares, len(asked.offered), 1)
        sent = 1 + (models - 1) * SHARE  # others' models are thin
        downloads += sent.sum()
        expected = sent * 0.01 + 0.1 * looked_at * models * compares + 0.3 * trained + 0.02
        np.testing.assert_allclose(opened.spent_s, expected)

    assert finished.last.spent.downloads == pytest.approx(downloads)
    assert downloads > 8 * 20


TRIED = Auxo(
    clustering=ClusteringSettings(clusters=3, pool_rounds=2),
    trial=TrialSettings(judges=8),  # clients are more than twice as many
)


def test_judges_pay_for_the_models_that_they_are_sent_and_the_samples_that_they_judge_by() -> None:
    # A cohort that everybody has left, because comparisons say so, is given up after a thousand empty rounds.
    around = replace(world(), devices=SLOW_DEVICE)
    finished = run(replace(federation(TRIED), total_rounds=14), around, max_steps=3000)
    downloads, judges = 0, 0
    for _, _, _, opened in finished.openings():
        asked = opened.participants
        samples = DATA.train.counts(asked.clients)
        half = (samples + 1 - asked.asks.fold) // 2
        looked_at = np.where(asked.asks.fold < 0, samples, half)
        trained = np.where(asked.asks.fold < 0, samples, half)
        chooses = np.where(asked.asks.model == LEAST_LOSS, len(asked.offered), 1)
        judged = np.zeros(len(samples)) if asked.asks.judges is None else (asked.asks.judges >= 0).sum(axis=1)
        judges += int((judged > 1).sum())
        models = np.maximum(chooses, judged)
        downloads += int(models.sum())
        compared = looked_at * np.where(chooses > 1, chooses, 0) + samples * judged  # by one half and by the other
        np.testing.assert_allclose(opened.spent_s, models * 0.01 + 0.1 * compared + 0.3 * trained + 0.02)

    assert finished.last.spent.downloads == downloads
    assert judges > 10


# Partial work.


def slow(compute_s: Sequence[float]) -> Devices:
    """Return devices of which each takes so long for a sample, and a second for download and upload together."""
    columns = np.full(CLIENTS, 2.0 * MODEL_BITS)
    return Devices(np.resize(compute_s, CLIENTS), columns, columns)


def partial_work(epochs: int, sends_partial_work: bool, compute_s: Sequence[float] = (0.1, 0.5, 0.9)) -> Run:
    """Run where everybody has 10 samples and 21 seconds, for three kinds of devices."""
    data = population(10, 10)
    training = replace(TRAINING, epochs=epochs)
    around = World(
        data,
        slow(compute_s),
        AlwaysOnline(CLIENTS),
        InProcess(TRAINER, data, training, seed=5),
        epochs=epochs,
        deadline_s=21.0,
        sends_partial_work=sends_partial_work,
    )
    return run(replace(federation(OneCohort()), overcommit=0.0), around)


def test_who_is_too_slow_does_as_many_epochs_as_fit_and_is_kept() -> None:
    finished = partial_work(epochs=5, sends_partial_work=True)
    for _, _, _, opened in finished.openings():
        kind = opened.participants.clients % 3
        assert opened.epochs is not None
        # Of 5 epochs that take 1, 5 or 9 s each, with a second for the network, 21 s are enough for 5, 4 and 2.
        np.testing.assert_array_equal(opened.epochs, np.array([5, 4, 2])[kind])
        np.testing.assert_allclose(opened.spent_s, np.array([6.0, 21.0, 19.0])[kind])
        assert opened.kept.all()
    assert finished.last.spent.wasted_participations == 0


def test_without_partial_work_who_is_too_slow_is_late() -> None:
    finished = partial_work(epochs=5, sends_partial_work=False)
    _, _, _, opened = next(finished.openings())
    kind = opened.participants.clients % 3

    assert opened.epochs is None
    np.testing.assert_array_equal(opened.kept, kind == 0)
    np.testing.assert_array_equal(opened.late, kind != 0)
    np.testing.assert_allclose(opened.spent_s, np.array([6.0, 26.0, 46.0])[kind])


def test_with_one_epoch_there_is_nothing_to_leave_out() -> None:
    partial, whole = (partial_work(epochs=1, sends_partial_work=sends) for sends in (True, False))

    assert to_bytes(partial.last) == to_bytes(whole.last)
    assert partial.events == whole.events


def test_who_cannot_do_a_single_epoch_in_time_does_one_and_is_late() -> None:
    finished = partial_work(epochs=5, sends_partial_work=True, compute_s=(0.1, 2.5))
    _, _, _, opened = next(finished.openings())
    is_slow = opened.participants.clients % 2 == 1

    np.testing.assert_array_equal(opened.late, is_slow)
    np.testing.assert_allclose(opened.spent_s, np.where(is_slow, 26.0, 6.0))


def test_as_many_epochs_are_trained_as_the_clock_has_counted() -> None:
    trained: dict[int, float] = {}

    def note(number: int, job: Job, answer: Answer) -> Answer:
        trained[job.client_row] = 5 * job.ask.work
        return answer

    around = replace(
        world(engine=SpoiltBy(note)), data=population(10, 10), devices=slow((0.1, 0.5, 0.9)), epochs=5, deadline_s=21.0
    )
    run(federation(OneCohort()), replace(around, sends_partial_work=True))

    assert trained
    assert all(epochs == (5, 4, 2)[client % 3] for client, epochs in trained.items())


def test_clients_without_samples_take_no_time_to_train_and_are_no_trouble() -> None:
    samples = DATA.train
    nobody = replace(DATA, train=replace(samples, offsets=np.zeros_like(samples.offsets)))
    around = replace(world(engine=SpoiltBy(lambda number, job, answer: answer)), data=nobody, epochs=5, deadline_s=21.0)
    finished = run(federation(OneCohort()), replace(around, devices=slow((0.1,)), sends_partial_work=True))
    _, _, _, opened = next(finished.openings())

    np.testing.assert_allclose(opened.spent_s, 1.0)
