"""The one commit point of a service: an SQLite file that says what holds, over blobs that are never written twice.

Every change is one transaction of whoever owns the cohort, by the epoch that it bears: `UPDATE ... WHERE epoch = ?`. So
a partition is there with all its children or not at all, and an owner that wakes up after its successor has begun
changes nothing. What all cohorts share (what the guard keeps, tokens that were used) is read and written within.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from auxo.core.aggregators import ServerState
from auxo.core.cohort_state import CohortState, CoordinatorState, Credit
from auxo.core.cohort_tree import Branch, CohortTree
from auxo.core.own_state import OwnState
from auxo.core.owners import Change, Fenced, commit
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.protocol.codec import CodecError, from_bytes, to_bytes
from auxo.protocol.events import Event, to_json
from auxo.protocol.tokens import UsedTokens
from auxo.runtime.server_record import ServerRecord
from auxo.service.blobs import Blobs, Damaged, Steps
from auxo.service.database import Database

KEPT = 3
"""Versions of a leaf that are kept: damage to one costs a round, and not the cohort."""

_FILE, _BLOBS = "service.sqlite", "blobs"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS federation (
    one INTEGER PRIMARY KEY CHECK (one = 1), federation TEXT NOT NULL, made_with TEXT NOT NULL, secret TEXT NOT NULL,
    coordinator INTEGER NOT NULL, begun REAL NOT NULL, shared BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS branch (
    number INTEGER PRIMARY KEY, cohort TEXT NOT NULL UNIQUE, routes TEXT NOT NULL, weights TEXT NOT NULL,
    generation INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS leaf (
    cohort TEXT PRIMARY KEY, epoch INTEGER NOT NULL, round INTEGER NOT NULL, attempts INTEGER NOT NULL,
    address TEXT NOT NULL, pid INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS version (
    number INTEGER PRIMARY KEY AUTOINCREMENT, cohort TEXT NOT NULL, blob TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS credit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, leaf TEXT NOT NULL, blob TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY AUTOINCREMENT, line TEXT NOT NULL) STRICT;
"""
_LAST_CREDIT = "SELECT coalesce(max(number), 0) FROM credit"


@dataclass(frozen=True)
class _Shared:
    """What is no cohort's own."""

    guard: OwnState
    table: OwnState
    used: UsedTokens


@dataclass(frozen=True)
class Owner:
    """Who owns a leaf, and where it is."""

    cohort: CohortId
    epoch: int
    round: int  # rounds that were committed
    address: str  # "": it has not said so yet
    pid: int  # 0: likewise


@dataclass(frozen=True)
class Held:
    """What a store holds at one moment."""

    record: ServerRecord  # of leaves that were not asked for there is the round alone, without a model
    owners: Mapping[CohortId, Owner]
    begun: float  # when it began, in seconds of the clock on the wall
    credited: int  # the last credit that is in the record; later ones are another round's
    lost: tuple[CohortId, ...] = ()  # leaves of which no version can be used; they are in the record without a model
    troubles: tuple[str, ...] = ()  # files that are damaged, and what was used in their place


@dataclass(frozen=True)
class Prepared:
    """What a change begins with."""

    before: ServerRecord
    credited: int  # the last credit in it
    stamp: tuple[str, int, int]  # of the moment


Step = Callable[[ServerRecord], tuple[ServerRecord, Sequence[Event]]]
"""Takes what holds to what shall hold; it is called within the transaction, and must be quick."""


