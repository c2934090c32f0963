"""The desk of a cohort: who waits, who is asked, what has come, and the turn by which rounds open and close.

Its process alone owns the cohort, by its epoch. A round closes by itself, whether or not there is a coordinator; the
next one opens only while there is one. Whatever is here and not in the store may be lost with the process: the round is
then done again.
"""

import math
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from auxo.core.owners import Fenced
from auxo.core.settings import NonNegativeFloat, PositiveFloat, PositiveInt, checked, setting
from auxo.core.types import ClientId, CohortId, Float32Array
from auxo.core.validation import why as why_rejected
from auxo.protocol.events import CohortEnded, Disturbance, EmptyRound, Event
from auxo.protocol.messages import AffinityFeedback, CheckIn, TaskFailure, TaskResult
from auxo.runtime.client_numbers import client_number
from auxo.runtime.round_events import RoundEnd, children_made, round_events
from auxo.runtime.server import GatheredRound, Server
from auxo.runtime.server_record import ServerRecord
from auxo.service.desks import Assigned, ComeAgain, NoFeedback, Pulse, Received, Refusal
from auxo.service.problems import jittered
from auxo.service.round_book import AskedClient, ClientSessions, ClosedRound, LiveRound, WaitingClient, digest_of
from auxo.service.store import Store

_REMEMBERED = 3  # closed rounds of which feedback can be had; our choice
_RETRY_S = 1.0  # between two tries to commit where there is no room; our choice
_UNCOMMITTED = 8  # rounds that a cohort trains on while there is no room for a commit; our choice


@dataclass(frozen=True)
@checked
class RoundSettings:
    """How a cohort's rounds open and close in real time."""

    deadline_s: PositiveFloat = setting(600.0, "Seconds after which a round closes with what it has.")
    window_s: NonNegativeFloat = setting(
        5.0, "Seconds that a round waits for as many clients as it wants to invite; then it takes those that wait."
    )
    least_share: float = setting(
        0.5, "Share of the updates wanted without which no round opens, and one that is over is abandoned."
    )
    waiting: PositiveInt = setting(10_000, "Clients that may wait for a cohort at a time; others come again later.")
    polls_per_s: PositiveFloat = setting(200.0, "Questions a second of all clients that wait, on average.")
    gone_s: PositiveFloat = setting(30.0, "Seconds after which a client that waited and asks no more is gone.")


@dataclass(frozen=True)
class _Pending:
    """A round that is over, and not yet committed."""

    gathered: GatheredRound
    end: RoundEnd
    credited: int  # the last credit that it has made use of


