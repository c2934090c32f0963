"""What becomes of honest clients when others attack or records get lost: base and Auxo side by side.

    python benchmarks/resilience.py --figure corrupted --json benchmarks/results/resilience.json --update
    python benchmarks/resilience.py --figure affinity-loss --only concept --seeds 1 --json FILE
    python benchmarks/resilience.py --figure attackers --first-seed 100 --seeds 1 --json FILE

A figure is a list of conditions, and every cell is one run: figure, condition, population, method and seed. *dp*: the
paper's noise for epsilon 2, 4 and 8 at delta 1e-6, each client's own or shared among the participants of a round, with
nothing but the update leaving a client. *corrupted*: shares of clients whose labels are wrong. *affinity-loss*: shares
of the records that are lost in every round; the base keeps none, so its run without a loss stands for all. *attackers*:
every kind of attack by 15 % of the clients, with what is always on alone and with defences besides. *judges*: shares of
judges that lie, for a partition where there is nothing to part and against one where there is. *smallest*: liars that
all claim to belong to the smallest cohort, which a twentieth, a tenth or a fifth of the clients would have, and send
the opposite of what they learn; told are also its own group's accuracy, who was banned, and after how many
participations. *bans*: who is banned where clients forge what they claim, and where nobody does but samples change or
records get lost.

Accuracy is that of honest clients, and without an attack that of the same clients: who attacks follows from the seed.
With --update only cells are run that FILE does not have; all its records stay. The populations writers and reviewers
need the real data: --data DIR or the variable AUXO_DATA.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from attack_visits import VISITS
from method_cells import POPULATIONS
from natural_clients import natural_population
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from workloads import Workload

from auxo.attacks.attackers import Attackers
from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, TrainingConfig
from auxo.experiments.config_file import ConfigError, load_config, parse_config, to_toml
from auxo.experiments.populations import make_population
from auxo.experiments.runner import MethodResult, run_method
from auxo.files.atomic_write import write_whole
from auxo.files.typed_json import json_reader
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import ClientBanned, Partitioned

SEEDS = 3
SHARE = 0.15  # of attackers in their table, as many as the paper has at most
METHODS = ("base", "auxo")
EVALUATIONS = 4  # of a run: nothing is timed here

GUARDED = "signed and guarded"
DEFENCES: Mapping[str, tuple[str, ...]] = {
    "": (),
    GUARDED: ("training.signed_claims=true", "training.guard=watchful"),
}
"""What is set besides what is always on: bounds on lengths and examples, and no update that is not finite."""

SHORTER = ("training.rounds=100",)  # the tables of attackers and judges have many runs; our choice
BEGIN = 10  # rounds after which liars go for the smallest cohort: there are some by then; our choice
PATIENCE = 5  # participations within which who lies all the time is to be banned
EPSILONS = (8, 4, 2)  # that the paper prints noise for
NOISES = {"per_client": "each client's", "shared": "shared"}


def _reviewers(seed: int, folder: Path | None) -> tuple[Config, FederatedData] | None:
    """Return reviewers as the configuration that comes with Auxo has them, but all of them on line."""
    if folder is None:
        return None
    settings = [f"seed={seed}", "population.source=given", "devices.availability=always", "devices.cooldown_s=0"]
    return load_config(Path("reviewers"), settings), _read_reviewers(folder)


@lru_cache(maxsize=1)
def _read_reviewers(folder: Path) -> FederatedData:
    return natural_population("reviewers", folder)


def _with_smallest(share: float) -> Workload:
    """Return digits in three groups that mean other things by labels, the smallest with this share of the clients."""

    def make(seed: int, folder: Path | None) -> tuple[Config, FederatedData]:
        groups = (100 * (0.65 - share), 35.0, 100 * share)
        config = Config(
            seed=seed,
            population=PopulationConfig(source="digits", clients=2000, groups=groups, heterogeneity="concept"),
            training=TrainingConfig(rounds=200, participants=200, learning_rate=0.1, aggregator="fedavg"),
            devices=DevicesConfig(kind="equal", availability="always", overcommit=0.0),
        )
        return config, make_population(config)

    return Workload("smallest", SEEDS, 0, make)


WORKLOADS: Mapping[str, Workload] = {
    **POPULATIONS,
    "reviewers": Workload("reviewers", SEEDS, 0, _reviewers),
    "twentieth": _with_smallest(0.05),
    "tenth": _with_smallest(0.1),
    "fifth": _with_smallest(0.2),
}


@dataclass(frozen=True)
class Condition:
    """What a run is made to bear."""

    name: str
    settings: tuple[str, ...] = ()
    share: float = 0.0  # of attackers
    defence: str = ""
    methods: tuple[str, ...] = METHODS
    populations: tuple[str, ...] = ()  # that it makes sense on; none: all of the figure's


@dataclass(frozen=True)
class Figure:
    """Conditions, and the populations that they are tried on."""

    conditions: tuple[Condition, ...]
    populations: tuple[str, ...]


def _corrupted(share: float) -> Condition:
    settings = ('attack.kinds=["label-flip"]', f"attack.share={share}")
    return Condition(f"{share:.0%} corrupted", settings if share else (), share)


def _lost(share: float) -> Condition:
    settings = (f"devices.forgets={share}",) if share else ()
    return Condition(f"{share:.0%} lost", settings, methods=("auxo",) if share else METHODS)


def _attack(name: str, kinds: str, *settings: str, target: str = "own") -> Iterator[Condition]:
    common = (*SHORTER, f"attack.kinds={kinds}", f"attack.share={SHARE}", f"attack.target={target}", *settings)
    for defence, defended in DEFENCES.items():
        yield Condition(name, (*common, *defended), SHARE, defence)


def _attacks() -> Iterator[Condition]:
    for defence, defended in DEFENCES.items():
        yield Condition("none", (*SHORTER, *defended), SHARE, defence)
    yield from _attack("label flip", '["label-flip"]')
    yield from _attack("sign flip", '["sign-flip"]')
    yield from _attack("wrong labels, 10 times as long", '["scaled", "label-flip"]')
    yield from _attack("wrong labels, 100 times as long", '["scaled", "label-flip"]', "scaled.times=100")
    yield from _attack("ALIE", '["alie"]')
    yield from _attack("inner product", '["inner-product"]')
    yield from _attack("Gaussian noise", '["noise"]')
    yield from _attack("mimic", '["mimic"]')
    yield from _attack("NaN", '["nan"]')
    yield from _attack("forged reward, any cohort", '["forged-reward"]', target="random")
    yield from _attack("all into the smallest cohort", '["forged-reward"]', target="smallest")
    yield from _attack("the same, with flipped signs", '["sign-flip"]', target="smallest")
    yield from _attack("forged cluster index", '["forged-cluster"]', target="random")
    yield from _attack("cohort hopping", '["hopping"]')
    yield from _attack("new names, with flipped signs", '["new-name", "sign-flip"]')


NOTHING_TO_PART, SOMETHING_TO_PART = ("homogeneous",), ("rotation-skew",)


def _liars(share: float) -> Iterator[Condition]:
    for says, populations in (("for", NOTHING_TO_PART), ("against", SOMETHING_TO_PART)):
        settings = ('attack.kinds=["lying-judge"]', f"lying-judge.says={says}", f"attack.share={share}")
        lie = (*SHORTER, *settings) if share else SHORTER
        for defence, defended in DEFENCES.items():
            yield Condition(f"{share:.0%} {says}", (*lie, *defended), share, defence, ("auxo",), populations)


def _private() -> Iterator[Condition]:
    yield Condition("no noise")
    for noise, whose in NOISES.items():
        for epsilon in EPSILONS:
            settings = (f"privacy.epsilon={epsilon}.0", f"privacy.noise={noise}")
            yield Condition(f"epsilon {epsilon}, {whose}", ("privacy.protocol=paper", *settings))


COUNTED = '"attack_visits:Counted"'


def _bans_of() -> Iterator[Condition]:
    for name, kind, target in (
        ("forged rewards, any cohort", "forged-reward", "random"),
        ("forged rewards, the smallest cohort", "forged-reward", "smallest"),
        ("forged cluster indices", "forged-cluster", "random"),
        ("cohort hopping", "hopping", "own"),
    ):
        lies = (f'attack.kinds=["{kind}", {COUNTED}]', f"attack.share={SHARE}", f"attack.target={target}")
        settings = (*SHORTER, *lies, f"attack.start={BEGIN}", *DEFENCES[GUARDED])
        yield Condition(name, settings, SHARE, GUARDED, ("auxo",), ("rotation-skew",))
    # Nobody lies here: who has the samples of another client from some round on has drifted.
    drift = ('attack.kinds=["mimic"]', "attack.share=0.2", "attack.start=30")
    for name, settings, populations in (
        ("nobody forges", (), ("concept", "label", "rotation-skew")),
        ("a fifth drifts in round 30", drift, ("concept",)),
        ("5% of the records lost in a round", ("devices.forgets=0.05",), ("twentieth",)),
    ):
        yield Condition(name, (*SHORTER, *settings, *DEFENCES[GUARDED]), 0.0, GUARDED, ("auxo",), populations)


def _into_smallest() -> Iterator[Condition]:
    kinds = f'["forged-reward", "sign-flip", {COUNTED}]'
    lies = (f"attack.kinds={kinds}", "attack.target=smallest", f"attack.start={BEGIN}")
    for share in (0.0, 0.15, 0.25):
        settings = (*lies, f"attack.share={share}") if share else ()
        for defence, defended in DEFENCES.items():
            yield Condition(f"{share:.0%} liars", (*settings, *defended), share, defence, ("auxo",))


FIGURES: Mapping[str, Figure] = {
    "dp": Figure(tuple(_private()), ("rotation-skew", "reviewers")),
    "corrupted": Figure(tuple(map(_corrupted, (0.0, 0.05, 0.1, 0.15))), ("concept", "writers")),
    "affinity-loss": Figure(tuple(map(_lost, (0.0, 0.05, 0.1, 0.2))), ("concept", "writers")),
    "attackers": Figure(tuple(_attacks()), ("rotation-skew",)),
    "smallest": Figure(tuple(_into_smallest()), ("twentieth", "tenth", "fifth")),
    "bans": Figure(tuple(_bans_of()), ("rotation-skew", "concept", "label", "twentieth")),
    "judges": Figure(
        tuple(one for share in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4) for one in _liars(share)),
        (*NOTHING_TO_PART, *SOMETHING_TO_PART),
    ),
}


@dataclass(frozen=True)
class Cell:
    """One run."""

    figure: str
    condition: Condition
    population: str
    method: str
    seed: int

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """Return what a record of it is known by."""
        return self.figure, self.condition.name, self.condition.defence, self.population, self.method, self.seed

    @property
    def run(self) -> tuple[tuple[str, ...], float, str, str, int]:
        """Return what it follows from: two figures may have the same run."""
        return self.condition.settings, self.condition.share, self.population, self.method, self.seed


@dataclass(frozen=True)
class Record:
    """What a run came to."""

    figure: str
    condition: str
    defence: str
    population: str
    method: str
    seed: int
    accuracy: float  # of honest clients
    accuracy_of_all: float
    attackers: int
    ari: float | None
    partitions: int
    cohorts: int
    smallest: float | None = None  # accuracy of honest clients of the smallest group; None: no groups are known
    banned: int = 0  # attackers
    banned_soon: int = 0  # of these within so many participations, from the start of the attack on
    persistent: int = 0  # attackers that were banned, or have taken part so often since
    honest: int = 0  # clients that do not attack
    honest_banned: int = 0

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """Return what it is known by."""
        return self.figure, self.condition, self.defence, self.population, self.method, self.seed


def cells_of(figure: str, populations: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """Return all runs of a figure, condition by condition."""
    return [
        Cell(figure, condition, population, method, seed)
        for population in populations
        for seed in seeds
        for condition in FIGURES[figure].conditions
        if not condition.populations or population in condition.populations
        for method in condition.methods
        if method in methods
    ]


def run_cell(cell: Cell, folder: Path | None) -> Record | None:
    """Return what a run comes to; None where the population's data are not there."""
    made = WORKLOADS[cell.population].make(cell.seed, folder)
    if made is None:
        return None
    config, data = made
    every = max(1, config.training.rounds // EVALUATIONS)
    overrides = (f'methods=["{cell.method}"]', f"run.evaluate_every={every}", *cell.condition.settings)
    config = parse_config(to_toml(config), overrides)
    VISITS.clear()
    result = run_method(cell.method, config, data)
    final = result.final
    return Record(
        figure=cell.figure,
        condition=cell.condition.name,
        defence=cell.condition.defence,
        population=cell.population,
        method=cell.method,
        seed=cell.seed,
        accuracy=_honest(result, cell.condition.share, data.n_clients, cell.seed),
        accuracy_of_all=final.accuracy if final.accuracy_of_all is None else final.accuracy_of_all,
        attackers=final.attackers,
        ari=final.ari,
        partitions=sum(isinstance(event, Partitioned) for event in result.events),
        cohorts=len(result.state.coordinator.tree.leaves),
        smallest=_of_smallest(result, cell.condition.share, data, cell.seed),
        **_bans(result, cell.condition.share, data, cell.seed),
    )


def _of_smallest(result: MethodResult, share: float, data: FederatedData, seed: int) -> float | None:
    """Return the accuracy of honest clients of the smallest group."""
    if data.groups is None:
        return None
    scores, smallest = result.scores, int(np.argmin(np.bincount(data.groups)))
    honest = ~Attackers.drawn(data.n_clients, share, seed).among(scores.clients) & (scores.tests > 0)
    mine = honest & (data.groups[scores.clients] == smallest)
    return float((scores.correct[mine] / scores.tests[mine]).mean())


def _bans(result: MethodResult, share: float, data: FederatedData, seed: int) -> dict[str, int]:
    """Return who was banned, and who of those that attack all the time was banned soon."""
    names = {event.client for event in result.events if isinstance(event, ClientBanned)}
    banned = np.array([name in names for name in data.client_names], dtype=np.bool_)
    everybody = np.arange(data.n_clients)
    lies = Attackers.drawn(data.n_clients, share, seed).among(everybody)
    often = np.array([VISITS[client] for client in range(data.n_clients)])
    return {
        "banned": int((banned & lies).sum()),
        "banned_soon": int((banned & lies & (often <= PATIENCE)).sum()),
        "persistent": int((lies & (banned | (often >= PATIENCE))).sum()),
        "honest": int((~lies).sum()),
        "honest_banned": int((banned & ~lies).sum()),
    }


def _honest(result: MethodResult, share: float, clients: int, seed: int) -> float:
    """Return the accuracy of those who do not attack, or would not where nobody does, so that both can be compared."""
    scores = result.scores
    honest = ~Attackers.drawn(clients, share, seed).among(scores.clients) & (scores.tests > 0)
    return float((scores.correct[honest] / scores.tests[honest]).mean())


def run_cells(cells: Sequence[Cell], folder: Path | None, jobs: int, console: Console) -> Iterator[Record]:
    """Yield records as they come, with a progress bar on a terminal and a line each elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        bar = progress.add_task("runs", total=len(cells))
        futures = {pool.submit(_timed, cell, folder): cell for cell in cells}
        for future in as_completed(futures):
            try:
                record, took_s = future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # or the error would show when all others are done
                raise
            words = " ".join(map(str, futures[future].key))
            progress.update(bar, advance=1, description=words)
            if not console.is_terminal:
                told = "no data" if record is None else f"{record.accuracy:.4f}, {record.cohorts} cohorts"
                console.print(f"{words}: {told} ({took_s:.0f} s)", highlight=False, soft_wrap=True)
            if record is not None:
                yield record


def _timed(cell: Cell, folder: Path | None) -> tuple[Record | None, float]:
    started = time.process_time()
    return run_cell(cell, folder), time.process_time() - started


def table(records: Sequence[Record]) -> Table:
    """Return a line for each population and condition, means over seeds."""
    shown = Table("population", "condition", "defence", "base", "Auxo", "ARI", "partitions")
    for population, condition, defence in dict.fromkeys(
        (one.population, one.condition, one.defence) for one in records
    ):
        mine = [
            one for one in records if (one.population, one.condition, one.defence) == (population, condition, defence)
        ]
        means = {
            method: np.mean([one.accuracy for one in mine if one.method == method])
            for method in METHODS
            if any(one.method == method for one in mine)
        }
        ours = [one for one in mine if one.method == "auxo"]
        aris = [one.ari for one in ours if one.ari is not None]
        shown.add_row(
            population,
            condition,
            defence,
            *(f"{means[method]:.4f}" if method in means else "" for method in METHODS),
            f"{np.mean(aris):.3f}" if aris else "",
            " ".join(str(one.partitions) for one in ours),
        )
    return shown


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", required=True, choices=FIGURES, help="what is tried")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only on these populations")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="run only these methods")
    parser.add_argument("--conditions", nargs="+", metavar="NAME", help="run only conditions of these names")
    parser.add_argument("--defences", nargs="+", choices=DEFENCES, metavar="NAME", help='only with these; "": none')
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default: {SEEDS})")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="the first of them; from 100 on to choose settings by"
    )
    parser.add_argument("--data", type=Path, help="folder with the real data (default: the variable AUXO_DATA)")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the records go")
    parser.add_argument("--update", action="store_true", help="keep the records that FILE has, and run the others")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Run a figure and write its records."""
    console, arguments = Console(), _arguments(argv)
    if not console.is_terminal:
        console.width = 160  # a table in a log is read in an editor
    figure, path = FIGURES[arguments.figure], arguments.json
    populations = arguments.only or figure.populations
    unknown = [name for name in populations if name not in WORKLOADS]
    if unknown:
        raise SystemExit(f"--only: unknown population {unknown}; expected some of {', '.join(WORKLOADS)}")
    folder = arguments.data or (Path(os.environ["AUXO_DATA"]) if "AUXO_DATA" in os.environ else None)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    cells = cells_of(arguments.figure, populations, arguments.methods, seeds)
    if arguments.conditions:
        cells = [cell for cell in cells if cell.condition.name in arguments.conditions]
    if arguments.defences is not None:
        cells = [cell for cell in cells if cell.condition.defence in arguments.defences]
    read = json_reader(tuple[Record, ...])
    done = {one.key: one for one in read(path.read_bytes())} if arguments.update and path.is_file() else {}
    every = [cell for name in FIGURES for cell in cells_of(name, populations, METHODS, seeds)]
    runs = {cell.run: done[cell.key] for cell in every if cell.key in done}
    for cell in cells:
        if cell.key not in done and cell.run in runs:  # of another figure
            done[cell.key] = replace(
                runs[cell.run],
                figure=cell.figure,
                condition=cell.condition.name,
                defence=cell.condition.defence,
            )
    missing = [cell for cell in cells if cell.key not in done]
    path.parent.mkdir(parents=True, exist_ok=True)

    def write() -> None:
        text = json.dumps([asdict(done[key]) for key in sorted(done, key=_place)], indent=1)
        write_whole(path, f"{text}\n".encode())

    try:
        write()
        for record in run_cells(missing, folder, arguments.jobs, console):
            done[record.key] = record
            write()
    except ConfigError as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        console.print("interrupted; what was run is kept, and the same command with --update goes on")
        raise SystemExit(130) from None
    console.print(table([done[cell.key] for cell in cells if cell.key in done]))


def _place(key: tuple[str, str, str, str, str, int]) -> tuple[int, str, int, str, int, str]:
    """Return where a record stands: figure, population and condition in their order here."""
    figure, condition, defence, population, method, seed = key
    conditions = [(one.name, one.defence) for one in FIGURES[figure].conditions] if figure in FIGURES else []
    at = conditions.index((condition, defence)) if (condition, defence) in conditions else len(conditions)
    return list(FIGURES).index(figure) if figure in FIGURES else len(FIGURES), population, at, condition, seed, method


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
