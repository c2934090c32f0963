"""An engine with trouble: chosen participants fail, or send what cannot be used."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.cohort_algorithm import Closing
from auxo.engines.in_process import InProcess
from auxo.runtime.closing import Closed, TrainFailure, Training, close_round, returned_by
from auxo.runtime.federation import Federation
from auxo.training.trainer import Job, LocalUpdate

Answer = LocalUpdate | TrainFailure

Trouble = Callable[[Job, LocalUpdate], Answer]
"""What a participant answers in place of its update; the update itself where there is no trouble."""


@dataclass(frozen=True)
class Troubled:
    """Trains in this process; what is answered is the trouble's affair."""

    inner: InProcess
    trouble: Trouble
    only_late: bool = False  # those in time fail, all of them

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the answers."""
        return close_round(rules, closing, returned_by(training, self._answers(training, training.jobs)))

    def _answers(self, training: Training, jobs: Sequence[Job]) -> Iterator[Answer]:
        updates = self.inner.train(training.models, jobs)
        for job, late, update in zip(jobs, training.late, updates, strict=True):
            yield failed(job, update) if self.only_late and not late else self.trouble(job, update)


def failed(job: Job, update: LocalUpdate) -> Answer:
    """Answer nothing."""
    return TrainFailure("the battery is flat")


def none(job: Job, update: LocalUpdate) -> Answer:
    """Answer what there is to answer."""
    return update


def diverged(job: Job, update: LocalUpdate) -> Answer:
    """Answer what is no number."""
    return replace(update, delta=np.full_like(update.delta, np.nan))


def of_some(trouble: Trouble) -> Trouble:
    """Return a trouble that every fourth client has, and always."""

    def troubled(job: Job, update: LocalUpdate) -> Answer:
        return trouble(job, update) if job.client_row % 4 == 0 else update

    return troubled
