"""A lock on a directory that dies with the process that holds it, however that process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from auxo.files.errors import FileError

_NAME = ".auxo-lock"  # beginning like all that is there for a while only, see `atomic_write`

_held: set[Path] = set()  # in this process, which the system would not refuse
_guard = Lock()


class DirectoryInUse(FileError):  # noqa: N818 - it says what is the case
    """Another run is writing there."""


@contextmanager
def locked_directory(folder: Path) -> Iterator[None]:
    """Hold a directory for as long as the block lasts.

    The system gives the lock back when the process ends, kill -9 included. Processes that were forked from it do not
    hold it: a worker that has lost its parent keeps nobody from going on.

    Raises:
        DirectoryInUse: somebody holds it; the message says which process.
    """
    target = folder.resolve()
    with _guard:
        if target in _held:
            raise DirectoryInUse(_message(folder, f"process {os.getpid()}, this one,"))
        _held.add(target)
    try:
        descriptor = _acquired(folder)
        try:
            yield
        finally:
            (folder / _NAME).unlink(missing_ok=True)  # while it is held, or else it might be another's
            os.close(descriptor)
    finally:
        with _guard:
            _held.discard(target)


def _acquired(folder: Path) -> int:
    path = folder / _NAME
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            # Not flock, which forked processes would hold as well.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "that does not give its number"
            os.close(descriptor)
            raise DirectoryInUse(_message(folder, f"process {holder}")) from None
        except BaseException:
            os.close(descriptor)
            raise
        # Who held it may have removed the file between our opening it and our getting hold of it.
        try:
            is_there = os.path.samestat(path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            is_there = False
        if is_there:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
        os.close(descriptor)


def _message(folder: Path, holder: str) -> str:
    return f"{folder}: {holder} is running there; wait for it or stop it, or choose another directory"
