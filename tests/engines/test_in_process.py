import numpy as np
from auxo.runtime.cohort_round import close_cohort, returned_by

from auxo.algorithms.auxo import Folded
from auxo.core.rng import stream
from auxo.engines.in_process import InProcess
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.training.softmax import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.engines.rounds import bits, round_of

DATA = synthetic_population(
    clients=50, groups=2, heterogeneity=LabelPermutation(), features=6, classes=4, samples=(5, 12), test_samples=1
)
TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
ENGINE = InProcess(TRAINER, DATA, LocalTraining(), seed=3)
WEIGHTS = stream(0, "weights").standard_normal(TRAINER.n_params).astype(np.float32)
# More jobs than are trained at a time, halves and whole clients, one client twice.
JOBS = [Job(row, visit=row % 3, fold=(None, 0, 1)[row % 3]) for row in range(50)] + [Job(0, 1, None)] * 50


def test_updates_are_those_of_the_trainer_in_the_order_of_the_jobs() -> None:
    expected = list(TRAINER.train(WEIGHTS, DATA, JOBS, LocalTraining(), 3))
    with ENGINE as engine:
        found = list(engine.train(WEIGHTS, JOBS))

    assert [update.delta.tobytes() for update in found] == [update.delta.tobytes() for update in expected]
    assert [update.examples for update in found] == [update.examples for update in expected]


def test_a_round_is_closed_with_the_updates_of_all_jobs_although_their_memory_is_used_again() -> None:
    task = round_of(WEIGHTS, JOBS)
    kept = returned_by(task.training, list(TRAINER.train(WEIGHTS, DATA, JOBS, LocalTraining(), 3)))

    assert bits(ENGINE.run_round(task.rules, task.closing, task.training)) == bits(
        close_cohort(task.rules, task.closing, kept)
    )


def test_a_round_without_jobs_changes_nothing() -> None:
    task = round_of(WEIGHTS, [])
    closed = ENGINE.run_round(task.rules, task.closing, task.training)

    assert isinstance(closed, Folded)
    assert closed.mean is None
