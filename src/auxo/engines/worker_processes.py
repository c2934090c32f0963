"""Participants train in worker processes on this machine; weights and updates lie in memory that all of them share."""

import math
import mmap
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from auxo.core.asking import Failure
from auxo.core.client_mod import ClientMod
from auxo.core.cohort_algorithm import Closing
from auxo.core.fingerprint import Fingerprint
from auxo.core.gathering import Examined
from auxo.core.types import Float32Array, FloatArray
from auxo.core.validation import Reason
from auxo.engines.chunks import chunks_of, most_jobs
from auxo.engines.deaths import DIED_ALONE, IN_A_ROW, Deaths, words_of_failed
from auxo.engines.examined_chunks import SeenAnswer, examined_into, whole
from auxo.engines.in_process import InProcess
from auxo.engines.memory import keep_freed_memory
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.failures import Raised, WorkersLost
from auxo.runtime.federation import Federation
from auxo.runtime.forked import Forked, end, fork
from auxo.runtime.patience import LOOK_S, AtWork, Patience
from auxo.training.trainer import Job

_ROWS = 64  # participants a worker gets at a time at most; a result's bits do not depend on it, nor on the next two
_SLOT_BYTES = 32 * 2**20  # updates of one such chunk, at most, or a single one
_TASKS_AHEAD = 2  # chunks a worker has been given: one to train, and one not to wait for
_SLOTS_A_WORKER = _TASKS_AHEAD + 1  # and one whose updates are being gathered
_DIED = "died"

OnNote = Callable[[str], None]
_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True)
class _Task:
    number: int  # of a chunk, unique while the engine runs
    slot: int
    row: int  # of the slot, that the first job has; a chunk that has cost a worker is trained one job at a time
    jobs: Sequence[Job]
    models: int  # of the round, the first of those in shared memory
    mods: Sequence[ClientMod]


@dataclass(frozen=True)
class _Done:
    number: int
    row: int
    seen: list[SeenAnswer]
    error: Raised | None = None


@dataclass
class _Worker(Forked):
    tasks: list[_Task] = field(default_factory=list)  # given, not answered
    at_work: AtWork | None = None  # on the first of these, None while there is none


@dataclass
class _Shared:
    """Memory that this process and its workers see alike."""

    models: Float32Array  # (models, parameters); a round may have fewer
    updates: Float32Array  # (slots, rows, parameters)
    directions: FloatArray  # (slots, rows, width)


