"""Tries settings of rivals and of FL algorithms on seeds that no comparison uses, and keeps the best of each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from method_cells import EVERYBODY_ALWAYS, Algorithm, Cell, Kept, run_cells
from methods import ALGORITHMS, FEDAVG
from rich.console import Console
from rich.table import Table
from tuned_settings import EVERYWHERE, METHOD_GRIDS, PART_GRIDS, Settings, Tuned, read_table, write_table

from auxo.experiments.parts import KINDS, METHODS

POPULATIONS = ("concept", "label", "rotation-skew", "writers", "speech")
FIRST_SEED = 100
"""Seeds from here on are for tuning; those of comparisons begin at 0."""
ROUNDS_OF_EVERYBODY = 100
"""In which methods are tuned that have everybody in every round; by then CFL has made its cuts. Our choice."""

_Key = tuple[str, str, Settings]  # population, part, settings


def tunable() -> tuple[str, ...]:
    """Return the methods and parts that there are grids for, and that this version has."""
    names = {name for kind in KINDS.values() for name in kind.names}
    return tuple(name for name in (*METHOD_GRIDS, *PART_GRIDS) if name in names)


def tune(
    parts: Sequence[str], populations: Sequence[str], seeds: int, folder: Path | None, jobs: int, table: Path
) -> None:
    """Try every setting of the grids of these parts, and write the best into the table beside what is there.

    What is best everywhere stays as it is unless all populations are tried that the table has of a part.

    Raises:
        SystemExit: there is no grid for a part, or no such part.
    """
    console = Console()
    unknown = [part for part in parts if part not in tunable()]
    if unknown:
        raise SystemExit(f"error: nothing to tune of {', '.join(unknown)}; expected some of {', '.join(tunable())}")
    cells = {
        _shortened(cell): (cell.population, part, cell.settings)
        for part in parts
        for cell in _cells(part, populations, seeds)
    }
    found: dict[_Key, list[float]] = {}
    kept = Kept(table.with_name(f"{table.name}.cells"))
    for cell, outcome in run_cells(list(cells), folder, kept, jobs, console):
        if outcome is not None and outcome.accuracy is not None:
            found.setdefault(cells[cell], []).append(outcome.accuracy)
    scores = {key: float(np.mean(accuracies)) for key, accuracies in found.items()}
    of_seeds = tuple(range(FIRST_SEED, FIRST_SEED + seeds))
    best = [one for part in parts for one in best_of(part, scores, of_seeds)]
    write_table(beside(read_table(table), best), table)
    console.print(_shown(scores, best))


def _cells(part: str, populations: Sequence[str], seeds: int) -> list[Cell]:
    is_method = part in METHODS.names
    algorithm = FEDAVG if is_method else _algorithm_of(part)
    method, grid = (part, METHOD_GRIDS[part]) if is_method else ("base", PART_GRIDS[part])
    return [
        Cell(population, method, algorithm, seed, 0, settings)
        for population in populations
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
        for settings in grid
    ]


def _shortened(cell: Cell) -> Cell:
    """Return a run as it is tried: those with everybody in every round take too long for all rounds."""
    if cell.method not in EVERYBODY_ALWAYS:
        return cell
    return replace(cell, settings=(*cell.settings, f"training.rounds={ROUNDS_OF_EVERYBODY}"))


def _algorithm_of(part: str) -> Algorithm:
    """Return the first FL algorithm that has a part."""
    return next(one for one in ALGORITHMS if part in one.parts)


def beside(before: Sequence[Tuned], now: Sequence[Tuned]) -> list[Tuned]:
    """Return the table with what is best now in the place of what was; see `tune`."""
    tried = {(one.part, one.population) for one in now}
    partly = {one.part for one in before if one.population != EVERYWHERE and (one.part, one.population) not in tried}
    new = [one for one in now if not (one.population == EVERYWHERE and one.part in partly)]
    replaced = {(one.part, one.population) for one in new}
    return [*new, *(one for one in before if (one.part, one.population) not in replaced)]


def best_of(part: str, scores: Mapping[_Key, float], seeds: tuple[int, ...]) -> list[Tuned]:
    """Return the best settings on each population, and those that are best on average over all of them."""
    mine = {(population, settings): score for (population, name, settings), score in scores.items() if name == part}
    populations = dict.fromkeys(population for population, _ in mine)
    tried = dict.fromkeys(settings for _, settings in mine)
    best = []
    for population in populations:
        there = [one for one in tried if (population, one) in mine]
        settings = max(there, key=lambda one: mine[population, one])  # of equals the first, which is the default
        best.append(Tuned(population, part, settings, mine[population, settings], len(there), seeds))
    everywhere = [one for one in tried if all((population, one) in mine for population in populations)]
    if everywhere:
        means = {one: float(np.mean([mine[population, one] for population in populations])) for one in everywhere}
        settings = max(everywhere, key=lambda one: means[one])
        best.append(Tuned(EVERYWHERE, part, settings, means[settings], len(everywhere), seeds))
    return best


def _shown(scores: Mapping[_Key, float], best: Sequence[Tuned]) -> Table:
    winners = {(one.population, one.part, one.settings) for one in best}
    table = Table("part", "population", "settings", "accuracy", "")
    for key, score in sorted(scores.items(), key=lambda item: (item[0][1], item[0][0])):
        population, part, settings = key
        table.add_row(part, population, " ".join(settings), f"{score:.4f}", "best" if key in winners else "")
    return table
