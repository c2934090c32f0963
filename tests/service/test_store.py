import errno
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auxo.core.cohort_state import CohortState, CoordinatorState, Credit
from auxo.core.cohort_tree import Branch
from auxo.core.owners import Change, Commit, Fenced, Shelf
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import Disturbance, Event
from auxo.runtime.server_record import ServerRecord
from auxo.service.blobs import Steps
from auxo.service.store import KEPT, Store
from auxo.testing import owners
from auxo.testing.contract import Check
from auxo.testing.owners import MakeShelf
from tests.service.made_store import KINDS, begun_in, parted, record_of, trained
from tests.testing.promises import every

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")


# The contracts of owners.


@pytest.fixture
def in_store(tmp_path: Path) -> Commit:
    """Return a commit that goes through a store of its own."""
    numbers = iter(range(1000))

    def commit(state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState | Fenced:
        folder = tmp_path / str(next(numbers))
        with Store(folder, KINDS) as store:
            store.begin(record_of(state))
            refused = store.commit(epoch, change)
        with Store(folder, KINDS) as again:
            return again.read().record.state if refused is None else refused

    return commit


@every(owners.COMMITS.checks)
def test_a_store_keeps_the_contract_of_commits(check: Check[Commit], in_store: Commit) -> None:
    check(in_store)


@every(owners.SHELVES.checks)
def test_a_store_keeps_the_contract_of_shelves(check: Check[MakeShelf], tmp_path: Path) -> None:
    numbers = iter(range(1000))

    def shelf(state: CoordinatorState) -> Shelf:
        store = Store(tmp_path / str(next(numbers)), KINDS)
        store.begin(record_of(state))
        return store

    check(shelf)


# Crashes.


class Counted(Steps):
    """Does something else in place of one of its steps."""

    def __init__(self, at: int = -1, otherwise: Callable[[], None] = lambda: None) -> None:
        self.steps, self.at, self.otherwise = 0, at, otherwise

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            self.otherwise()

    def write(self, path: Path, content: bytes) -> None:
        self._step()
        if self.steps == self.at:
            path.write_bytes(content[: len(content) // 2])
            self.otherwise()
        super().write(path, content)

    def rename(self, path: Path, target: Path) -> None:
        self._step()
        super().rename(path, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def sync(self, folder: Path) -> None:
        self._step()
        super().sync(folder)

    def execute(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[str | int | float | bytes] = ()
    ) -> sqlite3.Cursor:
        self._step()
        return super().execute(connection, statement, values)


def _in_child(what: Callable[[], None]) -> int:
    """Return what became of a process that does something: the signal that has ended it, or 0."""
    pid = os.fork()
    if pid == 0:
        what()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leaves(store: Store) -> tuple[CohortId, ...]:
    held = store.read()
    assert not held.troubles
    assert not held.lost
    return held.record.state.tree.leaves


def _change_of(store: Store, kind: str) -> Change:
    state = store.read().record.state
    change = trained(state, ROOT) if kind == "round" else parted(state, ROOT)
    return replace(change, credits={}, spent=())


@pytest.mark.fault(2, 4)
@pytest.mark.parametrize("kind", ["round", "partition"])
def test_killed_at_any_step_a_commit_has_happened_or_not(kind: str, tmp_path: Path) -> None:
    outcomes = set[tuple[tuple[CohortId, ...], int]]()
    step, signalled = 0, int(signal.SIGKILL)
    with Store(tmp_path / "0", KINDS) as store:
        begun_in(store)
        for _ in range(KEPT):  # so that there is something to remove
            assert store.commit(0, _change_of(store, "round")) is None
    while signalled:
        step += 1
        folder = shutil.copytree(tmp_path / "0", tmp_path / str(step))

        def work(folder: Path = folder, step: int = step) -> None:
            disk = Counted()
            with Store(folder, KINDS, disk) as mine:
                change = _change_of(mine, kind)
                disk.at, disk.otherwise = disk.steps + step, _killed
                mine.commit(0, change)

        signalled = _in_child(work)
        with Store(folder, KINDS) as after:
            leaves = _leaves(after)
            state = after.read().record.state
            (reached,) = {kept.round for kept in state.cohorts.values()}
            outcomes.add((leaves, reached))
            after.sweep()
            assert not list(folder.rglob("*.part"))
            assert _leaves(after) == leaves
            change = trained(after.read().record.state, leaves[0])
            assert after.commit(0, change) is None
    expected = {("0",): {KEPT, KEPT + 1}} if kind == "round" else {("0",): {KEPT}, (LEFT, RIGHT): {KEPT}}
    assert outcomes == {(leaves, number) for leaves, numbers in expected.items() for number in numbers}
    assert step > 8


@pytest.mark.fault(8)
def test_without_room_at_any_step_the_former_commit_holds_and_the_next_goes_through(tmp_path: Path) -> None:
    step, is_full = 0, True

    def full() -> None:
        nonlocal is_full
        is_full = True
        raise OSError(errno.ENOSPC, "No space left on device")

    with Store(tmp_path / "0", KINDS) as begun:
        begun_in(begun)
    while is_full:
        step += 1
        is_full, disk = False, Counted()
        folder = shutil.copytree(tmp_path / "0", tmp_path / str(step))
        with Store(folder, KINDS, disk) as store:
            before = to_bytes(store.read().record.state)
            change = _change_of(store, "partition")
            disk.at, disk.otherwise = disk.steps + step, full
            with suppress(OSError):
                store.commit(0, change)
            disk.at = -1
            if to_bytes(store.read().record.state) == before:
                assert is_full
                assert not list(store.directory.rglob("*.part"))
                assert store.commit(0, change) is None
            assert _leaves(store) == (LEFT, RIGHT)
    assert step > 8


@pytest.mark.fault(8)
def test_what_sqlite_says_of_a_full_disk_is_said_as_of_any_file(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        pages = store._database.connection.execute("PRAGMA page_count").fetchone()[0]
        store._database.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match="full") as told:
            store.tell(ROOT, 0, [Disturbance(0.0, "0", 1, "x" * 100_000)])
        assert told.value.errno == errno.ENOSPC
        assert str(tmp_path) in told.value.filename
        assert store.events() == []


# Damage.


def _damage(store: Store, cohort: CohortId, versions: slice) -> list[Path]:
    statement = "SELECT blob FROM version WHERE cohort = ? ORDER BY number DESC"
    found = [store._blobs.path(name) for (name,) in store._database.connection.execute(statement, (cohort,))][versions]
    for place, path in enumerate(found):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content if place % 2 == 0 else content[:-7])
    store._read.clear()
    return found


@pytest.mark.fault(9)
def test_of_a_damaged_blob_the_previous_commit_is_used_with_words(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        for _ in range(2):
            store.commit(0, _change_of(store, "round"))
        (bad,) = _damage(store, ROOT, slice(1))
        held = store.read()
        assert held.record.state.cohorts[ROOT].round == 1
        (words,) = held.troubles
        assert str(bad) in words
        assert "is used in its place" in words
        assert store.put_aside(ROOT, 0)
        assert not store.put_aside(ROOT, 0)
        assert bad.with_name(f"{bad.name}.damaged").exists()
        store.sweep()
        assert bad.with_name(f"{bad.name}.damaged").exists()
        assert not store.read().troubles


@pytest.mark.fault(10)
def test_of_a_cohort_without_a_usable_version_it_is_known_what_its_parent_was(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        store.commit(0, _change_of(store, "round"))
        parent = store.read().record.state.cohorts[ROOT]
        store.commit(0, _change_of(store, "partition"))
        store.commit(0, trained(store.read().record.state, LEFT))
        _damage(store, LEFT, slice(None))
        held = store.read()
        assert held.lost == (LEFT,)
        assert held.record.state.cohorts[LEFT].round == 2
        found = store.ancestor(LEFT)
        assert found is not None
        assert to_bytes(found) == to_bytes(parent)
        _damage(store, ROOT, slice(None))
        assert store.ancestor(LEFT) is None
        with pytest.raises(KeyError, match="no version of its model can be used"):
            store.model(LEFT)


def test_a_damaged_file_of_the_service_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "service.sqlite").write_bytes(b"something else entirely" * 1000)
    with pytest.raises(OSError, match="restore it from a copy"):
        Store(tmp_path)


# What all cohorts share.


def _credit_of(number: float) -> Credit:
    return Credit(np.full(4, number), 1.0)


def _credit(store: Store, giver: CohortId, to: CohortId, number: float) -> None:
    state = store.read().record.state
    change = replace(trained(state, giver), credits={to: _credit_of(number)})
    assert store.commit(state.epoch(giver), change) is None


def test_what_is_credited_while_a_round_closes_waits_for_the_next(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        store.commit(0, _change_of(store, "partition"))
        _credit(store, LEFT, RIGHT, 1.0)
        seen = store.read((RIGHT,))
        assert seen.record.state.credits[RIGHT].weight == 1
        _credit(store, LEFT, RIGHT, 3.0)

        def spend(record: ServerRecord) -> tuple[ServerRecord, Sequence[Event]]:
            assert record.state.credits[RIGHT].weight == 1
            return replace(record, state=replace(record.state, credits={})), ()

        store.change(RIGHT, 0, spend, credited=seen.credited)
        left = store.read((RIGHT,)).record.state.credits[RIGHT]
        assert left.movement.tolist() == [3.0] * 4
        _credit(store, LEFT, RIGHT, 5.0)
        assert store.read((RIGHT,)).record.state.credits[RIGHT].movement.tolist() == [4.0] * 4
        assert len(list((tmp_path / "blobs").iterdir())) == len(
            store._database.connection.execute("SELECT blob FROM version UNION SELECT blob FROM credit").fetchall()
        )


def test_events_are_told_with_their_commit_or_not_at_all(tmp_path: Path) -> None:
    def step(record: ServerRecord) -> tuple[ServerRecord, Sequence[Event]]:
        return record, [Disturbance(1.0, "0", 1, "a"), Disturbance(1.0, "0", 1, "b")]

    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        assert isinstance(store.change(ROOT, 7, step), Fenced)
        assert store.events() == []
        assert not isinstance(store.change(ROOT, 0, step), Fenced)
        (first, _), (second, line) = store.events()
        assert '"b"' in line
        assert store.events(after=first) == [(second, line)]
        assert store.events(after=second) == []


# Coordinators.


@pytest.mark.fault(6)
def test_a_coordinator_that_another_has_followed_takes_nothing_over(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store, Store(tmp_path, KINDS) as other:
        begun_in(store)
        before = other.version
        first, second = store.new_coordinator(), store.new_coordinator()
        assert other.version != before
        assert store.take_over(first, ROOT) == Fenced(ROOT, first, second)
        assert store.take_over(second, ROOT) == 1
        assert store.arrived(ROOT, 1, "http://127.0.0.1:1", 17)
        assert not store.arrived(ROOT, 0, "http://127.0.0.1:2", 18)
        owner = other.read(()).owners[ROOT]
        assert (owner.epoch, owner.address, owner.pid) == (1, "http://127.0.0.1:1", 17)
        with pytest.raises(KeyError, match="not a leaf"):
            store.take_over(second, CohortId("0.7"))


def test_what_a_store_holds_is_for_its_owner_alone(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    files = ("service.sqlite", "service.sqlite-shm", "service.sqlite-wal")
    assert modes == {"blobs": 0o700, **dict.fromkeys(files, 0o600)}


def test_a_federation_begins_once(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        assert not store.has_begun
        begun_in(store)
        store.commit(0, _change_of(store, "round"))
        begun_in(store)
        assert store.read().record.state.cohorts[ROOT].round == 1


def test_of_leaves_that_nobody_asks_for_only_the_round_is_read(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        store.commit(0, _change_of(store, "round"))
        light = store.read(()).record.state.cohorts[ROOT]
        assert (light.round, light.server.weights.size) == (1, 0)
        assert store.read((ROOT,)).record.state.cohorts[ROOT].server.weights.size > 0


def test_the_children_of_a_partition_share_what_they_begin_with(tmp_path: Path) -> None:
    with Store(tmp_path, KINDS) as store:
        begun_in(store)
        state: CohortState = store.read().record.state.cohorts[ROOT]
        branch = Branch(ROOT, (0, 1), (0.5, 0.5))
        store.commit(0, Change((ROOT,), dict.fromkeys(branch.children, state), (branch,)))
        assert len(list((tmp_path / "blobs").iterdir())) == 1
        for _ in range(KEPT):
            store.commit(0, trained(store.read().record.state, LEFT))
        assert store.model(RIGHT).tolist() == state.server.weights.tolist()
