"""An engine with trouble: chosen participants fail, or send what cannot be used."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.asking import Answer, Failure
from auxo.core.cohort_algorithm import Closing
from auxo.engines.in_process import InProcess
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.federation import Federation
from auxo.training.trainer import Job

MakesTrouble = Callable[[Job, Answer], Answer | Failure]
"""What a participant answers in place of its answer; itself where there is no trouble."""


@dataclass(frozen=True)
class Troubled:
    """Trains in this process; what is answered is the trouble's affair."""

    inner: InProcess
    trouble: MakesTrouble
    only_late: bool = False  # those in time fail, all of them

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the answers."""
        return close_round(rules, closing, returned_by(training, self._answers(training, training.jobs)))

    def _answers(self, training: Training, jobs: Sequence[Job]) -> Iterator[Answer | Failure]:
        answers = self.inner.answers(training.models, jobs, training.mods)
        for job, late, answer in zip(jobs, training.late, answers, strict=True):
            if isinstance(answer, Failure):
                yield answer
            else:
                yield failed(job, answer) if self.only_late and not late else self.trouble(job, answer)


def failed(job: Job, answer: Answer) -> Failure:
    """Answer nothing."""
    return Failure("the battery is flat")


def none(job: Job, answer: Answer) -> Answer:
    """Answer what there is to answer."""
    return answer


def diverged(job: Job, answer: Answer) -> Answer:
    """Answer what is no number."""
    return replace(answer, update=np.full_like(answer.update, np.nan))


def of_some(trouble: MakesTrouble) -> MakesTrouble:
    """Return a trouble that every fourth client has, and always."""

    def troubled(job: Job, answer: Answer) -> Answer | Failure:
        return trouble(job, answer) if job.client_row % 4 == 0 else answer

    return troubled