@dataclass
class Store:
    """A service's directory, for one process among several; use as a context manager."""

    directory: Path
    own_states: tuple[type, ...] = ()  # see `auxo.protocol.codec.from_bytes`
    disk: Steps = field(default_factory=Steps)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / _BLOBS).mkdir(mode=0o700, exist_ok=True)  # they are nobody else's to read, nor is the file
        self._blobs = Blobs(self.directory / _BLOBS, self.disk)
        self._name = secrets.token_hex(8)
        self._read: dict[str, CohortState] = {}  # by blob, of the leaves that were read last
        self._database = Database(self.directory / _FILE, _SCHEMA, self.disk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file; what is in it stays."""
        self._database.close()

    # Beginning.

    @property
    def has_begun(self) -> bool:
        """Return whether there is a federation in the directory."""
        return self._database.number("SELECT count(*) FROM federation") == 1

    def begin(self, record: ServerRecord, now: float = 0.0) -> None:
        """Have a federation in the directory, unless there is one already.

        Args:
            record: of a server that has not begun.
            now: seconds of the clock on the wall, which events are told by.

        Raises:
            OSError: there is no room.
        """
        state = record.state
        with self._database.writing():
            if self.has_begun:
                return
            names = {leaf: self._blobs.put(kept) for leaf, kept in state.cohorts.items()}
            shared = to_bytes(_Shared(state.guard, state.table, record.used))
            made = record.federation, json.dumps(dict(record.made_with)), state.secret, 0, now, shared
            self._database.run("INSERT INTO federation VALUES (1, ?, ?, ?, ?, ?, ?)", made)
            self._add_branches(0, state.tree.branches)
            for leaf, kept in state.cohorts.items():
                row = leaf, state.epoch(leaf), kept.round, record.attempts.get(leaf, 0)
                self._database.run("INSERT INTO leaf VALUES (?, ?, ?, ?, '', 0)", row)
                self._database.run("INSERT INTO version (cohort, blob) VALUES (?, ?)", (leaf, names[leaf]))

    # Reading.

    def read(self, whole: Collection[CohortId] | None = None, credited: int | None = None) -> Held:
        """Return what holds now.

        Args:
            whole: leaves whose states are read; None: all. Of others there is the round, and credits are left out.
            credited: the last credit that counts; None: all that there are.
        """
        with self._database.reading():
            return self._held(whole, credited)

    def _held(self, whole: Collection[CohortId] | None, credited: int | None) -> Held:
        statement = "SELECT federation, made_with, secret, begun, shared FROM federation"
        ((federation, made_with, secret, begun, shared),) = self._database.rows(statement)
        tree = CohortTree(tuple(self._branches()))
        kept = from_bytes(_Shared, shared, self.own_states)
        rows = {row[0]: row[1:] for row in self._database.rows("SELECT * FROM leaf")}
        owners, cohorts, attempts = dict[CohortId, Owner](), dict[CohortId, CohortState](), dict[CohortId, int]()
        credited_to, lost, troubles = dict[CohortId, Credit](), list[CohortId](), list[str]()
        newest = self._database.number(_LAST_CREDIT) if credited is None else credited
        names = set[str]()
        for leaf in tree.leaves:
            epoch, number, tried, address, pid = rows[leaf]
            owners[leaf], attempts[leaf] = Owner(leaf, epoch, number, address, pid), tried
            cohorts[leaf] = _unread(number)
            if whole is not None and leaf not in whole:
                continue
            found = self._version(leaf, names, troubles)
            if found is None:
                lost.append(leaf)
            else:
                cohorts[leaf] = found
            credit = self._credit(leaf, newest, troubles)
            if credit is not None:
                credited_to[leaf] = credit
        self._read = {name: state for name, state in self._read.items() if name in names}
        epochs = {leaf: owner.epoch for leaf, owner in owners.items() if owner.epoch > 0}
        state = CoordinatorState(tree, cohorts, kept.table, epochs, kept.guard, secret, credited_to)
        record = ServerRecord(state, attempts, federation, json.loads(made_with), kept.used)
        return Held(record, owners, begun, newest, tuple(lost), tuple(troubles))

    def _version(self, cohort: CohortId, names: set[str], troubles: list[str]) -> CohortState | None:
        """Return the newest version of a cohort that can be used."""
        statement = "SELECT blob FROM version WHERE cohort = ? ORDER BY number DESC"
        found = [name for (name,) in self._database.rows(statement, (cohort,))]
        for place, name in enumerate(found):
            try:
                if name not in self._read:
                    self._read[name] = from_bytes(CohortState, self._blobs.get(name), self.own_states)
            except (Damaged, CodecError) as error:
                rest = found[place + 1 :]
                instead = f"{self._blobs.path(rest[0])} is used in its place" if rest else "there is no other version"
                troubles.append(f"cohort {cohort}: {error}; {instead}")
                continue
            names.add(name)
            return self._read[name]
        return None

    def _credit(self, leaf: CohortId, newest: int, troubles: list[str]) -> Credit | None:
        statement = "SELECT blob FROM credit WHERE leaf = ? AND number <= ? ORDER BY number"
        total: Credit | None = None
        for (name,) in self._database.rows(statement, (leaf, newest)):
            try:
                one = from_bytes(Credit, self._blobs.get(name))
            except (Damaged, CodecError) as error:
                troubles.append(f"cohort {leaf}: {error}; it does without what was credited to it there")
                continue
            total = one if total is None else total.and_of(one.movement, one.weight)
        return total

    def _branches(self) -> Iterator[Branch]:
        statement = "SELECT cohort, routes, weights, generation FROM branch ORDER BY number"
        for cohort, routes, weights, generation in self._database.rows(statement):
            yield Branch(cohort, tuple(json.loads(routes)), tuple(json.loads(weights)), generation)

    def model(self, leaf: CohortId) -> Float32Array:
        """Return a leaf's model as it was last committed; see `auxo.core.owners.Shelf`.

        Raises:
            KeyError: there is no such leaf, or none of its versions can be used.
        """
        with self._database.reading():
            if not self._database.rows("SELECT 1 FROM leaf WHERE cohort = ?", (leaf,)):
                raise KeyError(f"{leaf}: not a leaf")
            found = self._version(leaf, set(), [])
        if found is None:
            raise KeyError(f"{leaf}: no version of its model can be used")
        return found.server.weights

    def last(self, cohort: CohortId) -> CohortState | None:
        """Return the last state of a cohort that is a leaf, or was one; None: no version of it can be used."""
        with self._database.reading():
            return self._version(cohort, set(), [])

    def ancestor(self, cohort: CohortId) -> CohortState | None:
        """Return the last state of the nearest ancestor of a cohort that can be used; None: there is none."""
        with self._database.reading():
            lineage = CohortTree(tuple(self._branches()))
            above = [one for one in reversed(lineage.cohorts) if one != cohort and lineage.is_below(cohort, one)]
            found = (self._version(one, set(), []) for one in above)
            return next((state for state in found if state is not None), None)

    @property
    def version(self) -> int:
        """Return a number that changes when another process has committed something."""
        return self._database.number("PRAGMA data_version")

    # Changing.

    def change(
        self, cohort: CohortId, epoch: int, step: Step, whole: Collection[CohortId] = (), credited: int | None = None
    ) -> ServerRecord | Fenced:
        """Take what holds to what a step makes of it, as the owner of a cohort; all of it or nothing.

        Args:
            cohort: whose owner changes it; all others it leaves alone but for credits.
            epoch: of this owner.
            step: what to make of the record.
            whole: leaves whose states the step needs.
            credited: the last credit that the cohort's round has made use of; None: all that there are.

        Raises:
            OSError: there is no room; nothing has changed.
        """
        with self._database.writing():
            begun = self._prepared(cohort, epoch, whole, credited)
            if isinstance(begun, Fenced):
                return begun
            after, events = step(begun.before)
            dropped = self._carried_out(begun, after, epoch, events)
        self._remove(dropped)
        return after

    def prepare(
        self, cohort: CohortId, epoch: int, whole: Collection[CohortId] = (), credited: int | None = None
    ) -> "Prepared | Fenced":
        """Return what a change begins with that is made in another process; see `change`, and `carry_out`."""
        with self._database.writing():
            return self._prepared(cohort, epoch, whole, credited)

    def carry_out(
        self, cohort: CohortId, epoch: int, begun: "Prepared", after: ServerRecord, events: Sequence[Event]
    ) -> bool | Fenced:
        """Carry out a change that was prepared; return whether it is done: something else may hold by now.

        Raises:
            OSError: there is no room; nothing has changed.
        """
        with self._database.writing():
            fenced = self._fenced(cohort, epoch)
            if fenced is not None:
                return fenced
            if begun.stamp != self._stamp:
                return False
            dropped = self._carried_out(begun, after, epoch, events)
        self._remove(dropped)
        return True

    @property
    def _stamp(self) -> tuple[str, int, int]:
        """Return what is another as soon as anybody has committed something."""
        return self._name, self.version, self._database.connection.total_changes

    def _prepared(
        self, cohort: CohortId, epoch: int, whole: Collection[CohortId], credited: int | None
    ) -> "Prepared | Fenced":
        fenced = self._fenced(cohort, epoch)
        if fenced is not None:
            return fenced
        held = self._held({cohort, *whole}, credited)
        before = replace(held.record, state=_only_credits_of(cohort, held.record.state))
        return Prepared(before, held.credited, self._stamp)

    def _carried_out(self, begun: "Prepared", after: ServerRecord, epoch: int, events: Sequence[Event]) -> list[str]:
        dropped = self._write(begun.before, after, epoch, begun.credited)
        self._tell(events)
        return dropped

    def _remove(self, dropped: Sequence[str]) -> None:
        """Remove blobs that nobody asks for any more; after the transaction, which might have been rolled back."""
        for name in dropped:
            with suppress(OSError):  # it is done, and what is left over is swept away some time
                self._blobs.remove(name)

    def _fenced(self, cohort: CohortId, epoch: int) -> Fenced | None:
        """Return whether the owner of this epoch is none any more."""
        found = self._database.rows("SELECT epoch FROM leaf WHERE cohort = ?", (cohort,))
        current = found[0][0] if found else None
        return None if current == epoch else Fenced(cohort, epoch, current)

    def commit(self, epoch: int, change: Change) -> Fenced | None:
        """Commit a change by the owner of this epoch; see `auxo.core.owners.Commit`. None: it is done.

        Raises:
            ValueError: see there.
            OSError: there is no room; nothing has changed.
        """
        refused: list[Fenced] = []

        def step(record: ServerRecord) -> tuple[ServerRecord, Sequence[Event]]:
            after = commit(record.state, epoch, change)
            if isinstance(after, Fenced):
                refused.append(after)
                return record, ()
            return replace(record, state=after), ()

        done = self.change(change.of[0], epoch, step, change.of)
        return done if isinstance(done, Fenced) else refused[0] if refused else None

    def _write(self, before: ServerRecord, after: ServerRecord, epoch: int, credited: int) -> list[str]:
        """Write what differs; return the blobs that nobody asks for any more."""
        old, new = before.state, after.state
        dropped = list[str]()
        self._add_branches(len(old.tree.branches), new.tree.branches[len(old.tree.branches) :])
        for leaf in old.cohorts.keys() - new.cohorts.keys():
            self._database.run("DELETE FROM leaf WHERE cohort = ? AND epoch = ?", (leaf, epoch))
            dropped += self._pruned(leaf, 1)  # what its children can begin with again
        for leaf, kept in new.cohorts.items():
            attempts = after.attempts.get(leaf, 0)
            if leaf not in old.cohorts:
                self._database.run("INSERT INTO leaf VALUES (?, ?, ?, ?, '', 0)", (leaf, epoch, kept.round, attempts))
            elif kept is not old.cohorts[leaf] or attempts != before.attempts.get(leaf, 0):
                values = kept.round, attempts, leaf, epoch
                done = self._database.run(
                    "UPDATE leaf SET round = ?, attempts = ? WHERE cohort = ? AND epoch = ?", values
                )
                if done != 1:
                    raise ValueError(
                        f"change of {leaf}: expected a cohort of the owner of epoch {epoch}, got another's"
                    )
            if kept is not old.cohorts.get(leaf):
                self._database.run("INSERT INTO version (cohort, blob) VALUES (?, ?)", (leaf, self._blobs.put(kept)))
                dropped += self._pruned(leaf, KEPT)
        dropped += self._write_credits(old, new, credited)
        if new.guard is not old.guard or new.table is not old.table or after.used is not before.used:
            shared = to_bytes(_Shared(new.guard, new.table, after.used))
            self._database.run("UPDATE federation SET shared = ?", (shared,))
        return [name for name in dict.fromkeys(dropped) if not self._is_named(name)]

    def _write_credits(self, old: CoordinatorState, new: CoordinatorState, credited: int) -> list[str]:
        gone = [*(old.credits.keys() - new.credits.keys()), *(old.cohorts.keys() - new.cohorts.keys())]
        dropped = list[str]()
        for leaf in dict.fromkeys(gone):
            # What was credited since the round had been closed waits for the next one; a leaf that is gone has none.
            last = credited if leaf in new.cohorts else self._database.number(_LAST_CREDIT)
            found = self._database.rows("SELECT blob FROM credit WHERE leaf = ? AND number <= ?", (leaf, last))
            dropped += [name for (name,) in found]
            self._database.run("DELETE FROM credit WHERE leaf = ? AND number <= ?", (leaf, last))
        for leaf, more in new.credits.items():
            if more is not old.credits.get(leaf):
                self._database.run("INSERT INTO credit (leaf, blob) VALUES (?, ?)", (leaf, self._blobs.put(more)))
        return dropped

    def _add_branches(self, first: int, branches: Sequence[Branch]) -> None:
        for number, one in enumerate(branches, start=first):
            values = number, one.cohort, json.dumps(one.routes), json.dumps(one.weights), one.generation
            self._database.run("INSERT INTO branch VALUES (?, ?, ?, ?, ?)", values)

    def _pruned(self, cohort: CohortId, keep: int) -> list[str]:
        statement = "SELECT number, blob FROM version WHERE cohort = ? ORDER BY number DESC"
        old = self._database.rows(statement, (cohort,))[keep:]
        if old:
            self._database.run("DELETE FROM version WHERE cohort = ? AND number <= ?", (cohort, old[0][0]))
        return [name for _, name in old]

    def _is_named(self, name: str) -> bool:
        values = name, name
        return bool(
            self._database.number(
                "SELECT exists(SELECT 1 FROM version WHERE blob = ? UNION SELECT 1 FROM credit WHERE blob = ?)", values
            )
        )

    # Owners.

    def new_coordinator(self) -> int:
        """Return the epoch of a new coordinator; whoever was one before is none any more."""
        with self._database.writing():
            self._database.run("UPDATE federation SET coordinator = coordinator + 1")
            return self._database.number("SELECT coordinator FROM federation")

    @property
    def coordinator(self) -> int:
        """Return the epoch of the last coordinator."""
        return self._database.number("SELECT coordinator FROM federation")

    def take_over(self, coordinator: int, cohort: CohortId, told: Callable[[int], Event] | None = None) -> int | Fenced:
        """Return the epoch of a new owner of a leaf, as the coordinator; `Fenced`: there is another coordinator.

        Args:
            coordinator: its epoch.
            cohort: the leaf.
            told: makes the event that goes with it, given the new epoch.

        Raises:
            KeyError: there is no such leaf.
        """
        with self._database.writing():
            current = self._database.number("SELECT coordinator FROM federation")
            if current != coordinator:
                return Fenced(cohort, coordinator, current)
            values = (cohort,)
            done = self._database.run(
                "UPDATE leaf SET epoch = epoch + 1, address = '', pid = 0 WHERE cohort = ?", values
            )
            if done != 1:
                raise KeyError(f"{cohort}: not a leaf")
            epoch = self._database.number("SELECT epoch FROM leaf WHERE cohort = ?", values)
            self._tell([] if told is None else [told(epoch)])
            return epoch

    def change_shared(self, coordinator: int, step: Step) -> ServerRecord | Fenced:
        """Change what is no cohort's own, as the coordinator; see `change`."""
        with self._database.writing():
            current = self._database.number("SELECT coordinator FROM federation")
            if current != coordinator:
                return Fenced(ROOT, coordinator, current)
            before = self._held((), None).record
            after, events = step(before)
            self._write(before, after, 0, 0)
            self._tell(events)
            return after

    def arrived(self, cohort: CohortId, epoch: int, address: str, pid: int) -> bool:
        """Say where the owner of this epoch is; return whether it still is the owner."""
        with self._database.writing():
            values = address, pid, cohort, epoch
            done = self._database.run("UPDATE leaf SET address = ?, pid = ? WHERE cohort = ? AND epoch = ?", values)
            return done == 1

    # Events.

    def tell(self, cohort: CohortId, epoch: int, events: Sequence[Event]) -> Fenced | None:
        """Keep events that go with no commit, as the owner of a cohort; None: it is done.

        Raises:
            OSError: there is no room.
        """
        with self._database.writing():
            fenced = self._fenced(cohort, epoch)
            if fenced is None:
                self._tell(events)
            return fenced

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self._database.run("INSERT INTO event (line) VALUES (?)", (to_json(event),))

    def events(self, after: int = 0) -> list[tuple[int, str]]:
        """Return the events that were told after one of them, by number, each as a line of JSON."""
        found = self._database.rows("SELECT number, line FROM event WHERE number > ? ORDER BY number", (after,))
        return [(number, line) for number, line in found]

    # Blobs that a crash has left, or that are damaged.

    def put_aside(self, cohort: CohortId, epoch: int) -> bool:
        """Put the damaged versions of a cohort aside, as its owner, so that nobody reads them again.

        Returns:
            Whether there were any.
        """
        with self._database.writing():
            if self._database.number("SELECT count(*) FROM leaf WHERE cohort = ? AND epoch = ?", (cohort, epoch)) != 1:
                return False
            bad = list[tuple[int, str]]()
            for number, name in self._database.rows("SELECT number, blob FROM version WHERE cohort = ?", (cohort,)):
                try:
                    from_bytes(CohortState, self._blobs.get(name), self.own_states)
                except (Damaged, CodecError):
                    bad.append((number, name))
            for number, _ in bad:
                self._database.run("DELETE FROM version WHERE number = ?", (number,))
        for _, name in bad:
            self._blobs.put_aside(name)
        return bool(bad)

    def sweep(self) -> None:
        """Remove what a crash has left half written, or written and never named.

        Blobs are written within transactions alone, so that none is being written now.
        """
        with self._database.writing():
            found = "SELECT blob FROM version UNION SELECT blob FROM credit"
            named = {self._blobs.path(name).name for (name,) in self._database.rows(found)}
            for path in self._blobs.folder.iterdir():
                if path.suffix != ".damaged" and path.name not in named:
                    self.disk.remove(path)


def _only_credits_of(cohort: CohortId, state: CoordinatorState) -> CoordinatorState:
    """Return the state without others' credits, so that what a step adds to these can be told from what there was."""
    return replace(state, credits={leaf: one for leaf, one in state.credits.items() if leaf == cohort})


def _unread(number: int) -> CohortState:
    """Return a leaf of which nothing is known but how many rounds it has closed."""
    return CohortState(ServerState(np.zeros(0, np.float32), (), 0), round=number)
