"""Do selectors that know their clients pay? Time to a target accuracy, and what the table of clients costs.

    python benchmarks/client_selection.py --json build/client_selection.json
    python benchmarks/client_selection.py --cost --json build/selector_cost.json

The first runs every selector with the base and with Auxo on digits whose clients differ in their classes, their samples
and the speed of their devices, half of the populations with groups. The target is the accuracy that uniform selection
has at the end of its run with the same method and seed. The second measures a million known clients.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from auxo.core.affinity import Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.own_state import own
from auxo.core.rng import stream
from auxo.core.selectors import UsualWork
from auxo.core.selectors.oort import OortMemory
from auxo.core.selectors.pyramidfl import PyramidFL
from auxo.core.turnout import Times, Turnout
from auxo.experiments.config import Config
from auxo.experiments.config_file import parse_config
from auxo.experiments.populations import make_population
from auxo.experiments.runner import run_method
from auxo.protocol.codec import to_bytes

SELECTORS, SEEDS = ("uniform", "oort", "pyramidfl"), (0, 1)
POPULATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "skewed": ('population.heterogeneity="none"', ("base",)),
    "rotated": ('population.heterogeneity="rotation"', ("base", "auxo")),
}
SETTINGS = (
    "population.clients=1000",
    "population.samples=[10, 150]",
    "population.client_label_concentration=0.3",
    "population.noise=1.0",
    "training.model=mlp",
    "training.learning_rate=0.05",
    "training.batch_size=10",
    "training.aggregator=fedavg",
    "training.participants=50",
    "training.rounds=150",
    "devices.dropout=0.05",
    "run.evaluate_every=5",
    "run.evaluate_clients=500",
)
KNOWN, ONLINE, WANTED = 1_000_000, (10_000, 1_000_000), 130


@dataclass(frozen=True)
class Record:
    """One run."""

    population: str
    method: str
    selector: str
    seed: int
    accuracy: float
    hours: float  # of simulated time
    device_hours: float  # used and wasted
    ari: float | None
    curve: tuple[tuple[float, float, float], ...]  # hours, accuracy, device hours
    hours_to_uniform: float | None = None  # until uniform selection's last accuracy; None: never
    device_hours_to_uniform: float | None = None
    in_time: float | None = None  # accuracy when the first of the selectors had done its rounds


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a selector's functions with so many known clients and so many on line."""

    known: int
    online: int
    select_ms: float
    learn_ms: float
    table_mb: float
    stored_mb: float


def config_of(population: str, selector: str, seed: int, more: Sequence[str] = ()) -> Config:
    """Return the configuration of a run."""
    drawn, _ = POPULATIONS[population]
    return parse_config("", [*SETTINGS, drawn, f"training.selector={selector}", f"seed={seed}", *more])


def measured(population: str, method: str, selector: str, seed: int, more: Sequence[str] = ()) -> Record:
    """Return what a run came to."""
    config = config_of(population, selector, seed, more)
    result = run_method(method, config, make_population(config))
    spent, final = result.state.spent, result.final
    return Record(
        population,
        method,
        selector,
        seed,
        final.accuracy,
        final.time_s / 3600,
        (spent.device_s + spent.wasted_device_s) / 3600,
        final.ari,
        tuple((one.time_s / 3600, one.accuracy, one.device_s / 3600) for one in result.curve),
    )


def with_targets(records: Sequence[Record]) -> list[Record]:
    """Return the records with how long each took to what uniform selection came to."""
    targets = {(one.population, one.method, one.seed): one.accuracy for one in records if one.selector == "uniform"}
    found = []
    for one in records:
        mine = [other for other in records if _alike(one, other)]
        soonest = min(other.hours for other in mine)
        in_time = [accuracy for hours, accuracy, _ in one.curve if hours <= soonest]
        target = targets.get((one.population, one.method, one.seed), float("inf"))
        reached = next(((hours, spent) for hours, accuracy, spent in one.curve if accuracy >= target), (None, None))
        done = replace(one, hours_to_uniform=reached[0], device_hours_to_uniform=reached[1])
        found.append(replace(done, in_time=in_time[-1] if in_time else None))
    return found


