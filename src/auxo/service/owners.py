"""The processes of cohorts: started anew, never forked, and outliving whoever has started them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from auxo.core.types import CohortId
from auxo.service.plan import ServicePlan
from auxo.service.process import log_path
from auxo.service.starters import Started, Starter

_COHORT = "auxo.service.cohort_process"
_COORDINATOR = "auxo.service.coordinator_process"


@dataclass
class OwnChild:
    """A process that this one has started."""

    process: "subprocess.Popen[bytes]"

    def why_ended(self) -> str | None:
        """Return how it has ended, if it has."""
        code = self.process.poll()
        if code is None:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End it, also if it was stopped."""
        self.process.kill()
        self.process.wait()

    def ask_to_end(self) -> None:
        """Have it end by itself."""
        _ask_to_end(self.process.pid)


@dataclass
class Adopted:
    """A process of another's, known by its number; what else may have that number by now is left alone."""

    pid: int
    words: tuple[str, ...]  # that its command line has

    def why_ended(self) -> str | None:
        """Return that it has ended, if it has."""
        return None if runs_with(self.pid, self.words) else "it has ended"

    def kill(self) -> None:
        """End it, if it is still what it was."""
        if runs_with(self.pid, self.words):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def ask_to_end(self) -> None:
        """Have it end by itself, if it is still what it was."""
        if runs_with(self.pid, self.words):
            _ask_to_end(self.pid)


def _ask_to_end(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # one that was stopped hears nothing


@dataclass
class LocalOwners:
    """Starts cohorts as processes of this machine."""

    directory: Path

    def is_there(self) -> bool:
        """Return that it is."""
        return True

    def start(self, cohort: CohortId, epoch: int) -> Started:
        """Start the owner of this epoch."""
        return _started(self.directory, _COHORT, str(cohort), str(epoch))

    def adopt(self, cohort: CohortId, epoch: int, pid: int) -> Started:
        """Return one that another coordinator has started."""
        return Adopted(pid, (_COHORT, str(self.directory), str(cohort), str(epoch)))


@contextmanager
def owners_of(plan: ServicePlan, is_keeper: bool = False) -> Iterator[Starter]:
    """Have owners where the configuration of a service says; what they need beside ends with its keeper."""
    if plan.config.run.engine == "local":
        yield LocalOwners(plan.directory)
        return
    # Who has no cluster need not have Ray.
    from auxo.service.ray_owners import ray_owners  # noqa: PLC0415

    with ray_owners(plan, is_keeper) as found:
        yield found


def start_coordinator(directory: Path) -> OwnChild:
    """Start the coordinator of a service."""
    return _started(directory, _COORDINATOR)


def adopt_coordinator(directory: Path, pid: int) -> Adopted:
    """Return the coordinator that another keeper has started."""
    return Adopted(pid, (_COORDINATOR, str(directory)))


def _started(directory: Path, module: str, *arguments: str) -> OwnChild:
    with log_path(directory).open("ab") as log:
        # A session of its own: Ctrl-C in the terminal is for the process that people see.
        command = [sys.executable, "-m", module, str(directory), *arguments]
        return OwnChild(
            subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        )


def runs_with(pid: int, words: tuple[str, ...]) -> bool:
    """Return whether there is a process of this number whose command line has these words."""
    try:
        said = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
        listed = subprocess.run(  # noqa: S603 - a system without /proc
            ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False
        )
        return all(word.encode() in listed.stdout for word in words) and listed.returncode == 0
    except OSError:
        return False
    # What has ended and was not waited for has no command line.
    return {word.encode() for word in words} <= set(said.split(b"\0"))
