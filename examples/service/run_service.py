"""A live service on this machine's loopback: it finds cohorts among clients of plain numpy, and survives what happens.

    python examples/service/run_service.py
    python examples/service/run_service.py --clients 24 --keep build/service

It starts `auxo serve`, has clients train until they are partitioned into cohorts, kills a cohort's process, then the
coordinator's, then both, and waits until all cohorts have trained their rounds. It ends with `service: ok`, or says
what failed, with exit code 1. docs/service.md is the same as a recipe.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import safetensors.numpy
from numpy_clients import FEATURES, Clients

from auxo.core.types import CohortId
from auxo.protocol.event_log import read_events
from auxo.protocol.events import OwnerChanged, Partitioned, RoundClosed
from auxo.service.client_tokens import client_tokens
from auxo.service.plan import plan_in
from auxo.service.pulses import COORDINATOR, Pulses
from auxo.service.store import Store

STEP_S = 60.0  # that a step of the script may take; our choice
TARGET_S = 10.0  # from kill -9 to training again


class UnexpectedError(Exception):
    """What was expected did not happen."""


@dataclass
class Scenario:
    """What is done to the service, step by step."""

    folder: Path
    count: int
    began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Write what a service needs: a configuration, and an initial model."""
        self.directory = self.folder / "service"
        self.config = shutil.copy(Path(__file__).with_name("service.toml"), self.folder)
        model = safetensors.numpy.save({"weights": np.zeros(FEATURES, np.float32)})
        (self.folder / "initial.safetensors").write_bytes(model)
        (self.folder / "records").mkdir()
        self.clients = Clients(self.count, self.folder / "records")

    def say(self, words: str) -> None:
        """Print what has happened, and when."""
        print(f"{time.monotonic() - self.began_s:6.1f} s  {words}", flush=True)

    def run(self) -> None:
        """Do all of it."""
        options = ["--set", f"service.directory={self.directory}"]
        command = [sys.executable, "-m", "auxo", "serve", str(self.config), *options]
        self.server = subprocess.Popen(command)  # noqa: S603 - ourselves
        try:
            self._run()
        finally:
            self.clients.is_stopped.set()
            if self.server.poll() is None:
                self.server.send_signal(signal.SIGINT)
                self.server.wait(STEP_S)

    def _run(self) -> None:
        address = self.directory / "address"
        self._until("the service is up", lambda: address.exists() and self._pid(COORDINATOR))
        tokens = client_tokens(self.directory)
        names = [tokens.issue(number) for number in range(self.count)]
        self.clients.start(address.read_text(encoding="utf-8"), names)
        self._until("cohorts are found", lambda: self._pid("0.0") and self._pid("0.1"))
        first = min(self._rounds.values())
        self._until("both of them train", lambda: min(self._rounds.values()) > first)
        self._kill("a cohort", [CohortId("0.1")])
        self._kill("the coordinator", [COORDINATOR])
        self._kill("the coordinator and a cohort", [COORDINATOR, CohortId("0.0")])
        self._until("all rounds are trained", lambda: self.server.poll() is not None, 2 * STEP_S)
        if self.server.returncode != 0:
            raise UnexpectedError(f"auxo serve: expected exit code 0, got {self.server.returncode}")
        self.clients.join(STEP_S)
        self._check()

    def _kill(self, what: str, whom: list[str]) -> None:
        """Kill processes, and wait until others have taken their places, and every cohort has closed another round."""
        killed = {who: self._pid(who) for who in whom}
        for who, pid in killed.items():
            if pid is None:
                raise UnexpectedError(f"{who}: expected a process, got none")
            os.kill(pid, signal.SIGKILL)
        killed_s = time.monotonic()
        self.say(f"kill -9 {what}")
        self._until(
            "others have taken their places", lambda: all(self._pid(who) not in {None, killed[who]} for who in whom)
        )
        before = self._rounds
        self._until(f"{what} is back", lambda: all(rounds > before[leaf] for leaf, rounds in self._rounds.items()))
        took_s = time.monotonic() - killed_s
        self.say(f"from kill -9 of {what} to training again: {took_s:.1f} s (target {TARGET_S:g} s)")

    def _pid(self, who: str) -> int | None:
        seen = Pulses.of(self.directory).see(who)
        return None if seen is None else seen.pulse.pid

    @cached_property
    def _store(self) -> Store:
        return plan_in(self.directory).store()

    @property
    def _rounds(self) -> dict[CohortId, int]:
        """Return how many rounds each cohort that trains has committed."""
        return {cohort: owner.round for cohort, owner in self._store.read(()).owners.items()}

    def _until(self, what: str, holds: Callable[[], object], within_s: float = STEP_S) -> None:
        end_s = time.monotonic() + within_s
        while not holds():
            if self.clients.errors:
                raise UnexpectedError("; ".join(self.clients.errors))
            if time.monotonic() > end_s:
                raise UnexpectedError(f"{what}: expected within {within_s:g} s, got nothing of it")
            time.sleep(0.05)
        self.say(what)

    def _check(self) -> None:
        """Look at what is left."""
        events = read_events(self.directory / "events.jsonl").events
        closed = [(one.cohort, one.round) for one in events if isinstance(one, RoundClosed)]
        if len(set(closed)) < len(closed):
            raise UnexpectedError("events: expected every round once, got some twice")
        partitions = [one for one in events if isinstance(one, Partitioned)]
        if len(partitions) != 1:
            raise UnexpectedError(f"events: expected one partition, got {partitions}")
        models = [safetensors.numpy.load_file(path)["weights"] for path in sorted(self.directory.glob("models/*"))]
        scores = [max(self.clients.accuracy(model, group) for model in models) for group in (0, 1)]
        self.say(f"accuracy of each group with its cohort's model: {scores[0]:.3f}, {scores[1]:.3f}")
        if min(scores) < 0.95 or len(models) != 2:
            raise UnexpectedError(f"models: expected two that fit the groups, got {len(models)} with {scores}")
        ended = [one for one in events if isinstance(one, RoundClosed)]
        used = sum(one.participants for one in ended)
        heard = used + sum(one.misfits + one.rejected for one in ended)  # those that do not fit hear of it, too
        if sum(self.clients.counted) > heard:
            raise UnexpectedError(f"updates: expected at most {heard} counted, got {sum(self.clients.counted)}")
        restarts = [one for one in events if isinstance(one, OwnerChanged) and one.reason != "it is new"]
        self.say(f"{len(closed)} rounds, {used} updates, {len(restarts)} processes of cohorts started again")
        left = list(self.directory.rglob("*.part"))
        if left or self.clients.errors:
            raise UnexpectedError(f"left behind: {left}, {self.clients.errors}")


def main() -> int:
    """Run the scenario and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=16, help="clients that take part")
    parser.add_argument("--keep", type=Path, help="new directory to run in, which stays; default: a temporary one")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="auxo-service-") as temporary:
        folder = Path(temporary)
        if chosen.keep is not None:
            chosen.keep.mkdir(parents=True)
            folder = chosen.keep.resolve()
        try:
            Scenario(folder, chosen.clients).run()
        except UnexpectedError as error:
            print(f"service: {error}", file=sys.stderr)
            log = folder / "service" / "service.log"
            print(log.read_text(encoding="utf-8")[-4000:] if log.exists() else "", file=sys.stderr)
            return 1
    print("service: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
