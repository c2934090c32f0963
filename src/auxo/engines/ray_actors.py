"""The actors of the Ray engine: trainers, and the cohorts that feed themselves from them."""

import heapq
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ray
from ray import exceptions as ray_errors
from threadpoolctl import threadpool_limits

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
from auxo.engines.ray_pulse import START_S, Pulse, is_running
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.failures import WorkersLost
from auxo.runtime.federation import Federation
from auxo.runtime.patience import LOOK_S, Patience
from auxo.training.trainer import Job

# All of these are our own choices, and not a bit of a result depends on them.
TRIES = 3  # times that a round may cost the process that closes it
_CHUNKS_EACH = 2  # given to a trainer at a time: one in work, and one that it need not wait for
_JOBS_AT_ONCE = 64  # most jobs in a chunk: each costs a few calls of Ray
_CHUNK_BYTES = 2**25  # most bytes of updates in a chunk, unless a single one is larger
RETURN_S = 600.0  # how long to wait for a trainer when none is there, and for one that is busy with a lost cohort

_Chunk = tuple[list[SeenAnswer], Float32Array, FloatArray]
"""What a trainer has found out about a chunk: of each participant, the updates, and their directions."""

LOST = (
    ray_errors.RayActorError,
    ray_errors.ObjectLostError,
    ray_errors.OutOfMemoryError,
    ray_errors.NodeDiedError,
    ray_errors.WorkerCrashedError,
)
"""What Ray raises where a process or a node was lost."""


@dataclass(frozen=True)
class RayCrew:
    """The trainers, and what all of them need."""

    trainers: Sequence[Any]  # actors
    shared: Any  # reference to an InProcess

    def when_back(self, trainer: int) -> Any:
        """Return a reference that is ready once the trainer is, however often Ray has to start it until then."""
        return self.trainers[trainer].load.options(max_task_retries=-1).remote([self.shared])


class TrainerActor:
    """An actor that trains chunks of participants and examines their updates; Ray starts it again when it is lost.

    What it needs is shared by all trainers of a node. The reference comes with every call, because a new process has
    nothing, and in a list, because Ray would resolve it anew for each call otherwise.
    """

    def __init__(self) -> None:
        self._engine: InProcess | None = None
        self._fingerprint: Fingerprint | None = None
        self._updates = np.empty((0, 0), dtype=np.float32)
        self._directions = np.empty((0, 0))
        self._beats = itertools.count()

    def live(self) -> tuple[int, int]:
        """Return a sign of life, another each time."""
        return os.getpid(), next(self._beats)

    def load(self, shared: Sequence[Any]) -> None:
        """Get ready to train; the first call of a process does it."""
        if self._engine is None:
            self._engine = ray.get(shared[0])
            threadpool_limits(1)
            keep_freed_memory()

    def train(
        self,
        shared: Sequence[Any],
        fingerprint: Fingerprint,
        jobs: Sequence[Job],
        mods: Sequence[ClientMod],
        *models: Float32Array,
    ) -> _Chunk:
        """Return what is to be known of the answer to each job, in order."""
        self.load(shared)
        assert self._engine is not None  # noqa: S101 - it is loaded now
        if self._fingerprint != fingerprint:  # one that is the same has already drawn its signs
            self._fingerprint = fingerprint
        updates, directions = self._rows(len(jobs), fingerprint)
        answers = self._engine.answers(models, jobs, mods, updates)
        seen = examined_into(updates, directions, answers, self._fingerprint, bool(mods))
        return seen, updates, directions

    def _rows(self, jobs: int, fingerprint: Fingerprint) -> tuple[Float32Array, FloatArray]:
        """Return memory for a chunk, the same for every one: Ray has copied it when the next one comes."""
        if len(self._updates) < jobs or self._directions.shape[1] != fingerprint.width:
            self._updates = np.empty((jobs, fingerprint.n_params), dtype=np.float32)
            self._directions = np.empty((jobs, fingerprint.width))
        return self._updates[:jobs], self._directions[:jobs]


@dataclass(frozen=True)
class ActorRound:
    """What a cohort's actor gives back."""

    closed: Closed
    notes: Sequence[str]  # what was lost, and tried again or done without


