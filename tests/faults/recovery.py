"""How long after the kill of each of its processes a run trains again.

    python tests/faults/recovery.py [worker trainer cohort raylet gcs_server driver]

A kill is SIGKILL, and training again is the next round that closes; a run whose driver is killed is resumed at once.
The time of a round itself, some hundredths of a second here, is part of it.
"""

import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.faults.live_runs import STUDY, live_run  # noqa: E402 - found by the line above

PARTS = ("worker", "trainer", "cohort", "raylet", "gcs_server", "driver")
ENOUGH = 20_000  # rounds: the run lasts until it is ended


def recovery_s(folder: Path, part: str) -> float:
    """Return the seconds from the kill to the next closed round."""
    study, directory = folder / "study.toml", folder / part
    study.write_text(STUDY.format(rounds=ENOUGH))
    engine = [] if part == "worker" else ["--engine", "ray"]
    with live_run(["run", str(study), "--out", str(directory), *engine], directory) as run:
        run.wait_rounds(10)
        killed_s = time.monotonic()
        if part != "driver":
            os.kill(run.parts(part)[0], signal.SIGKILL)
            before = run.rounds()
            run.wait_rounds(before + 2)  # one may have closed between the kill and the look
            return time.monotonic() - killed_s
        run.process.kill()
        run.process.wait()
        with live_run(["resume", str(directory)], directory) as again:
            before = again.rounds()
            again.wait("another round", lambda: again.rounds() > before)
            return time.monotonic() - killed_s


if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        with TemporaryDirectory(prefix="auxo-recovery-") as made:
            print(f"{name}: {recovery_s(Path(made), name):.1f} s", flush=True)  # noqa: T201 - for whoever runs it
