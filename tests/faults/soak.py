"""A soak: a random process of a run is killed every few seconds for minutes, and each run completes all the same.

    python tests/faults/soak.py [--minutes 10] [--ray | --service] [--seed 0]

A run is resumed when its driver is killed, and another begins when one is complete. Each must leave the bytes of one
that nobody disturbed, and all invariants must hold. One process in five is stopped (SIGSTOP) instead of killed, apart
from drivers: whoever stops one waits for it.
"""

import argparse
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "service")]

from auxo.core.rng import stream  # noqa: E402 - found by the line above
from tests.faults.live_runs import (  # noqa: E402
    PATIENCE_S,
    ROLES,
    STUDY,
    LiveRun,
    check_invariants,
    live_run,
    models_of,
)
from tests.faults.service_soak import soak_service  # noqa: E402

EVERY_S = (5.0, 20.0)
STOPPED = 0.2  # of those that are not drivers
LONG_ROUNDS = 1000  # of a run that takes some minutes
# Where a raylet is killed as a run registers with it, Ray ends the driver, and whoever tidies up after that says so;
# where it is killed as a run waits for Ray to start, the run ends with an error. It goes on by resuming it.
ENDED_BY_RAY = (
    "was ended without a word",
    "Ray could not be started on this machine",
    "was lost while its workers started",
)


@dataclass
class Soak:
    """What is done to runs, and what became of them."""

    folder: Path
    more: list[str]  # options of the run
    rounds: int
    minutes: float
    rng: np.random.Generator
    killed: Counter[str] = field(default_factory=Counter)
    completed: int = 0
    resumed: int = 0
    ends_s: float = field(default=0.0, init=False)

    def go(self) -> None:
        """Disturb runs until the time is over, and let the last one complete."""
        study = self.folder / "study.toml"
        study.write_text(STUDY.format(rounds=self.rounds))
        whole = self.folder / "whole"
        with live_run(["run", str(study), "--out", str(whole)], whole) as run:
            assert run.process.wait() == 0
        expected = models_of(whole)
        self.ends_s = time.monotonic() + 60 * self.minutes
        while not self.completed or time.monotonic() < self.ends_s:
            directory = self.folder / f"run-{self.completed}"
            self._run(study, directory)
            found = models_of(directory)
            differ = sorted(name for name in found.keys() | expected if found.get(name) != expected.get(name))
            assert not differ, f"{directory} differs from {whole} in {differ}"
            check_invariants(directory)
            self.completed += 1

    def _run(self, study: Path, directory: Path) -> None:
        code = None
        while code != 0:
            is_begun = (directory / "config.toml").exists()
            begin = ["run", str(study), "--out", str(directory), *self.more]
            self.resumed += is_begun
            with live_run(["resume", str(directory)] if is_begun else begin, directory) as run:
                code = self._disturb(run)
                if code not in {0, -signal.SIGKILL}:
                    said = run.process.communicate()[1]
                    assert any(words in said for words in ENDED_BY_RAY), said
                    self.killed["driver ended by the loss of a raylet that started"] += 1

    def _disturb(self, run: LiveRun) -> int:
        """Kill one process of a run after another, until the run ends; return its exit code."""
        deadline = time.monotonic() + self.rng.uniform(*EVERY_S)
        while run.process.poll() is None:
            if time.monotonic() > self.ends_s:
                return run.process.wait(PATIENCE_S + 600)
            if time.monotonic() > deadline:
                self._kill_one(run)
                deadline = time.monotonic() + self.rng.uniform(*EVERY_S)
            time.sleep(0.05)
        return run.process.returncode

    def _kill_one(self, run: LiveRun) -> None:
        parts = [(run.process.pid, "driver")]
        for role in ROLES if "ray" in self.more else ["worker"]:
            parts += [(number, role) for number in run.parts(role)]
        number, role = parts[self.rng.integers(len(parts))]
        is_stopped = role in {"worker", "trainer", "cohort"} and self.rng.random() < STOPPED
        try:
            os.kill(number, signal.SIGSTOP if is_stopped else signal.SIGKILL)
        except ProcessLookupError:  # it has just ended by itself
            return
        self.killed[f"{role} {'stopped' if is_stopped else 'killed'}"] += 1


def soak(folder: Path, minutes: float, on_ray: bool, seed: int = 0, rounds: int = LONG_ROUNDS) -> Soak:
    """Soak, and return what was done; raises an error where something does not hold."""
    more = ["--engine", "ray"] if on_ray else []
    begun = Soak(folder, more, rounds, minutes, stream(seed, "soak"))
    begun.go()
    return begun


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--service", action="store_true")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="auxo-soak-") as made:
        if asked.service:
            disturbed = soak_service(Path(made), asked.minutes, asked.seed)
            print(f"soak: ok: {dict(disturbed)}, and every cohort trained on")  # noqa: T201 - for whoever runs it
            sys.exit()
        done = soak(Path(made), asked.minutes, asked.ray, asked.seed)
    what = ", ".join(f"{number} x {role}" for role, number in sorted(done.killed.items()))
    print(  # noqa: T201 - a script that talks to whoever runs it
        f"soak: ok: {sum(done.killed.values())} disturbances ({what}), {done.resumed} resumed, "
        f"{done.completed} runs completed with the bytes of an undisturbed one"
    )
