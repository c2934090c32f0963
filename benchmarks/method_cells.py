"""Cells of the comparison of methods: one method, population and seed; run in parallel, and kept when they are done."""

import dataclasses
import hashlib
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from natural_clients import natural_population
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from used_code import code_of
from workloads import WORKLOADS, Workload

from auxo.core.metrics import first_reach
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, load_config, parse_config, to_toml
from auxo.experiments.parts import METHODS
from auxo.experiments.populations import make_population
from auxo.experiments.refusals import refusal
from auxo.experiments.runner import has_groups, run_method
from auxo.experiments.sameness import versions
from auxo.files.atomic_write import write_whole
from auxo.files.typed_json import json_reader
from auxo.population.federated_data import FederatedData

EVALUATIONS = 20  # of a run: as many points as times to an accuracy are read from; our choice
CLOSELY = 60
"""Rounds at the start of which every second is evaluated: groups that are clear are found there."""
MORE_K = 2
"""How many cohorts too many a method is told that has to be told, beside the true number."""

EVERYBODY_ALWAYS = frozenset({"cfl"})
"""Methods with everybody in every round: evaluations are due by participations, of which they have more a round."""

_NAMES = {"extra-writers": "writers", "extra-speech": "speech"}
# What a run takes beside the base's, so that the long ones begin first.
_WORK = {"cfl": 10.0, "kfed": 2.0, "ifca": 5.0, "oracle": 2.0, "auxo": 2.0}

PLANTED: Mapping[str, Workload] = {_NAMES.get(one.name, one.name): one for one in WORKLOADS}


def _reference(name: str, dataset: str | None = None) -> Workload:
    """Return a configuration that comes with Auxo as a workload; those that draw no clients are given a data set's."""

    def make(seed: int, folder: Path | None) -> tuple[Config, FederatedData] | None:
        if dataset is None:
            config = load_config(Path(name), [f"seed={seed}"])
            return config, make_population(config)
        if folder is None:
            return None
        config = load_config(Path(name), [f"seed={seed}", "population.source=given"])
        return config, natural_population(dataset, folder).standardised()

    return Workload(name, 1, 0, make)


PROTOCOL: Mapping[str, Workload] = {
    "clustered": _reference("clustered", "writers"),
    "clustered-small": _reference("clustered-small"),
}
"""The paper's protocol for its table of clustered methods."""

POPULATIONS: Mapping[str, Workload] = {**PLANTED, **PROTOCOL}


@dataclass(frozen=True)
class Algorithm:
    """An FL algorithm that every cohort method can run under."""

    name: str  # in the records' field "aggregator", but for those that have a field of their own
    aggregator: str = "fedavg"
    client: str = "sgd"
    selector: str = "uniform"
    personaliser: str = "none"

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the settings that it stands for."""
        return (
            f"training.aggregator={self.aggregator}",
            f"training.client={self.client}",
            f"training.selector={self.selector}",
            f"training.personaliser={self.personaliser}",
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """Return its parts, each with a section of settings."""
        return self.aggregator, self.client, self.selector, self.personaliser


@dataclass(frozen=True)
class Cell:
    """One run."""

    population: str
    method: str  # in the registry
    algorithm: Algorithm
    seed: int
    more_k: int = 0  # cohorts beyond the true number that it is told, if it is told any
    settings: tuple[str, ...] = ()  # of the method and of the algorithm's parts, as in --set

    @property
    def label(self) -> str:
        """Return what records call the method."""
        return f"{self.method} k+{self.more_k}" if self.more_k else self.method


@dataclass(frozen=True)
class Outcome:
    """What a run came to; all but ``refused`` is None or empty where it was not run."""

    refused: str | None = None
    accuracy: float | None = None
    ari: float | None = None
    device_s: float | None = None  # what was wasted included, and the tuning of a personaliser
    downloads: float | None = None
    curve: tuple[tuple[float, int, float], ...] = ()  # simulated time, participations, accuracy

    def reach(self, accuracy: float, column: int) -> float | None:
        """Return the time (column 0) or the participations (1) at which mean accuracy first is so good."""
        return first_reach([one[column] for one in self.curve], [one[2] for one in self.curve], accuracy)

    @property
    def best(self) -> float:
        """Return the best accuracy on the way."""
        return max(one[2] for one in self.curve)


@cache
def is_told_k(method: str) -> str | None:
    """Return the setting by which a method has to be told how many cohorts there are; None: it has none."""
    fields = dataclasses.fields(METHODS.find(method))  # type: ignore[arg-type]  # parts are dataclasses
    return next((one.name for one in fields if one.name in ("cohorts", "groups") and type(one.default) is int), None)


def run_cell(cell: Cell, folder: Path | None) -> Outcome | None:
    """Return what a run comes to; None where the population's data are not there."""
    made = POPULATIONS[cell.population].make(cell.seed, folder)
    if made is None:
        return None
    config, data = made
    if cell.method == "oracle" and not has_groups(data):
        return Outcome(refused="there are no groups that it could be told")
    try:
        config = configured(cell, config, data)
    except ConfigError as error:
        if is_told_k(cell.method) is None:
            raise
        return Outcome(refused=str(error))  # such as one group for a method that makes two at least
    why_not = refusal(cell.method, config, data.n_clients)
    if why_not is not None:
        return Outcome(refused=why_not)
    result = run_method(cell.method, config, data)
    final = result.final
    return Outcome(
        accuracy=final.accuracy,
        ari=final.ari if has_groups(data) else None,
        device_s=final.device_s + final.wasted_device_s + final.tuning_device_s,
        downloads=final.downloads,
        curve=tuple((one.time_s, one.resource, one.accuracy) for one in result.curve),
    )


