"""Losses of many jobs at a model: those of each job alone, whichever way they are worked out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from torch import nn

from auxo.core.asking import Ask
from auxo.core.types import Float32Array, FloatArray
from auxo.engines.in_process import InProcess
from auxo.models.small_models import LeafCnn, Mlp
from auxo.population.federated_data import FederatedData, Samples
from auxo.testing.trainers import separable_population
from auxo.training.job_losses import job_losses as losses_of_jobs
from auxo.training.job_losses import mean
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.torch_trainer import TorchTrainer
from auxo.training.trainer import Job, LocalTraining, Trainer
from tests.core.made_updates import given

SEED = 3


def job_losses(trainer: Trainer, weights: Float32Array, data: FederatedData, jobs: Sequence[Job]) -> FloatArray:
    """Return the mean loss of each job."""
    return np.array([mean(one) for one in losses_of_jobs(trainer, weights, data, jobs)])


def with_nothing(data: FederatedData) -> FederatedData:
    """Return the same clients, and one more without samples."""
    train, test = (
        replace(samples, offsets=np.append(samples.offsets, samples.offsets[-1])) for samples in (data.train, data.test)
    )
    return replace(data, train=train, test=test, client_names=(*data.client_names, "nothing"))


FLAT = with_nothing(separable_population())
IMAGES = replace(FLAT, x=np.repeat(np.asarray(FLAT.x).reshape(-1, 8, 8), 2, axis=1).repeat(2, axis=2))
JOBS = [Job(row, 0, Ask(fold=(None, 0, 1)[row % 3], reports_loss=True)) for row in (4, 0, 6, 3, 1, 2, 5)]
NOTHING = 2  # place of the client without samples


def suited(module: Callable[[], nn.Module], data: FederatedData) -> TorchTrainer:
    return TorchTrainer(module).suited_to(data)


CASES: Mapping[str, tuple[Trainer, FederatedData]] = {
    "softmax": (SoftmaxTrainer(64, 4), FLAT),
    "one by one": (TorchTrainer(partial(Mlp, 64, 4, 12)), FLAT),
    "mlp": (suited(partial(Mlp, 64, 4, 12), FLAT), FLAT),
    "cnn": (suited(partial(LeafCnn, 16, 4, hidden=16), IMAGES), IMAGES),
}


def alone(trainer: Trainer, weights: Float32Array, data: FederatedData, job: Job) -> float:
    owned = data.train.of(job.client_row)
    positions = np.arange(owned.start, owned.stop)[job.ask.fold or 0 :: 1 if job.ask.fold is None else 2]
    losses = trainer.losses(weights, data.inputs(data.train.x_rows[positions]), data.train.y[positions])
    return float(losses.mean()) if len(losses) else 0.0


@pytest.mark.parametrize("name", CASES)
def test_losses_are_those_of_each_jobs_own_samples(name: str) -> None:
    trainer, data = CASES[name]
    weights = trainer.initial_weights(SEED)
    expected = [alone(trainer, weights, data, job) for job in JOBS]
    found = job_losses(trainer, weights, data, JOBS)

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[NOTHING] == 0.0
    silent = [replace(job, ask=replace(job.ask, reports_loss=False)) for job in JOBS]  # as models are compared
    assert job_losses(trainer, weights, data, silent).tolist() == expected


@pytest.mark.parametrize("name", CASES)
def test_a_loss_has_the_same_bits_whatever_the_other_jobs_are(name: str) -> None:
    trainer, data = CASES[name]
    weights = trainer.initial_weights(SEED)
    found = job_losses(trainer, weights, data, JOBS)

    assert [float(job_losses(trainer, weights, data, [job])[0]) for job in JOBS] == found.tolist()
    assert job_losses(trainer, weights, data, JOBS[::-1]).tolist() == found.tolist()[::-1]


def test_a_plain_convolutional_network_takes_the_kernels_way() -> None:
    trainer, data = CASES["cnn"]
    assert isinstance(trainer, TorchTrainer)
    weights = trainer.initial_weights(SEED)
    silent = [replace(job, ask=replace(job.ask, reports_loss=False)) for job in JOBS]

    assert trainer.batching.stacking.is_sequential
    assert job_losses(trainer, weights, data, JOBS).tolist() != job_losses(trainer, weights, data, silent).tolist()


@pytest.mark.parametrize("name", CASES)
def test_asking_for_a_loss_changes_no_bit_of_an_update(name: str) -> None:
    trainer, data = CASES[name]
    weights, engine = trainer.initial_weights(SEED), InProcess(trainer, data, LocalTraining(), SEED)
    asked = given(engine.answers([weights], JOBS))
    plain = given(engine.answers([weights], [replace(job, ask=replace(job.ask, reports_loss=False)) for job in JOBS]))

    assert [answer.update.tobytes() for answer in asked] == [answer.update.tobytes() for answer in plain]
    told = [answer.loss for answer in trainer.train(weights, data, JOBS, LocalTraining(), SEED)]
    by_itself = job_losses(trainer, weights, data, JOBS).tolist()
    expected = [loss if mine is None else mine for mine, loss in zip(told, by_itself, strict=True)]
    assert [answer.loss for answer in asked] == expected
    assert [answer.loss for answer in plain] == [None] * len(JOBS)


def of_sizes(sizes: Sequence[int]) -> FederatedData:
    """Return clients with so many samples each, taken in turn from those of the few."""
    data = separable_population()
    rows = np.arange(sum(sizes)) * 7 % len(data.train.y)
    train = Samples(data.train.x_rows[rows], data.train.y[rows], np.cumsum([0, *sizes]))
    return with_nothing(replace(data, train=train))


MANY = of_sizes((30, 100, 250, 97, 6, 190))
WIDE = replace(MANY, x=np.tile(np.asarray(MANY.x), (1, 33)))
TELLING: Mapping[str, tuple[Trainer, FederatedData]] = {
    "softmax": (SoftmaxTrainer(64 * 33, 4), WIDE),
    "mlp": (suited(partial(Mlp, 64, 4, 12), MANY), MANY),
}
HOW = {
    "plain": LocalTraining(),
    "proximal": LocalTraining(proximal=0.1),
    "three epochs": LocalTraining(epochs=3),
    "batches of 10": LocalTraining(batch_size=10),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", TELLING)
def test_deferred_weights_tell_losses_with_training_and_change_no_bit_for_it(name: str, how: str) -> None:
    trainer, data = TELLING[name]
    weights = trainer.initial_weights(SEED) + np.linspace(-0.01, 0.01, trainer.n_params, dtype=np.float32)
    updates = list(trainer.train(weights, data, JOBS, HOW[how], SEED))
    silent = [replace(job, ask=replace(job.ask, reports_loss=False)) for job in JOBS]

    assert max(data.train.counts()) > 2 * 96  # more than a stretch of steps has
    assert updates[NOTHING].loss is None
    for job, answer in zip(JOBS, updates, strict=True):
        if job.client_row != JOBS[NOTHING].client_row:
            (losses,) = losses_of_jobs(trainer, weights, data, [job])
            assert answer.loss == pytest.approx(losses.mean(), rel=1e-5)
            assert answer.squared_loss == pytest.approx((losses**2).mean(), rel=1e-5)
        (alone,) = trainer.train(weights, data, [job], HOW[how], SEED)
        assert (alone.loss, alone.squared_loss) == (answer.loss, answer.squared_loss)
    plain = list(trainer.train(weights, data, silent, HOW[how], SEED))
    assert [answer.update.tobytes() for answer in plain] == [answer.update.tobytes() for answer in updates]
    assert {answer.loss for answer in plain} == {None}


@pytest.mark.parametrize("name", TELLING)
def test_training_that_does_not_come_by_all_samples_tells_no_loss(name: str) -> None:
    trainer, data = TELLING[name]
    weights = trainer.initial_weights(SEED)
    a_step, a_pass = (Job(3, 0, Ask(reports_loss=True, steps=steps)) for steps in (1, 50))
    found = list(trainer.train(weights, data, [a_step, a_pass], LocalTraining(), SEED))
    assert found[0].loss is None
    assert found[1].loss == pytest.approx(job_losses(trainer, weights, data, [a_pass])[0], rel=1e-5)
    (with_momentum,) = trainer.train(weights, data, [a_pass], LocalTraining(momentum=0.9), SEED)
    assert with_momentum.loss is None


@dataclass(frozen=True)
class Counting:
    """A trainer of somebody's own that knows nothing of jobs' losses."""

    inner: SoftmaxTrainer
    asked: list[int]

    def losses(self, weights: Float32Array, x: Float32Array, y: FloatArray) -> FloatArray:
        self.asked.append(len(y))
        return self.inner.losses(weights, x, y.astype(np.int64))

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_a_trainer_of_ones_own_is_asked_job_by_job() -> None:
    trainer, asked = SoftmaxTrainer(64, 4), []  # type: tuple[SoftmaxTrainer, list[int]]
    weights, jobs = trainer.initial_weights(SEED), JOBS[:2]
    found = job_losses(Counting(trainer, asked), weights, FLAT, jobs)  # type: ignore[arg-type]  # the rest is inner's

    assert asked == [10, 20]
    assert found.tolist() == job_losses(trainer, weights, FLAT, jobs).tolist()