class CohortActor:
    """An actor that runs one cohort's rounds; it keeps nothing between them that could not be lost."""

    def __init__(self, rules: Federation, crew: RayCrew) -> None:
        self._rules = rules
        self._attendance = _Attendance(crew)
        self._beats = itertools.count()

    def live(self) -> tuple[int, int]:
        """Return a sign of life, another each time."""
        return os.getpid(), next(self._beats)

    def run_round(self, closing: Closing, training: Training, models: Sequence[Any]) -> ActorRound:
        """Run a round.

        Args:
            closing: the cohort, as it is before the round.
            training: what its participants do, without the models.
            models: these, or references to those that are large. They are the driver's, because what trainers are about
                to read should not vanish with this process.
        """
        most = most_jobs(self._rules.n_params, _CHUNK_BYTES, _JOBS_AT_ONCE)
        chunks = chunks_of(training.jobs, _CHUNKS_EACH * len(self._attendance.crew.trainers), most)
        work = _Work(self._attendance, self._rules.fingerprint, models, chunks, training.mods)
        closed = close_round(self._rules, closing, returned_by(training, work.in_order()))
        return ActorRound(closed, work.notes)


class _Attendance:
    """Which trainers a cohort can count on.

    Each has to answer first: what Ray is given for a trainer that cannot be started again may wait for ever.
    """

    def __init__(self, crew: RayCrew) -> None:
        self.crew = crew
        self.absent = {crew.when_back(trainer): trainer for trainer in range(len(crew.trainers))}
        patience = Patience(start_s=START_S)
        self.pulses = [Pulse(trainer, patience) for trainer in crew.trainers]
        self._gone: set[int] = set()  # Ray has given up on these

    def present(self) -> list[int]:
        missing = self._gone.union(self.absent.values())
        return [trainer for trainer in range(len(self.crew.trainers)) if trainer not in missing]

    def welcome(self, reference: Any) -> None:
        """Count on a trainer again, now that the reference in ``absent`` is ready."""
        trainer = self.absent.pop(reference)
        try:
            ray.get(reference)
        except ray_errors.RayError:
            self._gone.add(trainer)

    def miss(self, trainer: int) -> bool:
        """Count on a trainer no longer; returns whether that is news."""
        is_news = trainer in self.present()
        if is_news:
            self.absent[self.crew.when_back(trainer)] = trainer
            self.pulses[trainer].begin()
        return is_news

    def is_lost(self, trainer: int, units: int | None) -> bool:
        """Look after a trainer, and end its process if that is taken for lost; Ray starts another."""
        if self.pulses[trainer].why_lost(units) is None:
            return False
        self.pulses[trainer].begin()
        is_lost = is_running(self.crew.trainers[trainer])  # and does not wait for a CPU
        if is_lost:
            ray.kill(self.crew.trainers[trainer], no_restart=False)
        return is_lost


_Piece = tuple[int, int]
"""A chunk of a round's jobs by its place; of one that has cost a trainer also the place of each job in it."""


