"""What looking for groups costs: of the processor's time of a run, of memory, and of what clients keep and send.

    python benchmarks/looking_cost.py --json build/looking_cost.json
    python benchmarks/bench_tables.py --part looking build/looking_cost.json docs/departures.md

Runs of the identification benchmark's size, in one process. Looking is all that is done with fingerprints (pool,
structure, clusters, nearest branch) and with what judges say. Local training and the mean of updates are most of the
rest. Records and check-ins are those of clients that have taken part, as bytes
on the wire; their mean is taken at the end of the run, when there are most cohorts.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import numpy as np
from rich.console import Console
from workloads import WORKLOADS

from auxo.algorithms.auxo import OnTrial, Pooling
from auxo.core.affinity import AffinityRecords, AffinitySettings, request
from auxo.experiments.config_file import parse_config, to_toml
from auxo.experiments.runner import run_method
from auxo.protocol.codec import to_bytes
from auxo.runtime.client import check_in_of
from auxo.simulation.client_records import ClientRecords

RUNS = {
    "softmax, groups": ("concept", ()),
    "softmax, no groups": ("homogeneous", ()),
    "mlp, groups": ("concept", ("training.model=mlp", "training.rounds=80")),
}
STEPS = (
    *((Pooling, step) for step in ("after", "counted", "look")),
    *((OnTrial, step) for step in ("nearest", "said", "moved", "verdict", "is_over", "is_promising")),
)  # of looking, none of which calls another
ASKED = 200  # clients whose records and check-ins are weighed
_NUMBER_BYTES = 4  # of a pooled fingerprint
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Record:
    """One run."""

    run: str
    parameters: int
    rounds: int
    round_ms: float  # processor's time of the base's round
    looking_share: float  # of the processor's time of Auxo's run
    longest_look_ms: float
    pool_mib: float  # at most
    record_bytes: float
    check_in_bytes: float
    downloads_ratio: float  # Auxo's over the base's


@dataclass
class _Clock:
    """The processor's time that calls have taken."""

    total_s: float = 0.0
    longest_s: float = 0.0
    pool_bytes: int = 0

    def around(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Return the function, watched."""

        @wraps(function)
        def watched(*arguments: _P.args, **named: _P.kwargs) -> _T:
            started = time.process_time()
            result = function(*arguments, **named)
            took_s = time.process_time() - started
            self.total_s += took_s
            self.longest_s = max(self.longest_s, took_s)
            if isinstance(result, Pooling) and result.common is not None:
                width = sum(one.shape[1] for one in vars(result.common).values())
                pooled = sum(len(one.first_half) for one in result.rounds)
                self.pool_bytes = max(self.pool_bytes, _NUMBER_BYTES * width * pooled)
            return result

        return watched


def measured(name: str) -> Record:
    """Run the base and Auxo, and return what looking has cost."""
    workload, settings = RUNS[name]
    made = next(one for one in WORKLOADS if one.name == workload).make(0, None)
    assert made is not None  # noqa: S101 - these populations need no files
    config, data = made
    config = parse_config(to_toml(config), [*settings, "run.evaluate_every=1000000"])
    started = time.process_time()
    base = run_method("base", config, data)
    base_s = time.process_time() - started
    clock = _Clock()
    started = time.process_time()
    with ExitStack() as stack:
        for phase, step in STEPS:
            stack.enter_context(patch.object(phase, step, clock.around(getattr(phase, step))))
        ours = run_method("auxo", config, data)
    auxo_s = time.process_time() - started
    assert isinstance(ours.state.clients, ClientRecords)  # noqa: S101 - Auxo's clients keep records
    some = np.arange(min(ASKED, data.n_clients))
    kept = [ours.state.clients.of(some[[row]]) for row in range(len(some))]
    check_ins = [check_in_of("client-0001", request(one, AffinitySettings(), None)) for one in kept]
    leaf = next(iter(ours.state.coordinator.cohorts.values()))
    return Record(
        run=name,
        parameters=leaf.server.weights.size,
        rounds=config.training.rounds,
        round_ms=1000 * base_s / config.training.rounds,
        looking_share=clock.total_s / auxo_s,
        longest_look_ms=1000 * clock.longest_s,
        pool_mib=clock.pool_bytes / 2**20,
        record_bytes=float(np.mean([_weight(one) for one in kept])),
        check_in_bytes=float(np.mean([len(to_bytes(one)) for one in check_ins])),
        downloads_ratio=ours.final.downloads / base.final.downloads,
    )


def _weight(record: AffinityRecords) -> int:
    """Return the bytes of a record's columns; the tree, which all share, is not among them."""
    columns = (record.heard, record.reward, record.explored, record.confirmed, record.similarity)
    return sum(column.nbytes for column in (*columns, record.generation, record.participations))


def main(argv: Sequence[str]) -> None:
    """Measure, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the records go")
    arguments, console = parser.parse_args(argv), Console()
    records = []
    for name in RUNS:
        records.append(measured(name))
        console.print(records[-1])
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
