import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.engines.in_process import InProcess, WorkerProcesses
from auxo.learning.federated_data import FederatedData
from auxo.learning.heterogeneity import LabelPermutation
from auxo.learning.softmax import SoftmaxTrainer
from auxo.learning.synthetic import synthetic_population
from auxo.learning.trainer import Job, LocalTraining, LocalUpdate
from auxo.runtime.cohort_round import TrainFailure

DATA = synthetic_population(
    clients=50, groups=2, heterogeneity=LabelPermutation(), features=6, classes=4, samples=(5, 12), test_samples=1
)
TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
ENGINE = InProcess(TRAINER, DATA, LocalTraining(), seed=3)
WEIGHTS = stream(0, "weights").standard_normal(TRAINER.n_params).astype(np.float32)
# More jobs than a worker gets at a time, halves and whole clients, one client twice.
JOBS = [Job(row, visit=row % 3, fold=(None, 0, 1)[row % 3]) for row in range(50)] + [Job(0, 1, None)] * 50


def assert_same_bits(answers: list[LocalUpdate | TrainFailure], others: list[LocalUpdate | TrainFailure]) -> None:
    assert len(answers) == len(others)
    for one, other in zip(answers, others, strict=True):
        assert isinstance(one, LocalUpdate)
        assert isinstance(other, LocalUpdate)
        assert one.delta.tobytes() == other.delta.tobytes()
        assert one.examples == other.examples


def test_answers_are_those_of_the_trainer_in_the_order_of_the_jobs() -> None:
    expected = list(TRAINER.train(WEIGHTS, DATA, JOBS, LocalTraining(), 3))
    with ENGINE as engine:
        assert_same_bits(list(engine.train(WEIGHTS, JOBS)), list(expected))


def test_worker_processes_give_the_bits_of_one_process() -> None:
    with WorkerProcesses(ENGINE, workers=2) as engine:
        assert_same_bits(list(engine.train(WEIGHTS, JOBS)), list(ENGINE.train(WEIGHTS, JOBS)))
        # The weights of one round must not stay behind for the next.
        assert_same_bits(list(engine.train(2 * WEIGHTS, JOBS[:5])), list(ENGINE.train(2 * WEIGHTS, JOBS[:5])))


def test_jobs_in_another_order_give_the_same_answers_in_that_order() -> None:
    order = stream(0, "order").permutation(50)
    straight = list(ENGINE.train(WEIGHTS, JOBS[:50]))
    with WorkerProcesses(ENGINE, workers=2) as engine:
        shuffled = list(engine.train(WEIGHTS, [JOBS[row] for row in order]))

    assert_same_bits(shuffled, [straight[row] for row in order])


def test_no_jobs_are_no_answers() -> None:
    assert list(ENGINE.train(WEIGHTS, [])) == []
    with WorkerProcesses(ENGINE, workers=2) as engine:
        assert list(engine.train(WEIGHTS, [])) == []


def test_workers_train_only_while_they_run() -> None:
    engine = WorkerProcesses(ENGINE, workers=2)
    with pytest.raises(RuntimeError, match="with WorkerProcesses"):
        list(engine.train(WEIGHTS, JOBS[:1]))
    with engine:
        list(engine.train(WEIGHTS, JOBS[:1]))
    with pytest.raises(RuntimeError, match="with WorkerProcesses"):
        list(engine.train(WEIGHTS, JOBS[:1]))


@pytest.mark.parametrize("workers", [-1, 0, 1])
def test_one_worker_is_no_use(workers: int) -> None:
    with pytest.raises(ValueError, match=f"workers: expected at least 2, got {workers}"):
        WorkerProcesses(ENGINE, workers)


@dataclass(frozen=True)
class FatalTrainer:
    """Ends its process instead of training."""

    n_params: int = TRAINER.n_params

    def initial_weights(self, seed: int) -> Float32Array:
        return WEIGHTS

    def train(
        self, weights: Float32Array, data: FederatedData, jobs: Sequence[Job], settings: LocalTraining, seed: int
    ) -> Iterator[LocalUpdate]:
        os._exit(1)

    def predict(self, weights: Float32Array, x: Float32Array) -> IntArray:
        return np.zeros(len(x), dtype=np.int64)

    def losses(self, weights: Float32Array, x: Float32Array, y: IntArray) -> FloatArray:
        return np.zeros(len(x))


def test_a_worker_that_dies_is_an_error_that_says_what_to_do() -> None:
    with (
        WorkerProcesses(InProcess(FatalTrainer(), DATA, LocalTraining(), seed=3), workers=2) as engine,
        pytest.raises(RuntimeError, match="run again with fewer workers"),
    ):
        list(engine.train(WEIGHTS, JOBS))
