"""What a cohort's desk remembers of a round and of those who wait for one; nothing of it has to survive a crash."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from auxo.core.types import CohortId, Float32Array
from auxo.protocol.codec import to_bytes
from auxo.protocol.messages import AffinityFeedback, CheckIn, Task, TaskFailure, TaskResult
from auxo.service.desks import Refusal

_NONCE_BYTES = 16
_SESSIONS = 4  # earlier ones of a client that are known again; our choice

SUPERSEDED = Refusal("SUPERSEDED", "expected the newest session of this client, got an older one; end one of the two")
"""What a process is told when another speaks for its client since."""


@dataclass
class WaitingClient:
    """A client that waits for a round."""

    check_in: CheckIn
    seen_s: float  # when it last asked; who does not ask any more has gone


@dataclass
class AskedClient:
    """A participant of a round."""

    task: Task
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(_NONCE_BYTES))
    before: str = ""  # the nonce of a session that a newer one has superseded
    answer: TaskResult | TaskFailure | None = None
    digest: bytes = b""  # of the answer

    def take(self, answer: TaskResult | TaskFailure) -> bool:
        """Take an answer; return whether it counts: the first, or the same again."""
        digest = digest_of(answer)
        if self.answer is None:
            self.answer, self.digest = answer, digest
        return digest == self.digest


def digest_of(answer: TaskResult | TaskFailure) -> bytes:
    """Return what tells an answer from others."""
    return hashlib.sha256(to_bytes(answer)).digest()


@dataclass
class LiveRound:
    """A round between its tasks and its closing."""

    number: int
    wanted: int  # answers that complete it
    opened_s: float
    closes_s: float  # at the latest
    asked: dict[int, AskedClient]  # by the client's number
    models: Mapping[CohortId, Float32Array]  # as they were when it opened

    @property
    def results(self) -> list[TaskResult]:
        """Return the answers with an update that have come."""
        return [one.answer for one in self.asked.values() if isinstance(one.answer, TaskResult)]

    @property
    def is_complete(self) -> bool:
        """Return whether nothing more is waited for."""
        return len(self.results) >= self.wanted or all(one.answer is not None for one in self.asked.values())


@dataclass(frozen=True)
class ClosedRound:
    """What is still said of a round that is over."""

    number: int
    closed_s: float
    taken: Mapping[int, tuple[str, bytes]]  # by the client's number: nonce and digest of the answer that came in time
    asked: frozenset[int]
    feedback: Mapping[int, AffinityFeedback]
    why: Mapping[int, str]  # there is none for a client
    otherwise: str  # why there is none for all others


@dataclass
class RefusedAnswers:
    """Answers that came and were refused, since it was last told of them."""

    _late: set[tuple[int, int]] = field(default_factory=set)  # by round and client, however often it comes again
    _others: Counter[str] = field(default_factory=Counter)  # by reason

    def add(self, why: str, round_number: int, client: int | None) -> None:
        """Count one."""
        if why == "LATE" and client is not None:
            self._late.add((round_number, client))
        else:
            self._others[why] += 1

    def taken_late(self) -> int:
        """Return how many were late, and forget them."""
        late, self._late = len(self._late), set()
        return late

    def taken_words(self) -> list[str]:
        """Return what there is to say of the others, and forget them."""
        others, self._others = self._others, Counter()
        told = ", ".join(f"{count} {why}" for why, count in sorted(others.items()))
        return [f"answers were refused since the round before: {told}"] if told else []


@dataclass
class ClientSessions:
    """Which process speaks for a client: the newest. Bounded: the oldest clients are forgotten first."""

    most: int
    _of: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by client, the newest last

    def is_superseded(self, client: int, session: str) -> bool:
        """Take note of a session; return whether a newer one has taken its place."""
        known = self._of.pop(client, ())
        if session not in known:
            known = (*known, session)[-_SESSIONS:]
        self._of[client] = known
        while len(self._of) > self.most:
            del self._of[next(iter(self._of))]
        return known[-1] != session

    def is_new(self, client: int, session: str) -> bool:
        """Return whether a session is another than the client's last one."""
        known = self._of.get(client, ())
        return bool(known) and session not in known