class _Work:
    """One round's chunks on their way to the trainers and back; answers come in order, whoever is lost meanwhile.

    Only so many chunks beyond the one that is gathered are given out, so that memory does not grow with participants.
    """

    def __init__(
        self,
        attendance: _Attendance,
        fingerprint: Fingerprint,
        models: Sequence[Any],
        chunks: Sequence[Sequence[Job]],
        mods: Sequence[ClientMod],
    ) -> None:
        self.notes: list[str] = []
        self._attendance = attendance
        self._fingerprint = replace(fingerprint)  # a new one, for the signs that it has drawn need not travel
        self._models = models
        self._pieces: dict[_Piece, Sequence[Job]] = {(place, 0): jobs for place, jobs in enumerate(chunks)}
        self._mods = mods
        self._waiting = list(self._pieces)  # a heap
        self._given: dict[Any, tuple[int, _Piece]] = {}  # reference: trainer and piece, in the order given
        self._answers: dict[_Piece, _Chunk] = {}  # of pieces that are not gathered yet
        self._suspects: set[_Piece] = set()
        self._deaths = Deaths()
        self._alone_s = 0.0  # without any trainer at work, about

    def in_order(self) -> Iterator[Examined | Reason | Failure]:
        while self._pieces:
            first = min(self._pieces)
            self._give(first)
            while first not in self._answers:
                self._take()
                first = min(self._pieces)  # it may be in parts by now
                self._give(first)
            del self._pieces[first]
            for seen, update, direction in zip(*self._answers.pop(first), strict=True):
                yield whole(seen, update, direction)

    def _give(self, first: _Piece) -> None:
        """Keep the trainers busy; ``first`` is the first piece that is not gathered."""
        crew = self._attendance.crew
        load = dict.fromkeys(self._attendance.present(), 0)
        for number, piece in self._given.values():
            if number in load:
                load[number] += self._weight(piece)
        while load and self._waiting and self._waiting[0][0] < first[0] + _CHUNKS_EACH * len(crew.trainers):
            idlest = min(load, key=lambda number: load[number])
            if load[idlest] + self._weight(self._waiting[0]) > _CHUNKS_EACH:
                return
            piece = heapq.heappop(self._waiting)
            answers = crew.trainers[idlest].train.remote(
                [crew.shared], self._fingerprint, self._pieces[piece], self._mods, *self._models
            )
            self._given[answers] = (idlest, piece)
            if not load[idlest]:
                self._attendance.pulses[idlest].begin()
            load[idlest] += self._weight(piece)

    def _weight(self, piece: _Piece) -> int:
        """Return how many chunks a piece counts as: with one that a trainer was lost over nothing else is given.

        An answer that Ray is yet to send is lost with its process, and whoever gave it would be blamed for that.
        """
        return _CHUNKS_EACH if piece in self._suspects else 1

    def _take(self) -> None:
        """Wait for news of a chunk or of a lost trainer, but not long; see to all there is, and to who is silent."""
        pending = [*self._given, *self._attendance.absent]
        self._alone_s = 0.0 if self._given else self._alone_s + LOOK_S
        if not pending or self._alone_s > RETURN_S:
            raise WorkersLost(
                f"all Ray workers were lost, and none came back within {RETURN_S / 60:.0f} minutes; see whether the "
                "cluster's nodes are up and have memory left, and run again"
            )
        ray.wait(pending, timeout=LOOK_S)
        known = set(ray.wait(pending, num_returns=len(pending), timeout=0)[0])
        # In the order given, which is the order of work: a trainer died of the first chunk that it has not answered.
        for news in [reference for reference in pending if reference in known]:
            if news in self._given:
                self._finish(news)
            else:
                self._attendance.welcome(news)
        self._look_after()

    def _finish(self, reference: Any) -> None:
        trainer, piece = self._given.pop(reference)
        try:
            self._answers[piece] = get(reference)
            self._attendance.pulses[trainer].finish(len(self._pieces[piece]))
            self._deaths.trained(piece)
        except LOST:
            if self._attendance.miss(trainer):
                self._lose(trainer, piece)
            else:  # it had not come to it
                heapq.heappush(self._waiting, piece)

    def _look_after(self) -> None:
        """Take the work from those who are stopped or hang, and see that they begin anew."""
        first = dict(reversed(self._given.values()))  # of each trainer's pieces
        for trainer in list(self._attendance.absent.values()):
            self._attendance.is_lost(trainer, None)
        for trainer, piece in first.items():
            if not self._attendance.is_lost(trainer, len(self._pieces[piece])):
                continue
            for reference in [one for one, (whose, _) in self._given.items() if whose == trainer]:
                other = self._given.pop(reference)[1]
                if other != piece:
                    heapq.heappush(self._waiting, other)
            self._attendance.miss(trainer)
            self._lose(trainer, piece)

    def _lose(self, trainer: int, piece: _Piece) -> None:
        """Have what a trainer was lost over trained again, one participant at a time, or without the one that it is."""
        workers = len(self._attendance.crew.trainers)
        self.notes.append(f"Ray worker {trainer + 1} of {workers} was lost; its participants train again")
        jobs = self._pieces[piece]
        if self._deaths.has_failed(piece, jobs):
            self._check_deaths(jobs[0])
            self.notes.append(words_of_failed(jobs[0]))
            self._answers[piece] = [DIED_ALONE], np.zeros((1, 0), dtype=np.float32), np.zeros((1, 0))
            return
        for place, job in enumerate(jobs, start=piece[1]):
            self._pieces[piece[0], place] = [job]
            self._suspects.add((piece[0], place))
            heapq.heappush(self._waiting, (piece[0], place))

    def _check_deaths(self, job: Job) -> None:
        if self._deaths.are_too_many:
            raise WorkersLost(
                f"{IN_A_ROW} participants one after another have cost the Ray workers that trained them, most often "
                "for want of memory; run again with fewer workers (--set run.workers=1) or on nodes with more memory. "
                f"The last is the client in row {job.client_row}"
            )


def get(reference: Any) -> Any:
    """Return what Ray has; what the code behind it raised is raised here."""
    try:
        return ray.get(reference)
    except ray_errors.RayTaskError as error:
        # With where it happened, unless the message says all there is to say.
        raise error.cause from (None if isinstance(error.cause, WorkersLost) else error)
