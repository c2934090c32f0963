"""Which samples a job trains on, and in which order: the same answer for every trainer."""

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import IntArray
from auxo.learning.federated_data import FederatedData
from auxo.learning.trainer import Job, LocalTraining

PADDING = -1
"""Stands in a batch where an epoch's last batch has no sample."""


def local_positions(data: FederatedData, job: Job) -> IntArray:
    """Return the positions in ``data.train`` of the samples the job trains on, ascending.

    Fold 0 and fold 1 are the client's samples at alternate positions. A client whose half would be empty trains on
    all its samples.

    Raises:
        ValueError: the fold is neither 0, 1 nor None.
    """
    if job.fold not in (None, 0, 1):
        raise ValueError(f"fold: expected 0, 1 or None, got {job.fold}")
    owned = data.train.of(job.client_row)
    everything = np.arange(owned.start, owned.stop)
    half = everything[job.fold :: 2] if job.fold is not None else everything
    return half if len(half) else everything


def local_batches(data: FederatedData, job: Job, settings: LocalTraining, seed: int) -> IntArray:
    """Return the positions in ``data.train`` of each SGD step's samples, (steps, batch_size).

    Every epoch goes through the job's samples in an order of its own; its last batch is filled up with `PADDING`, so
    no batch mixes two epochs. A client without samples has no steps. A job on one half of the samples goes through it
    twice as often: about as many steps as on all of them, so cross-fitting does not slow training down.
    """
    positions = local_positions(data, job)
    rng = stream(seed, "shuffle", job.client_row, job.visit)
    steps_per_epoch = -(-len(positions) // settings.batch_size)
    n_epochs = settings.epochs if job.fold is None else 2 * settings.epochs
    epochs = np.full((n_epochs, steps_per_epoch * settings.batch_size), PADDING, dtype=np.int64)
    epochs[:, : len(positions)] = rng.permuted(np.tile(positions, (n_epochs, 1)), axis=1)
    return epochs.reshape(-1, settings.batch_size)
