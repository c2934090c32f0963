"""Runs of `auxo` in processes of their own, whose parts can be found by what they are, and killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from auxo.core.types import ROOT as ROOT_COHORT
from auxo.experiments.run_directory import RunDirectory
from auxo.protocol.events import Partitioned, RoundClosed, UpdateRejected

ROOT = Path(__file__).parents[2]
# A process started in the background may have been told to ignore SIGINT, and its children with it.
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from auxo.cli import main; main()"
# Two groups that name the classes differently are found within a few rounds.
STUDY = """
methods = ["auxo"]

[population]
source = "synthetic"
clients = 200
groups = 2
heterogeneity = "concept"
features = 16
classes = 3
samples = [20, 30]
test_samples = 10

[training]
rounds = {rounds}
participants = 60
learning_rate = 0.1
batch_size = 10

[auxo.clustering]
pool_rounds = 2

[run]
workers = 2
checkpoint_every = "5r"
"""
PATIENCE_S = 240.0  # for anything that must happen; machines differ
# What stands in the command line of a process that is nobody's but ours; the rest are the driver and its forks.
ROLES = {
    "trainer": "ray::TrainerActor",
    "cohort": "ray::CohortActor",
    "raylet": "raylet/raylet ",
    "gcs_server": "gcs/gcs_server ",
}


@dataclass(frozen=True)
class LiveRun:
    """A run at work, or one that has ended."""

    process: "subprocess.Popen[str]"
    directory: Path

    def rounds(self, method: str = "auxo") -> int:
        """Return how many events of closed rounds there are by now."""
        try:
            return (self.directory / method / "events.jsonl").read_text().count('{"type": "RoundClosed"')
        except OSError:
            return 0

    def wait(self, what: str, until: Callable[[], bool], limit_s: float = PATIENCE_S) -> float:
        """Wait for something; return how long it took."""
        began_s = time.monotonic()
        while not until():
            assert time.monotonic() - began_s < limit_s, f"waited in vain for {what}"
            assert self.process.poll() is None or until(), f"ended before {what}: {self.process.communicate()}"
            time.sleep(0.02)
        return time.monotonic() - began_s

    def wait_rounds(self, number: int) -> float:
        return self.wait(f"{number} rounds", lambda: self.rounds() >= number)

    def parts(self, role: str) -> list[int]:
        """Return the processes of a role: of `ROLES`, or "worker", the forks of the driver."""
        found = [(number, line) for number, line in session(self.process.pid).items() if number != self.process.pid]
        if role == "worker":
            return [number for number, _ in found if parent_of(number) == self.process.pid]
        return [number for number, line in found if ROLES[role] in line]

    def finish(self) -> tuple[int, str]:
        """Return the exit code and what was said in the end."""
        said = self.process.communicate(timeout=PATIENCE_S)[1]
        return self.process.returncode, said


def session(leader: int) -> dict[int, str]:
    """Return the command line of each process that a run has started, orphans among them."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has just ended
            continue
    return found


def parent_of(process: int) -> int | None:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@contextmanager
def live_run(command: Sequence[str], directory: Path) -> Iterator[LiveRun]:
    """Run `auxo` with a command that writes into the directory; in the end nothing of it is left."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", START, *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield LiveRun(process, directory)
        finally:
            process.kill()
            end_session(process.pid)


def end_session(leader: int) -> None:
    """See that what a run leaves behind ends by itself; what does not is killed, and told."""
    deadline = time.monotonic() + 30.0
    while (left := session(leader)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert not left, f"left behind: {left}"


def models_of(directory: Path) -> dict[str, bytes]:
    """Return all that a run has left, apart from what tells when, where and how it ran."""
    others = {"stamp.json", "report.html", "config.toml"}
    files = (path for path in directory.rglob("*") if path.is_file() and path.name not in others)
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def check_invariants(directory: Path, method: str = "auxo") -> None:
    """Check what must hold after any fault: of rounds, the tree, rejections, models, and what lies on disk."""
    assert not [*directory.rglob("*.tmp"), *directory.rglob(".auxo-*")], "something half was left"
    rounds: dict[str, int] = {}
    cohorts: set[str] = {ROOT_COHORT}
    for event in RunDirectory.open(directory).events(method).events:
        match event:
            case RoundClosed():
                assert event.round == rounds.get(event.cohort, event.round - 1) + 1, "a round twice, or left out"
                assert event.cohort in cohorts, "a cohort without a parent"
                rounds[event.cohort] = event.round
            case Partitioned():
                assert event.cohort in cohorts, "a partition of what is not there"
                cohorts |= set(event.children)
            case UpdateRejected():
                assert event.reason, "an update was refused without a reason"
    models = list((directory / method / "models").iterdir())
    assert models
    for model in models:
        assert all(np.isfinite(array).all() for array in load_file(model).values()), f"{model} is no model"
