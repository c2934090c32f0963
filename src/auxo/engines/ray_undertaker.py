"""Tidies up after a Ray cluster of our own when whoever started it was killed: its last processes, and its folder.

Whoever was killed could not say so: this does. Most processes of Ray end with the driver, but its agents live on, and
nobody is left to remove their files. This process waits for the driver's end. It is run as a script, and imports
nothing that takes long.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_ROUNDS = 20  # that processes are looked for, since the last ones may just be starting; our choice
_PAUSE_S = 0.25

_LAST_WORDS = (
    "error: the process that trained on Ray was ended without a word: it was killed, there was no memory left, or Ray "
    "has lost its raylet; a run of `auxo` goes on with `auxo resume`"
)


@contextlib.contextmanager
def undertaker(folder: Path) -> Iterator[None]:
    """Have what uses ``folder`` end, and the folder removed, when this process ends within the block in whatever way.

    The folder must be nobody else's.
    """
    command = [sys.executable, "-I", str(Path(__file__).resolve()), str(folder)]
    # In a session of its own: what ends this process, such as Ctrl-C on a terminal, must not end that one.
    waiting = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603 - our own file
    assert waiting.stdin is not None  # noqa: S101 - it was asked for
    try:
        yield
    finally:
        waiting.kill()  # not needed: whoever comes here tidies up by itself
        waiting.wait()
        waiting.stdin.close()


@contextlib.contextmanager
def tidied(folder: Path) -> Iterator[None]:
    """Do the same when the block ends: of a cluster that was lost in part, the rest lives on for a while."""
    try:
        yield
    finally:
        tidy_up(folder)


def users_of(folder: Path) -> set[int]:
    """Return the processes that have a file of the folder open, or run in it, apart from this one."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        for link in (process / "cwd", *_entries(process / "fd")):
            with contextlib.suppress(OSError):
                if link.readlink().is_relative_to(folder):
                    found.add(int(process.name))
                    break
    return found - {os.getpid()}


def tidy_up(folder: Path) -> None:
    """End what uses the folder, and remove it."""
    for _ in range(_ROUNDS):
        users = users_of(folder)
        if not users and not folder.exists():
            return
        for process in users:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_PAUSE_S)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # another user's, or it has just ended
        return []


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()  # until whoever started us is gone
    with contextlib.suppress(OSError):  # nobody reads that
        print(_LAST_WORDS, file=sys.stderr, flush=True)  # noqa: T201 - for whoever ran what was ended
    tidy_up(Path(sys.argv[1]))
