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

from auxo.core.settings import NonNegativeFloat, PositiveFloat, PositiveInt, checked, setting
from auxo.core.types import ClientId, CohortId, Float32Array
from auxo.core.validation import why as why_rejected
from auxo.protocol.events import Disturbance, EmptyRound
from auxo.protocol.messages import AffinityFeedback, CheckIn, TaskFailure, TaskResult
from auxo.runtime.client_numbers import client_number
from auxo.runtime.round_events import RoundEnd
from auxo.runtime.server import GatheredRound, Server
from auxo.service.commit_point import CommitPoint
from auxo.service.desks import Assigned, ComeAgain, NoFeedback, Pulse, Received, Refusal
from auxo.service.problems import jittered
from auxo.service.round_book import (
    SUPERSEDED,
    AskedClient,
    ClientSessions,
    ClosedRound,
    LiveRound,
    RefusedAnswers,
    WaitingClient,
    digest_of,
)
from auxo.service.round_commits import NotCarriedOut, RoundCommits

_REMEMBERED = 3  # closed rounds of which feedback can be had, however long ago they closed; our choice


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


class LiveCohort:
    """A `CohortDesk` whose rounds go on by `turn`, which another thread calls again and again."""

    def __init__(
        self,
        server: Server,
        store: CommitPoint,
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
        self._server, (self._cohort, self._epoch), self._settings, self._clock = server, me, settings, clock
        self._commits = RoundCommits(server, store, me, clock, wall)
        self._lock = threading.RLock()
        self._waiting: dict[int, WaitingClient] = {}
        self._sessions = ClientSessions(2 * settings.waiting)
        self._round: LiveRound | None = None
        self._is_closing = False
        self._gathered: GatheredRound | None = None  # the round that closes
        self._closed: list[ClosedRound] = []
        self._refused = RefusedAnswers()
        self._first_waited_s: float | None = None
        self._abandoned = 0  # rounds in a row
        self._not_before_s = -math.inf
        self._progress, self._is_led = 0, True

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
                return SUPERSEDED
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
        """Return how long those who ask are told to wait, on average: the more there are, the longer."""
        asking = len(self._waiting) + (0 if self._round is None else len(self._round.asked))
        return min(max(asking / self._settings.polls_per_s, 0.1), self._settings.gone_s / 3)

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

    def answer(self, result: TaskResult | TaskFailure, epoch: int, nonce: str) -> Received | Refusal:
        """Take an answer; see `CohortDesk`."""
        number = client_number(result.client)
        with self._lock:
            said = self._received(number, result, epoch, nonce)
            if isinstance(said, Refusal) and isinstance(result, TaskResult):  # without an update nothing is lost
                self._refused.add(said.why, result.round, number)
            return said

    def _received(  # noqa: PLR0911 - by reason
        self, number: int | None, result: TaskResult | TaskFailure, epoch: int, nonce: str
    ) -> Received | Refusal:
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
                return SUPERSEDED
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
        for one in (self._round, *self._closed):  # the first may be closing
            if one is not None and one.number == round_number and number in one.asked:
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
        who, health = str(self._cohort), self._commits.troubles
        return Pulse(who, self._epoch, os.getpid(), self._progress, rounds, state, health)

    # What happens by itself.

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing more to train here: all rounds are done, or it was partitioned."""
        return self._is_over and self._commits.is_settled

    @property
    def is_fenced(self) -> bool:
        """Return whether another owner has taken over: this process has nothing more to do."""
        return self._commits.is_fenced

    @property
    def _is_gone(self) -> bool:
        return self._commits.is_gone

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
        if self._commits.is_due:
            waits = opened if self._commits.is_held_back else None  # all others have heard of their round
            said = self._commits.try_again()
            if waits is not None:
                self._hand_out(waits, said)
        elif opened is not None and is_due and not self._commits.is_held_back and not self.is_fenced:
            self._close(opened)
        with self._lock:
            if self._round is None and not self._is_over and not self.is_fenced:
                self._open_if_due()
        self._progress += 1

    def _open_if_due(self) -> None:
        now = self._clock()
        gone = [one for one, waits in self._waiting.items() if now - waits.seen_s > self._settings.gone_s]
        for one in gone:
            del self._waiting[one]
        if not self._waiting:
            self._first_waited_s = None
            return
        if not self._is_led or self._commits.is_held_up or now < self._not_before_s:
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
        self._commits.refresh()
        if self.is_fenced:
            return
        number, now = self._server.round(self._cohort) + 1, self._clock()
        tasks = self._server.open_round(self._cohort, [one.check_in for one in self._waiting.values()])
        if not tasks:
            self._not_before_s = now + self._settings.window_s
            return
        names = dict.fromkeys(name for task in tasks for name in task.models)
        try:
            models = {name: self._commits.model(name) for name in names}
        except OSError:  # the way to the store is broken, as `refresh` has told
            self._not_before_s = now + self._settings.window_s
            return
        asked = {client_number(task.client): AskedClient(task) for task in tasks}
        known = {client: one for client, one in asked.items() if client is not None}
        for client in known:
            self._waiting.pop(client, None)
        self._first_waited_s = now if self._waiting else None
        closes_s = now + self._settings.deadline_s
        self._round = LiveRound(number, min(wanted, len(tasks)), now, closes_s, known, models)

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
        self._commits.refresh()
        if self.is_fenced:
            return
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            gathered = self._server.gather_round(self._cohort, results)
        now = self._commits.now
        disturbances = self._disturbances(opened.number, [str(one.message) for one in said])
        if disturbances:
            self._commits.tell(disturbances)
        self._abandoned, self._not_before_s, self._gathered = 0, -math.inf, gathered
        with self._lock:
            late = self._refused.taken_late()  # mostly of the round before: whose they are shows when it has closed
        duration_s = self._clock() - opened.opened_s
        end = RoundEnd(self._cohort, opened.number, now, duration_s, len(opened.asked), late)
        self._hand_out(opened, self._commits.commit(gathered, end))

    def _disturbances(self, round_number: int, words: Sequence[str] = ()) -> list[Disturbance]:
        """Return what there is to tell of a round beside what came of it."""
        with self._lock:
            told = [*words, *self._refused.taken_words()]
        return [Disturbance(self._commits.now, self._cohort, round_number, one) for one in told]

    def _abandon(self, opened: LiveRound) -> None:
        """Give a round up to which too few have answered; the next one waits longer each time."""
        came, least = len(opened.results), self._least(opened.wanted)
        words = f"abandoned: {came} of {opened.wanted} wanted updates came in time, and at least {least} are needed"
        self._abandoned += 1
        pause_s = min(self._settings.window_s * 2.0 ** min(self._abandoned, 10), self._settings.deadline_s)
        self._not_before_s = self._clock() + jittered(pause_s)
        empty = EmptyRound(self._commits.now, self._cohort, opened.number, words)
        self._commits.tell([empty, *self._disturbances(opened.number)])
        self._shut(opened, {}, {}, words)

    def _hand_out(self, opened: LiveRound, said: Sequence[AffinityFeedback] | NotCarriedOut | None) -> None:
        """Have the participants of a round hear what came of it; None: it is not time yet."""
        gathered = self._gathered
        if said is None or gathered is None:
            return
        if isinstance(said, NotCarriedOut):
            self._shut(opened, {}, {}, said.why)
            return
        told = {client_number(one.client): one for one in said}
        refused = {client_number(one.client): one.reason for one in gathered.rejections}
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
        now, gone_s = self._clock(), self._settings.gone_s
        closed = ClosedRound(opened.number, now, taken, frozenset(asked), feedback, why, otherwise)
        with self._lock:
            kept = [one for one in self._closed if one.number != opened.number]  # a round that was abandoned before
            before, last = kept[: 1 - _REMEMBERED], kept[1 - _REMEMBERED :]
            # Whoever was told to come again does so within this time, however short rounds are.
            self._closed = [*(one for one in before if now - one.closed_s <= gone_s), *last, closed]
            self._round, self._is_closing, self._gathered = None, False, None
