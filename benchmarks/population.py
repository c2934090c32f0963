"""What does a round cost besides training, how much of it depends on the size of the population, and in what memory?

    python benchmarks/population.py --json build/population.json
    python benchmarks/population.py --clients 10000 1000000

A round is one cohort's, an opening and a closing, in a federation of eight cohorts three partitions deep.
Updates are made up and cost nothing, so all but training is measured: who is on line, what they ask for, matching,
selection and timing, gathering and clustering, feedback. Records: a fiftieth of the clients has taken part, or all.
Every size runs in a process of its own, which also draws the population: its peak memory is that of the whole run.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

from auxo.algorithms.auxo import Auxo, Pooling
from auxo.core.affinity import AffinitySettings, FeedbackColumns, Requests
from auxo.core.aggregators import FedYogi
from auxo.core.asking import Answer
from auxo.core.cohort_algorithm import Closing
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import ByRequest, CheckIns
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array, IntArray
from auxo.population.federated_data import FederatedData
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.protocol.events import Event, RoundClosed
from auxo.runtime.closing import Closed, Training, close_round, returned_by
from auxo.runtime.federation import Federation
from auxo.simulation.availability import DayNight, DayNightPattern
from auxo.simulation.client_records import ClientRecords
from auxo.simulation.devices import SyntheticDevices
from auxo.simulation.virtual_time import Simulation, SimulationState, World

SIZES = (1_000, 10_000, 100_000, 1_000_000)
FEW_ONLINE, MANY_ONLINE = 5_000, 50_000
MANY_FROM = 100_000  # clients from which on many can be on line
CHECK_INS = 1_000_000
COHORTS = 8
PARAMETERS = 650  # softmax regression on 64 features and 10 classes
PARTICIPANTS, OVERCOMMIT = 200, 0.25
WARM_UP, ROUNDS = 3 * COHORTS, 6 * COHORTS  # cohorts' rounds; K-means runs in the first ones
TAKEN_PART = {"few": 0.02, "all": 1.0}
FILLED_AT_ONCE = 20_000
PARTS = (
    "availability",
    "requests",
    "matching",
    "selection and timing",
    "gathering and clustering",
    "feedback",
    "all but training",
)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class PartRecord:
    """Median seconds of one part of a cohort's round."""

    clients: int
    online: int
    records: str
    part: str
    seconds: float
    workload: str = "population"


@dataclass(frozen=True)
class MatchingRecord:
    """Median seconds to match check-ins to the leaves of a tree of eight, a request of any age for each."""

    check_ins: int
    seconds: float
    workload: str = "matching"


@dataclass(frozen=True)
class MemoryRecord:
    """Most memory that a size's process had: the population, both kinds of records, and all rounds."""

    clients: int
    peak_gib: float
    workload: str = "memory"


Record = PartRecord | MatchingRecord | MemoryRecord


