"""Are the right clients in the right cohorts, does each cohort's model pay, and does nothing happen where nothing is?

    python benchmarks/identification.py --quick --json build/identification.json
    python benchmarks/identification.py --only concept label --seeds 2 --json FILE
    python benchmarks/identification.py --population my_clients.npz --json FILE

Every record compares the base algorithm, Auxo and, where groups are known, an oracle with a model for each true group,
on the same clients, the same held-out samples and the same budget. Auxo never sees the groups. Results do not depend on
--jobs. Populations of writers and speakers need the real data: --data DIR or the variable AUXO_DATA.

Models move to the end: with small cohorts the last accuracy goes up and down by a few tenths of a point. Where groups
are worth two or three points that is a tenth of the gain, so that a second share is of the mean over the second half
of the run.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from workloads import WORKLOADS, Workload, from_file

from auxo.algorithms.auxo import Auxo
from auxo.core.metrics import oracle_gain_share
from auxo.experiments.runner import MethodResult, has_groups, run_method
from auxo.files.errors import FileError
from auxo.protocol.events import Partitioned


@dataclass(frozen=True)
class Record:
    """One run: the base, Auxo and the oracle on one population with one seed."""

    population: str
    seed: int
    base: float
    auxo: float
    oracle: float | None
    ari: float | None
    partitions: int
    cohorts: int
    oracle_gain_share: float | None
    late_gain_share: float | None  # of accuracies over the second half of the run, not of the last ones
    lost: int  # clients that had to compare models to find theirs
    matched: float  # Auxo's accuracy if those were sent somewhere at random instead
    matched_ari: float | None
    seconds: float


def run_one(workload: Workload, seed: int, folder: Path | None, auxo: Auxo) -> Record | None:
    """Run the three methods; None where the population's data are not there."""
    started = time.perf_counter()
    made = workload.make(seed, folder)
    if made is None:
        return None
    config, data = made
    config = config.model_copy(update={"parts": {**config.parts, "auxo": auxo}})
    base = run_method("base", config, data)
    ours = run_method("auxo", config, data)
    told = run_method("oracle", config, data) if has_groups(data) else None
    oracle = None if told is None else told.final.accuracy
    return Record(
        population=workload.name,
        seed=seed,
        base=base.final.accuracy,
        auxo=ours.final.accuracy,
        oracle=oracle,
        ari=ours.final.ari,
        partitions=sum(isinstance(event, Partitioned) for event in ours.events),
        cohorts=len(ours.state.coordinator.tree.leaves),
        oracle_gain_share=None
        if oracle is None
        else oracle_gain_share(base.final.accuracy, ours.final.accuracy, oracle),
        late_gain_share=None if told is None else oracle_gain_share(_late(base), _late(ours), _late(told)),
        lost=ours.final.lost,
        matched=ours.final.matched_accuracy,
        matched_ari=ours.final.matched_ari,
        seconds=time.perf_counter() - started,
    )


