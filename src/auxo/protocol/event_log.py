"""Events in a file, one a line: appended as they come, cut back to where a checkpoint was made, and read again."""

import hashlib
import json
import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from auxo.files.errors import FileError
from auxo.protocol.events import Event, from_json, to_json


@dataclass(frozen=True)
class RecordedEvents:
    """Events in order; ``is_truncated`` says that a half-written last line was left out."""

    events: tuple[Event, ...]
    is_truncated: bool


def read_events(path: Path) -> RecordedEvents:
    """Return the events in a file; none when there is no such file.

    Raises:
        FileError: a line is not an event; the last one may be half of one.
    """
    if not path.is_file():
        return RecordedEvents((), is_truncated=False)
    lines = path.read_bytes().split(b"\n")
    last_line = lines.pop()  # empty when the file is whole: every event ends its line
    is_truncated = bool(last_line) and _is_half(last_line)
    if last_line and not is_truncated:
        lines.append(last_line)
    events = tuple(_event(line, path, number) for number, line in enumerate(lines, start=1))
    return RecordedEvents(events, is_truncated)


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
    _check(path, content, mark)
    return tuple(from_json(line) for line in content.decode().splitlines())


class EventLog:
    """Appends events to a file until it is closed. Each is on its way to the disk when `write` returns."""

    def __init__(self, path: Path, begin: Mark) -> None:
        """Cut the file back to ``begin``; without a mark it begins anew.

        Raises:
            ValueError: the file is not what it was when the mark was made; it stays as it is.
        """
        self._path = path
        path.parent.mkdir(exist_ok=True)
        # Without a buffer: what a full disk has no room for must not come to it later.
        self._file = FileIO(path, "r+b" if begin.size and path.is_file() else "w+b")
        kept = self._file.read(begin.size)
        try:
            _check(path, kept, begin)
        except ValueError:
            self._file.close()
            raise
        self._file.truncate()
        self._digest = hashlib.sha256(kept)
        self._size = len(kept)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(self, event: Event) -> None:
        """Append one event, or nothing of it.

        Raises:
            OSError: there is no room; the message names the file.
        """
        line = to_json(event).encode() + b"\n"
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._file.truncate(self._size)  # a full disk may have had room for half a line
            self._file.seek(self._size)
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._digest.update(line)
        self._size += len(line)

    def synced(self) -> Mark:
        """Return the end of the file, with all before it on the disk."""
        os.fsync(self._file.fileno())
        return Mark(self._size, self._digest.hexdigest())


def _check(path: Path, content: bytes, mark: Mark) -> None:
    if len(content) != mark.size or hashlib.sha256(content).hexdigest() != mark.sha256:
        raise ValueError(f"{path}: expected the {mark.size} bytes of events that were written, found others")


def _event(line: bytes, path: Path, number: int) -> Event:
    try:
        return from_json(line.decode())
    except ValueError as error:
        raise FileError(
            f"{path}, line {number}: expected one event as JSON: {error}; the file is damaged or of another version of "
            "Auxo: run the experiment again"
        ) from error


def _is_half(line: bytes) -> bool:
    """Return whether a crash has cut the line short: half of an object is never JSON."""
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