@dataclass
class WorkerProcesses:
    """Trains in ``workers`` processes with one thread each; use as a context manager.

    Workers are forked, so the data are shared with them and never sent. They also examine the updates they make:
    what travels over the pipes is a few numbers for each participant. Updates are added up here, in the order of the
    jobs. A worker that dies, is stopped or hangs is replaced, and its participants train again; ``on_note`` is told.
    """

    inner: InProcess
    workers: int
    on_note: OnNote = lambda text: None
    patience: Patience = field(default_factory=Patience)
    _entered: bool = field(default=False, init=False)
    _fingerprint: Fingerprint | None = field(default=None, init=False)
    _shared: _Shared | None = field(default=None, init=False)
    _crew: list[_Worker] = field(default_factory=list, init=False)
    _next_number: int = field(default=0, init=False)
    _deaths: Deaths = field(default_factory=Deaths, init=False)

    def __post_init__(self) -> None:
        if self.workers < 2:
            raise ValueError(f"workers: expected at least 2, got {self.workers}; use InProcess for 1")

    def __enter__(self) -> Self:
        """Allow workers to be started; they are when the first round comes."""
        self._entered = True
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the workers; what they are training is lost, nothing else."""
        self._stop()
        self._entered = False

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the participants' updates.

        Raises:
            WorkersLost: training itself is what workers die of; the message says what to do.
        """
        return close_round(rules, closing, returned_by(training, self._answers(rules.fingerprint, training)))

    def _answers(self, fingerprint: Fingerprint, training: Training) -> Iterator[Examined | Reason | Failure]:
        shared = self._start(fingerprint, len(training.models))
        for number, weights in enumerate(training.models):
            shared.models[number] = weights
        for task, found in self._done_in_order(training):
            for place, seen in enumerate(found):
                yield whole(seen, shared.updates[task.slot, place], shared.directions[task.slot, place])

    def _done_in_order(self, training: Training) -> Iterator[tuple[_Task, list[SeenAnswer]]]:
        """Yield every chunk of jobs with its results, in order; a slot is given away when the next one is asked for."""
        shared = self._shared
        assert shared is not None  # noqa: S101 - _answers has started the workers
        slots, rows = shared.updates.shape[:2]
        self._drain()
        chunks = chunks_of(training.jobs, self.workers, rows)
        free = list(range(slots))
        sent: dict[int, _Task] = {}  # by place in the order
        results: dict[int, list[_Done]] = {}  # by number
        for place in range(len(chunks)):
            while place not in sent or not _is_whole(sent[place], results.get(sent[place].number, ())):
                while free and len(sent) < len(chunks) and self._idlest() is not None:
                    sent[len(sent)] = self._give(free.pop(), chunks[len(sent)], training)
                for done in self._wait():
                    results.setdefault(done.number, []).append(done)
            task = sent[place]
            parts = sorted(results.pop(task.number), key=lambda done: done.row)
            for done in parts:
                if done.error is not None:
                    raise done.error.error()
            yield task, [seen for done in parts for seen in done.seen]
            free.append(task.slot)

    def _give(self, slot: int, jobs: Sequence[Job], training: Training) -> _Task:
        worker = self._idlest()
        assert worker is not None  # noqa: S101 - the caller has looked
        task = _Task(self._next_number, slot, 0, jobs, len(training.models), training.mods)
        self._next_number += 1
        worker.tasks.append(task)
        worker.at_work = worker.at_work or self.patience.begin()
        self._send(worker, task)
        return task

    def _idlest(self) -> _Worker | None:
        worker = min(self._crew, key=lambda worker: len(worker.tasks))
        return worker if len(worker.tasks) < _TASKS_AHEAD else None

    def _send(self, worker: _Worker, task: _Task) -> None:
        try:
            worker.connection.send(task)
        except OSError:  # it is dead; _wait will see that and give its tasks to another
            return

    def _wait(self) -> list[_Done]:
        """Return what has been done since, if anything has; replace workers that have died or hang."""
        busy = [worker for worker in self._crew if worker.tasks]
        signs = [worker.connection for worker in busy] + [worker.process.sentinel for worker in busy]
        ready = set(wait(signs, timeout=LOOK_S))
        found = []
        for worker in busy:
            try:
                while worker.connection.poll():
                    found.append(self._take(worker, worker.connection.recv()))
            except (EOFError, OSError):
                ready.add(worker.process.sentinel)
            if worker.process.sentinel in ready and not worker.process.is_alive():
                found += self._replace(worker, _DIED)
            elif (why := self._why_lost(worker)) is not None:
                worker.process.kill()  # before another gets its tasks: both would write to the same memory
                found += self._replace(worker, f"{why} and was killed")
        return found

    def _take(self, worker: _Worker, done: _Done) -> _Done:
        assert worker.at_work is not None  # noqa: S101 - it had something to do
        self.patience.finish(worker.at_work, len(worker.tasks[0].jobs))
        worker.tasks = [task for task in worker.tasks if (task.number, task.row) != (done.number, done.row)]
        worker.at_work = self.patience.begin() if worker.tasks else None
        for task in worker.tasks[_TASKS_AHEAD - 1 : _TASKS_AHEAD]:  # of a chunk in parts, the rest has waited
            self._send(worker, task)
        self._deaths.trained((done.number, done.row))
        return done

    def _why_lost(self, worker: _Worker) -> str | None:
        if worker.at_work is None:
            return None
        self.patience.hear(worker.at_work, worker.beats())
        return self.patience.why_lost(worker.at_work, len(worker.tasks[0].jobs))

    def _replace(self, worker: _Worker, what: str) -> list[_Done]:
        """Put a new process in the place of one that ``what`` says of what became of it; return who has failed."""
        worker.process.join()
        how, failed = worker.process.exitcode, list[_Done]()
        self.on_note(f"a worker process {what} (exit code {how}); its participants train again in a new one")
        if worker.tasks:
            first, *others = worker.tasks
            if self._deaths.has_failed((first.number, first.row), first.jobs):
                self._check_deaths(what, how)
                self.on_note(words_of_failed(first.jobs[0]))
                failed, worker.tasks = [_Done(first.number, first.row, [DIED_ALONE])], others
            else:
                worker.tasks = [*_one_by_one(first), *others]
        fresh = self._hire()
        worker.process, worker.connection, worker.pulse = fresh.process, fresh.connection, fresh.pulse
        worker.at_work = self.patience.begin() if worker.tasks else None
        for task in worker.tasks[:_TASKS_AHEAD]:
            self._send(worker, task)
        return failed

    def _check_deaths(self, what: str, how: int | None) -> None:
        if self._deaths.are_too_many:
            # One that is killed from outside is most often killed for want of memory.
            is_memory = what == _DIED and how == -signal.SIGKILL
            cause = "most often for want of memory" if is_memory else "by what the model's code does"
            raise WorkersLost(
                f"{IN_A_ROW} participants one after another have cost the worker processes that trained them (the last "
                f"{what}, exit code {how}), {cause}; run again with fewer workers (--set run.workers=1)"
            )

    def _drain(self) -> None:
        """Let workers finish what a round that was given up has left behind."""
        while any(worker.tasks for worker in self._crew):
            self._wait()

    def _start(self, fingerprint: Fingerprint, models: int) -> _Shared:
        if not self._entered:
            raise RuntimeError("the worker processes are not running; use `with WorkerProcesses(...) as engine:`")
        shared = self._shared
        if shared is not None and self._fingerprint == fingerprint and len(shared.models) >= models:
            return shared
        self._stop()
        rows = most_jobs(fingerprint.n_params, _SLOT_BYTES, _ROWS)
        slots = self.workers * _SLOTS_A_WORKER
        needed = 4 * fingerprint.n_params * (slots * rows + models) + 8 * slots * rows * fingerprint.width
        _check_memory(needed, self.workers)
        self._shared = _Shared(
            models=_in_shared_memory(np.dtype(np.float32), models, fingerprint.n_params),
            updates=_in_shared_memory(np.dtype(np.float32), slots, rows, fingerprint.n_params),
            directions=_in_shared_memory(np.dtype(np.float64), slots, rows, fingerprint.width),
        )
        self._fingerprint = fingerprint
        fingerprint.of(self._shared.models[0])  # draws what it needs once, before the workers get their copies
        self._crew = [self._hire() for _ in range(self.workers)]
        return self._shared

    def _hire(self) -> _Worker:
        assert self._shared is not None  # noqa: S101 - _start has made both
        assert self._fingerprint is not None  # noqa: S101
        forked = fork(_work, self.inner, self._fingerprint, self._shared)
        return _Worker(forked.process, forked.connection, forked.pulse)

    def _stop(self) -> None:
        end(self._crew)  # they hold nothing that anybody needs
        self._crew, self._shared, self._fingerprint = [], None, None


