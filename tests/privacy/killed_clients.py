"""Clients that are processes of their own, and are killed at any line of what writes their ledger.

As a script it reads jobs from its input, one JSON object a line, does each in a process that it forks, and says what
became of it. A child traces itself and sends itself SIGKILL at the line that the job names.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from auxo.files import atomic_write
from auxo.privacy import ledger, spent
from auxo.privacy.accounting import PrivacyBudget, Pure, epsilon_of
from auxo.privacy.ledger import Ledger
from auxo.privacy.spent import LedgerError

BUDGET = PrivacyBudget(4.0, 1e-6)
RELEASE = Pure(0.5)
_TRACED = {module.__file__ for module in (atomic_write, ledger, spent)}


@dataclass(frozen=True)
class Job:
    """One answer of a client: it charges, and if it may, something leaves."""

    folder: str
    kill_at: int = 0  # the line, counted from 1; 0: it lives

    @property
    def ledger(self) -> Ledger:
        return ledger_in(Path(self.folder))


@dataclass(frozen=True)
class Fate:
    """What became of it."""

    has_left: bool  # something has left the client
    was_killed: bool
    refusal: str  # its words; nothing: it has answered, or was killed


def ledger_in(folder: Path) -> Ledger:
    return Ledger(folder / "ledger" / "client.ledger", folder / "record" / "enrolled", "client")


class Clients:
    """Forks clients from a process that has nothing but them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def do(self, job: Job) -> Fate:
        self.begin(job)
        return self.fate()

    def begin(self, *jobs: Job) -> None:
        assert self._process.stdin is not None
        self._process.stdin.writelines(f"{json.dumps(asdict(job))}\n" for job in jobs)
        self._process.stdin.flush()

    def fate(self) -> Fate:
        assert self._process.stdout is not None
        return Fate(**json.loads(self._process.stdout.readline()))


@contextmanager
def forked_clients() -> Iterator[Clients]:
    with subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Clients(process)
        assert process.stdin is not None
        process.stdin.close()


def _killed_at(line: int) -> None:
    """Have this process killed when it comes to so many lines of what is traced."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in _TRACED:
            return None
        if event == "line":
            lines += 1
            if lines == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def _answer(job: Job, left: int, words: int) -> None:
    if job.kill_at:
        _killed_at(job.kill_at)
    try:
        refusal = job.ledger.charge({RELEASE: 1}, BUDGET)
    except LedgerError as error:
        refusal = str(error)
    sys.settrace(None)
    if refusal:
        os.write(words, refusal.encode())
    else:
        os.write(left, b"x")


def _do(job: Job) -> Fate:
    left, words = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _answer(job, left[1], words[1])
        os._exit(0)
    os.close(left[1])
    os.close(words[1])
    _, status = os.waitpid(child, 0)
    with os.fdopen(left[0], "rb") as released, os.fdopen(words[0], "rb") as said:
        return Fate(bool(released.read()), os.WIFSIGNALED(status), said.read().decode())


def main() -> None:
    epsilon_of({RELEASE: 1}, BUDGET.delta)  # imports what is slow to import, before the first fork
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(asdict(_do(Job(**json.loads(line)))))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
