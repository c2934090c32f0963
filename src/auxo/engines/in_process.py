"""The simplest engine: participants train in this process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np

from auxo.core.cohort_algorithm import Closing
from auxo.core.partial_uploads import without
from auxo.core.rng import random_bits
from auxo.core.types import Float32Array, FloatArray
from auxo.population.federated_data import FederatedData
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.federation import Federation
from auxo.training.job_losses import job_losses, mean, mean_square
from auxo.training.local_centres import local_centres
from auxo.training.local_samples import local_positions
from auxo.training.model_choice import train_offered
from auxo.training.trainer import Job, LocalTraining, LocalUpdate, Trainer, scoring

_JOBS_AT_ONCE = 32  # our choice: as many updates are held at the same time, at most
_BYTES_AT_ONCE = 32 * 2**20  # and no more of them than this, or a single one


@dataclass(frozen=True)
class InProcess:
    """Trains one chunk of participants after another where the simulation runs."""

    trainer: Trainer
    data: FederatedData
    settings: LocalTraining
    seed: int

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the participants' updates."""
        answers = self._train_in_chunks(training.models, training.jobs)
        return close_round(rules, closing, returned_by(training, answers))

    def train(
        self, models: Sequence[Float32Array], jobs: Sequence[Job], out: Float32Array | None = None
    ) -> Iterator[LocalUpdate]:
        """Yield one update for each job, in order, in rows of ``out`` if there is one."""
        if any(job.centres is not None for job in jobs):  # then it is so for all
            yield from (self._centres(job, len(models[0])) for job in jobs)
            return
        squares: dict[tuple[int, int | None, int], float] = {}  # mean squared losses, by client, half and weights

        def mean_losses(weights: Float32Array, some: Sequence[Job]) -> FloatArray:
            losses = job_losses(self.trainer, weights, self.data, some)
            for job, one in zip(some, losses, strict=True):
                squares[job.client_row, job.fold, id(weights)] = mean_square(one)
            return np.array([mean(one) for one in losses])

        trained = train_offered(models, jobs, self._train_one, mean_losses, out, self._mean_scores)
        for job, update in zip(jobs, trained, strict=True):
            if job.skipped:
                update.delta[:] = without(update.delta, self.trainer.layers, job.skipped)
            square = squares.get((job.client_row, job.fold, id(models[update.model])))
            yield update if square is None else replace(update, squared_loss=square)

    def _centres(self, job: Job, n_params: int) -> LocalUpdate:
        """Return the centres of a client's samples, and that nothing moves."""
        owned = self.data.train.of(job.client_row)
        x = self.data.inputs(self.data.train.x_rows[owned])
        samples = x.reshape(len(x), -1).astype(np.float64)
        named = random_bits(self.seed, "centres", np.array([job.client_row]))
        found = local_centres(samples, job.centres or 1, seed=int(named[0] % np.uint64(2**31)))
        return LocalUpdate(np.zeros(n_params, dtype=np.float32), len(x), centres=found)

    def _train_one(self, weights: Float32Array, jobs: Sequence[Job], out: Float32Array | None) -> Iterator[LocalUpdate]:
        return self.trainer.train(weights, self.data, jobs, self.settings, self.seed, out)

    def _mean_scores(self, weights: Float32Array, jobs: Sequence[Job]) -> FloatArray:
        return np.array([self._mean_score(weights, job) for job in jobs])

    def _mean_score(self, weights: Float32Array, job: Job) -> float:
        positions = local_positions(self.data, job)
        if len(positions) == 0:
            return 0.0
        x, y = self.data.inputs(self.data.train.x_rows[positions]), self.data.train.y[positions]
        own = scoring(self.trainer)
        if own is not None:
            return float(own.scores(weights, x, self.data.answers(y)).mean())
        return float((self.trainer.predict(weights, x) == y).mean())

    def _train_in_chunks(self, models: Sequence[Float32Array], jobs: Sequence[Job]) -> Iterator[LocalUpdate]:
        """Yield the same, in memory that is used again: an update lasts until the next one is asked for."""
        weights = models[0]
        size = int(np.clip(_BYTES_AT_ONCE // weights.nbytes, 1, _JOBS_AT_ONCE))
        out = np.empty((min(size, len(jobs)), len(weights)), dtype=np.float32)
        for first in range(0, len(jobs), size):
            some = jobs[first : first + size]
            yield from self.train(models, some, out[: len(some)])

    def __enter__(self) -> Self:
        """Return itself; there is nothing to start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing; there is nothing to stop."""
