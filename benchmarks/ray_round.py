"""Where the processor's time of a round goes on Ray, beside one process and beside worker processes.

    python benchmarks/ray_round.py --json benchmarks/results/ray_round.json
    python benchmarks/ray_round.py --turns 1 --workload softmax

The work is that of throughput.py. Processor time of each process is read before the first timed round and after the
last, so that what else the machine does hardly matters; engines take turns all the same. The round's time by the clock
is given besides, and says something where the machine had nothing else to do.
"""

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import auxo_rounds

PLACES: tuple[auxo_rounds.Placed, ...] = ("one process", "processes", "ray")
ROUNDS, WARMUP = 20, 3
_TICKS = os.sysconf("SC_CLK_TCK")
_MARKS = {  # what stands in the command line
    "ray::TrainerActor": "trainers",
    "ray::CohortActor": "cohort",
    "raylet/raylet ": "raylet",
}
PARTS = ("driver", "trainers", "cohort", "raylet", "rest of Ray")


def part_of(pid: int, parent: int, line: str) -> str:
    """Return what a process of this session is."""
    if pid == os.getpid():
        return "driver"
    known = [part for mark, part in _MARKS.items() if mark in line]
    # Worker processes are forks of the driver, and bear its command line.
    forks = ["trainers"] if parent == os.getpid() and line == _line(os.getpid()) else []
    return next(iter([*known, *forks]), "rest of Ray")


def seconds_of_parts() -> dict[str, float]:
    """Return the processor time that each part of this run has taken since it began."""
    mine, found = os.getsid(0), dict.fromkeys(PARTS, 0.0)
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == mine:
                pid, parent = int(path.name), int(fields[1])
                found[part_of(pid, parent, _line(pid))] += (int(fields[11]) + int(fields[12])) / _TICKS
        except OSError:  # it has just ended
            continue
    return found


def _line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


@dataclass(frozen=True)
class Took:
    """Milliseconds of a round."""

    clock_ms: float
    parts: dict[str, float]  # of the processor


def measure(workload: str, placed: auxo_rounds.Placed) -> Took:
    """Return what a round takes, by the clock and of the processor."""
    looks: list[dict[str, float]] = []

    def clock() -> float:
        looks.append(seconds_of_parts())
        return time.perf_counter()

    rounds, _ = auxo_rounds.rounds_s(workload, ROUNDS, WARMUP, placed, auxo_rounds.How(clock=clock))
    first, last = looks[WARMUP], looks[-1]
    parts = {part: 1000 * (last[part] - first[part]) / ROUNDS for part in PARTS}
    return Took(1000 * statistics.median(rounds), parts)


def main() -> None:
    """Measure in turns, print, and write the median of each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=("mlp", "softmax", "cnn"), default="mlp")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where to write the records")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    turns = [{placed: measure(asked.workload, placed) for placed in PLACES} for _ in range(asked.turns)]
    records = []
    for placed in PLACES:
        mine = [turn[placed] for turn in turns]
        parts = {part: statistics.median(one.parts[part] for one in mine) for part in PARTS}
        clock_ms = statistics.median(one.clock_ms for one in mine)
        records.append(
            {"workload": asked.workload, "where": placed, "clock_ms": clock_ms, "parts": parts, "load": load}
        )
        print(json.dumps(records[-1]))
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"ray_round": records}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