@dataclass(frozen=True)
class MadeUp:
    """An engine whose participants answer at once, in the direction of one of four groups."""

    updates: tuple[Float32Array, ...]

    @staticmethod
    def draw() -> "MadeUp":
        """Return one with 64 updates, from which clients take theirs by number."""
        rng = stream(0, "made-up")
        groups, own = rng.standard_normal((4, PARAMETERS)), rng.standard_normal((64, PARAMETERS))
        return MadeUp(tuple((groups[number % 4] + noise).astype(np.float32) for number, noise in enumerate(own)))

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the updates."""
        answers = (Answer(self.updates[job.client_row % len(self.updates)], 20) for job in training.jobs)
        return close_round(rules, closing, returned_by(training, answers))


class Stopwatch:
    """Adds up the seconds that some methods take."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    def timed(self, part: str, method: Callable[P, R]) -> Callable[P, R]:
        """Return the method with its time added to a part."""

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            started = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.spent[part] += time.perf_counter() - started

        return call

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the parts of rounds while the context lasts."""
        methods: tuple[tuple[str, type, str], ...] = (
            ("availability", DayNight, "online"),
            ("availability", DayNight, "online_until_s"),
            ("availability", DayNight, "next_change_s"),
            ("requests", ClientRecords, "request"),
            ("matching", ByRequest, "match"),
            ("gathering and clustering", MadeUp, "run_round"),
            ("opening", Simulation, "_open"),
            ("all but training", Simulation, "step"),
        )
        with ExitStack() as stack:
            for part, owner, name in methods:
                stack.enter_context(patch.object(owner, name, self.timed(part, getattr(owner, name))))
            yield

    def parts(self) -> dict[str, float]:
        """Return the seconds of every part since the last time, and begin anew."""
        spent, self.spent = self.spent, defaultdict(float)
        within = spent["availability"] + spent["requests"] + spent["matching"]
        spent["selection and timing"] = spent["opening"] - within
        spent["feedback"] = spent["all but training"] - spent["opening"] - spent["gathering and clustering"]
        return {part: spent[part] for part in PARTS}


def eight_leaves() -> CohortTree:
    """Return a tree of eight leaves, three partitions deep."""
    tree = CohortTree()
    for _ in range(3):
        for leaf in tree.leaves:
            tree = tree.partition(leaf, (0, 1, 1, 0), (0.5, 0.5))
    return tree


def requests_of_any_age(tree: CohortTree, check_ins: int) -> Requests:
    """Return requests for cohorts old and new, a tenth of them for none."""
    rng = stream(0, "requests")
    cohort = np.where(rng.random(check_ins) < 0.1, -1, rng.integers(0, len(tree.cohorts), check_ins))
    nobody, nothing = np.zeros(check_ins, dtype=np.bool_), np.zeros(check_ins)
    cluster = rng.integers(-1, 4, check_ins)
    generation = rng.integers(0, 2, check_ins)
    never = np.zeros_like(generation)
    return Requests(tree, cohort, cluster, generation, nothing, nobody, nobody, never, generation)


def measure_matching(repeats: int = 9) -> MatchingRecord:
    """Return how long the coordinator takes for a million check-ins."""
    tree = eight_leaves()
    check_ins = CheckIns(np.arange(CHECK_INS), requests_of_any_age(tree, CHECK_INS))
    watch = Stopwatch()
    match = watch.timed("matching", ByRequest().match)
    seconds = []
    for number in range(repeats):
        watch.spent.clear()
        match(CoordinatorState(tree, {}), check_ins, stream(number, "match"))
        seconds.append(watch.spent["matching"])
    return MatchingRecord(CHECK_INS, float(np.median(seconds)))


def population(clients: int) -> FederatedData:
    """Return clients with 20 samples to train on and 5 to test, on average, and no input in common."""
    return synthetic_population(
        clients=clients, heterogeneity=LabelPermutation(), features=8, samples=(10, 30), test_samples=5
    )


def fill(records: ClientRecords, clients: IntArray, settings: AffinitySettings) -> ClientRecords:
    """Return the records after these clients have visited the root and then a leaf, which knew the whole tree."""
    tree = records.held.tree
    for number, first in enumerate(range(0, len(clients), FILLED_AT_ONCE)):
        some = clients[first : first + FILLED_AT_ONCE]
        rng = stream(0, "fill", number)
        told = FeedbackColumns(
            cohort=ROOT,
            tree=tree,
            instant_reward=rng.uniform(-1, 1, len(some)),
            similarity=rng.uniform(-1, 1, (len(some), records.held.similarity.shape[-1])),
            fold=rng.integers(0, 2, len(some)),
            generation=1,
        )
        leaf: CohortId = tree.leaves[number % len(tree.leaves)]
        records = records.learn(some, told, settings).learn(some, replace(told, cohort=leaf), settings)
    return records


def measure_rounds(simulation: Simulation, state: SimulationState, closed: list[Event]) -> dict[str, float]:
    """Return the median seconds of each part of a cohort's round."""
    watch = Stopwatch()
    rounds: list[dict[str, float]] = []
    with watch.running():
        while len(rounds) < WARM_UP + ROUNDS:
            before = len(closed)
            state = simulation.step(state)
            if len(closed) > before:
                rounds.append(watch.parts())
    return {part: float(np.median([spent[part] for spent in rounds[WARM_UP:]])) for part in PARTS}


