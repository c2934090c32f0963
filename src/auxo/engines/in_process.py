"""The default engine: participants train in this process, or in worker processes on the same machine."""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from threadpoolctl import threadpool_limits

from auxo.algorithms.auxo import Folded, RoundOutcome
from auxo.core.types import Float32Array
from auxo.learning.federated_data import FederatedData
from auxo.learning.trainer import Job, LocalTraining, LocalUpdate, Trainer
from auxo.runtime.cohort_round import Closing, CohortRules, TrainFailure, Training, close_cohort, returned_by

_JOBS_AT_ONCE = 32  # jobs a worker gets at a time; an answer's bits do not depend on it


@dataclass(frozen=True)
class InProcess:
    """Trains one chunk of participants after another where the simulation runs."""

    trainer: Trainer
    data: FederatedData
    settings: LocalTraining
    seed: int

    def run_round(self, rules: CohortRules, closing: Closing, training: Training) -> RoundOutcome | Folded:
        """Return what `close_cohort` makes of the participants' updates."""
        answers = self.train(closing.state.server.weights, training.jobs)
        return close_cohort(rules, closing, returned_by(training, answers))

    def train(self, weights: Float32Array, jobs: Sequence[Job]) -> Iterator[LocalUpdate | TrainFailure]:
        """Yield one answer for each job, in order."""
        yield from self.trainer.train(weights, self.data, jobs, self.settings, self.seed)

    def __enter__(self) -> Self:
        """Return itself; there is nothing to start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing; there is nothing to stop."""


@dataclass
class WorkerProcesses:
    """The same in ``workers`` processes with one thread each; use as a context manager.

    Workers are forked, so the data are shared with them and never sent; weights and updates travel over pipes that
    only this process and its own children hold.
    """

    inner: InProcess
    workers: int
    _pool: ProcessPoolExecutor | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.workers < 2:
            raise ValueError(f"workers: expected at least 2, got {self.workers}; use InProcess for 1")

    def run_round(self, rules: CohortRules, closing: Closing, training: Training) -> RoundOutcome | Folded:
        """Return what `close_cohort` makes of the participants' updates."""
        answers = self.train(closing.state.server.weights, training.jobs)
        return close_cohort(rules, closing, returned_by(training, answers))

    def train(self, weights: Float32Array, jobs: Sequence[Job]) -> Iterator[LocalUpdate | TrainFailure]:
        """Yield one answer for each job, in order.

        Raises:
            RuntimeError: a worker died; the message says what to do.
        """
        if self._pool is None:
            raise RuntimeError("the worker processes are not running; use `with WorkerProcesses(...) as engine:`")
        chunks = [jobs[first : first + _JOBS_AT_ONCE] for first in range(0, len(jobs), _JOBS_AT_ONCE)]
        try:
            pending: list[Future[list[LocalUpdate | TrainFailure]]] = [
                self._pool.submit(_train_chunk, weights, chunk) for chunk in chunks
            ]
            for future in pending:
                yield from future.result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a worker process died while training, most often for want of memory; "
                "run again with fewer workers (--set run.workers=1)"
            ) from error

    def __enter__(self) -> Self:
        """Start the workers."""
        self._pool = ProcessPoolExecutor(
            self.workers,
            mp_context=multiprocessing.get_context("fork"),
            initializer=_become_worker,
            initargs=(self.inner,),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers; what they are training is lost, nothing else."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


_worker: list[InProcess] = []  # of a worker process, set once when it starts


def _become_worker(engine: InProcess) -> None:
    # Ctrl-C is for the process that waits for the workers; one that died of it would be waited for in vain.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    _worker[:] = [engine]


def _train_chunk(weights: Float32Array, jobs: Sequence[Job]) -> list[LocalUpdate | TrainFailure]:
    return list(_worker[0].train(weights, jobs))
