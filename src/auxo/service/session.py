"""A client's half of a service: it checks in, does a task with its own functions, answers, and remembers."""

import secrets
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import safetensors.numpy

from auxo.core.types import CohortId, Float32Array
from auxo.files.typed_json import json_reader
from auxo.protocol.codec import to_bytes
from auxo.protocol.messages import AffinityFeedback, CheckIn, TaskFailure, TaskResult
from auxo.runtime.client import Client, Column
from auxo.service.desks import Assigned, ComeAgain, Found, Received
from auxo.service.link import Link, ServiceAway, ServiceRefused, read
from auxo.service.model_files import TENSOR
from auxo.service.problems import Problem
from auxo.service.record_file import RecordFile
from auxo.service.wire import Failing, Joining, json_bytes

_read_found = json_reader(Found)
_read_again = json_reader(ComeAgain)
_read_assigned = json_reader(Assigned)
_read_received = json_reader(Received)
_read_feedback = json_reader(AffinityFeedback)

T = TypeVar("T")

_FINAL = frozenset({"AUTH", "NOT_YOURS", "BANNED", "SUPERSEDED", "UNSUPPORTED", "SCHEMA_MISMATCH", "INTERNAL"})
_LEAST_S = 0.01  # between two questions, whatever the service says; our choice


@dataclass(frozen=True)
class Participation:
    """What came of taking part once."""

    cohort: CohortId
    round: int
    counted: bool  # the answer was taken, and there was feedback to it
    why: str = ""  # it was not counted


