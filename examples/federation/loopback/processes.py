"""Processes that are found again, with all that they have started: by a mark in their environment."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

_MARK = "AUXO_LOOPBACK_MARK"
_LOOK_AGAIN_S = 0.1
_GRACE_S = 10.0  # to end by themselves after SIGTERM; our choice


@dataclass
class MarkedProcesses:
    """Starts processes, and ends them and their descendants, whoever those have become the children of."""

    environment: Mapping[str, str]
    logs: Path
    mark: str = field(default_factory=lambda: uuid4().hex)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)

    def start(self, name: str, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        """Start a process whose output is added to the log of that name."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - commands are Flower's, with arguments of our own making
                [str(part) for part in command],
                env=self._marked(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def call(self, command: Sequence[str | Path], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and return what it printed."""
        return subprocess.run(  # noqa: S603 - as above
            [str(part) for part in command],
            env=self._marked(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def log(self, name: str) -> Path:
        """Return the log file of that name."""
        return self.logs / f"{name}.log"

    def running(self, word: str = "") -> dict[int, str]:
        """Return the command lines of all marked processes that live and name that word, by process id."""
        for process in self._started:
            process.poll()  # takes leave of those that have ended
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                marked = f"{_MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                is_dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:  # it has ended since, or is somebody else's
                continue
            if marked and line and not is_dead and word in line:
                found[int(entry.name)] = line
        return found

    def end_all(self) -> dict[int, str]:
        """End all of them, and return those that would not."""
        for number, ending in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
            for pid in self.running():
                end(pid, number)
            until = time.monotonic() + ending
            while self.running() and time.monotonic() < until:
                time.sleep(_LOOK_AGAIN_S)
        left = self.running()
        for process in self._started:
            # One that was just beginning had no mark yet, and one that has just ended was not taken leave of.
            if process.pid not in left and process.poll() is None:
                process.kill()
                process.wait(_GRACE_S)
        return left

    def _marked(self) -> dict[str, str]:
        return {**self.environment, _MARK: self.mark}


def end(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a process a signal, if it is still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
