"""Robust and fair aggregators while a partition is on trial: attackers in a branch do not reach the cohort's own model.

Held against all participants training one model: what six of twenty-six can do there is what they can do here, at most.
Clients are few, so that after the first rounds half of them train a branch; in these, and where clients are many,
everybody trains the cohort's own model.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from auxo import Auxo, Client, FedAvg, Server, Task, TaskResult
from auxo.algorithms.auxo.pooling import FIRST_LOOK
from auxo.core.aggregators import Aggregator, Report
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.aggregators.robust import Median
from auxo.core.asking import Answer
from auxo.core.cohort_algorithm import held_by
from auxo.core.rng import stream
from auxo.core.types import ROOT, ClientId, Float32Array, FloatArray
from tests.runtime.made_rounds import SAME_SECRET

N_PARAMS, CLIENTS, PARTICIPANTS, ATTACKERS = 6, 26, 26, 6
AGGREGATORS = [Median(), QFedAvg(q=1.0, learning_rate=0.1)]


def target(client: ClientId) -> Float32Array:
    point: Float32Array = (4 * np.eye(N_PARAMS)[int(client) % 2]).astype(np.float32)
    return point


def loss(weights: Float32Array, client: ClientId) -> float:
    return float(((weights - target(client)) ** 2).mean())


@dataclass
class Trial:
    """A federation of two groups that tries a partition of its only cohort."""

    aggregator: Aggregator
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.server = self.new_server()
        self._clients = [Client(number) for number in range(CLIENTS)]

    def new_server(self) -> Server:
        zeros = np.zeros(N_PARAMS, dtype=np.float32)
        return Server(
            zeros,
            participants=PARTICIPANTS,
            rounds=40,
            method=Auxo(),
            aggregator=self.aggregator,
            secret=SAME_SECRET,
        )

    def tasks(self) -> list[Task]:
        """Open a round of the cohort."""
        here = self.server.match([client.check_in() for client in self._clients])
        return self.server.open_round(ROOT, here[ROOT])

    def close(self, tasks: list[Task]) -> None:
        for feedback in self.server.close_round(ROOT, [self.answer(task) for task in tasks]):
            self._clients[int(feedback.client)].receive(feedback)

    def until_trial(self, rounds: int) -> list[Task]:
        """Return the tasks of a round of a trial, which is open, after so many rounds of it."""
        tried = 0
        while True:
            record = self.server.to_bytes()
            tasks = self.tasks()
            is_on_trial = bool(held_by(self.server.record.state.cohorts[ROOT])[0])
            if is_on_trial and tried == rounds:
                self._record, self._tasks = record, tasks
                return tasks
            tried += is_on_trial
            self.close(tasks)

    def answer(self, task: Task, lies: bool = False) -> TaskResult:
        offered = task.models[: task.ask.choices]
        best = min(range(len(offered)), key=lambda place: loss(self.server.weights(offered[place]), task.client))
        model = self.server.weights(offered[best])
        noise = stream(0, "noise", task.client, task.round).standard_normal(N_PARAMS)
        update = (0.2 * (target(task.client) - model) + 0.05 * noise).astype(np.float32)
        answer = Answer(update, 10, model=best, loss=loss(model, task.client))  # nobody judges, so that it goes on
        if lies:
            answer = replace(answer, update=-10 * update, loss=1e6, examples=10**6)
        return TaskResult(task.client, task.cohort, task.round, answer)

    def own_after(self, liars: Collection[ClientId]) -> FloatArray:
        """Return the cohort's own model after the round that is open, of a server that goes on from where it began."""
        results = [self.answer(task, task.client in liars) for task in self._tasks]
        fork = self.new_server()
        fork.restore(self._record)
        again = fork.open_round(ROOT, fork.match([client.check_in() for client in self._clients])[ROOT])
        assert {task.client: task.models for task in again} == {task.client: task.models for task in self._tasks}
        fork.close_round(ROOT, results)
        return fork.weights(ROOT).astype(np.float64)

    def joint_after(self, liars: Collection[ClientId]) -> FloatArray:
        """Return the model that all participants would have had together, each with the update that it has sent."""
        state = self.aggregator.initial(self.server.weights(ROOT))
        total = self.aggregator.accumulate(state)
        for task in self._tasks:
            answer = self.answer(replace(task, models=(ROOT,)), task.client in liars).answer
            total.add(answer.update, Report(answer.examples, answer.loss))
        movement = total.result()
        assert movement is not None
        return self.aggregator.step(state, movement).weights.astype(np.float64)


@pytest.mark.filterwarnings("ignore:client .* claims 1000000 examples")
@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=["median", "q-FedAvg"])
@pytest.mark.parametrize("rounds", [0, 1, 2])  # after four it ends: nobody judges
def test_attackers_in_a_branch_move_the_cohorts_own_model_no_further_than_that_of_all(
    aggregator: Aggregator, rounds: int
) -> None:
    trial = Trial(aggregator)
    tasks = trial.until_trial(rounds)
    in_branch = [task.client for task in tasks if rounds < FIRST_LOOK or task.models[0] != ROOT]
    liars = in_branch[:ATTACKERS]
    assert len(liars) == ATTACKERS
    by_trial = np.linalg.norm(trial.own_after(liars) - trial.own_after(()))
    by_all = np.linalg.norm(trial.joint_after(liars) - trial.joint_after(()))
    assert by_all > 0.01
    assert by_trial <= by_all * (1 + 1e-6)
    assert (by_trial == 0) == (rounds >= FIRST_LOOK)  # before that, updates move the cohort's model and a branch


@pytest.mark.filterwarnings("ignore:client .* claims 1000000 examples")
@pytest.mark.parametrize("rounds", [0, 1, 2])  # after four it ends: nobody judges
def test_with_a_median_attackers_who_train_the_own_model_keep_it_among_honest_ones(rounds: int) -> None:
    trial = Trial(Median())
    tasks = trial.until_trial(rounds)
    controls = [task for task in tasks if task.models[0] == ROOT]
    assert (len(controls) < len(tasks)) == (rounds >= FIRST_LOOK)
    liars = [task.client for task in controls[:ATTACKERS]]
    honest = [trial.answer(task).answer.update for task in controls if task.client not in liars]
    moved = trial.own_after(liars) - trial.server.weights(ROOT)
    assert (moved >= np.min(honest, axis=0) - 1e-6).all()
    assert (moved <= np.max(honest, axis=0) + 1e-6).all()


def test_by_examples_the_same_attackers_would_have_taken_the_model_along() -> None:
    trial = Trial(FedAvg())
    tasks = trial.until_trial(1)
    liars = [task.client for task in tasks][:ATTACKERS]
    assert np.linalg.norm(trial.joint_after(liars) - trial.joint_after(())) > 1
