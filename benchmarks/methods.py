"""Who finds the groups, with how much time and resource: all methods on the planted populations and on real clients.

    python benchmarks/methods.py --quick --json build/methods.json
    python benchmarks/methods.py --only concept label --seeds 1 --jobs 2 --json FILE
    python benchmarks/methods.py --methods base auxo ifca --json FILE
    python benchmarks/methods.py --only clustered clustered-small --json FILE    # the paper's protocol
    python benchmarks/methods.py --methods auxo --update --json benchmarks/results/methods.json
    python benchmarks/methods.py --methods ifca --algorithms fedavg --update --json FILE    # the table of methods only

Two tables in one list of records. *Methods*: every clustered-FL method under FedAvg. *FL algorithms*: the base and Auxo
under FedAvg, FedYogi, FedProx, q-FedAvg, Oort + FedYogi, PyramidFL + FedYogi and FTFA. Auxo runs at its defaults.
Rivals and FL algorithms run with the settings that were best on other seeds (tuned.json, made by tune_base.py). A
method that has to be told the number of cohorts is told the true one, and, as `NAME k+2`, two more.

A record's `aggregator` names the FL algorithm's server step; `fedprox` stands for FedAvg with FedProx's clients.
`base_accuracy` is the base's under the same algorithm, and times and participations are to the base's best accuracy on
the way; null: never. Participations count what was wasted; so does `device_s`, which also has the tuning of FTFA.
Methods that need everybody in every round have everybody, and are charged for it; where traces forbid that they are
`refused`. Runs that are done are kept beside the JSON file (FILE.cells), and done again only when code that they use
has changed; that of other methods is not. With --update the records that FILE has of other runs stay there. Results
do not depend on --jobs. The populations writers and speech need the real data: --data DIR or the variable AUXO_DATA.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from method_cells import MORE_K, PLANTED, POPULATIONS, PROTOCOL, Algorithm, Cell, Kept, Outcome, is_told_k, run_cells
from rich.console import Console
from rich.table import Table
from tuned_settings import read_table, tuned_for

from auxo.experiments.config_file import ConfigError
from auxo.experiments.parts import AGGREGATORS, CLIENTS, METHODS, PERSONALISERS, SELECTORS
from auxo.files.typed_json import json_reader

FEDAVG = Algorithm("fedavg")
ALGORITHMS = (
    FEDAVG,
    Algorithm("fedyogi", aggregator="fedyogi"),
    Algorithm("fedprox", client="fedprox"),
    Algorithm("qfedavg", aggregator="qfedavg"),
    Algorithm("oort + fedyogi", aggregator="fedyogi", selector="oort"),
    Algorithm("pyramidfl + fedyogi", aggregator="fedyogi", selector="pyramidfl"),
    Algorithm("ftfa", personaliser="ftfa"),
)
UNDER_ALGORITHMS = ("base", "auxo")
PROTOCOL_METHODS = ("base", "auxo", "oracle", "cfl", "fl+hc", "flexcfl", "ifca")
PROTOCOL_ALGORITHMS = {"clustered": ALGORITHMS[1]}  # with the rates that the configuration has
ALGORITHM_POPULATIONS = ("concept", "label", "rotation-skew", "writers", "speech")

QUICK_POPULATIONS = ("concept", "label", "rotation-skew", "homogeneous")
QUICK_METHODS = ("base", "auxo", "oracle", "cfl", "fl+hc", "flexcfl", "ifca")
SEEDS = 3
_OWN = frozenset({"base", "auxo", "oracle", "paper"})  # not tuned


@dataclass(frozen=True)
class Record:
    """One run, held against the base of the same population, seed and FL algorithm."""

    population: str
    method: str
    aggregator: str
    selector: str
    personaliser: str
    seed: int
    accuracy: float | None
    base_accuracy: float | None
    time_to_base_s: float | None
    participations_to_base: float | None
    device_s: float | None
    downloads: float | None
    ari: float | None
    refused: str | None


def record_of(cell: Cell, outcome: Outcome, base: Outcome) -> Record:
    """Return what is told of a cell."""
    is_there = outcome.accuracy is not None and base.accuracy is not None
    aggregator, selector, personaliser = _recorded(cell.algorithm)
    return Record(
        population=cell.population,
        method=cell.label,
        aggregator=aggregator,
        selector=selector,
        personaliser=personaliser,
        seed=cell.seed,
        accuracy=outcome.accuracy,
        base_accuracy=base.accuracy,
        time_to_base_s=outcome.reach(base.best, 0) if is_there else None,
        participations_to_base=outcome.reach(base.best, 1) if is_there else None,
        device_s=outcome.device_s,
        downloads=outcome.downloads,
        ari=outcome.ari,
        refused=outcome.refused,
    )


def make_cells(
    populations: Sequence[str], methods: Sequence[str], seeds: int, algorithms: Sequence[Algorithm] = ALGORITHMS
) -> list[Cell]:
    """Return all runs, population by population: all methods under FedAvg, the base and Auxo under other algorithms."""
    table = read_table()
    cells: list[Cell] = []
    for population in populations:
        for seed in range(seeds):
            if FEDAVG in algorithms:
                algorithm = PROTOCOL_ALGORITHMS.get(population, FEDAVG)
                for method in methods:
                    settings = () if method in _OWN else tuned_for(population, (method,), table)
                    cells.append(Cell(population, method, algorithm, seed, 0, settings))
                    if is_told_k(method) is not None:
                        cells.append(Cell(population, method, algorithm, seed, MORE_K, settings))
            if population in ALGORITHM_POPULATIONS:
                for algorithm in algorithms:
                    if algorithm != FEDAVG:
                        settings = tuned_for(population, algorithm.parts, table)
                        lifted = [method for method in UNDER_ALGORITHMS if method in methods]
                        cells += [Cell(population, method, algorithm, seed, 0, settings) for method in lifted]
    return cells


def check_parts(methods: Sequence[str], algorithms: Sequence[Algorithm]) -> None:
    """Fail for what is not in the registry.

    Raises:
        SystemExit: something is not.
    """
    wanted = (
        (METHODS, methods),
        (AGGREGATORS, [one.aggregator for one in algorithms]),
        (CLIENTS, [one.client for one in algorithms]),
        (SELECTORS, [one.selector for one in algorithms]),
        (PERSONALISERS, [one.personaliser for one in algorithms]),
    )
    missing = [
        f"{kind.kind} {name}" for kind, names in wanted for name in dict.fromkeys(names) if name not in kind.names
    ]
    if missing:
        raise SystemExit(
            f"error: this version of Auxo does not have: {', '.join(missing)}; `auxo list` has what there is, and "
            "--methods, with --quick, runs some of it"
        )


def table(records: Sequence[Record]) -> Table:
    """Return a line for each population, FL algorithm and method, the mean over seeds."""
    headings = ("population", "algorithm", "method", "accuracy", "- base", "h to base", "participations", "device-h")
    shown = Table(*headings, "downloads", "ARI", "refused")
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        parts = (record.aggregator, record.selector, record.personaliser)
        algorithm = " + ".join(part for part in parts if part not in ("uniform", "none"))
        groups.setdefault((record.population, algorithm, record.method), []).append(record)
    for (population, algorithm, method), mine in groups.items():
        gains = [one.accuracy - one.base_accuracy for one in mine if one.accuracy is not None and one.base_accuracy]
        shown.add_row(
            population,
            algorithm,
            method,
            _mean([one.accuracy for one in mine], "{:.4f}"),
            f"{np.mean(gains):+.4f}" if gains else "-",
            _mean([one.time_to_base_s and one.time_to_base_s / 3600 for one in mine], "{:.2f}"),
            _mean([one.participations_to_base for one in mine], "{:,.0f}"),
            _mean([one.device_s and one.device_s / 3600 for one in mine], "{:,.0f}"),
            _mean([one.downloads for one in mine], "{:,.0f}"),
            _mean([one.ari for one in mine], "{:.3f}"),
            next((one.refused for one in mine if one.refused), ""),
        )
    return shown


def _mean(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return form.format(np.mean(known)) if known and len(known) == len(values) else "-"


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="one seed of four populations under FedAvg, in about 10 minutes"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these populations")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="run only these methods (the base always runs)")
    parser.add_argument(
        "--algorithms",
        nargs="+",
        choices=[one.name for one in ALGORITHMS],
        metavar="NAME",
        help="run only under these FL algorithms (fedavg: the table of methods)",
    )
    parser.add_argument("--seeds", type=int, help=f"seeds from 0 on (default: {SEEDS}, or 1 with --quick)")
    parser.add_argument("--data", type=Path, help="folder with the real data (default: the variable AUXO_DATA)")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the records go")
    parser.add_argument("--update", action="store_true", help="keep the records of other runs that FILE has")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at the same time")
    return parser.parse_args(argv)


def _chosen(arguments: argparse.Namespace) -> list[Cell]:
    populations = arguments.only or (QUICK_POPULATIONS if arguments.quick else tuple(PLANTED))
    unknown = [name for name in populations if name not in POPULATIONS]
    if unknown:
        raise SystemExit(f"--only: unknown population {unknown}; expected some of {', '.join(POPULATIONS)}")
    if arguments.methods is None and {*populations} <= {*PROTOCOL}:
        arguments.methods = PROTOCOL_METHODS
    methods = arguments.methods or (QUICK_METHODS if arguments.quick else METHODS.names)
    methods = tuple(dict.fromkeys(("base", *methods)))
    names = arguments.algorithms or [one.name for one in ((FEDAVG,) if arguments.quick else ALGORITHMS)]
    algorithms = [one for one in ALGORITHMS if one.name in names]
    check_parts(methods, algorithms)
    return make_cells(populations, methods, arguments.seeds or (1 if arguments.quick else SEEDS), algorithms)


def records_of(cells: Sequence[Cell], done: Mapping[Cell, Outcome]) -> list[Record]:
    """Return the records of the cells that are done and whose base is, in the order of the cells."""
    bases = {(one.population, one.algorithm, one.seed): found for one, found in done.items() if one.method == "base"}
    return [
        record_of(cell, done[cell], bases[cell.population, cell.algorithm, cell.seed])
        for cell in cells
        if cell in done and (cell.population, cell.algorithm, cell.seed) in bases
    ]


def merged(before: Sequence[Record], now: Sequence[Record]) -> list[Record]:
    """Return all records, those of now in the place of those of the same runs, in the order of the benchmark.

    Raises:
        ValueError: the base is not what records that stay were held against, so that they have to be run again.
    """
    bases = {_base_key(one): one.accuracy for one in now if one.method == "base"}
    replaced = {_key(one) for one in now}
    stay = [one for one in before if _key(one) not in replaced]
    stale = [one for one in stay if bases.get(_base_key(one), one.base_accuracy) != one.base_accuracy]
    if stale:
        names = ", ".join(dict.fromkeys(f"{one.method} on {one.population}" for one in stale))
        raise ValueError(f"the base is not what it was; run again what was held against it: {names}")
    return sorted([*stay, *now], key=_place)


def _key(record: Record) -> tuple[str, str, str, str, str, int]:
    return (record.method, *_base_key(record))


def _base_key(record: Record) -> tuple[str, str, str, str, int]:
    return record.population, record.aggregator, record.selector, record.personaliser, record.seed


def _place(record: Record) -> tuple[int, int, int, int, str]:
    method, _, more = record.method.partition(" ")
    algorithms = [_recorded(one) for one in ALGORITHMS]
    algorithm = algorithms.index((record.aggregator, record.selector, record.personaliser))
    return list(POPULATIONS).index(record.population), algorithm, record.seed, METHODS.names.index(method), more


def _recorded(algorithm: Algorithm) -> tuple[str, str, str]:
    """Return what records say of an FL algorithm."""
    server = algorithm.client if algorithm.client != "sgd" else algorithm.aggregator
    return server, algorithm.selector, algorithm.personaliser


def main(argv: Sequence[str]) -> None:
    """Run the benchmark and write its records."""
    console, arguments = Console(), _arguments(argv)
    if not console.is_terminal:
        console.width = 180  # a table in a log is read in an editor
    cells = _chosen(arguments)
    folder = arguments.data or (Path(os.environ["AUXO_DATA"]) if "AUXO_DATA" in os.environ else None)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    kept = Kept(arguments.json.with_name(f"{arguments.json.name}.cells"))
    done: dict[Cell, Outcome] = {}
    without: set[str] = set()
    before = json_reader(tuple[Record, ...])(arguments.json.read_bytes()) if _adds(arguments) else ()
    try:
        for cell, outcome in run_cells(cells, folder, kept, arguments.jobs, console):
            if outcome is None:
                without.add(cell.population)
                continue
            done[cell] = outcome
            text = json.dumps([asdict(record) for record in merged(before, records_of(cells, done))], indent=1)
            arguments.json.write_text(text + "\n", encoding="utf-8")
    except (ConfigError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        console.print(f"interrupted; {len(done)} of {len(cells)} runs are kept, and the same command goes on")
        raise SystemExit(130) from None
    if without:
        console.print(f"left out for want of data (--data or AUXO_DATA): {', '.join(sorted(without))}")
    console.print(table(records_of(cells, done)))


def _adds(arguments: argparse.Namespace) -> bool:
    return bool(arguments.update and arguments.json.is_file())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