def configured(cell: Cell, config: Config, data: FederatedData) -> Config:
    """Return the configuration of a cell, made from that of its population."""
    told = is_told_k(cell.method)
    groups = 1 if data.groups is None else len(np.unique(data.groups))
    if groups == 1 and told is not None and cell.population in PROTOCOL:  # nobody knows; the configuration says one
        groups = getattr(config.parts[cell.method], told)
    rounds = config.training.rounds
    if cell.method in EVERYBODY_ALWAYS:
        rounds = rounds * data.n_clients // config.training.participants
    settings = [
        f'methods=["{cell.method}"]',
        f"run.evaluate_every={max(1, rounds // EVALUATIONS)}",
        f"run.evaluate_closely={CLOSELY}",
        *cell.algorithm.settings,
        *cell.settings,
        *(() if told is None else (f"{cell.method}.{told}={groups + cell.more_k}",)),
    ]
    return parse_config(to_toml(config), settings)


@dataclass(frozen=True)
class Kept:
    """Finished cells in a folder, each under a name that says what it follows from.

    That is the cell, the libraries and the code that its parts use: a change of one method leaves the cells of others.
    """

    folder: Path

    def find(self, cell: Cell) -> Outcome | None:
        """Return what was found before, by the same code; None: nothing."""
        path = self._path(cell)
        return json_reader(Outcome)(path.read_bytes()) if path.is_file() else None

    def keep(self, cell: Cell, outcome: Outcome) -> None:
        """Write down what was found."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(cell), json.dumps(asdict(outcome)).encode())

    def _path(self, cell: Cell) -> Path:
        code = code_of((cell.method, *cell.algorithm.parts))
        follows = json.dumps([asdict(cell), {**versions(), "auxo": code}, EVALUATIONS, CLOSELY])
        digest = hashlib.sha256(follows.encode()).hexdigest()[:16]
        return self.folder / f"{cell.population}-{cell.label.replace(' ', '-')}-{cell.seed}-{digest}.json"


def run_cells(
    cells: Sequence[Cell], folder: Path | None, kept: Kept, jobs: int, console: Console
) -> Iterator[tuple[Cell, Outcome | None]]:
    """Yield cells with what they came to: those that were done before first, then others as they are done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    missing = []
    for cell in cells:
        found = kept.find(cell)
        if found is None:
            missing.append(cell)
        else:
            yield cell, found
    missing.sort(key=lambda cell: -_WORK.get(cell.method, 1.0))
    with (
        ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        bar = progress.add_task("runs", total=len(cells), completed=len(cells) - len(missing))
        futures = {pool.submit(_timed, cell, folder): cell for cell in missing}
        for future in as_completed(futures):
            cell = futures[future]
            try:
                outcome, took_s = future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # or the error would show when all others are done
                raise
            if outcome is not None:
                kept.keep(cell, outcome)
            progress.update(bar, advance=1, description=f"{cell.population} {cell.label} {cell.seed}")
            if not console.is_terminal:
                console.print(f"{_words(cell)}: {_told(outcome)} ({took_s:.0f} s)", highlight=False, soft_wrap=True)
            yield cell, outcome


def _timed(cell: Cell, folder: Path | None) -> tuple[Outcome | None, float]:
    """Return what a run comes to, and the processor's time that it took: others may use the machine."""
    started = time.process_time()
    return run_cell(cell, folder), time.process_time() - started


def _words(cell: Cell) -> str:
    settings = f" {' '.join(cell.settings)}" if cell.settings else ""
    return f"{cell.population} seed {cell.seed}, {cell.label} under {cell.algorithm.name}{settings}"


def _told(outcome: Outcome | None) -> str:
    if outcome is None:
        return "no data"
    return f"refused: {outcome.refused}" if outcome.accuracy is None else f"{outcome.accuracy:.4f}"
