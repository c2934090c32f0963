"""Which samples a job trains on, and in which order: the same answer for every trainer."""

from collections.abc import Sequence

import numpy as np

from auxo.core.folds import FOLD_NUMBERS, part_of, places_in, size_of
from auxo.core.rng import follow_bits, random_bits
from auxo.core.types import IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.trainer import Job, LocalTraining

PADDING = -1
"""Stands in a batch where an epoch's last batch has no sample."""

_NO_MORE = np.iinfo(np.int64).max  # steps of a job that has all its epochs
_ALL_BITS, _EPOCH_BITS = np.uint64(64), np.uint64(24)  # of a sort key, and those of them that count epochs


def local_positions(data: FederatedData, job: Job) -> IntArray:
    """Return the positions in ``data.train`` of the samples the job trains on, ascending.

    A client with a single sample trains on it whatever the part.

    Raises:
        ValueError: there is no such part.
    """
    _check(job.ask.fold)
    owned = data.train.of(job.client_row)
    places = part_of(job.ask.fold, owned.stop - owned.start)
    return np.asarray(owned.start + places)


def local_batches(data: FederatedData, jobs: Sequence[Job], settings: LocalTraining, seed: int) -> list[IntArray]:
    """Return, for each job, the positions in ``data.train`` of each SGD step's samples, (steps, batch_size).

    Every epoch goes through the job's samples in an order of its own; its last batch is filled up with `PADDING`, so
    no batch mixes two epochs. A client without samples has no steps. A job on a part of the samples goes through it
    no more often than others through all of theirs: a second pass over the same samples fits them too well (text).
    A job of so many steps goes through them as often as that takes, the last time perhaps not to the end.
    """
    clients, folds = _clients_and_folds(jobs)
    visits = np.array([job.visit for job in jobs], dtype=np.int64)
    counts = sample_counts(data, jobs)
    # An epoch of a job is a row in what follows, until its samples are.
    epochs = np.array([round(settings.epochs * job.ask.work) for job in jobs], dtype=np.int64)
    most = np.array([_NO_MORE if job.ask.steps is None else job.ask.steps for job in jobs], dtype=np.int64)
    a_pass = np.maximum(-(-counts // settings.batch_size), 1)
    epochs = np.where(most < _NO_MORE, -(-most // a_pass), epochs)
    job = np.repeat(np.arange(len(jobs)), epochs)
    epoch = _within(np.bincount(job, minlength=len(jobs)))
    named = random_bits(seed, "shuffle", clients[job], visits[job], epoch)
    sizes, steps = counts[job], -(-counts[job] // settings.batch_size)
    of_epoch, place = np.repeat(np.arange(len(job)), sizes), _within(sizes)
    # Sorted by epoch first, and in an epoch by chance: the bits left over from 64 are many more than samples need.
    chance = follow_bits(named[of_epoch], place) >> _EPOCH_BITS
    order = np.argsort(of_epoch.astype(np.uint64) << (_ALL_BITS - _EPOCH_BITS) | chance, kind="stable")
    mine = job[of_epoch]
    owned = data.train.counts(clients)
    positions = data.train.offsets[clients][mine] + places_in(folds[mine], owned[mine], place[order])
    batches = np.full((int(steps.sum()), settings.batch_size), PADDING, dtype=np.int64)
    starts = np.cumsum(steps) - steps
    batches.reshape(-1)[starts[of_epoch] * settings.batch_size + place] = positions
    ends = np.cumsum(np.bincount(job, weights=steps, minlength=len(jobs)).astype(np.int64))
    found = np.split(batches, ends[:-1]) if len(jobs) else []
    return [of_job[:limit] for of_job, limit in zip(found, most.tolist(), strict=True)]


def most_passes(data: FederatedData, job: Job, settings: LocalTraining) -> int:
    """Return in how many steps of a job one of its samples can be: once in each pass over them."""
    if job.ask.steps is None:
        return round(settings.epochs * job.ask.work)
    return -(-job.ask.steps // max(1, -(-int(sample_counts(data, [job])[0]) // settings.batch_size)))


def sample_counts(data: FederatedData, jobs: Sequence[Job]) -> IntArray:
    """Return the number of samples each job trains on, as `local_positions` lists them."""
    clients, folds = _clients_and_folds(jobs)
    return size_of(folds, data.train.counts(clients))


def reported_examples(data: FederatedData, jobs: Sequence[Job]) -> IntArray:
    """Return the examples that each job reports: all its client's samples.

    The weight of an update is that of its client, or those who keep some to judge by would count less.
    """
    return data.train.counts(np.array([job.client_row for job in jobs], dtype=np.int64))


def _clients_and_folds(jobs: Sequence[Job]) -> tuple[IntArray, IntArray]:
    for job in jobs:
        _check(job.ask.fold)
    pairs = [(job.client_row, -1 if job.ask.fold is None else job.ask.fold) for job in jobs]
    clients, folds = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return clients, folds


def _check(fold: int | None) -> None:
    if fold is not None and fold not in range(FOLD_NUMBERS):
        raise ValueError(f"fold: expected None or a number from 0 to {FOLD_NUMBERS - 1}, got {fold}")


def _within(sizes: IntArray) -> IntArray:
    """Return 0, 1, ... for each of some groups, one after another."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
