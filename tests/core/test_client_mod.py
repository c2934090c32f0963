"""Client mods: the same one does the same to what clients say in a simulation, in workers and in one's own loop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.core.affinity import AffinitySettings, FeedbackColumns, Requests
from auxo.core.aggregators import FedAvg
from auxo.core.asking import LEAST_LOSS, Answer, Ask
from auxo.core.client_mod import ClientMod, said_through
from auxo.core.cohort_algorithm import ClientHalf
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import ROOT, CohortId, Float32Array, IntArray
from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import WorkerProcesses
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.protocol.messages import AffinityFeedback, Task, TaskFailure, TaskResult
from auxo.runtime.client import Client
from auxo.runtime.coordinator import start
from auxo.runtime.engine import Engine
from auxo.runtime.federation import Federation
from auxo.simulation.availability import AlwaysOnline
from auxo.simulation.client_side import ClientRules
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, World
from auxo.testing import check_client_mod
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.core.made_mods import Careful
from tests.core.made_updates import given

DATA = synthetic_population(clients=40, groups=2, heterogeneity=LabelPermutation(), features=4, classes=3, seed=0)
TRAINER = SoftmaxTrainer(4, 3)
ENGINE = InProcess(TRAINER, DATA, LocalTraining(), seed=0)
MODELS = list((np.outer((1, -1, 0), np.arange(TRAINER.n_params)) / 9).astype(np.float32))
JOBS = [Job(row, 0, (Ask(), Ask(model=LEAST_LOSS), Ask(judges=(2, 1)))[row % 3]) for row in range(40)]
MOD = Careful(longest=0.1, refuses=7)


def test_the_guest_keeps_the_contract() -> None:
    check_client_mod(MOD)


def test_a_simulated_participant_sends_what_the_mod_makes_of_its_answer() -> None:
    plain, careful = given(ENGINE.answers(MODELS, JOBS)), list(ENGINE.answers(MODELS, JOBS, (MOD,)))

    for row, (before, after) in enumerate(zip(plain, careful, strict=True)):
        assert isinstance(after, Answer) == (row != MOD.refuses)
        if isinstance(after, Answer):
            assert after.update.tobytes() == MOD.clipped(before.update).tobytes()
            assert [one.loss for one in after.judged] == [round(one.loss, 2) for one in before.judged]
            assert (after.model, after.loss, after.examples) == (before.model, before.loss, before.examples)
    assert any(one.update.tobytes() != MOD.clipped(one.update).tobytes() for one in plain)


def test_the_first_of_several_mods_has_the_last_word() -> None:
    small, large = Careful(longest=0.01), Careful(longest=0.1)
    for mods in ((small, large), (large, small)):
        lengths = [np.linalg.norm(one.update) for one in given(ENGINE.answers(MODELS, JOBS, mods))]
        assert max(lengths) == pytest.approx(0.01, rel=1e-5)
    one = np.zeros(1, dtype=np.int64)
    asked = replace(Requests.silent(CohortTree(), one), reward=np.array([0.26]))
    assert said_through((MOD, Doubled()), one, asked).reward[0] == pytest.approx(0.5)
    assert said_through((Doubled(), MOD), one, asked).reward[0] == pytest.approx(0.6)


@dataclass(frozen=True)
class Doubled:
    """Claims twice the reward."""

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        return replace(requests, reward=2 * requests.reward)


def simulated(engine: Engine, mods: Sequence[ClientMod]) -> Float32Array:
    rules = Federation(OneCohort(), FedAvg(), TRAINER.n_params, total_participants=20, total_rounds=3)
    devices = SyntheticDevices().draw(DATA.n_clients, seed=0)
    world = World(DATA, devices, AlwaysOnline(DATA.n_clients), engine, mods=tuple(mods))
    simulation = Simulation(rules, world, lambda event: None)
    state = simulation.start(start(rules, TRAINER.initial_weights))
    while not simulation.is_over(state):
        state = simulation.step(state)
    return state.coordinator.cohorts[ROOT].server.weights


def test_a_simulation_has_the_same_bits_with_a_mod_in_one_process_and_in_workers_and_others_without() -> None:
    here = simulated(ENGINE, [MOD])
    with WorkerProcesses(ENGINE, workers=2) as engine:
        there = simulated(engine, [MOD])

    assert here.tobytes() == there.tobytes()
    assert here.tobytes() != simulated(ENGINE, []).tobytes()
    assert np.linalg.norm(here) <= 3 * MOD.longest * 1.0001  # three rounds of clipped updates


def test_a_client_of_ones_own_loop_sends_what_the_mod_makes_of_its_answer() -> None:
    owned = DATA.train.of(3)
    x, y = DATA.inputs(DATA.train.x_rows[owned]), DATA.train.y[owned]

    def loss(weights: Float32Array, x: Float32Array, y: IntArray) -> float:
        return float(TRAINER.losses(weights, x, y).mean())

    def train(weights: Float32Array, x: Float32Array, y: IntArray) -> Float32Array:
        return np.full(TRAINER.n_params, x.sum(), dtype=np.float32)

    task = Task(3, ROOT, 1, (ROOT, CohortId("0~0"), CohortId("0~1")), Ask(choices=1, judges=(1, 2)))
    results = []
    named = dict(zip(task.models, MODELS, strict=True))
    for mods in ((), (MOD,)):
        results.append(Client(3, mods=mods).do(task, named.__getitem__, loss, train, x, y))
    before, after = results
    assert isinstance(before, TaskResult)
    assert isinstance(after, TaskResult)

    assert (
        after.answer.update.tobytes() == MOD.clipped(before.answer.update).tobytes() != before.answer.update.tobytes()
    )
    assert [one.loss for one in after.answer.judged] == [round(one.loss, 2) for one in before.answer.judged]
    refused = Client(7, mods=[MOD]).do(
        replace(task, client=7), dict(zip(task.models, MODELS, strict=True)).__getitem__, loss, train, x, y
    )
    assert refused == TaskFailure(7, ROOT, 1, "no")


def test_a_client_does_what_a_simulated_participant_does() -> None:
    owned = DATA.train.of(5)
    x, y = DATA.inputs(DATA.train.x_rows[owned]), DATA.train.y[owned]
    ask = Ask(model=LEAST_LOSS, choices=2, judges=(2, 0), reports_loss=True)
    (expected,) = given(ENGINE.answers(MODELS, [Job(5, 0, ask)]))

    def loss(weights: Float32Array, x: Float32Array, y: IntArray) -> float:
        return float(TRAINER.losses(weights, x, y).mean())

    def hits(weights: Float32Array, x: Float32Array, y: IntArray) -> float:
        return float((TRAINER.predict(weights, x) == y).mean())

    names = (CohortId("0"), CohortId("0~0"), CohortId("0~1"))
    named = dict(zip(names, MODELS, strict=True))
    result = Client(5).do(
        Task(5, ROOT, 1, names, ask), named.__getitem__, loss, lambda w, x, y: expected.update, x, y, score=hits
    )
    assert isinstance(result, TaskResult)

    assert (result.answer.model, result.answer.examples) == (expected.model, expected.examples)
    assert result.answer.loss == expected.loss
    unmeasured = [[replace(one, error=None) for one in answer.judged] for answer in (result.answer, expected)]
    assert unmeasured[0] == unmeasured[1]
    # The losses of samples one by one have other last bits than those of a product.
    errors = [[one.error for one in answer.judged] for answer in (result.answer, expected)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-4)
    assert errors[0][0] == 0
    assert errors[0][1]


TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
TOLD = AffinityFeedback(3, TREE.leaves[0], TREE, 0.123, (None, None), None, 0, round=1)


def test_requests_pass_through_the_mods_on_a_device_and_in_a_population() -> None:
    plain, careful = Client(3), Client(3, mods=[MOD])
    for client in (plain, careful):
        assert client.check_in().request is None
        client.receive(TOLD)
    before, after = plain.check_in(explore=False).request, careful.check_in(explore=False).request
    assert before is not None
    assert after is not None

    assert after == replace(before, reward=round(before.reward, 1)) != before
    half = ClientHalf(AffinitySettings(), clusters=2)
    rules, modded = ClientRules(half), ClientRules(half, (MOD,))
    told = FeedbackColumns(
        TREE.leaves[0], TREE, np.array([0.123]), np.full((1, 2), np.nan), np.array([-1]), 0, placed=None
    )
    clients = rules.learn(rules.newcomers(5, TREE), np.array([3]), told)
    rewards = [one.check_in(clients, np.arange(5), None).requests.reward[3] for one in (rules, modded)]
    assert rewards == [before.reward, after.reward]
