"""Files that appear when they are complete, so that nobody ever finds half of one, not even after a loss of power."""

import csv
import io
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from auxo.files.errors import file_error

_FOR_NOW = ".auxo-"


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Lend a file that takes the place of ``path`` if all goes well; otherwise what was there stays.

    A link is followed. What is no file but can be written to, such as a pipe or /dev/stdout, is written to as it is.

    Raises:
        FileError: the folder does not exist, or ``path`` is one.
        OSError: the disk is full or fails; it names ``path``.
    """
    if not path.parent.is_dir():
        raise file_error(path, "folder", "one that exists", "none", "make it, or choose another path")
    if path.is_dir():
        raise file_error(path, "file", "a path to write a file to", "a folder", "name a file in it")
    target = path.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    # In the same folder, because a file takes the place of another only within a disk. The name is nobody else's:
    # several runs may write side by side.
    partial = target.with_name(f"{_FOR_NOW}{secrets.token_hex(8)}.part")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or else the name may be on the disk before the content
        partial.replace(target)
        sync_folder(target.parent)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in {None, str(partial)}:
            error.filename = str(path)  # a full disk does not say what it has no room for
        raise


def is_ours_for_now(path: Path) -> bool:
    """Return whether a file is one that is being written, or that one who was killed has left: no content."""
    return path.name.startswith(_FOR_NOW)


def remove_partial(folder: Path) -> None:
    """Remove what processes that were killed have left half written in a folder; nobody may be writing there."""
    for partial in folder.rglob(f"{_FOR_NOW}*.part"):
        partial.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk: what was made, renamed or removed there stays so without power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, or leave what was there."""
    with whole_file(path) as file:
        file.write(content)


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a table, its header the first of its rows, or leave what was there."""
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        text.detach()  # flushed; whoever lent the file closes it


def new_file(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file that nobody else has written; of several that try at the same time one succeeds.

    Args:
        path: of the file.
        content: of it.
        mode: its permissions, from the beginning; None: the usual ones.

    Raises:
        FileExistsError: it is there.
    """
    partial = path.with_name(f"{_FOR_NOW}{secrets.token_hex(8)}.part")
    try:
        with partial.open("xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)  # which, unlike a renaming, does not take the place of another
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("xb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(content)
        sync_folder(path.parent)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