def measure_population(clients: int) -> list[Record]:
    """Return all records of one size; to be run in a process of its own."""
    data, devices, engine = population(clients), SyntheticDevices().draw(clients, 0), MadeUp.draw()
    found: list[Record] = []
    for online in (FEW_ONLINE, MANY_ONLINE) if clients >= MANY_FROM else (FEW_ONLINE,):
        # As many by night as by day; everybody all but always, where there are not as many.
        availability = DayNightPattern(share=min(online / clients, 0.999), night_to_day=1.0).draw(clients, 0)
        for kind, share in TAKEN_PART.items():
            found += _measured(World(data, devices, availability, engine), kind, share, min(online, clients))
    return [*found, MemoryRecord(clients, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)]


def _measured(world: World, kind: str, share: float, online: int) -> Iterator[PartRecord]:
    clients, tree = world.data.n_clients, eight_leaves()
    algorithm, aggregator = Auxo(), FedYogi()
    rules = Federation(algorithm, aggregator, PARAMETERS, PARTICIPANTS, total_rounds=10_000, overcommit=OVERCOMMIT)
    cohort = CohortState(aggregator.initial(np.zeros(PARAMETERS, dtype=np.float32)), memory=Pooling())
    closed: list[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, RoundClosed):
            closed.append(event)

    simulation = Simulation(rules, world, note)
    state = simulation.start(CoordinatorState(tree, dict.fromkeys(tree.leaves, cohort)))
    chosen = np.sort(stream(0, "taken-part").permutation(clients)[: round(share * clients)])
    assert isinstance(state.clients, ClientRecords)  # noqa: S101 - Auxo's clients have them
    state = replace(state, clients=fill(state.clients, chosen, algorithm.affinity))
    for part, seconds in measure_rounds(simulation, state, closed).items():
        yield PartRecord(clients, online, kind, part, seconds)


def table(records: Sequence[Record]) -> Table:
    """Return one line for each population, number on line and kind of records: milliseconds of each part."""
    shown = Table("clients", "on line", "taken part", *(f"{part}, ms" for part in PARTS))
    rounds = [record for record in records if isinstance(record, PartRecord)]
    for clients, online, kind in dict.fromkeys((one.clients, one.online, one.records) for one in rounds):
        mine = [one.seconds for one in rounds if (one.clients, one.online, one.records) == (clients, online, kind)]
        shown.add_row(f"{clients:,}", f"{online:,}", kind, *(f"{1e3 * seconds:.1f}" for seconds in mine))
    return shown


def main(argv: Sequence[str]) -> None:
    """Run the benchmark, print its table, and write its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the records go")
    parser.add_argument("--clients", type=int, nargs="+", default=SIZES, metavar="N", help="sizes of the population")
    arguments = parser.parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a table in a log is read in an editor
    records: list[Record] = [measure_matching()]
    context = multiprocessing.get_context("spawn")  # a forked process would begin with the memory of this one
    for clients in arguments.clients:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            records += pool.submit(measure_population, clients).result()
        if arguments.json is not None:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps([asdict(record) for record in records], indent=1))
    console.print(table(records))
    for record in records:
        if isinstance(record, MatchingRecord):
            console.print(f"matching of {record.check_ins:,} check-ins: {1e3 * record.seconds:.0f} ms")
        if isinstance(record, MemoryRecord):
            console.print(f"{record.clients:,} clients: at most {record.peak_gib:.2f} GiB")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
