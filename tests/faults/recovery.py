"""How long after the kill of each of its processes a run, or a service, trains again, and what is done again.

    python tests/faults/recovery.py [--json FILE] [worker trainer cohort raylet gcs_server driver service service-ray]

A kill is SIGKILL. A simulation trains again when its next round has closed; a run whose driver is killed is resumed at
once. A service does when the process that was killed has a successor, and every cohort has committed another round. The
time of a round itself, some hundredths of a second here, is part of it. Rounds lost are those that were closed, and
had to be done again, at most; the one under way is lost besides.
"""

import argparse
import json
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "service")]

from auxo.core.types import ROOT as ROOT_COHORT  # noqa: E402 - found by the line above
from auxo.service.pulses import COORDINATOR  # noqa: E402
from tests.faults.live_runs import STUDY, live_run  # noqa: E402
from tests.faults.ray_nodes import two_nodes  # noqa: E402
from tests.service.live_service import LiveService, live_service  # noqa: E402

PARTS = ("worker", "trainer", "cohort", "raylet", "gcs_server", "driver")
SERVICES = {"service": "service", "service-ray": "service on Ray, two nodes"}
ENOUGH = 20_000  # rounds: the run lasts until it is ended
REPEATS = 3  # kills of each kind in a service


def of_run(folder: Path, part: str) -> dict[str, Any]:
    """Return the seconds from the kill to the next closed round of a simulation."""
    study, directory = folder / "study.toml", folder / part
    study.write_text(STUDY.format(rounds=ENOUGH))
    engine = [] if part == "worker" else ["--engine", "ray"]
    where = "simulation" if part == "worker" else "simulation on Ray"
    with live_run(["run", str(study), "--out", str(directory), *engine], directory) as run:
        run.wait_rounds(10)
        killed_s = time.monotonic()
        if part != "driver":
            os.kill(run.parts(part)[0], signal.SIGKILL)
            before = run.rounds()
            run.wait_rounds(before + 2)  # one may have closed between the kill and the look
            return {"where": where, "killed": part, "seconds": [time.monotonic() - killed_s], "lost": 0}
        run.process.kill()
        run.process.wait()
        with live_run(["resume", str(directory)], directory) as again:
            before = again.rounds()
            again.wait("another round", lambda: again.rounds() > before)
            # What came after the last checkpoint is done again: up to run.checkpoint_every, five rounds here.
            return {"where": where, "killed": part, "seconds": [time.monotonic() - killed_s], "lost": 5}


def of_service(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the seconds from the kill until all cohorts of a service train, by what was killed."""
    with ExitStack() as held:
        more: list[str] = []
        if kind == "service-ray":
            more = ["--engine", "ray", "--ray-address", held.enter_context(two_nodes()).address]
        live = held.enter_context(live_service(folder, more=more))
        live.wait("a partition", lambda: ROOT_COHORT not in live.owners)
        cohorts = [str(one) for one in live.owners]
        plans = {"cohort": [], "coordinator": [COORDINATOR], "cohort and coordinator": [COORDINATOR]}
        return [
            {"where": SERVICES[kind], "killed": killed}
            | _killed(live, [[*also, *([] if killed == "coordinator" else [one])] for one in [*cohorts, cohorts[0]]])
            for killed, also in plans.items()
        ]


def _killed(live: LiveService, kills: list[list[str]]) -> dict[str, Any]:
    seconds, lost = list[float](), 0
    for whom in kills[:REPEATS]:
        live.trains_again()
        pids, before = {who: live.pid(who) for who in whom}, live.rounds
        killed_s = time.monotonic()
        live.kill(*whom)
        live.wait("their successors", lambda pids=pids: all(live.pid(who) != pid for who, pid in pids.items()))  # type: ignore[misc]
        live.trains_again()
        seconds.append(time.monotonic() - killed_s)
        lost = max(lost, *(before[one] - live.rounds[one] for one in before))
    return {"seconds": seconds, "lost": max(lost, 0)}


def main() -> None:
    """Measure, print, and write figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[*PARTS, *SERVICES], metavar="PART")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    for part in chosen.parts:
        load = os.getloadavg()[0]
        with TemporaryDirectory(prefix="auxo-recovery-") as made:
            found = of_service(Path(made), part) if part in SERVICES else [of_run(Path(made), part)]
        records = [one | {"load": load} for one in found]
        print(json.dumps(records), flush=True)  # noqa: T201 - for whoever runs it
        if chosen.json is not None:
            held = json.loads(chosen.json.read_text(encoding="utf-8")) if chosen.json.exists() else {}
            again = {(one["where"], one["killed"]) for one in records}
            others = [one for one in held.get("recovery", []) if (one["where"], one["killed"]) not in again]
            held["recovery"] = [*others, *records]
            chosen.json.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