class LiveCohort:
    """A `CohortDesk` whose rounds go on by `turn`, which another thread calls again and again."""

    def __init__(
        self,
        server: Server,
        store: Store,
        me: tuple[CohortId, int],
        settings: RoundSettings,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Begin where the store says.

        Args:
            server: with the rules of the federation.
            store: that the cohort commits to.
            me: the cohort and the epoch of this owner.
            settings: of its rounds.
            clock: seconds that never step; deadlines go by it.
            wall: seconds of the clock on the wall, for events alone.
        """
        self._server, self._store, (self._cohort, self._epoch), self._settings = server, store, me, settings
        self._clock, self._wall = clock, wall
        held = store.read((self._cohort,))
        self._begun, self._credited = held.begun, held.credited
        server.refresh(held.record, store)
        self._lock = threading.RLock()
        self._waiting: dict[int, WaitingClient] = {}
        self._sessions = ClientSessions(2 * settings.waiting)
        self._round: LiveRound | None = None
        self._is_closing = False
        self._closed: list[ClosedRound] = []
        self._pending: list[_Pending] = []
        self._first_waited_s: float | None = None
        self._abandoned = 0  # rounds in a row
        self._not_before_s = self._tries_s = -math.inf
        self._progress, self._is_led = 0, True
        self._troubles: dict[str, str] = {}  # by what they are about
        self.is_fenced = False
        """Whether another owner has taken over: this process has nothing more to do."""

    # What clients ask.

    def join(self, check_in: CheckIn, session: str) -> Assigned | ComeAgain | Refusal:  # noqa: PLR0911 - by reason
        """Wait for a round, or take one's task; see `CohortDesk`."""
        number = client_number(check_in.client)
        if number is None:
            return Refusal(
                "NOT_SELECTED", f"client: expected a number or a name, got {check_in.client!r:.80}; give it one"
            )
        with self._lock:
            if self._is_over:
                return ComeAgain(jittered(1.0), "CLOSED")
            if number in self._banned:
                return Refusal(
                    "BANNED", "expected a client that is not banned, got one that is; ask who runs the service"
                )
            is_new = self._sessions.is_new(number, session)
            if self._sessions.is_superseded(number, session):
                return _superseded()
            asked = None if self._round is None else self._round.asked.get(number)
            if asked is not None and asked.answer is None and not self._is_closing:
                if is_new:
                    asked.before, asked.nonce = asked.nonce, AskedClient(asked.task).nonce
                return self._assigned(asked)
            waits = self._waiting.get(number)
            if waits is None and len(self._waiting) >= self._settings.waiting:
                return ComeAgain(jittered(self._pause_s), "BUSY")
            now = self._clock()
            self._waiting[number] = WaitingClient(check_in, now)
            if self._first_waited_s is None:
                self._first_waited_s = now
            return ComeAgain(jittered(self._pause_s), "BUSY")

    def _assigned(self, asked: AskedClient) -> Assigned:
        assert self._round is not None  # noqa: S101 - or nobody is asked
        left_s = max(0.0, self._round.closes_s - self._clock())
        return Assigned(asked.task, self._epoch, asked.nonce, left_s)

    @property
    def _pause_s(self) -> float:
        """Return how long those who wait are told to wait, on average: the more there are, the longer."""
        return min(max(len(self._waiting) / self._settings.polls_per_s, 0.1), self._settings.gone_s / 3)

    def model(self, name: CohortId, round_number: int, client: ClientId) -> Float32Array | Refusal:
        """Return a model that the client's task names; see `CohortDesk`."""
        number = client_number(client)
        with self._lock:
            opened = self._round
            if opened is None or opened.number != round_number:
                return self._too_late(number, round_number)
            asked = None if number is None else opened.asked.get(number)
            if asked is None or name not in asked.task.models:
                return Refusal(
                    "NOT_SELECTED", f"expected a model that this client's task names, got {name}; check in again"
                )
            return opened.models[name]

    def answer(  # noqa: PLR0911 - by reason
        self, result: TaskResult | TaskFailure, epoch: int, nonce: str
    ) -> Received | Refusal:
        """Take an answer; see `CohortDesk`."""
        number = client_number(result.client)
        with self._lock:
            if epoch != self._epoch:
                words = f"expected an answer to a task of epoch {self._epoch}, got one of {epoch}; check in again"
                return Refusal("STALE_EPOCH", words)
            if number is None or result.cohort != self._cohort:
                return Refusal(
                    "NOT_SELECTED",
                    f"expected an answer to cohort {self._cohort}, got {result.cohort!r:.80}; check in again",
                )
            opened = self._round
            if opened is None or opened.number != result.round:
                return self._again_or_too_late(number, result, nonce)
            asked = opened.asked.get(number)
            if asked is None:
                return Refusal(
                    "NOT_SELECTED", f"expected one who has a task in round {opened.number}, got another; check in again"
                )
            if nonce != asked.nonce:
                if nonce == asked.before:
                    return _superseded()
                return Refusal("NOT_SELECTED", "expected the nonce of the client's task, got another; check in again")
            if self._is_closing and asked.answer is None:
                return self._too_late(number, result.round)
            if not asked.take(result):
                return Refusal("NOT_SELECTED", "expected the answer that has come before, got another; check in again")
            return Received(jittered(min(1.0, max(0.1, self._pause_s))))

    def _again_or_too_late(self, number: int, result: TaskResult | TaskFailure, nonce: str) -> Received | Refusal:
        for closed in self._closed:
            if closed.number == result.round and closed.taken.get(number) == (nonce, digest_of(result)):
                return Received(0.0)
        return self._too_late(number, result.round)

    def _too_late(self, number: int | None, round_number: int) -> Refusal:
        now = "a cohort that was partitioned" if self._is_gone else f"a cohort that has closed {self._rounds} rounds"
        for closed in self._closed:
            if closed.number == round_number and number in closed.asked:
                return Refusal(
                    "LATE", f"expected an answer before round {round_number} closed, got it later; check in again"
                )
        return Refusal("STALE_ROUND", f"expected the round that is open, not {round_number}, got {now}; check in again")

    def feedback(self, client: ClientId, round_number: int) -> AffinityFeedback | NoFeedback | ComeAgain | Refusal:
        """Return what a round says to a client; see `CohortDesk`."""
        number = client_number(client)
        with self._lock:
            if self._round is not None and self._round.number == round_number and number in self._round.asked:
                return ComeAgain(jittered(max(0.1, self._pause_s)))
            for closed in self._closed:
                if closed.number == round_number and number is not None and number in closed.asked:
                    found = closed.feedback.get(number)
                    return found if found is not None else NoFeedback(closed.why.get(number, closed.otherwise))
            return NoFeedback(f"round {round_number} is not known here: the cohort may have been started again since")

    def pulse(self) -> Pulse:
        """Return how it is doing."""
        # Without the lock: a turn that hangs must not make whoever watches hang, too.
        state: Literal["idle", "training", "starved", "waiting for coordinator", "over"] = "idle"
        if self._is_over:
            state = "over"
        elif self._round is not None:
            state = "training"
        elif not self._is_led:
            state = "waiting for coordinator"
        elif self._abandoned:
            state = "starved"
        rounds = self._closed[-1].number if self._is_gone and self._closed else self._rounds
        who, health = str(self._cohort), tuple(self._troubles.values())
        return Pulse(who, self._epoch, os.getpid(), self._progress, rounds, state, health)

    # What happens by itself.

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing more to train here: all rounds are done, or it was partitioned."""
        return self._is_over and not self._pending

    @property
    def _is_gone(self) -> bool:
        return self._cohort not in self._server.tree.leaves

    @property
    def _rounds(self) -> int:
        return 0 if self._is_gone else self._server.round(self._cohort)

    @property
    def _is_over(self) -> bool:
        return self._is_gone or self._server.has_ended(self._cohort)

    def turn(self, is_led: bool = True) -> None:
        """Do what is due: close a round that is over, commit, open the next; ``is_led``: there is a coordinator."""
        self._is_led = is_led
        with self._lock:
            opened, now = self._round, self._clock()
            is_due = opened is not None and (opened.is_complete or now >= opened.closes_s)
            self._is_closing = is_due
        if self._pending and now >= self._tries_s and not self.is_fenced:
            self._settle(opened if self._is_held_back else None)
        if opened is not None and is_due and not self._is_held_back and not self.is_fenced:
            self._close(opened)
        with self._lock:
            if self._round is None and not self._is_over and not self.is_fenced:
                self._open_if_due()
        self._progress += 1

    @property
    def _is_held_back(self) -> bool:
        """Return whether a partition waits for its commit: nobody may hear of children that a crash would undo."""
        return bool(self._pending) and self._is_gone

    def _open_if_due(self) -> None:
        now, held_up = self._clock(), len(self._pending) >= _UNCOMMITTED
        gone = [one for one, waits in self._waiting.items() if now - waits.seen_s > self._settings.gone_s]
        for one in gone:
            del self._waiting[one]
        if not self._waiting:
            self._first_waited_s = None
            return
        if not self._is_led or held_up or now < self._not_before_s:
            return
        wanted, invited = self._server.wanted(self._cohort), self._server.invited(self._cohort)
        waited_s = 0.0 if self._first_waited_s is None else now - self._first_waited_s
        is_enough = len(self._waiting) >= invited
        if is_enough or (waited_s >= self._settings.window_s and len(self._waiting) >= self._least(wanted)):
            self._open(wanted)

    def _least(self, wanted: int) -> int:
        return max(1, math.ceil(self._settings.least_share * wanted))

    def _open(self, wanted: int) -> None:
        """Open a round with those who wait."""
        if not self._pending:
            self._read()
        number, now = self._server.round(self._cohort) + 1, self._clock()
        tasks = self._server.open_round(self._cohort, [one.check_in for one in self._waiting.values()])
        if not tasks:
            self._not_before_s = now + self._settings.window_s
            return
        names = dict.fromkeys(name for task in tasks for name in task.models)
        models = {name: self._model(name) for name in names}
        asked = {client_number(task.client): AskedClient(task) for task in tasks}
        known = {client: one for client, one in asked.items() if client is not None}
        for client in known:
            self._waiting.pop(client, None)
        self._first_waited_s = now if self._waiting else None
        closes_s = now + self._settings.deadline_s
        self._round = LiveRound(number, min(wanted, len(tasks)), now, closes_s, known, models)

    def _model(self, name: CohortId) -> Float32Array:
        is_other = name != self._cohort and name in self._server.tree.leaves
        return self._store.model(name) if is_other else self._server.weights(name)

    def _read(self) -> None:
        """Have what other cohorts have committed meanwhile."""
        held = self._store.read((self._cohort,))
        if self._cohort not in held.owners or held.owners[self._cohort].epoch != self._epoch:
            self.is_fenced = True
            return
        self._credited = held.credited
        self._server.refresh(held.record, self._store)

    @property
    def _banned(self) -> frozenset[int]:
        return frozenset(ban.client for ban in self._server.bans)

    def _close(self, opened: LiveRound) -> None:
        """Close a round that is over, or abandon it."""
        results: Sequence[TaskResult | TaskFailure] = [
            one.answer for one in opened.asked.values() if one.answer is not None
        ]
        if len(opened.results) < self._least(opened.wanted):
            self._abandon(opened)
            return
        if not self._pending:
            self._read()
            if self.is_fenced:
                return
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            gathered = self._server.gather_round(self._cohort, results)
        self._tell([str(one.message) for one in said], opened.number)
        time_s, duration_s = self._now, self._clock() - opened.opened_s
        end = RoundEnd(self._cohort, opened.number, time_s, duration_s, len(opened.asked), 0)
        self._pending.append(_Pending(gathered, end, self._credited))
        self._abandoned, self._not_before_s = 0, -math.inf
        self._settle(opened)

    @property
    def _now(self) -> float:
        return max(0.0, self._wall() - self._begun)

    def _abandon(self, opened: LiveRound) -> None:
        """Give a round up to which too few have answered; the next one waits longer each time."""
        came, least = len(opened.results), self._least(opened.wanted)
        words = f"abandoned: {came} of {opened.wanted} wanted updates came in time, and at least {least} are needed"
        self._abandoned += 1
        pause_s = min(self._settings.window_s * 2.0 ** min(self._abandoned, 10), self._settings.deadline_s)
        self._not_before_s = self._clock() + jittered(pause_s)
        self._keep_events([EmptyRound(self._now, self._cohort, opened.number, words)])
        with self._lock:
            self._shut(opened, {}, {}, words)

    def _keep_events(self, events: Sequence[Event]) -> None:
        try:
            self._store.tell(events)
        except OSError as error:
            self._troubles["events"] = f"events could not be kept ({error}); they are lost"
        else:
            self._troubles.pop("events", None)

    def _tell(self, words: Sequence[str], number: int) -> None:
        if words:
            self._keep_events([Disturbance(self._now, self._cohort, number, one) for one in words])

    def _settle(self, opened: LiveRound | None) -> None:
        """Commit the rounds that are over, ``opened`` the last of them, unless its participants have heard of it.

        Where there is no room the cohort goes on all the same, and tries again.
        """
        feedback, is_done = list[AffinityFeedback](), False

        def step(record: ServerRecord) -> tuple[ServerRecord, Sequence[Event]]:
            nonlocal feedback, is_done
            events = list[Event]()
            self._server.refresh(record, self._store)
            for one in self._pending:
                before = self._server.tree
                feedback = self._ended(one)
                events += self._events(one, children_made(before, self._server.tree))
            if "disk" in self._troubles:
                words = f"committed again: {len(self._pending)} rounds had waited for room"
                events.append(Disturbance(self._now, self._cohort, self._pending[-1].end.round, words))
            is_done = True
            return self._server.record, events

        last = self._pending[-1]
        try:
            done = self._store.change(self._cohort, self._epoch, step, credited=self._pending[0].credited)
        except _NoPlaceError as error:
            self._drop_pending(opened, str(error))
            return
        except OSError as error:
            words = f"DISK_FULL: round {last.end.round} is not committed ({error}); the commit before it stays"
            self._troubles["disk"], self._tries_s = words, self._clock() + _RETRY_S
            if not is_done and opened is not None and not self._is_gone:
                feedback = self._ended(last)
            if self._is_gone:
                return
        else:
            if isinstance(done, Fenced):
                self.is_fenced = True
                return
            self._troubles.pop("disk", None)
            self._pending.clear()
        if opened is not None:
            self._hand_out(opened, last.gathered, feedback)

    def _ended(self, one: _Pending) -> list[AffinityFeedback]:
        try:
            return self._server.end_round(one.gathered)
        except ValueError as error:  # others have partitioned meanwhile, and there is no place for as many cohorts
            raise _NoPlaceError(str(error)) from error

    def _drop_pending(self, opened: LiveRound | None, words: str) -> None:
        self._pending.clear()
        self._read()
        number = self._rounds + 1
        self._keep_events([EmptyRound(self._now, self._cohort, number, words)])
        if opened is not None:
            with self._lock:
                self._shut(opened, {}, {}, words)

    def _events(self, one: _Pending, children: Sequence[CohortId]) -> list[Event]:
        rejected = [(str(found.client), found.reason) for found in one.gathered.rejections]
        shares = {child: self._server.share(child) for child in children}
        banned = [(str(client), ban) for client, ban in self._server.banned.items()]
        found: list[Event] = list(round_events(one.gathered.closed, one.end, rejected, shares, banned))
        if not children and self._server.has_ended(self._cohort):
            found.append(CohortEnded(one.end.time_s, self._cohort, self._server.round(self._cohort)))
        return found

    def _hand_out(self, opened: LiveRound, gathered: GatheredRound, feedback: Sequence[AffinityFeedback]) -> None:
        told = {client_number(one.client): one for one in feedback}
        refused = {client_number(one.client): one.reason for one in gathered.rejections}
        with self._lock:
            self._shut(
                opened,
                {client: one for client, one in told.items() if client is not None},
                {client: why_rejected([one]) for client, one in refused.items() if client is not None},
                "nothing came of the round" if gathered.closed.outcome is None else "its answer did not count",
            )

    def _shut(
        self, opened: LiveRound, feedback: Mapping[int, AffinityFeedback], why: Mapping[int, str], otherwise: str
    ) -> None:
        asked = opened.asked
        taken = {client: (one.nonce, one.digest) for client, one in asked.items() if one.answer is not None}
        closed = ClosedRound(opened.number, taken, frozenset(asked), feedback, why, otherwise)
        kept = [one for one in self._closed if one.number != opened.number]  # a round that was abandoned before
        self._closed = [*kept, closed][-_REMEMBERED:]
        self._round, self._is_closing = None, False


def _superseded() -> Refusal:
    words = "expected the newest session of this client, got an older one; end one of the two"
    return Refusal("SUPERSEDED", words)


class _NoPlaceError(Exception):
    """A partition that cannot be carried out any more."""