def _alike(one: Record, other: Record) -> bool:
    return (one.population, one.method, one.seed) == (other.population, other.method, other.seed)


def cost(known: int, online: int) -> Cost:
    """Return what it takes to select and to learn; the median of five."""
    selector, rng = PyramidFL(), stream(0, "cost")
    memory = selector.learn(selector.begin(), turnout(np.arange(known), rng))
    clients = np.sort(rng.permutation(2 * known)[:online])  # half of them newcomers
    check_ins = CheckIns(clients, Requests.silent(CohortTree(), np.zeros(online, dtype=np.int64)))
    select_ms, learn_ms = [], []
    for number in range(5):
        begun = time.perf_counter()
        chosen = selector.select(memory, check_ins, np.arange(online), WANTED, stream(number, "select"))
        selector.work(memory, clients[chosen], UsualWork(100))
        select_ms.append(1e3 * (time.perf_counter() - begun))
        seen = turnout(clients[chosen], rng)
        begun = time.perf_counter()
        memory = selector.learn(memory, seen)
        learn_ms.append(1e3 * (time.perf_counter() - begun))
    table = own(OortMemory, memory).table
    held = sum(getattr(table, name).nbytes for name in table.__dataclass_fields__)
    stored = len(to_bytes(own(OortMemory, memory)))
    return Cost(known, online, float(np.median(select_ms)), float(np.median(learn_ms)), held / 1e6, stored / 1e6)


def turnout(clients: "np.ndarray[tuple[int], np.dtype[np.int64]]", rng: np.random.Generator) -> Turnout:
    """Return a round that all of these clients have answered."""
    count = len(clients)
    columns, everybody = rng.random((6, count)), np.ones(count, dtype=np.bool_)
    times = Times(10 * columns[3], columns[4], columns[5], ~everybody)
    examples = rng.integers(10, 100, count)
    return Turnout(clients, everybody, examples, columns[0], columns[1], columns[2], times)


def table_of(records: Sequence[Record]) -> Table:
    """Return a line for each run."""
    shown = Table("population", "method", "selector", "seed", "accuracy", "ARI", "hours")
    for name in ("hours to uniform's", "in the same time", "device hours"):
        shown.add_column(name)
    for one in records:
        to_uniform = "never" if one.hours_to_uniform is None else f"{one.hours_to_uniform:.2f}"
        ari = "" if one.ari is None else f"{one.ari:.2f}"
        in_time = "" if one.in_time is None else f"{one.in_time:.3f}"
        figures = (f"{one.accuracy:.3f}", ari, f"{one.hours:.2f}", to_uniform, in_time, f"{one.device_hours:.1f}")
        shown.add_row(one.population, one.method, one.selector, str(one.seed), *figures)
    return shown


def main(argv: Sequence[str]) -> None:
    """Run the benchmark, print its table, and write its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the records go")
    parser.add_argument("--cost", action="store_true", help="measure a million known clients instead")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="more", help="other settings")
    arguments = parser.parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a table in a log is read in an editor
    if arguments.cost:
        costs = [cost(KNOWN, online) for online in ONLINE]
        for one in costs:
            console.print(asdict(one))
        _write(arguments.json, [asdict(one) for one in costs])
        return
    runs = [
        (population, method, selector, seed, arguments.more)
        for (population, (_, methods)), seed in product(POPULATIONS.items(), SEEDS)
        for method, selector in product(methods, SELECTORS)
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        records = with_targets(list(pool.map(measured, *zip(*runs, strict=True))))
    console.print(table_of(records))
    _write(arguments.json, [asdict(one) for one in records])


def _write(path: Path | None, records: list[dict[str, object]]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
