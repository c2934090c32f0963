from dataclasses import replace

import numpy as np

from auxo.core.aggregators import FedYogi, Report, WeightedMean
from auxo.core.asking import Ask
from auxo.core.rng import stream
from auxo.engines.in_process import InProcess
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.runtime.closing import close_round, returned_by
from auxo.training.local_samples import local_positions
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.core.made_updates import given
from tests.engines.rounds import bits, round_of, round_of_several

DATA = synthetic_population(
    clients=50, groups=2, heterogeneity=LabelPermutation(), features=6, classes=4, samples=(5, 12), test_samples=1
)
TRAINER = SoftmaxTrainer(n_features=6, n_classes=4)
ENGINE = InProcess(TRAINER, DATA, LocalTraining(), seed=3)
WEIGHTS = stream(0, "weights").standard_normal(TRAINER.n_params).astype(np.float32)
# More jobs than are trained at a time, halves and whole clients, one client twice.
JOBS = [Job(row, visit=row % 3, ask=Ask(fold=(None, 0, 1)[row % 3])) for row in range(50)] + [Job(0, 1)] * 50


def test_updates_are_those_of_the_trainer_in_the_order_of_the_jobs() -> None:
    expected = list(TRAINER.train(WEIGHTS, DATA, JOBS, LocalTraining(), 3))
    with ENGINE as engine:
        found = given(engine.answers([WEIGHTS], JOBS))

    assert [answer.update.tobytes() for answer in found] == [answer.update.tobytes() for answer in expected]
    assert [answer.examples for answer in found] == [answer.examples for answer in expected]


def test_a_round_is_closed_with_the_updates_of_all_jobs_although_their_memory_is_used_again() -> None:
    task = round_of(WEIGHTS, JOBS)
    kept = returned_by(task.training, list(TRAINER.train(WEIGHTS, DATA, JOBS, LocalTraining(), 3)))

    assert bits(ENGINE.run_round(task.rules, task.closing, task.training)) == bits(
        close_round(task.rules, task.closing, kept)
    )


def test_a_round_without_jobs_changes_nothing() -> None:
    task = round_of(WEIGHTS, [])
    closed = ENGINE.run_round(task.rules, task.closing, task.training)

    assert closed.outcome is None
    assert closed.gathered.movements == (None,)


def test_of_several_models_each_job_trains_the_one_it_names_or_the_one_with_the_least_loss() -> None:
    models = [WEIGHTS, -WEIGHTS, np.full_like(WEIGHTS, np.nan)]
    jobs = [Job(row, 0, Ask(fold=(None, 0, 1)[row % 3], model=(-1, 1, 0)[row % 3])) for row in range(40)]
    found = given(ENGINE.answers(models, jobs))
    for job, answer in zip(jobs, found, strict=True):
        positions = local_positions(DATA, job)
        x, y = DATA.inputs(DATA.train.x_rows[positions]), DATA.train.y[positions]
        losses = [float(TRAINER.losses(weights, x, y).mean()) for weights in models[:2]]
        expected = job.ask.model if job.ask.model >= 0 else int(np.argmin(losses))
        (alone,) = TRAINER.train(models[expected], DATA, [job], LocalTraining(), 3)
        assert (answer.model or 0) == expected
        assert answer.loss == (None if job.ask.model >= 0 else losses[expected])
        assert answer.update.tobytes() == alone.update.tobytes()
    assert {answer.model for job, answer in zip(jobs, found, strict=True) if job.ask.model < 0} == {0, 1}


def test_what_a_job_chooses_does_not_depend_on_the_other_jobs() -> None:
    models = [WEIGHTS, -WEIGHTS]
    jobs = [Job(row, 0, Ask(model=-1)) for row in range(40)]
    together = given(ENGINE.answers(models, jobs))
    for job, answer in zip(jobs, together, strict=True):
        (alone,) = given(ENGINE.answers(models, [job]))
        assert (alone.model, alone.loss, alone.update.tobytes()) == (answer.model, answer.loss, answer.update.tobytes())


def test_a_client_without_samples_is_content_with_the_first_model() -> None:
    nobody = replace(DATA, train=replace(DATA.train, offsets=np.zeros_like(DATA.train.offsets)))
    (answer,) = given(replace(ENGINE, data=nobody).answers([WEIGHTS, -WEIGHTS], [Job(0, 0, Ask(model=-1))]))

    assert (answer.model, answer.loss, answer.examples) == (0, 0.0, 0)


def test_a_round_of_several_models_moves_each_by_the_updates_of_those_who_trained_it() -> None:
    task = round_of_several([WEIGHTS, -WEIGHTS, 3 * WEIGHTS], [Job(row, 0, Ask(model=row % 2)) for row in range(50)])
    closed = ENGINE.run_round(task.rules, task.closing, task.training)
    assert closed.outcome is not None
    moved = closed.outcome.states
    for number, weights in enumerate((WEIGHTS, -WEIGHTS)):
        mine = [job for row, job in enumerate(task.training.jobs) if job.ask.model == number and row % 5 != 4]
        alone = WeightedMean(TRAINER.n_params, "examples")
        for answer in TRAINER.train(weights, DATA, mine, LocalTraining(), 3):
            alone.add(answer.update, Report(answer.examples))
        mean = alone.result()
        assert mean is not None
        after = FedYogi().step(FedYogi().initial(weights), mean)
        np.testing.assert_array_equal(moved[number].server.weights, after.weights)
    np.testing.assert_array_equal(moved[2].server.weights, 3 * WEIGHTS)  # that nobody has trained
