"""A disk and a clock that a test rules, in each process of a service: Python imports this by itself when it starts.

The environment's AUXO_INJECTED names a file with an `Injected` as JSON. Without the file all is as it always is.
"""

import errno
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auxo.service.blobs import Steps

VARIABLE = "AUXO_INJECTED"
_LOOK_S = 0.02  # between two looks at the file; the clock is asked often


@dataclass(frozen=True)
class Injected:
    """What is wrong, and with whom."""

    who: str = ""  # a word of the command line of the processes that it is about; "": all
    is_full: bool = False  # the disk has no room
    kills: str = ""  # "write", "rename", "COMMIT": the process is killed in the middle of the next one, or before it
    after: bool = False  # right after it, instead
    clock_s: float = 0.0  # the clock on the wall is so many seconds ahead


class _World:
    def __init__(self, path: Path) -> None:
        self.path, self._looked_s, self._found = path, -1.0, Injected()

    def now(self) -> Injected:
        if time.monotonic() - self._looked_s > _LOOK_S:
            self._looked_s = time.monotonic()
            try:
                self._found = Injected(**json.loads(self.path.read_bytes()))
            except (OSError, ValueError):  # there is none, or half of one
                self._found = Injected()
        return self._found if not self._found.who or self._found.who in sys.orig_argv else Injected()

    def die(self) -> None:
        """Be killed, once."""
        self.path.unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGKILL)


def _install(world: _World) -> None:
    write, rename, execute, clock = Steps.write, Steps.rename, Steps.execute, time.time

    def _check() -> Injected:
        found = world.now()
        if found.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return found

    def injected_write(self: Steps, path: Path, content: bytes) -> None:
        if _check().kills == "write":
            path.write_bytes(content[: len(content) // 2])
            world.die()
        write(self, path, content)

    def injected_rename(self: Steps, source: Path, target: Path) -> None:
        kills = _check().kills == "rename"
        if kills and not world.now().after:
            world.die()
        rename(self, source, target)
        if kills:
            world.die()

    def injected_execute(
        self: Steps,
        connection: sqlite3.Connection,
        statement: str,
        values: Sequence[str | int | float | bytes] = (),
    ) -> sqlite3.Cursor:
        kills = statement == "COMMIT" and _check().kills == "COMMIT"
        if kills and not world.now().after:
            world.die()
        cursor = execute(self, connection, statement, values)
        if kills:
            world.die()
        return cursor

    for name, method in (("write", injected_write), ("rename", injected_rename), ("execute", injected_execute)):
        setattr(Steps, name, method)
    time.time = lambda: clock() + world.now().clock_s


if VARIABLE in os.environ:
    _install(_World(Path(os.environ[VARIABLE])))
