"""A soak of the live service: its coordinator and its cohorts are killed or stopped at random while clients train."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

from auxo.core.rng import stream
from auxo.service.pulses import COORDINATOR
from tests.service.live_service import live_service

EVERY_S = (5.0, 20.0)
STOPPED = 0.2  # of all


def soak_service(folder: Path, minutes: float, seed: int = 0) -> Counter[str]:
    """Soak; return what was done. Every cohort trains on afterwards, and all invariants hold."""
    rng, done = stream(seed, "soak", "service"), Counter[str]()
    with live_service(folder) as live:
        live.trains_again()
        ends_s = time.monotonic() + 60 * minutes
        while time.monotonic() < ends_s:
            whom = [COORDINATOR, *live.owners]
            who = whom[int(rng.integers(len(whom)))]
            is_stopped = rng.random() < STOPPED
            try:
                os.kill(live.pid(who), signal.SIGSTOP if is_stopped else signal.SIGKILL)
                role = "coordinator" if who == COORDINATOR else "cohort"
                done[f"{role} {'stopped' if is_stopped else 'killed'}"] += 1
            except ProcessLookupError:  # it was killed before, and has not been started again
                pass
            time.sleep(float(rng.uniform(*EVERY_S)))
        live.trains_again()
        live.check_invariants()
    return done
