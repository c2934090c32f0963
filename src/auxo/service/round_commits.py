"""A cohort's rounds on their way into the store: committed in their order, as soon as there is room, by its owner."""

import errno
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from auxo.core.owners import Fenced
from auxo.core.types import CohortId, Float32Array
from auxo.protocol.events import CohortEnded, Disturbance, EmptyRound, Event
from auxo.protocol.messages import AffinityFeedback
from auxo.runtime.round_events import RoundEnd, children_made, round_events
from auxo.runtime.server import GatheredRound, Server
from auxo.runtime.server_record import ServerRecord
from auxo.service.commit_point import CommitPoint

_RETRY_S = 1.0  # between two tries to commit where there is no room; our choice
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNCOMMITTED = 8  # rounds that a cohort trains on without a commit; our choice


@dataclass(frozen=True)
class _Pending:
    """A round that is over, and not yet committed."""

    gathered: GatheredRound
    end: RoundEnd
    credited: int  # the last credit that it has made use of


@dataclass(frozen=True)
class NotCarriedOut:
    """A round of which nothing came, though it was gathered."""

    why: str


class RoundCommits:
    """Reads and commits for the owner of one cohort, and keeps its server up to date."""

    def __init__(
        self,
        server: Server,
        store: CommitPoint,
        me: tuple[CohortId, int],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Begin where the store says; see `LiveCohort`."""
        self._server, self._store, (self._cohort, self._epoch) = server, store, me
        self._clock, self._wall = clock, wall
        held = store.read((self._cohort,))
        self._begun, self._credited = held.begun, held.credited
        self._others = _OtherModels(store)
        server.refresh(held.record, self._others)
        self._pending: list[_Pending] = []
        self._tries_s = -math.inf
        self._troubles: dict[str, str] = {}  # by what they are about
        self.is_fenced = False
        """Whether another owner has taken over."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return what is wrong."""
        return tuple(self._troubles.values())

    @property
    def is_settled(self) -> bool:
        """Return whether everything is committed."""
        return not self._pending

    @property
    def is_held_up(self) -> bool:
        """Return whether so much is not committed that no other round is to open."""
        return len(self._pending) >= _UNCOMMITTED

    @property
    def is_held_back(self) -> bool:
        """Return whether a partition waits for its commit: nobody may hear of children that a crash would undo."""
        return bool(self._pending) and self.is_gone

    @property
    def is_gone(self) -> bool:
        """Return whether the cohort was partitioned."""
        return self._cohort not in self._server.tree.leaves

    @property
    def is_due(self) -> bool:
        """Return whether it is time to try once more."""
        return bool(self._pending) and self._clock() >= self._tries_s and not self.is_fenced

    @property
    def now(self) -> float:
        """Return the time that events are told by."""
        return max(0.0, self._wall() - self._begun)

    def refresh(self) -> None:
        """Have what other cohorts have committed meanwhile; where own rounds are not committed, nothing is read."""
        if self._pending:
            return
        try:
            held = self._store.read((self._cohort,))
        except OSError as error:
            self._troubles["store"] = f"what others have committed cannot be read ({error}); it goes on without"
            return
        self._troubles.pop("store", None)
        if self._cohort not in held.owners or held.owners[self._cohort].epoch != self._epoch:
            self.is_fenced = True
            return
        self._credited = held.credited
        self._server.refresh(held.record, self._others)

    def model(self, name: CohortId) -> Float32Array:
        """Return a model that a task names: one of the cohort's own, or another leaf's."""
        is_other = name != self._cohort and name in self._server.tree.leaves
        return self._others.model(name) if is_other else self._server.weights(name)

    def commit(self, gathered: GatheredRound, end: RoundEnd) -> Sequence[AffinityFeedback] | NotCarriedOut | None:
        """Commit a round; return what its participants are to hear, or None: nothing yet, see `try_again`."""
        self._pending.append(_Pending(gathered, end, self._credited))
        return self._settle(is_new=True)

    def try_again(self) -> Sequence[AffinityFeedback] | NotCarriedOut | None:
        """Commit what could not be committed; return as `commit` does, of the last round."""
        return self._settle(is_new=False)

    def _settle(self, is_new: bool) -> Sequence[AffinityFeedback] | NotCarriedOut | None:
        """Commit the rounds that are over; where there is no room the cohort goes on all the same, and tries again."""
        feedback, is_done = list[AffinityFeedback](), False

        def step(record: ServerRecord) -> tuple[ServerRecord, Sequence[Event]]:
            nonlocal feedback, is_done
            events = list[Event]()
            self._server.refresh(record, self._others)
            # A commit whose answer was lost on its way has happened all the same.
            self._pending = [one for one in self._pending if one.end.round > record.state.cohorts[self._cohort].round]
            for one in self._pending:
                before = self._server.tree
                feedback = self._ended(one)
                events += self._events(one, children_made(before, self._server.tree))
            if "disk" in self._troubles:
                words = f"committed again: {len(self._pending)} rounds had waited for room"
                events.append(Disturbance(self.now, self._cohort, last.end.round, words))
            is_done = True
            return self._server.record, events

        last = self._pending[-1]
        try:
            done = self._store.change(self._cohort, self._epoch, step, credited=self._pending[0].credited)
        except _NoPlaceError as error:
            self._pending.clear()
            self.refresh()
            self.tell([EmptyRound(self.now, self._cohort, last.end.round, str(error))])
            return NotCarriedOut(str(error))
        except OSError as error:
            what = "DISK_FULL" if error.errno in _NO_ROOM else "NOT_COMMITTED"
            words = f"{what}: round {last.end.round} is not committed ({error}); the commit before it stays"
            self._troubles["disk"], self._tries_s = words, self._clock() + _RETRY_S
            if not is_done and is_new:
                with suppress(_NoPlaceError):  # which is told when there is room again
                    feedback = self._ended(last)
            return None if self.is_gone else feedback
        if isinstance(done, Fenced):
            self.is_fenced = True
            return None
        self._troubles.pop("disk", None)
        self._pending.clear()
        return feedback

    def _ended(self, one: _Pending) -> list[AffinityFeedback]:
        try:
            return self._server.end_round(one.gathered)
        except ValueError as error:  # others have partitioned meanwhile, and there is no place for as many cohorts
            raise _NoPlaceError(str(error)) from error

    def _events(self, one: _Pending, children: Sequence[CohortId]) -> list[Event]:
        rejected = [(str(found.client), found.reason) for found in one.gathered.rejections]
        shares = {child: self._server.share(child) for child in children}
        banned = [(str(client), ban) for client, ban in self._server.banned.items()]
        found: list[Event] = list(round_events(one.gathered.closed, one.end, rejected, shares, banned))
        if not children and self._server.has_ended(self._cohort):
            found.append(CohortEnded(one.end.time_s, self._cohort, self._server.round(self._cohort)))
        return found

    def tell(self, events: Sequence[Event]) -> None:
        """Keep events that go with no commit, if there is room."""
        try:
            fenced = self._store.tell(self._cohort, self._epoch, events)
        except OSError as error:
            self._troubles["events"] = f"events could not be kept ({error}); they are lost"
        else:
            self._troubles.pop("events", None)
            self.is_fenced = self.is_fenced or fenced is not None


@dataclass(frozen=True)
class _OtherModels:
    """Other leaves' models; of one that is partitioned just now its last one: its own process has moved on."""

    store: CommitPoint

    def model(self, leaf: CohortId) -> Float32Array:
        for _ in range(2):  # between looking up its name and reading it a file may have been replaced, hardly twice
            found = self.store.last(leaf)
            if found is not None:
                return found.server.weights
        raise KeyError(f"{leaf}: no version of its model can be used")


class _NoPlaceError(Exception):
    """A partition that cannot be carried out any more."""
