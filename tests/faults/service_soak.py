"""A soak of the live service: its coordinator and its cohorts are killed or stopped at random while clients train."""

from collections import Counter
from pathlib import Path

from auxo.core.rng import stream
from tests.service.live_service import live_service

EVERY_S = (5.0, 20.0)


def soak_service(folder: Path, minutes: float, seed: int = 0) -> Counter[str]:
    """Soak; return what was done. Every cohort trains on afterwards, and all invariants hold."""
    with live_service(folder) as live:
        live.trains_again()
        done = live.storm(60 * minutes, EVERY_S, stream(seed, "soak", "service"))
        live.trains_again()
        live.check_invariants()
    return done
