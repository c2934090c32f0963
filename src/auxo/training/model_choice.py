"""Participants that are offered several models: each compares them on its own samples and trains the best one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from auxo.core.cohort_algorithm import NEAREST, PreTraining
from auxo.core.folds import chosen_by, kept_out
from auxo.core.types import Float32Array, FloatArray
from auxo.training.trainer import Job, LocalUpdate

Train = Callable[[Float32Array, Sequence[Job], Float32Array | None], Iterator[LocalUpdate]]
"""Yields the update of each job from these weights, in rows of the last argument if there is one."""

MeanLosses = Callable[[Float32Array, Sequence[Job]], FloatArray]
"""Returns the mean loss of each job's samples at these weights, the same bits whatever the other jobs are.

Otherwise a choice between models might depend on who else chooses.
"""


MeanScores = Callable[[Float32Array, Sequence[Job]], FloatArray]
"""Returns the mean score of each job's samples at these weights, most often the share whose class is right."""


def train_offered(
    models: Sequence[Float32Array],
    jobs: Sequence[Job],
    train: Train,
    mean_losses: MeanLosses,
    out: Float32Array | None,
    mean_scores: MeanScores | None = None,
) -> Iterator[LocalUpdate]:
    """Yield one update for each job, in order; of several ``models`` each job trains the one it names or likes best.

    A loss that a job reports is the one that comes with its training, or where none does it is asked for afterwards.
    ``out`` is as in `Trainer.train`. A model that has diverged is nobody's choice, and of equals the first is taken.
    Without ``mean_scores`` judges tell losses only.
    """
    if not any(_named(job, models) or job.reports_loss or job.held_out for job in jobs):
        yield from train(models[0], jobs, out)
        return
    nearest = _nearest(models, jobs, train)
    jobs = [
        replace(job, model=nearest[row], pre_training=None) if row in nearest else job for row, job in enumerate(jobs)
    ]
    choices, losses = _looked(jobs, models, mean_losses)
    if len(set(choices)) == 1:  # in place: nothing has to be put in order
        updates = list(train(models[choices[0]], jobs, out))
    else:
        updates = _trained(choices, models, jobs, train, out)
    losses = _reported(jobs, choices, updates, losses, models, mean_losses)
    if not any(job.held_out for job in jobs):
        for row, update in enumerate(updates):
            yield replace(update, model=choices[row], loss=losses[row])
        return
    samples = [update.examples for update in updates]
    by, others = ([replace(job, fold=fold(job.fold)) for job in jobs] for fold in (kept_out, chosen_by))
    judged = _judged(by, samples, models, mean_losses)
    scored = _judged(by, samples, models, mean_scores) if mean_scores else [()] * len(jobs)
    chosen = _judged(others, samples, models, mean_losses)
    scored_there = _judged(others, samples, models, mean_scores) if mean_scores else [()] * len(jobs)
    for row, update in enumerate(updates):
        yield replace(
            update,
            model=choices[row],
            loss=losses[row],
            held_out=judged[row],
            held_out_scores=scored[row],
            held_in=chosen[row],
            held_in_scores=scored_there[row],
        )


def _trained(
    choices: Sequence[int], models: Sequence[Float32Array], jobs: Sequence[Job], train: Train, out: Float32Array | None
) -> list[LocalUpdate]:
    """Return the updates of jobs that train different models."""
    updates: dict[int, LocalUpdate] = {}
    for number in sorted(set(choices)):
        rows = [row for row, choice in enumerate(choices) if choice == number]
        for row, update in zip(rows, train(models[number], [jobs[row] for row in rows], None), strict=True):
            updates[row] = update
            if out is not None:
                out[row] = update.delta
                updates[row] = replace(update, delta=out[row])
    return [updates[row] for row in range(len(jobs))]


def _named(job: Job, models: Sequence[Float32Array]) -> int:
    """Return the model that a job trains without a look at losses, which is also an only one; -1: it compares."""
    return 0 if job.model < 0 and len(models[: job.choices]) == 1 else job.model


def _looked(
    jobs: Sequence[Job], models: Sequence[Float32Array], mean_losses: MeanLosses
) -> tuple[list[int], list[float | None]]:
    """Return the model that each job trains, and its loss there if the job has compared models by it."""
    named = [_named(job, models) for job in jobs]
    asked: list[list[int]] = []  # of each job: models whose losses it works out
    for job, name in zip(jobs, named, strict=True):
        asked.append([*range(len(models))][: job.choices] if name < 0 else [])
    found = _means_of(jobs, asked, models, mean_losses)
    best = [
        name if name >= 0 else asked[row][int(np.argmin(np.nan_to_num(found[row], nan=np.inf)))]
        for row, name in enumerate(named)
    ]
    told = [dict(zip(asked[row], found[row], strict=True)).get(choice) for row, choice in enumerate(best)]
    return best, [_finite(loss) for loss in told]


def _reported(
    jobs: Sequence[Job],
    choices: Sequence[int],
    updates: Sequence[LocalUpdate],
    compared: Sequence[float | None],
    models: Sequence[Float32Array],
    mean_losses: MeanLosses,
) -> list[float | None]:
    """Return the loss of each job at the model that it has trained; None where it reports none that is finite."""
    told = [update.loss if loss is None else loss for loss, update in zip(compared, updates, strict=True)]
    asked = [
        [choice] * (job.reports_loss and loss is None) for job, choice, loss in zip(jobs, choices, told, strict=True)
    ]
    found = _means_of(jobs, asked, models, mean_losses)
    return [_finite(some[0] if some else loss) for some, loss in zip(found, told, strict=True)]


def _finite(loss: float | None) -> float | None:
    return loss if loss is not None and np.isfinite(loss) else None


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
        before = [replace(jobs[row], model=0, steps=first.steps, pre_training=None, reports_loss=False) for row in some]
        for row, update in zip(some, train(models[first.model], before, None), strict=True):
            # All angles are to the same update, whose length does not matter.
            along = references @ update.delta.astype(np.float64)
            cosines = np.divide(along, lengths, out=np.full(len(lengths), -np.inf), where=lengths > 0)
            found[row] = int(np.argmax(np.nan_to_num(cosines, nan=-np.inf)))
    return found


def _judged(
    jobs: Sequence[Job], samples: Sequence[int], models: Sequence[Float32Array], means: MeanLosses | MeanScores
) -> list[tuple[float, ...]]:
    """Return what jobs were asked for, on their samples; nothing of a client that has but one, which is both halves."""
    asked = [list(job.held_out) if count >= 2 else [] for job, count in zip(jobs, samples, strict=True)]
    return [tuple(found) for found in _means_of(jobs, asked, models, means)]


def _means_of(
    jobs: Sequence[Job], asked: Sequence[Sequence[int]], models: Sequence[Float32Array], means: MeanLosses | MeanScores
) -> list[list[float]]:
    """Return the mean losses or scores of each job at the models it is asked about, in that order, model by model."""
    found = [[np.nan] * len(numbers) for numbers in asked]
    for number in sorted({one for numbers in asked for one in numbers}):
        places = [
            (row, place) for row, numbers in enumerate(asked) for place, one in enumerate(numbers) if one == number
        ]
        told = means(models[number], [jobs[row] for row, _ in places])
        for (row, place), mean in zip(places, told.tolist(), strict=True):
            found[row][place] = mean
    return found
