from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from auxo.core.asking import Ask
from auxo.core.sample_clipping import ClipsSamples, SampleClipping
from auxo.core.types import Float32Array
from auxo.models.catalogue import make_trainer
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.training.local_samples import local_batches, most_passes
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining, Trainer
from auxo.training.trainer_device import TrainerDevice

DATA = synthetic_population(clients=6, groups=2, heterogeneity=LabelPermutation(), features=5, classes=3, seed=100)
SOFTMAX, MLP = make_trainer("softmax", DATA), make_trainer("mlp", DATA)
LITTLE = 1e-9  # noise
JOBS = [Job(client, 0) for client in range(6)]


def _updates(
    trainer: Trainer, settings: LocalTraining, data: FederatedData = DATA, jobs: Sequence[Job] = JOBS
) -> list[Float32Array]:
    weights = np.full(trainer.n_params, 0.01, dtype=np.float32)
    return [one.update.copy() for one in trainer.train(weights, data, jobs, settings, 100)]


@pytest.mark.parametrize("trainer", [SOFTMAX, MLP], ids=["softmax", "mlp"])
def test_a_wide_clip_without_noise_is_plain_training(trainer: Trainer) -> None:
    plain = _updates(trainer, LocalTraining())
    clipped = _updates(trainer, LocalTraining(samples=SampleClipping(clip=1e4, noise=1e-12, loss_bound=1.0)))
    for one, other in zip(plain, clipped, strict=True):
        assert other == pytest.approx(one, abs=1e-4)


@pytest.mark.parametrize("trainer", [SOFTMAX, MLP], ids=["softmax", "mlp"])
def test_one_step_of_one_sample_is_no_longer_than_the_clip(trainer: Trainer) -> None:
    settings = LocalTraining(learning_rate=1.0, batch_size=1, samples=SampleClipping(0.01, LITTLE, 1.0))
    steps = DATA.train.counts(np.arange(6))
    for update, most in zip(_updates(trainer, settings), steps.tolist(), strict=True):
        assert np.linalg.norm(update) <= 0.01 * most * (1 + 1e-4)
    full = LocalTraining(learning_rate=1.0, batch_size=1000, samples=SampleClipping(0.01, LITTLE, 1.0))
    for update in _updates(trainer, full):  # the mean of gradients none of which is longer
        assert np.linalg.norm(update) <= 0.01 * (1 + 1e-4)


@pytest.mark.parametrize("trainer", [SOFTMAX, MLP], ids=["softmax", "mlp"])
def test_a_sample_that_is_replaced_moves_a_step_by_two_clips_over_the_batch(trainer: Trainer) -> None:
    clip, settings = 0.05, LocalTraining(learning_rate=1.0, batch_size=1000)
    settings = replace(settings, samples=SampleClipping(clip, LITTLE, 1.0))
    first = int(DATA.train.x_rows[0])
    x = DATA.x.copy()
    x[first] = 1e3
    other = replace(DATA, x=x)
    n = int(DATA.train.counts(np.array([0]))[0])
    moved = _updates(trainer, settings)[0] - _updates(trainer, settings, other)[0]
    assert 0 < np.linalg.norm(moved) <= 2 * clip / n * (1 + 1e-3)


@pytest.mark.parametrize("trainer", [SOFTMAX, MLP], ids=["softmax", "mlp"])
def test_noise_on_a_step_is_as_large_as_it_says_and_each_clients_own(trainer: Trainer) -> None:
    settings = LocalTraining(learning_rate=1.0, batch_size=1000, samples=SampleClipping(1e-6, 1e6, 1.0))
    updates = _updates(trainer, settings)
    for update, n in zip(updates, DATA.train.counts(np.arange(6)).tolist(), strict=True):
        assert float(np.std(update)) * n == pytest.approx(1.0, rel=0.5)
    for one, other in combinations(updates, 2):
        assert abs(float(np.corrcoef(one, other)[0, 1])) < 0.95
    assert _updates(trainer, settings, jobs=JOBS[2:3])[0].tolist() == updates[2].tolist()


@pytest.mark.parametrize("ask", [Ask(), Ask(work=3.0), Ask(steps=9), Ask(steps=1), Ask(fold=0), Ask(fold=1, steps=7)])
def test_no_sample_is_in_more_steps_than_are_paid_for(ask: Ask) -> None:
    settings = LocalTraining(epochs=2)
    for client in range(6):
        job = Job(client, 0, ask)
        (batches,) = local_batches(DATA, [job], settings, 100)
        _, counts = np.unique(batches[batches >= 0], return_counts=True)
        assert counts.max() <= most_passes(DATA, job, settings)


def test_losses_are_bounded_sample_by_sample() -> None:
    assert isinstance(SOFTMAX, SoftmaxTrainer)
    weights = [np.full(SOFTMAX.n_params, 30.0, dtype=np.float32) * np.arange(SOFTMAX.n_params)]
    device = TrainerDevice(SOFTMAX, DATA, LocalTraining(), 100, weights, JOBS)
    assert isinstance(device, ClipsSamples)
    private = device.clipping(SampleClipping(1.0, 1.0, loss_bound=2.0))
    assert private is not None
    found = private.losses(0, range(6), [Ask()] * 6, "trained")
    assert found.mean.max() <= 2.0
    assert device.losses(0, range(6), [Ask()] * 6, "trained").mean.max() > 2.0
