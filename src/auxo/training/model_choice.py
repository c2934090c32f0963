"""Participants that are offered several models: each compares them on its own samples and trains the best one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from auxo.core.types import Float32Array
from auxo.training.trainer import Job, LocalUpdate

Train = Callable[[Float32Array, Sequence[Job], Float32Array | None], Iterator[LocalUpdate]]
"""Yields the update of each job from these weights, in rows of the last argument if there is one."""

MeanLoss = Callable[[Float32Array, Job], float]
"""Returns the mean loss of a job's samples at these weights.

One job at a time: the last bits of a loss depend on what else is in a batch, and with them a choice might.
"""


def train_offered(
    models: Sequence[Float32Array], jobs: Sequence[Job], train: Train, mean_loss: MeanLoss, out: Float32Array | None
) -> Iterator[LocalUpdate]:
    """Yield one update for each job, in order; of several ``models`` each job trains the one it names or likes best.

    ``out`` is as in `Trainer.train`. A model that has diverged is nobody's choice, and of equals the first is taken.
    """
    if len(models) == 1:
        yield from train(models[0], jobs, out)
        return
    losses = [[mean_loss(weights, job) for weights in models] if job.model < 0 else None for job in jobs]
    choices = [
        job.model if found is None else int(np.argmin(np.nan_to_num(found, nan=np.inf)))
        for job, found in zip(jobs, losses, strict=True)
    ]
    updates: dict[int, LocalUpdate] = {}
    for number, weights in enumerate(models):
        rows = [row for row, choice in enumerate(choices) if choice == number]
        for row, update in zip(rows, train(weights, [jobs[row] for row in rows], None), strict=True):
            found, delta = losses[row], update.delta
            if out is not None:
                out[row] = delta
                delta = out[row]
            loss = None if found is None or not np.isfinite(found[number]) else found[number]
            updates[row] = replace(update, delta=delta, model=number, loss=loss)
    yield from (updates[row] for row in range(len(jobs)))
