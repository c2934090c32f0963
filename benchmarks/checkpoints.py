"""What do checkpoints cost at their default interval, how much is written and kept, and how long does it take to go on?

    python benchmarks/checkpoints.py --json build/checkpoints.json
    python benchmarks/checkpoints.py --only clients --seconds 10
    python benchmarks/bench_tables.py build/checkpoints.json docs/resuming.md

A real simulation of Auxo trains in this process; after every so many seconds of work its whole state is committed, each
file synced to the disk. The first two commits write everything, one into each slot; the others what has changed.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from auxo.engines.in_process import InProcess
from auxo.experiments.config_file import parse_config, to_toml
from auxo.experiments.method_runs import local_training, method_runs
from auxo.experiments.populations import make_population, trainer_for
from auxo.experiments.run_checkpoints import RunCheckpoints
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.world import make_world
from auxo.files.checkpoint_pace import CheckpointInterval, work_between
from auxo.protocol.codec import to_bytes, to_parts
from auxo.runtime.coordinator import start
from auxo.runtime.recorder import Recorder
from auxo.simulation.virtual_time import Simulation

COMMITS = 4
DEFAULT_S = 30.0  # as run.checkpoint_every has it
WORKLOADS = {
    "small": ("population.clients=1000", "training.model=softmax"),
    "model": ("population.clients=200", "training.model=mlp", "training.model_args={hidden=14000}"),
    "clients": ("population.clients=1000000", "training.model=softmax", "devices.share_online=0.01"),
}
COMMON = (
    "population.source=synthetic",
    "population.features=64",
    "population.classes=10",
    "population.samples=[4, 4]",
    "population.test_samples=1",
    "training.participants=200",
    "training.rounds=1000000",
)


@dataclass(frozen=True)
class Record:
    """What the checkpoints of one workload cost."""

    workload: str
    clients: int
    parameters: int
    taken_part: int  # clients that have by the last commit
    worked_s: float  # before each commit that was measured
    rounds: int  # in that time, the median
    state_mib: float  # all arrays of the state at the last commit
    first_mib: float  # written by the first commit
    later_mib: float  # by one of the later ones, the mean
    first_s: float
    later_s: float  # the median
    between_s: float  # of work between two at the default interval: more where one takes long
    share: float  # of the time that goes into them then
    disk_mib: float  # two checkpoints
    resume_s: float  # to check, read and take apart the newest


def measure(name: str, seconds: float) -> Record:
    """Run one workload until it has committed a few times."""
    config = parse_config("", (*COMMON, *WORKLOADS[name]))
    data = make_population(config)
    trainer = trainer_for(config, data)
    engine = InProcess(trainer, data, local_training(config), config.seed)
    (run,) = method_runs("auxo", config, data, trainer.layers)
    closed = 0

    def count(event: object) -> None:
        nonlocal closed
        closed += type(event).__name__ == "RoundClosed"

    simulation = Simulation(run.rules, make_world(config, data, engine, False), count)
    state = simulation.start(start(run.rules, lambda number: trainer.initial_weights(config.seed)))
    place = Path("build")  # on a disk, which the system's place for such folders may not be
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        directory = RunDirectory.create(Path(folder) / "run", to_toml(config))
        recorder = Recorder(directory.path, CheckpointInterval(), print)
        checkpoints = RunCheckpoints(directory, config, recorder)
        checkpoints.begin("auxo", (), None)
        checkpoints.begin_run(0)
        times, sizes, rounds = [], [], []
        for _ in range(COMMITS):
            begin_s, before = time.perf_counter(), closed
            while time.perf_counter() - begin_s < seconds:
                state = simulation.step(state)
            rounds.append(closed - before)
            begin_s = time.perf_counter()
            checkpoints.write(state)
            times.append(time.perf_counter() - begin_s)
            sizes.append(recorder.bytes_written / 2**20)
        on_disk = sum(path.stat().st_size for path in directory.checkpoints.iterdir()) / 2**20
        recorder.close_logs()
        again = RunCheckpoints(directory, config, Recorder(directory.path, CheckpointInterval(), print))
        begin_s = time.perf_counter()
        found = again.find({"auxo": run.rules.own_states})
        resume_s = time.perf_counter() - begin_s
    if found is None or to_bytes(found.runs[0].state) != to_bytes(state):
        raise RuntimeError("what was read is not what was written")
    later_s = statistics.median(times[2:])
    between_s = work_between(DEFAULT_S, later_s)
    return Record(
        workload=name,
        clients=data.n_clients,
        parameters=trainer.n_params,
        taken_part=int((state.clients.participations(np.arange(data.n_clients)) > 0).sum()),
        worked_s=seconds,
        rounds=int(statistics.median(rounds)),
        state_mib=sum(array.nbytes for array in to_parts(state)[1].values()) / 2**20,
        first_mib=sizes[0],
        later_mib=statistics.mean(sizes[2:]),
        first_s=times[0],
        later_s=later_s,
        between_s=between_s,
        share=later_s / (between_s + later_s),
        disk_mib=on_disk,
        resume_s=resume_s,
    )


def table(records: Sequence[Record]) -> Table:
    """Return a row for each workload."""
    shown = Table("workload", title="checkpoints")
    headings = ("rounds between", "state MiB", "first MiB", "later MiB", "later s", "share", "disk MiB", "resume s")
    for heading in headings:
        shown.add_column(heading, justify="right")
    for one in records:
        sizes = (one.state_mib, one.first_mib, one.later_mib)
        shown.add_row(
            one.workload,
            f"{one.rounds:,}",
            *(f"{size:.2f}" for size in sizes),
            f"{one.later_s:.3f}",
            f"{one.share:.2%}",
            f"{one.disk_mib:.1f}",
            f"{one.resume_s:.2f}",
        )
    return shown


def main() -> None:
    """Measure, print a table, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the records")
    parser.add_argument("--seconds", type=float, default=DEFAULT_S, help="of work between two checkpoints")
    parser.add_argument("--only", choices=list(WORKLOADS), nargs="+", default=list(WORKLOADS))
    arguments = parser.parse_args()
    records = [measure(name, arguments.seconds) for name in arguments.only]
    Console(width=120).print(table(records))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        found = {"checkpoints": [asdict(record) for record in records]}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