def _late(result: MethodResult) -> float:
    """Return the mean accuracy over the second half of a run."""
    return float(np.mean([one.accuracy for one in result.curve[len(result.curve) // 2 :]]))


_workloads: dict[str, Workload] = {}  # by name; filled before workers are forked, so that they have it too


def _job(name: str, seed: int, folder: Path | None, auxo: Auxo) -> Record | None:
    return run_one(_workloads[name], seed, folder, auxo)


def run_all(
    jobs: Sequence[tuple[str, int]], folder: Path | None, auxo: Auxo, workers: int, console: Console
) -> Iterator[Record]:
    """Yield records as they come, with a progress bar on a terminal and a line each elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        bar = progress.add_task("runs", total=len(jobs))
        for future in as_completed([pool.submit(_job, name, seed, folder, auxo) for name, seed in jobs]):
            try:
                record = future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # or the error would show when all others are done
                raise
            progress.advance(bar)
            if record is None:
                continue
            progress.update(bar, description=f"{record.population} {record.seed}")
            if not console.is_terminal:
                share = "" if record.oracle_gain_share is None else f" share {record.oracle_gain_share:.3f}"
                console.print(
                    f"{record.population} seed {record.seed}: base {record.base:.4f} auxo {record.auxo:.4f}{share} "
                    f"partitions {record.partitions} ({record.seconds:.0f} s)"
                )
            yield record


def table(records: Sequence[Record]) -> Table:
    """Return one line for each population."""
    shown = Table(
        "population",
        "seeds",
        "base",
        "auxo",
        "oracle",
        "auxo - base",
        "gain share (min)",
        "late (min)",
        "ARI (min)",
        "partitions",
        "lost",
        "as matched",
        "ARI as matched (min)",
    )
    for name in dict.fromkeys(record.population for record in records):
        mine = [record for record in records if record.population == name]
        difference = np.array([record.auxo - record.base for record in mine])
        error = f" ± {difference.std(ddof=1) / np.sqrt(len(mine)):.4f}" if len(mine) > 1 else ""
        shares = [record.oracle_gain_share for record in mine if record.oracle_gain_share is not None]
        late = [record.late_gain_share for record in mine if record.late_gain_share is not None]
        aris = [record.ari for record in mine if record.ari is not None and record.oracle is not None]
        matched_aris = [
            record.matched_ari for record in mine if record.matched_ari is not None and record.oracle is not None
        ]
        oracles = [record.oracle for record in mine if record.oracle is not None]
        shown.add_row(
            name,
            str(len(mine)),
            f"{np.mean([record.base for record in mine]):.4f}",
            f"{np.mean([record.auxo for record in mine]):.4f}",
            f"{np.mean(oracles):.4f}" if oracles else "-",
            f"{difference.mean():+.4f}{error}",
            f"{np.mean(shares):.3f} ({min(shares):.3f})" if shares else "-",
            f"{np.mean(late):.3f} ({min(late):.3f})" if late else "-",
            f"{np.mean(aris):.3f} ({min(aris):.3f})" if aris else "-",
            " ".join(str(record.partitions) for record in mine),
            f"{np.mean([record.lost for record in mine]):.0f}",
            f"{np.mean([record.matched for record in mine]):.4f}",
            f"{np.mean(matched_aris):.3f} ({min(matched_aris):.3f})" if matched_aris else "-",
        )
    return shown


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few seeds of the main populations, in at most 5 minutes")
    parser.add_argument("--seeds", type=int, help="seeds for each population (default: 3 to 20, by population)")
    parser.add_argument("--first-seed", type=int, default=0, help="0 to report, 100 to choose constants by")
    parser.add_argument(
        "--population", type=Path, nargs="+", default=[], metavar="FILE", help="population files to run"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run only these built-in populations")
    parser.add_argument("--data", type=Path, help="folder with the real data (default: the variable AUXO_DATA)")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the records go")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at the same time")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of [auxo], such as trial.alpha=0.001"
    )
    return parser.parse_args(argv)


def _chosen(arguments: argparse.Namespace) -> list[tuple[Workload, int]]:
    if arguments.population:
        workloads = [from_file(path, 3) for path in arguments.population]
    else:
        workloads = [workload for workload in WORKLOADS if not arguments.only or workload.name in arguments.only]
        unknown = set(arguments.only) - {workload.name for workload in workloads}
        if unknown:
            names = ", ".join(workload.name for workload in WORKLOADS)
            raise SystemExit(f"--only: unknown population {sorted(unknown)}; expected some of {names}")
    usual = [(workload, workload.quick_seeds if arguments.quick else workload.seeds) for workload in workloads]
    if arguments.only:  # what is asked for by its name is run, also with --quick
        usual = [(workload, max(seeds, 1)) for workload, seeds in usual]
    return [(workload, arguments.seeds or seeds) for workload, seeds in usual if seeds > 0]


def main(argv: Sequence[str]) -> None:
    """Run the benchmark and write its records."""
    from auxo.experiments.config_file import ConfigError, parse_config  # noqa: PLC0415 - only to read --set

    console, arguments = Console(), _arguments(argv)
    if not console.is_terminal:
        console.width = 160  # a table in a log is read in an editor
    try:
        chosen = _chosen(arguments)
        auxo = parse_config("", [f"auxo.{setting}" for setting in arguments.set]).parts["auxo"]
    except (FileError, ConfigError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    folder = arguments.data or (Path(os.environ["AUXO_DATA"]) if "AUXO_DATA" in os.environ else None)
    _workloads.update((workload.name, workload) for workload, _ in chosen)
    first = arguments.first_seed
    jobs = [(workload.name, seed) for workload, seeds in chosen for seed in range(first, first + seeds)]
    records: list[Record] = []
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    try:
        for record in run_all(jobs, folder, auxo, arguments.jobs, console):
            records.append(record)
            ordered = sorted(records, key=lambda done: jobs.index((done.population, done.seed)))
            arguments.json.write_text(json.dumps([asdict(done) for done in ordered], indent=1))
    except ConfigError as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        console.print(f"interrupted; {len(records)} of {len(jobs)} records are in {arguments.json}")
        raise SystemExit(130) from None
    missing = {name for name, _ in jobs} - {record.population for record in records}
    if missing:
        console.print(f"left out for want of data (--data or AUXO_DATA): {', '.join(sorted(missing))}")
    console.print(table(sorted(records, key=lambda done: jobs.index((done.population, done.seed)))))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