def _one_by_one(task: _Task) -> list[_Task]:
    """Return a task for each of its participants."""
    return [replace(task, row=task.row + place, jobs=[job]) for place, job in enumerate(task.jobs)]


def _is_whole(task: _Task, parts: Sequence[_Done]) -> bool:
    return any(done.error for done in parts) or sum(len(done.seen) for done in parts) == len(task.jobs)


def _in_shared_memory(dtype: np.dtype[_Number], *shape: int) -> NDArray[_Number]:
    return np.frombuffer(mmap.mmap(-1, dtype.itemsize * math.prod(shape)), dtype).reshape(shape)


def _check_memory(needed: int, workers: int) -> None:
    """Refuse at once what would end with a killed process later."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # another system: it has to tell us itself
        return
    free = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    available = free.get("MemAvailable", needed)
    if needed > available:
        raise MemoryError(
            f"expected {needed / 2**30:.1f} GiB of free memory for the updates of {workers} workers, got "
            f"{available / 2**30:.1f} GiB; run with fewer workers (--set run.workers=1) or a smaller model"
        )


def _work(connection: Connection, engine: InProcess, fingerprint: Fingerprint, shared: _Shared) -> None:
    """Be a worker until the parent is gone or kills us."""
    keep_freed_memory()
    while True:
        try:
            task: _Task = connection.recv()
            connection.send(_train(task, engine, fingerprint, shared))
        except (EOFError, OSError):
            return


def _train(task: _Task, engine: InProcess, fingerprint: Fingerprint, shared: _Shared) -> _Done:
    rows = slice(task.row, task.row + len(task.jobs))
    updates, directions = shared.updates[task.slot, rows], shared.directions[task.slot, rows]
    models = list(shared.models[: task.models])
    try:
        answers = engine.answers(models, task.jobs, task.mods, updates)
        return _Done(task.number, task.row, examined_into(updates, directions, answers, fingerprint, bool(task.mods)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the process that asked
        return _Done(task.number, task.row, [], Raised.of(error))
