"""The simplest engine: participants train in this process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from auxo.core.asking import Answer, Failure
from auxo.core.client_mod import ClientMod, through
from auxo.core.cohort_algorithm import Closing
from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.federation import Federation
from auxo.training.trainer import Job, LocalTraining, Trainer
from auxo.training.trainer_device import TrainerDevice

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
        """Return what `close_round` makes of the participants' answers."""
        return close_round(rules, closing, returned_by(training, self._in_chunks(training)))

    def answers(
        self,
        models: Sequence[Float32Array],
        jobs: Sequence[Job],
        mods: Sequence[ClientMod] = (),
        out: Float32Array | None = None,
    ) -> Iterator[Answer | Failure]:
        """Return the answer to each job, in order, after the mods.

        Updates are in rows of ``out`` if there is one, as far as no mod has put others in their place.
        """
        device = TrainerDevice(self.trainer, self.data, self.settings, self.seed, models, jobs, out)
        return through(mods)([job.ask for job in jobs], device)

    def _in_chunks(self, training: Training) -> Iterator[Answer | Failure]:
        """Yield the same, in memory that is used again: an update lasts until the next one is asked for."""
        weights, jobs = training.models[0], training.jobs
        size = int(np.clip(_BYTES_AT_ONCE // weights.nbytes, 1, _JOBS_AT_ONCE))
        out = np.empty((min(size, len(jobs)), len(weights)), dtype=np.float32)
        for first in range(0, len(jobs), size):
            some = jobs[first : first + size]
            yield from self.answers(training.models, some, training.mods, out[: len(some)])

    def __enter__(self) -> Self:
        """Return itself; there is nothing to start."""
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing; there is nothing to stop."""