class Session:
    """A client of a service; `auxo.connect` makes one."""

    def __init__(self, coordinator: str, link: Link, record: RecordFile, new_client: Callable[[], Client]) -> None:
        self._coordinator = coordinator
        self._link = link
        self._file = record
        self._new_client = new_client
        self._client = record.client(new_client)
        self._session = secrets.token_hex(8)
        self._said = Joining(CheckIn(self._client.client), self._session)
        self.is_over = False
        """Whether the federation has trained all its rounds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._link.close()

    @property
    def participations(self) -> int:
        """Return how often this client has taken part and had feedback."""
        return self._client.participations

    def take_part(
        self,
        loss: Callable[..., float],
        train: Callable[..., object],
        *samples: Column,
        score: Callable[..., float] | None = None,
        validation: Sequence[Column] = (),
    ) -> Participation | None:
        """Take part in one round, and return what came of it; None: the federation is over.

        Args:
            loss: ``loss(model, *samples)`` is the mean loss of samples; a model is a flat array of float32.
            train: ``train(model, *samples)`` is new weights minus old, after training on samples.
            samples: all that the client has, in columns of one length, in the same order at every visit.
            score: what the task is measured by, such as accuracy; larger is better.
            validation: the same columns of samples that the client never trains on.

        Raises:
            ServiceAway: nobody has answered for as long as the patience lasts.
            ServiceRefused: the service will not have this client: it is banned, its token is another's, or a newer
                session of the same client has taken its place.
        """
        self._said = Joining(self._client.check_in(), self._session)
        given = self._task()
        if given is None:
            self.is_over = True
            return None
        found, assigned = given
        try:
            done = self._client.do(
                assigned.task,
                lambda name: self._model(found, assigned, name),
                loss,
                train,
                *samples,
                score=score,
                validation=validation,
                clock=time.monotonic,
            )
            return self._tell(found, assigned, done)
        except _Lost as lost:
            return self._not_counted(assigned, lost.problem)
        except ServiceAway as away:
            return Participation(*_of(assigned), counted=False, why=str(away))
        except ServiceRefused:
            raise
        except Exception:
            with suppress(ServiceAway):
                self._fail(found, assigned, TaskFailure(self._client.client, *_of(assigned), "its training failed"))
            raise

    def _task(self) -> tuple[Found, Assigned] | None:
        """Return a task, and where it comes from; None: all rounds are over."""
        patience = self._link.patience
        pauses = patience.pauses(patience.gives_up_s)
        while True:
            found = self._find()
            if found is None:
                return None
            try:
                assigned = self._join(found)
            except ServiceAway:  # by the time the coordinator knows, it may be elsewhere
                if next(pauses, None) is None:
                    raise
                continue
            if assigned is not None:
                return found, assigned
            self._link.sleep(next(pauses, patience.longest_s))

    def _find(self) -> Found | None:
        """Return whose round to join; None: all rounds are over."""
        patience = self._link.patience
        while True:
            answer = self._link.post(f"{self._coordinator}/v1/check-ins", json_bytes(self._said), patience.gives_up_s)
            if answer.status_code == 202:
                self._wait(_read_again(answer.content))
                continue
            found = read(answer, _read_found)
            if isinstance(found, Found):
                return found
            if found.code == "OVER":
                return None
            raise ServiceRefused(found)

    def _join(self, found: Found) -> Assigned | None:
        """Return a task; None: the cohort has none for this client, which has to check in again."""
        said = json_bytes(self._said)
        while True:
            answer = self._link.post(f"{found.address}/v1/join", said, self._link.patience.elsewhere_s)
            if answer.status_code == 202:
                again = _read_again(answer.content)
                self._wait(again)
                if again.why == "BUSY":
                    continue
                return None
            assigned = read(answer, _read_assigned)
            if isinstance(assigned, Assigned):
                return assigned
            if assigned.code in _FINAL:
                raise ServiceRefused(assigned)
            return None

    def _model(self, found: Found, assigned: Assigned, name: CohortId) -> Float32Array:
        within_s = max(assigned.deadline_s, self._link.patience.elsewhere_s)
        url, query = f"{found.address}/v1/models/{name}", {"round": assigned.task.round}
        content = self._reach(found, lambda some_s: self._link.fetch(url, query, some_s), within_s)
        if isinstance(content, Problem):
            raise _Lost(content)
        weights: Float32Array = safetensors.numpy.load(content)[TENSOR]
        return weights

    def _tell(self, found: Found, assigned: Assigned, done: TaskResult | TaskFailure) -> Participation:
        if isinstance(done, TaskFailure):
            self._fail(found, assigned, done)
            return Participation(*_of(assigned), counted=False, why=done.reason)
        url = f"{found.address}/v1/answers/{assigned.nonce}"
        within_s = max(assigned.deadline_s, self._link.patience.elsewhere_s)
        content, query = to_bytes(done), {"epoch": assigned.epoch}
        answer = self._reach(found, lambda some_s: self._link.put(url, content, query, some_s), within_s)
        received = read(answer, _read_received)
        if isinstance(received, Problem):
            raise _Lost(received)
        self._link.sleep(max(received.feedback_after_s, _LEAST_S))
        return self._hear(found, assigned)

    def _fail(self, found: Found, assigned: Assigned, failure: TaskFailure) -> None:
        failing = json_bytes(Failing(failure, assigned.epoch, assigned.nonce))
        self._link.post(f"{found.address}/v1/failures", failing, self._link.patience.elsewhere_s)

    def _hear(self, found: Found, assigned: Assigned) -> Participation:
        """Return what the round says, once it has closed, and keep it."""
        query, within_s = {"round": assigned.task.round}, self._link.patience.feedback_s
        while True:
            answer = self._reach(
                found, lambda some_s: self._link.get(f"{found.address}/v1/feedback", query, some_s), within_s
            )
            if answer.status_code == 202:
                self._wait(_read_again(answer.content))
                continue
            feedback = read(answer, _read_feedback)
            if isinstance(feedback, Problem):
                raise _Lost(feedback)
            self._remember(feedback)
            return Participation(*_of(assigned), counted=True)

    def _reach(self, found: Found, ask: Callable[[float], T], within_s: float) -> T:
        """Return a cohort's answer; one that is silent is given up as soon as another process has taken its place.

        Raises:
            ServiceAway: it is, or nobody has answered for that long.
        """
        end_s = time.monotonic() + within_s
        while True:
            try:
                return ask(min(within_s, self._link.patience.elsewhere_s))
            except ServiceAway:
                if time.monotonic() >= end_s or self._is_replaced(found):
                    raise

    def _is_replaced(self, found: Found) -> bool:
        """Return whether the coordinator knows of another owner of a cohort."""
        url, patience = f"{self._coordinator}/v1/check-ins", self._link.patience
        try:
            now = read(self._link.post(url, json_bytes(self._said), patience.elsewhere_s), _read_found)
        except ServiceAway:
            return False
        return isinstance(now, Found) and now.cohort == found.cohort and now.epoch != found.epoch

    def _remember(self, feedback: AffinityFeedback) -> None:
        try:
            self._client.receive(feedback)
        except ValueError as error:
            warnings.warn(
                f"the record does not go with this federation ({error}); it is begun again",
                RuntimeWarning,
                stacklevel=5,
            )
            self._client = self._new_client()
            self._client.receive(feedback)
        self._file.keep(self._client)

    def _not_counted(self, assigned: Assigned, problem: Problem) -> Participation:
        if problem.code in _FINAL:
            raise ServiceRefused(problem)
        return Participation(*_of(assigned), counted=False, why=f"{problem.code}: {problem.got}")

    def _wait(self, again: ComeAgain) -> None:
        self._link.sleep(max(again.after_s, _LEAST_S))


class _Lost(Exception):  # noqa: N818 - it ends a visit
    """The task is nobody's any more: its round has closed, or the cohort has another owner."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def _of(assigned: Assigned) -> tuple[CohortId, int]:
    return assigned.task.cohort, assigned.task.round
