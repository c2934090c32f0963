"""A soak of a live service: a random process of it is killed or stopped every few seconds for minutes.

    python tests/service/soak.py [--minutes 10] [--seed 0]

Clients train all the while. Afterwards every cohort trains on, no round has counted twice, and nothing is left behind.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "service")]

from auxo.core.rng import stream  # noqa: E402 - found by the line above
from tests.service.live_service import live_service  # noqa: E402

EVERY_S = (5.0, 20.0)  # between two of them


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="auxo-soak-") as folder, live_service(Path(folder)) as live:
        live.wait("a round", lambda: max(live.rounds.values()) > 0)
        killed = live.storm(60 * chosen.minutes, EVERY_S, stream(chosen.seed, "soak"))
        took_s = live.trains_again()
        live.check_invariants()
        rounds = ", ".join(f"{cohort} at round {number}" for cohort, number in live.rounds.items())
        told = ", ".join(f"{count} x {what}" for what, count in sorted(killed.items()))
        print(f"soak: ok; {told}; {rounds}; all trained again {took_s:.1f} s after the last")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
