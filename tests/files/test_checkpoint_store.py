"""Checkpoints in a folder: after a crash at any step, or damage to any file, one that was committed comes back."""

import errno
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from auxo.core.rng import stream
from auxo.files.checkpoint_store import CheckpointStore, Committed, Disk, Kept, Unusable
from auxo.files.row_changes import AnyArray

CLIENTS = 2_000


class Crashed(BaseException):
    """The process has died here."""


def anything(kept: Kept) -> Kept:
    return kept


def no_problem(problem: str) -> None:
    raise AssertionError(problem)


def state(number: int) -> dict[str, AnyArray]:
    """Return the arrays after so many rounds: a model that is always another, and columns of which little changes."""
    column, wide = np.zeros(CLIENTS), np.full((64 + 16 * number, 2, 3), np.nan)
    for done in range(1, number + 1):
        rng = stream(done, "touched")
        column[rng.integers(CLIENTS, size=20)] = done
        wide[rng.integers(len(wide), size=3)] = rng.random((3, 2, 3))
    model = stream(number, "model").random(50).astype(np.float32)
    return {"model": model, "clients.column": column, "clients.wide": wide, "flags": np.array([number % 2 == 0])}


def commit(store: CheckpointStore, number: int) -> Committed:
    return store.commit({"number": number}, f"text {number}", state(number), lambda name: name.startswith("clients"))


def newest(folder: Path, on_problem: Callable[[str], None] = no_problem) -> int | None:
    """Return the number of the newest checkpoint, whose whole content must be what was committed; None without any."""
    kept = CheckpointStore(folder).newest(anything, on_problem)
    if kept is None:
        return None
    number = kept.about["number"]
    assert isinstance(number, int)
    assert kept.text == f"text {number}"
    expected = state(number)
    assert kept.arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert kept.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(kept.arrays[name], array)
    return number


def test_what_was_committed_last_comes_back(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "kept")
    assert newest(tmp_path / "kept") is None
    for number in range(1, 12):
        assert commit(store, number).generation == number
        assert newest(tmp_path / "kept") == number


def test_a_store_goes_on_where_another_process_ended(tmp_path: Path) -> None:
    for number in range(1, 8):
        store = CheckpointStore(tmp_path)
        store.newest(anything, no_problem)
        assert commit(store, number).generation == number
        assert newest(tmp_path) == number
    assert len(list(tmp_path.glob("manifest-*.json"))) == 2


