"""A method's events on their way to the disk: appended one by one, and cut back to where a checkpoint was made."""

import hashlib
import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from auxo.protocol.events import Event, from_json, to_json


@dataclass(frozen=True)
class Mark:
    """A place in a file of events: how many bytes come before it, and their checksum."""

    size: int = 0
    sha256: str = hashlib.sha256().hexdigest()


def mark_of(path: Path) -> Mark:
    """Return the end of a file."""
    content = path.read_bytes()
    return Mark(len(content), hashlib.sha256(content).hexdigest())


def events_before(path: Path, mark: Mark) -> tuple[Event, ...]:
    """Return the events before a mark.

    Raises:
        ValueError: the file is not what it was when the mark was made.
    """
    content = b""
    if path.is_file():
        with path.open("rb") as file:
            content = file.read(mark.size)
    if len(content) != mark.size or hashlib.sha256(content).hexdigest() != mark.sha256:
        raise ValueError(f"{path}: expected the {mark.size} bytes of events that were written, found others")
    return tuple(from_json(line) for line in content.decode().splitlines())


class EventLog:
    """Appends events to a file until it is closed. Each is on its way to the disk when `write` returns."""

    def __init__(self, path: Path, begin: Mark) -> None:
        """Cut the file back to ``begin``, whose bytes have been checked; a new file begins with none."""
        self._path = path
        path.parent.mkdir(exist_ok=True)
        # Without a buffer: what a full disk has no room for must not come to it later.
        self._file: FileIO = FileIO(path, "r+b" if begin.size else "w+b")
        kept = self._file.read(begin.size)
        self._file.truncate()
        self._digest = hashlib.sha256(kept)
        self._size = len(kept)

    def close(self) -> None:
        """Close the file, without the half of a line that a full disk may have left."""
        try:
            if os.fstat(self._file.fileno()).st_size != self._size:
                os.ftruncate(self._file.fileno(), self._size)
        finally:
            self._file.close()

    def write(self, event: Event) -> None:
        """Append one event.

        Raises:
            OSError: there is no room; the message names the file.
        """
        line = to_json(event).encode() + b"\n"
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._digest.update(line)
        self._size += len(line)

    def synced(self) -> Mark:
        """Return the end of the file, with all before it on the disk."""
        os.fsync(self._file.fileno())
        return Mark(self._size, self._digest.hexdigest())
