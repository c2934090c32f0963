"""Whole files: all of them or what was there before, and nothing left beside them."""

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auxo.files.atomic_write import new_file, whole_file, write_whole
from auxo.files.errors import FileError


def test_a_file_appears_when_it_is_complete_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with whole_file(path) as file:
        file.write(b"all of it")
        assert not path.exists()
    assert path.read_bytes() == b"all of it"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_there_stays_if_writing_fails(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"before")

    def fail() -> None:
        with whole_file(path) as file:
            file.write(b"half of")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.fault(6)
def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with whole_file(path) as first, whole_file(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # whose block ended last


def test_a_file_has_the_permissions_that_the_user_gives_to_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a.txt", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real.txt").write_bytes(b"before")
    (tmp_path / "link.txt").symlink_to(tmp_path / "folder" / "real.txt")
    write_whole(tmp_path / "link.txt", b"after")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "folder" / "real.txt").read_bytes() == b"after"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through the pipe")
    reader.join()
    assert read == [b"through the pipe"]
    assert pipe.is_fifo()


def test_a_place_where_no_file_can_be_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"absent/a\.txt: folder: expected one that exists, got none; make it"):
        write_whole(tmp_path / "absent" / "a.txt", b"")
    with pytest.raises(FileError, match="file: expected a path to write a file to, got a folder; name a file in it"):
        write_whole(tmp_path, b"")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Have files no longer than this for a while: as on a full disk, the system does not say which one it was."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("write", [write_whole, new_file])
def test_a_disk_without_room_is_told_with_the_name_of_the_file(
    tmp_path: Path, write: Callable[[Path, bytes], None]
) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(OSError, match="too large") as told, room_for(1000):
        write(path, bytes(10_000))
    assert told.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []
