"""Blobs: cohorts' states as files named by their content, so that one is there whole and as it was, or not at all."""

import hashlib
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auxo.files.checkpoint_store import Disk
from auxo.protocol.codec import to_bytes

_SUFFIX, _PARTIAL, _DAMAGED = ".safetensors", ".part", ".damaged"
_REMEMBERED = 8  # values of which it is known where they are; our choice: a cohort, its children, credits


class Steps(Disk):
    """What a store asks of the disk and of SQLite, step by step; a test takes its place to fail at each step."""

    def execute(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[str | int | float | bytes] = ()
    ) -> sqlite3.Cursor:
        """Run one statement."""
        return connection.execute(statement, values)


class Damaged(ValueError):  # noqa: N818 - it says what is the case
    """A blob that is not there, or not what was written; the message names the file."""


@dataclass
class Blobs:
    """A folder of them; several processes use it at the same time."""

    folder: Path
    disk: Steps = field(default_factory=Steps)

    def __post_init__(self) -> None:
        self._known: list[tuple[object, str]] = []

    def put(self, value: object) -> str:
        """Have a frozen value on the disk, and return its name; one that is there already is not written again.

        Raises:
            OSError: there is no room; nothing is left of it under its name.
        """
        for known, name in self._known:
            if known is value and self.path(name).exists():
                return name
        content = to_bytes(value)
        name = hashlib.sha256(content).hexdigest()
        path = self.path(name)
        if not self._is_whole(name):  # one that was damaged since is written anew
            # Of whoever writes the same at the same time each has a file of its own, and renames it to the same.
            partial = path.with_name(f".auxo-{secrets.token_hex(8)}{_PARTIAL}")
            try:
                self.disk.write(partial, content)
                self.disk.rename(partial, path)
                self.disk.sync(self.folder)
            except OSError:
                partial.unlink(missing_ok=True)
                raise
        self._known = [*self._known[1 - _REMEMBERED :], (value, name)]
        return name

    def _is_whole(self, name: str) -> bool:
        try:
            self.get(name)
        except Damaged:
            return False
        return True

    def get(self, name: str) -> bytes:
        """Return the bytes of a blob.

        Raises:
            Damaged: it is not there, or its checksum is not its name.
        """
        path = self.path(name)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Damaged(f"{path}: {error.strerror}") from error
        found = hashlib.sha256(content).hexdigest()
        if found != name:
            raise Damaged(f"{path}: expected the checksum that it is named by, got {found[:12]}...")
        return content

    def path(self, name: str) -> Path:
        """Return where a blob is."""
        return self.folder / f"{name}{_SUFFIX}"

    def put_aside(self, name: str) -> None:
        """Keep a damaged blob for people to look at, under a name that nobody asks for."""
        path = self.path(name)
        if path.exists():
            self.disk.rename(path, path.with_suffix(f"{path.suffix}{_DAMAGED}"))

    def remove(self, name: str) -> None:
        """Remove a blob that nobody asks for any more."""
        self.disk.remove(self.path(name))
