"""Selectors in virtual time: what they hear of a round, and what they ask of participants is done and charged."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo
from auxo.algorithms.base import OneCohort
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.oracle import Oracle
from auxo.algorithms.paper import Paper
from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer
from auxo.core.cohort_algorithm import Closing, CohortAlgorithm
from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING, OwnState, own
from auxo.core.partial_uploads import sent_share
from auxo.core.selectors import Asked, Selector, UsualWork
from auxo.core.selectors.oort import Oort, OortMemory
from auxo.core.selectors.pyramidfl import PyramidFL
from auxo.core.turnout import Turnout
from auxo.core.types import ROOT, IntArray
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.protocol.codec import to_bytes
from auxo.runtime.closing import Closed, Training
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.simulation.devices import Work, durations_s
from auxo.simulation.virtual_time import Simulation, SimulationState, World
from auxo.testing.small_federation import SmallFederation, in_process, rules_of, true_groups
from auxo.training.trainer import Job
from tests.algorithms import short_runs

SAMPLES, DEVICES = short_runs.DATA.train.counts(), short_runs.WORLD.devices
BYTES = 4 * short_runs.TRAINER.n_params
SELECTORS: list[Selector] = [Oort(pacer_rounds=2), PyramidFL(Oort(pacer_rounds=2))]


@dataclass
class Heard:
    """What a selector was told, in order."""

    turnouts: list[Turnout] = field(default_factory=list)


@dataclass(frozen=True)
class Listens:
    """Takes whoever is first, remembers what it hears, and may ask for work."""

    heard: Heard
    own_states = ()
    asks_for_loss = True

    def begin(self, parent: OwnState | None = None) -> OwnState:
        return NOTHING

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        return rows[:wanted]

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        self.heard.turnouts.append(turnout)
        return memory


@dataclass(frozen=True)
class AsksForMore(Listens):
    """Asks every other participant for twice the work, and for half of the tensors."""

    def work(self, memory: OwnState, clients: IntArray, usual: UsualWork) -> Asked:
        odd = np.arange(len(clients)) % 2 == 1
        return Asked(np.where(odd, 2, 1) * usual.epochs, np.where(odd, 0.5, 1.0))


@dataclass
class Watched:
    """An engine that keeps the jobs and updates that it has seen."""

    inner: InProcess
    jobs: list[Job] = field(default_factory=list)
    updates: list[IntArray] = field(default_factory=list)  # which parameters have changed

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        for job, answer in zip(training.jobs, self.inner.answers(training.models, training.jobs), strict=True):
            assert isinstance(answer, Answer)
            self.jobs.append(job)
            self.updates.append(np.flatnonzero(answer.update))
        return self.inner.run_round(rules, closing, training)


def federation(selector: Selector, world: World = short_runs.WORLD) -> Federation:
    return Federation(
        OneCohort(),
        FedAvg(),
        short_runs.TRAINER.n_params,
        total_participants=10,
        total_rounds=3,
        seed=5,
        overcommit=0.5,
        selector=selector,
        layers=short_runs.TRAINER.layers,
        epochs=world.epochs,
    )


def steps(rules: Federation, world: World = short_runs.WORLD) -> list[SimulationState]:
    simulation = Simulation(rules, world, lambda event: None)
    states = [simulation.start(start(rules, short_runs.TRAINER.initial_weights))]
    while not simulation.is_over(states[-1]):
        states.append(simulation.step(states[-1].copy()))
    return states


def test_a_selector_hears_of_everybody_it_invited_with_loss_length_and_times() -> None:
    heard = Heard()
    states = steps(federation(Listens(heard)))
    rounds = [state.paces[ROOT].open_round for state in states if state.paces[ROOT].open_round is not None]

    assert len(heard.turnouts) == len(rounds) == 3
    for turnout, opened in zip(heard.turnouts, rounds, strict=True):
        assert opened is not None
        clients, finished = turnout.clients, opened.kept | opened.late
        work = Work(SAMPLES[clients], SAMPLES[clients], np.ones(15, dtype=np.int64))
        np.testing.assert_array_equal(clients, opened.participants.clients)
        np.testing.assert_array_equal(turnout.answered, opened.kept)  # the base does not hear the late
        np.testing.assert_array_equal(turnout.times.late, opened.late)
        np.testing.assert_array_equal(turnout.failed, ~finished)
        expected = np.where(finished, durations_s(DEVICES, clients, work, BYTES), np.nan)
        np.testing.assert_allclose(turnout.times.usual_s, expected)
        np.testing.assert_allclose(
            turnout.times.epoch_s[finished], (DEVICES.compute_s_per_sample[clients] * SAMPLES[clients])[finished]
        )
        np.testing.assert_allclose(turnout.times.upload_s[finished], 8 * BYTES / DEVICES.upload_bps[clients][finished])
        assert np.isfinite(turnout.loss[opened.kept]).all()
        assert (turnout.length[opened.kept] > 0).all()
        np.testing.assert_array_equal(turnout.examples, np.where(opened.kept, SAMPLES[clients], 0))
    # A mean of squares is the square of the mean only where all losses are the same, as with the first model.
    last = heard.turnouts[-1]
    assert (last.squared_loss[last.answered] > last.loss[last.answered] ** 2).all()
    assert any(turnout.failed.any() for turnout in heard.turnouts)
    assert all(turnout.times.late.any() for turnout in heard.turnouts)


def test_the_losses_are_those_of_the_samples_at_the_model_that_was_sent() -> None:
    heard = Heard()
    states = steps(federation(Listens(heard)))
    last, weights = heard.turnouts[-1], states[-2].coordinator.cohorts[ROOT].server.weights
    for client, loss, square in zip(last.clients, last.loss, last.squared_loss, strict=True):
        if np.isfinite(loss):
            owned = short_runs.DATA.train.of(int(client))
            rows = short_runs.DATA.train.x_rows[owned]
            losses = short_runs.TRAINER.losses(weights, short_runs.DATA.inputs(rows), short_runs.DATA.train.y[owned])
            assert loss == pytest.approx(losses.mean())
            assert square == pytest.approx((losses**2).mean())


def test_work_that_is_asked_for_is_done_and_charged_and_times_are_told_for_the_usual_work() -> None:
    heard, plain = Heard(), Heard()
    engine = Watched(InProcess(short_runs.TRAINER, short_runs.DATA, short_runs.WORLD.engine.settings, seed=5))  # type: ignore[attr-defined]
    world = replace(short_runs.WORLD, engine=engine, epochs=3, dropout=0.0)
    states = steps(federation(AsksForMore(heard), world), world)
    opened = next(state.paces[ROOT].open_round for state in states if state.paces[ROOT].open_round is not None)
    steps(federation(Listens(plain), world), world)
    assert opened is not None
    asked = opened.participants
    assert asked.asks.skipped is not None
    assert asked.asks.epochs is not None

    np.testing.assert_array_equal(asked.asks.epochs, [3, 6] * 7 + [3])
    assert asked.asks.skipped[1::2].any()
    assert not asked.asks.skipped[::2].any()
    share = sent_share(asked.asks.skipped, short_runs.TRAINER.layers)
    work = Work(SAMPLES[asked.clients] * asked.asks.epochs, SAMPLES[asked.clients], np.ones(15, dtype=np.int64), share)
    np.testing.assert_allclose(opened.spent_s, durations_s(DEVICES, asked.clients, work, BYTES))
    np.testing.assert_array_equal(heard.turnouts[0].times.usual_s, plain.turnouts[0].times.usual_s)
    assert {job.ask.work for job in engine.jobs} >= {1.0, 2.0}
    sizes = [layer.size for layer in short_runs.TRAINER.layers]
    ends = np.cumsum(sizes)
    for job, changed in zip(engine.jobs, engine.updates, strict=True):
        assert not any(((changed >= ends[one] - sizes[one]) & (changed < ends[one])).any() for one in job.ask.skipped)
        assert len(changed)


def test_without_known_tensors_updates_are_sent_whole() -> None:
    rules = replace(federation(AsksForMore(Heard())), layers=())
    opened = next(s.paces[ROOT].open_round for s in steps(rules) if s.paces[ROOT].open_round is not None)

    assert opened is not None
    assert opened.participants.asks.skipped is None
    assert opened.participants.asks.epochs is not None


def test_a_selector_that_sets_work_has_to_know_what_is_usual() -> None:
    world = replace(short_runs.WORLD, epochs=2)
    with pytest.raises(ValueError, match=r"rules\.epochs: expected those of the world, 2, got 1"):
        Simulation(replace(federation(PyramidFL()), epochs=1), world, lambda event: None)


METHODS: dict[str, CohortAlgorithm] = {
    "base": OneCohort(),
    "auxo": Auxo(),
    "paper": Paper(start_round=2),
    "ifca": Ifca(cohorts=2),
    "oracle": Oracle().given(true_groups())[0],
    "later oracle": Oracle().given(true_groups())[-1],
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("selector", SELECTORS, ids=["oort", "pyramidfl"])
def test_selectors_work_within_every_cohort_method_with_the_same_bits_in_worker_processes(
    method: str, selector: Selector
) -> None:
    rules = rules_of(METHODS[method], selector=selector)
    alone = SmallFederation.of(rules).end()
    with WorkerProcesses(in_process(), workers=2) as engine:
        assert to_bytes(SmallFederation.of(rules, engine).end()) == to_bytes(alone)

    for state in alone.coordinator.cohorts.values():
        memory = own(OortMemory, state.selection)
        assert memory.rounds == state.round == 12  # along the lineage: a child goes on from its parent
        assert len(memory.table) > 10
        assert np.isfinite(memory.table.usual_s).all()


def test_a_child_of_a_partition_knows_who_trained_before_it() -> None:
    federation = SmallFederation.of(rules_of(METHODS["later oracle"], selector=Oort()))
    states = [state.copy() for state in federation.states()]
    parted = next(number for number, state in enumerate(states) if len(state.coordinator.cohorts) > 1)
    parent = own(OortMemory, states[parted - 1].coordinator.cohorts[ROOT].selection)
    for child in states[parted].coordinator.cohorts.values():
        memory = own(OortMemory, child.selection)
        assert memory.rounds == parent.rounds + 1
        assert set(parent.table.clients.tolist()) <= set(memory.table.clients.tolist())
