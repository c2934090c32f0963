"""Participants that are offered several models: each compares them on its own samples and trains the best one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from auxo.core.cohort_algorithm import NEAREST, PreTraining
from auxo.core.types import Float32Array
from auxo.training.trainer import Job, LocalUpdate

Train = Callable[[Float32Array, Sequence[Job], Float32Array | None], Iterator[LocalUpdate]]
"""Yields the update of each job from these weights, in rows of the last argument if there is one."""

MeanLoss = Callable[[Float32Array, Job], float]
"""Returns the mean loss of a job's samples at these weights.

One job at a time: the last bits of a loss depend on what else is in a batch, and with them a choice might.
"""


MeanScore = Callable[[Float32Array, Job], float]
"""Returns the mean score of a job's samples at these weights, most often the share whose class is right."""


def train_offered(
    models: Sequence[Float32Array],
    jobs: Sequence[Job],
    train: Train,
    mean_loss: MeanLoss,
    out: Float32Array | None,
    mean_score: MeanScore | None = None,
) -> Iterator[LocalUpdate]:
    """Yield one update for each job, in order; of several ``models`` each job trains the one it names or likes best.

    ``out`` is as in `Trainer.train`. A model that has diverged is nobody's choice, and of equals the first is taken.
    Without ``mean_score`` judges tell losses only.
    """
    if not any(_named(job, models) or job.reports_loss or job.held_out for job in jobs):
        yield from train(models[0], jobs, out)
        return
    nearest = _nearest(models, jobs, train)
    seen = [_looked(job, models, mean_loss, nearest.get(row)) for row, job in enumerate(jobs)]
    updates: dict[int, LocalUpdate] = {}
    for number, weights in enumerate(models):
        rows = [row for row, (choice, _) in enumerate(seen) if choice == number]
        for row, update in zip(rows, train(weights, [jobs[row] for row in rows], None), strict=True):
            delta = update.delta
            if out is not None:
                out[row] = delta
                delta = out[row]
            updates[row] = replace(
                update,
                delta=delta,
                model=number,
                loss=seen[row][1],
                held_out=_judged(jobs[row], update.examples, models, mean_loss),
                held_out_scores=_judged(jobs[row], update.examples, models, mean_score) if mean_score else (),
            )
    yield from (updates[row] for row in range(len(jobs)))


def _named(job: Job, models: Sequence[Float32Array]) -> int:
    """Return the model that a job trains without a look at losses, which is also an only one; -1: it compares."""
    return 0 if job.model < 0 and len(models[: job.choices]) == 1 else job.model


def _looked(
    job: Job, models: Sequence[Float32Array], mean_loss: MeanLoss, nearest: int | None
) -> tuple[int, float | None]:
    """Return the model that a job trains, and its loss there if it has worked that out."""
    named = _named(job, models) if nearest is None else nearest
    if named >= 0:
        loss = mean_loss(models[named], job) if job.reports_loss else np.nan
        return named, loss if np.isfinite(loss) else None
    losses = [mean_loss(weights, job) for weights in models[: job.choices]]
    best = int(np.argmin(np.nan_to_num(losses, nan=np.inf)))
    return best, losses[best] if np.isfinite(losses[best]) else None


def _nearest(models: Sequence[Float32Array], jobs: Sequence[Job], train: Train) -> dict[int, int]:
    """Return, for each row of a job that pre-trains, the model whose reference is nearest to what comes of that."""
    rows: dict[PreTraining, list[int]] = {}
    for row, job in enumerate(jobs):
        if job.model == NEAREST and job.pre_training is not None:
            rows.setdefault(job.pre_training, []).append(row)
    found = {}
    for first, some in rows.items():
        references = np.stack([models[number] for number in first.references]).astype(np.float64)
        lengths = np.linalg.norm(references, axis=1)
        before = [replace(jobs[row], model=0, steps=first.steps, pre_training=None) for row in some]
        for row, update in zip(some, train(models[first.model], before, None), strict=True):
            # One at a time, see `MeanLoss`. All angles are to the same update, whose length does not matter.
            along = references @ update.delta.astype(np.float64)
            cosines = np.divide(along, lengths, out=np.full(len(lengths), -np.inf), where=lengths > 0)
            found[row] = int(np.argmax(np.nan_to_num(cosines, nan=-np.inf)))
    return found


def _judged(job: Job, samples: int, models: Sequence[Float32Array], mean: MeanLoss | MeanScore) -> tuple[float, ...]:
    """Return what a job was asked for, on the half of its samples that it does not train on, if it has."""
    if job.fold is None or not job.held_out or samples < 2:
        return ()
    other = replace(job, fold=1 - job.fold)
    return tuple(mean(models[number], other) for number in job.held_out)
