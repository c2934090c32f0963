"""Both desks of a service in one process, over one `Server`, behind real sockets: what clients see is the same."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from starlette.types import ASGIApp

from auxo.algorithms.auxo import Auxo
from auxo.core.types import ROOT, ClientId, CohortId, Float32Array
from auxo.protocol.messages import AffinityFeedback, CheckIn, Task, TaskFailure, TaskResult
from auxo.runtime.server import Server
from auxo.service.client_tokens import ClientTokens
from auxo.service.desks import Assigned, ComeAgain, Found, NoFeedback, Pulse, Received, Refusal
from auxo.service.http_cohort import cohort_app
from auxo.service.http_coordinator import coordinator_app
from auxo.service.http_limits import HttpLimits
from auxo.service.http_server import Tls, http_server
from auxo.service.wire import Joining

TOKENS = ClientTokens(b"a secret of tests")
AGAIN_S = 0.01
EPOCH = 3


def small_server(parameters: int = 6, participants: int = 2, rounds: int = 1000) -> Server:
    return Server(np.zeros(parameters, dtype=np.float32), participants=participants, rounds=rounds, method=Auxo())


@dataclass
class OneProcess:
    """Opens a round when as many wait as it has participants, and closes it when all of them have answered."""

    server: Server
    participants: int = 2
    coordinator_address: str = ""
    cohort_address: str = ""
    waiting: dict[ClientId, CheckIn] = field(default_factory=dict)
    sessions: dict[ClientId, str] = field(default_factory=dict)
    tasks: dict[ClientId, Task] = field(default_factory=dict)
    models: dict[CohortId, Float32Array] = field(default_factory=dict)
    answers: dict[ClientId, TaskResult | TaskFailure] = field(default_factory=dict)
    feedbacks: dict[tuple[ClientId, int], AffinityFeedback] = field(default_factory=dict)
    closed: int = 0
    counted: int = 0
    batches: list[int] = field(default_factory=list)
    banned: tuple[ClientId, ...] = ()

    def check_in(self, joining: Sequence[Joining]) -> list[Found | ComeAgain | Refusal]:
        self.batches.append(len(joining))
        if self.server.is_over:
            return [Refusal("OVER", "expected a round to come, got a run that is over; go home")] * len(joining)
        words = "expected a client in good standing, got one that is banned; ask the operator"
        return [
            Refusal("BANNED", words) if one.check_in.client in self.banned else Found(ROOT, self.cohort_address, EPOCH)
            for one in joining
        ]

    def join(self, check_in: CheckIn, session: str) -> Assigned | ComeAgain | Refusal:
        client = check_in.client
        self.sessions[client] = session
        if self.server.is_over:
            return Refusal("OVER", "expected a round to come, got a run that is over; go home")
        if client in self.tasks:
            return self._assigned(client) if client not in self.answers else ComeAgain(AGAIN_S)
        self.waiting[client] = check_in
        if len(self.waiting) >= self.participants and not self.tasks:
            (cohort,) = self.server.cohorts
            self.tasks = {task.client: task for task in self.server.open_round(cohort, list(self.waiting.values()))}
            self.models = {name: self.server.weights(name) for task in self.tasks.values() for name in task.models}
            self.waiting = {one: said for one, said in self.waiting.items() if one not in self.tasks}
        return self._assigned(client) if client in self.tasks else ComeAgain(AGAIN_S)

    def _assigned(self, client: ClientId) -> Assigned:
        return Assigned(self.tasks[client], EPOCH, f"{client}-{self.tasks[client].round}", 60.0)

    def model(self, name: CohortId, round_number: int, client: ClientId) -> Float32Array | Refusal:
        task = self.tasks.get(client)
        if task is None or task.round != round_number or name not in task.models:
            return Refusal("NOT_SELECTED", f"expected a model of its task, got {name}; join first")
        return self.models[name]

    def answer(self, result: TaskResult | TaskFailure, epoch: int, nonce: str) -> Received | Refusal:
        task = self.tasks.get(result.client)
        if epoch != EPOCH:
            return Refusal("STALE_EPOCH", f"expected epoch {EPOCH}, got {epoch}; join again")
        if (result.client, result.round) in self.feedbacks or result.client in self.answers:
            return Received(AGAIN_S)
        if result.round <= self.closed:
            return Refusal("STALE_ROUND", f"expected round {self.closed + 1}, got {result.round}; join again")
        if task is None or nonce != f"{result.client}-{task.round}":
            return Refusal("NOT_SELECTED", f"expected an answer to a task, got nonce {nonce}; join first")
        self.answers[result.client] = result
        self.counted += 1
        if len(self.answers) == len(self.tasks):
            self.closed = task.round
            for one in self.server.close_round(task.cohort, list(self.answers.values())):
                self.feedbacks[one.client, task.round] = one
            self.tasks, self.answers = {}, {}
        return Received(AGAIN_S)

    def feedback(self, client: ClientId, round_number: int) -> AffinityFeedback | NoFeedback | ComeAgain | Refusal:
        if round_number > self.closed:
            return ComeAgain(AGAIN_S)
        return self.feedbacks.get((client, round_number), NoFeedback("its answer was refused"))

    def pulse(self) -> Pulse:
        return Pulse("0", EPOCH, 1, self.counted, self.closed, "training")


@contextmanager
def served(app: ASGIApp, limits: HttpLimits, tls: Tls | None = None) -> Iterator[str]:
    """Serve an app on a free port of the loopback; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = http_server(app, limits, tls)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        within(10, lambda: server.started)
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@contextmanager
def one_process(desks: OneProcess, limits: HttpLimits | None = None, tls: Tls | None = None) -> Iterator[str]:
    """Serve both desks; gives the coordinator's address."""
    bounds = limits or HttpLimits()
    with served(cohort_app(desks, TOKENS, bounds), bounds, tls) as cohort:
        desks.cohort_address = cohort
        with served(coordinator_app(desks, TOKENS, bounds), bounds, tls) as coordinator:
            yield coordinator


def within(seconds: float, holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it does not hold after {seconds} s"
        time.sleep(0.005)