def test_of_columns_only_what_has_changed_is_written(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    first, _, third = (commit(store, number).bytes_written for number in (1, 2, 3))
    assert first > CLIENTS / 8  # at least a trace of each
    bytes_of_all = sum(array.nbytes for array in state(3).values())
    assert third < bytes_of_all / 4


def test_a_chain_does_not_grow_beyond_what_it_began_with(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for number in range(1, 72):
        commit(store, number)
        of_rows = [path.stat().st_size for path in tmp_path.glob("*-rows.safetensors")]
        assert len(of_rows) <= 2 * 33
    assert newest(tmp_path) == 71


def test_arrays_that_change_their_shape_or_vanish_are_as_they_were_last(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    shapes = [(4, 2), (4, 2), (9, 2), (9, 2), (3, 2), (3, 5), (0, 5), (0,)]
    for number, shape in enumerate(shapes):
        arrays: dict[str, AnyArray] = {"c": np.full(shape, float(number))} if shape != (0,) else {}
        store.commit({}, "", arrays, lambda name: True)
        kept = CheckpointStore(tmp_path).newest(anything, no_problem)
        assert kept is not None
        assert {name: array.tolist() for name, array in kept.arrays.items()} == {
            name: array.tolist() for name, array in arrays.items()
        }


def test_what_is_committed_may_be_changed_in_place_later(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    column = np.zeros(100)
    for number in range(6):
        column[number] = number + 1
        store.commit({}, "", {"column": column}, lambda name: True)
        kept = CheckpointStore(tmp_path).newest(anything, no_problem)
        assert kept is not None
        np.testing.assert_array_equal(kept.arrays["column"], column)


# Every crash point of the writer: before each step, and in the middle of each writing.


class CrashingDisk(Disk):
    """Dies before its step number ``at``, or in the middle of it; counts steps."""

    def __init__(self, at: int | None = None, is_torn: bool = False) -> None:
        self.steps, self.at, self.is_torn = 0, at, is_torn

    def _step(self, torn: Callable[[], object] = lambda: None) -> None:
        if self.steps == self.at:
            if self.is_torn:
                torn()
            raise Crashed
        self.steps += 1

    def make_folder(self, folder: Path) -> None:
        self._step()
        super().make_folder(folder)

    def write(self, path: Path, content: bytes) -> None:
        self._step(lambda: path.write_bytes(content[: len(content) // 2]))
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


def steps_of(folder: Path, done: int) -> int:
    """Return how many steps it takes to commit number ``done + 1`` after ``done`` others."""
    disk = CrashingDisk()
    commit(after(folder, done, disk), done + 1)
    return disk.steps


def after(folder: Path, done: int, disk: CrashingDisk) -> CheckpointStore:
    store = CheckpointStore(folder, disk)
    for number in range(1, done + 1):
        commit(store, number)
    disk.steps = 0
    return store


@pytest.mark.fault(2)
@pytest.mark.parametrize("is_torn", [False, True])
@pytest.mark.parametrize("done", [0, 1, 4])
def test_killed_at_any_step_of_a_commit_the_one_before_or_this_one_is_there(
    tmp_path: Path, done: int, is_torn: bool
) -> None:
    steps = steps_of(tmp_path / "counted", done)
    assert steps >= 8
    found = []
    for at in range(steps):
        folder = tmp_path / f"at-{at}"
        disk = CrashingDisk()
        store = after(folder, done, disk)
        disk.at, disk.is_torn = at, is_torn
        with pytest.raises(Crashed):
            commit(store, done + 1)
        found.append(newest(folder))
        # Another process goes on, and leaves nothing of the one that was killed.
        again = CheckpointStore(folder)
        again.newest(anything, no_problem)
        commit(again, 7)
        commit(again, 8)
        assert newest(folder) == 8
        assert not list(folder.glob("*.part"))
        assert len(list(folder.iterdir())) == 6  # two slots of three files
    before = done or None
    assert set(found) == {before, done + 1}
    assert found == sorted(found, key=lambda number: number or 0)  # one point, and no way back


class PowerlessDisk(Disk):
    """A disk that loses its power before step ``at``: names that were not synced may be there or not."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.at, self.steps = folder, -1, 0
        self.unsynced: list[tuple[str, Path, Path | bytes | None]] = []
        self.durable = folder.with_name(f"{folder.name}-durable")

    def _step(self) -> None:
        if self.steps == self.at:
            raise Crashed
        self.steps += 1

    def write(self, path: Path, content: bytes) -> None:
        self._step()
        super().write(path, content)
        self.unsynced.append(("write", path, content))

    def rename(self, path: Path, target: Path) -> None:
        self._step()
        super().rename(path, target)
        self.unsynced.append(("rename", path, target))

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)
        self.unsynced.append(("remove", path, None))

    def sync(self, folder: Path) -> None:
        self._step()
        super().sync(folder)
        if folder == self.folder:
            self.settle()

    def settle(self) -> None:
        self.unsynced.clear()
        shutil.rmtree(self.durable, ignore_errors=True)
        shutil.copytree(self.folder, self.durable)

    def worlds(self) -> Iterator[Path]:
        """Yield every folder that may be found when there is power again."""
        for count in range(len(self.unsynced) + 1):
            for survivors in itertools.combinations(self.unsynced, count):
                world = self.folder.with_name("world")
                shutil.rmtree(world, ignore_errors=True)
                shutil.copytree(self.durable, world)
                for kind, path, what in survivors:
                    here = world / path.name
                    if isinstance(what, bytes):
                        here.write_bytes(what)
                    elif isinstance(what, Path) and here.exists():
                        here.replace(world / what.name)
                    elif kind == "remove":
                        here.unlink(missing_ok=True)
                yield world


@pytest.mark.fault(2)
@pytest.mark.parametrize("done", [1, 4])
def test_without_power_at_any_step_the_one_before_or_this_one_is_there(tmp_path: Path, done: int) -> None:
    def begun(name: str) -> tuple[PowerlessDisk, CheckpointStore]:
        disk = PowerlessDisk(tmp_path / name)
        store = CheckpointStore(tmp_path / name, disk)
        for number in range(1, done + 1):
            commit(store, number)
        disk.settle()
        disk.steps = 0
        return disk, store

    disk, store = begun("counted")
    commit(store, done + 1)
    seen = set()
    for at in range(disk.steps + 1):
        broken, store = begun(f"at-{at}")
        broken.at = at
        try:
            commit(store, done + 1)
        except Crashed:
            pass
        else:
            assert at == disk.steps
        found = {newest(world) for world in broken.worlds()}
        assert found <= {done, done + 1}
        if at == disk.steps:
            assert found == {done + 1}  # what commit has returned of stays
        seen |= found
    assert seen == {done, done + 1}


class FullDisk(Disk):
    """Has no room for step ``at``."""

    def __init__(self) -> None:
        self.steps, self.at = 0, -1

    def write(self, path: Path, content: bytes) -> None:
        self.steps += 1
        if self.steps == self.at:
            path.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write(path, content)

    def rename(self, path: Path, target: Path) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        super().rename(path, target)


@pytest.mark.fault(8)
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_full_disk_keeps_what_there_is_and_leaves_nothing(tmp_path: Path, at: int) -> None:
    disk = FullDisk()
    store = CheckpointStore(tmp_path, disk)
    for number in (1, 2, 3):
        commit(store, number)
    before = sorted(path.name for path in tmp_path.iterdir())
    disk.steps, disk.at = 0, at
    with pytest.raises(OSError, match="No space left"):
        commit(store, 4)
    assert newest(tmp_path) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    for number in (5, 6, 7):
        commit(store, number)  # there is room again
        assert newest(tmp_path) == number


# Damage.


@pytest.mark.fault(9)
@pytest.mark.parametrize("how", ["cut", "flipped", "gone", "emptied"])
def test_damage_to_any_file_is_found_put_aside_and_costs_one_checkpoint(tmp_path: Path, how: str) -> None:
    whole = tmp_path / "whole"
    store = CheckpointStore(whole)
    for number in range(1, 7):
        commit(store, number)
    names = sorted(path.name for path in whole.iterdir())
    assert len(names) > 6
    for name in names:
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        damage(folder / name, how)
        problems: list[str] = []
        is_newer = name.startswith("1-") or name == "manifest-1.json"
        found = newest(folder, problems.append)
        assert found == (5 if is_newer else 6)
        if is_newer and not (how == "gone" and name == "manifest-1.json"):
            assert len(problems) == 1
            assert name.removesuffix(".damaged") in problems[0] or "manifest-1.json" in problems[0]
            assert list(folder.glob("*.damaged"))
        again = CheckpointStore(folder)
        again.newest(anything, problems.append)
        commit(again, 9)
        assert newest(folder, problems.append) == 9


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    elif how == "flipped":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        path.write_bytes(content[: len(content) // 2] if how == "cut" else b"")


def test_one_that_its_reader_refuses_is_put_aside(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    commit(store, 1)
    commit(store, 2)
    problems: list[str] = []

    def refuse(kept: Kept) -> Kept:
        if kept.about["number"] == 2:
            raise Unusable("its events are not those of the run")
        return kept

    kept = CheckpointStore(tmp_path).newest(refuse, problems.append)
    assert kept is not None
    assert kept.about["number"] == 1
    assert problems == [
        "a checkpoint cannot be used and was put aside as manifest-1.json.damaged: its events are not those of the run"
    ]


def test_an_error_of_the_reader_puts_nothing_aside(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    commit(store, 1)

    def fail(kept: Kept) -> None:
        raise RuntimeError("another configuration")

    with pytest.raises(RuntimeError, match="another configuration"):
        CheckpointStore(tmp_path).newest(fail, no_problem)
    assert newest(tmp_path) == 1


def test_clear_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    store = CheckpointStore(folder)
    commit(store, 1)
    (folder / "mine.txt").write_text("mine")
    store.clear()
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    (folder / "mine.txt").unlink()
    commit(store, 2)
    assert newest(folder) == 2
    store.clear()
    assert not folder.exists()
