"""The losses of participants' samples at a model that they were sent, before they train or instead of it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.asking import Answer
from auxo.core.types import Float32Array, FloatArray, InputArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.local_samples import local_positions, reported_examples, sample_counts
from auxo.training.trainer import Job, TellsJobLosses, Trainer

TrainsSome = Callable[[Sequence[Job], Float32Array], Sequence[FloatArray]]
"""Writes the updates of some jobs to an array, a row each, and returns what losses come with them."""

Room = Float32Array | int


def job_losses(trainer: Trainer, weights: Float32Array, data: FederatedData, jobs: Sequence[Job]) -> list[FloatArray]:
    """Return, for each job, the losses of the samples that it trains on.

    The same bits whatever the other jobs are: the last ones of a loss depend on what else is in a product, so no
    product holds the samples of two jobs.
    """
    if isinstance(trainer, TellsJobLosses):
        return trainer.job_losses(weights, data, jobs)
    return [trainer.losses(weights, x, y) for x, y in samples_of(data, jobs)]


def samples_of(data: FederatedData, jobs: Sequence[Job]) -> Iterator[tuple[InputArray, NDArray[Any]]]:
    """Yield the inputs and answers that each job trains on."""
    for job in jobs:
        positions = local_positions(data, job)
        yield data.inputs(data.train.x_rows[positions]), data.answers(data.train.y[positions])


def asked_samples(data: FederatedData, jobs: Sequence[Job], batches: Sequence[IntArray]) -> IntArray:
    """Return how many samples' losses each job reports: of all that it trains on, which come first in its batches.

    None of a job that reports no loss, or whose batches end before it has been through its samples.
    """
    counts = sample_counts(data, jobs)
    reports = np.array([job.ask.reports_loss for job in jobs], dtype=np.bool_)
    return np.where(reports & (counts <= [one.size for one in batches]), counts, 0)


def answers_in_chunks(
    data: FederatedData, jobs: Sequence[Job], at_once: int, room: Room, train_some: TrainsSome
) -> Iterator[Answer]:
    """Yield the answers to jobs of which so many train at once, with the losses of their samples where these are told.

    Args:
        data: the clients' samples.
        jobs: who trains on what.
        at_once: jobs of a chunk.
        room: (jobs, parameters) for all updates; or how many parameters there are, and each chunk has its own.
        train_some: trains a chunk.
    """
    for first in range(0, len(jobs), at_once):
        some = jobs[first : first + at_once]
        out = np.empty((len(some), room), np.float32) if isinstance(room, int) else room[first : first + len(some)]
        told = train_some(some, out)
        for update, count, losses in zip(out, reported_examples(data, some), told, strict=True):
            if len(losses) == 0:
                yield Answer(update, int(count))
            else:
                yield Answer(update, int(count), loss=mean(losses), squared_loss=mean_square(losses))


def mean(losses: FloatArray) -> float:
    """Return the mean of a job's losses; 0 where it has no samples."""
    return float(losses.mean()) if len(losses) else 0.0  # any model is as good as any other


def mean_square(losses: FloatArray) -> float:
    """Return the mean of the squares of a job's losses; infinite of a model that has diverged."""
    with np.errstate(over="ignore"):
        return mean(losses**2)
