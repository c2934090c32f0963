"""Small populations for trainers of any kind, and how far two ways to train the same jobs are apart."""

from collections.abc import Sequence

import numpy as np

from auxo.core.asking import Ask
from auxo.core.rng import stream
from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData, Samples
from auxo.training.trainer import Job, LocalTraining, Trainer

COUNTS = (13, 1, 0, 20, 4, 7)  # several batches, one sample, none, less than a batch; the longest is not the first
CLASSES = 4


def population(
    features: tuple[int, ...], counts: Sequence[int] = COUNTS, x: Float32Array | None = None
) -> FederatedData:
    """Return clients with so many samples each; their inputs are drawn from a normal distribution unless given."""
    rng = stream(1, "population")
    total = sum(counts)
    samples = Samples(np.arange(total), rng.integers(CLASSES, size=total), np.cumsum([0, *counts]))
    inputs = rng.normal(size=(total, *features)).astype(np.float32) if x is None else x
    return FederatedData("random", inputs, samples, samples, CLASSES, tuple(map(str, range(len(counts)))))


def all_jobs(data: FederatedData) -> list[Job]:
    """Return two jobs of every client, on all its samples and on one half."""
    return [Job(row, visit=row % 2, ask=Ask(fold=fold)) for row in range(data.n_clients) for fold in (None, row % 2)]


def updates(trainer: Trainer, data: FederatedData, jobs: Sequence[Job], training: LocalTraining) -> Float32Array:
    """Return the updates of the jobs, (jobs, parameters)."""
    weights = trainer.initial_weights(7)
    return np.stack([answer.update for answer in trainer.train(weights, data, jobs, training, seed=3)])


def largest_difference(found: Float32Array, expected: Float32Array) -> float:
    """Return how far any update is from the one expected, over the largest entry of that one."""
    largest = np.abs(expected).max(axis=1)
    difference = np.abs(found - expected).max(axis=1)
    moved = largest > 0
    np.testing.assert_array_equal(found[~moved], expected[~moved])  # who has nothing to learn from does not move
    assert moved.any()
    return float((difference[moved] / largest[moved]).max())
