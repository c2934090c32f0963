"""The batches of several participants step by step, so that all of them can take a step at the same time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auxo.core.types import Float32Array, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.local_samples import PADDING


@dataclass(frozen=True)
class StackedBatches:
    """Jobs with most steps come first, so those still at work at any step are a prefix."""

    job_rows: IntArray  # (jobs,) place in the order that was given
    steps: IntArray  # (jobs,) descending
    active: tuple[int, ...]  # (most steps,) jobs that have a batch at this step
    x_rows: IntArray  # (most steps, jobs, batch)
    y: IntArray  # (most steps, jobs, batch)
    shares: Float32Array  # (most steps, jobs, batch) of the sample in the batch's mean loss; 0 for padding

    @staticmethod
    def of(data: FederatedData, batches: Sequence[IntArray]) -> "StackedBatches":
        """Stack what `local_batches` returned for each of at least one job."""
        steps = np.array([len(of_job) for of_job in batches])
        job_rows = np.argsort(-steps, kind="stable")
        positions = np.full((steps.max(), len(batches), batches[0].shape[1]), PADDING)
        for row, job_row in enumerate(job_rows):
            positions[: steps[job_row], row] = batches[job_row]
        is_sample = positions != PADDING
        counts = is_sample.sum(axis=2, keepdims=True)
        # Padding repeats a sample of the same batch, of no weight: another client's, were it not finite, would spread.
        filled = np.where(is_sample, positions, positions[:, :, :1])
        return StackedBatches(
            job_rows=job_rows,
            steps=steps[job_rows],
            active=tuple(int(n) for n in counts[:, :, 0].astype(bool).sum(axis=1)),
            x_rows=data.train.x_rows[filled],
            y=data.train.y[filled],
            shares=np.divide(is_sample, counts, out=np.zeros(is_sample.shape), where=is_sample).astype(np.float32),
        )
