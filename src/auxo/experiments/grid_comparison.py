"""What a grid of experiments says: a row for each cell and method, over seeds, beside the base of its own cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.core.metric import ACCURACY, Metric
from auxo.experiments.comparison import Interval, interval, mean_between, mean_speedup
from auxo.experiments.grid import Cell, GridAxis
from auxo.experiments.summary import BASE, Between, Summary
from auxo.registry.registry import short_name


@dataclass(frozen=True)
class GridRow:
    """A method in a cell, over the seeds in which it came to its end; None for what was never reached or is unknown."""

    cell: str  # name of its folder
    choices: tuple[str, ...]  # a value of each axis
    method: str
    seeds: tuple[int, ...]  # in which it came to its end
    accuracy: Interval | None = None  # as the metric is shown; None: it never came to its end
    difference: Interval | None = None  # from the base of the cell, paired by seed, in the same unit
    speedup: float | None = None  # in time to the base's best accuracy, mean over seeds
    resource_speedup: float | None = None  # the same in participations
    speedup_between: Between | None = None  # where these means lie
    resource_speedup_between: Between | None = None
    device_s: float | None = None  # mean over seeds, what was wasted included
    tuning_device_s: float = 0.0  # of clients that made models their own, besides
    downloads: float | None = None
    ari: float | None = None
    cohorts: tuple[int, ...] = ()  # by seed
    note: str = ""  # why there is nothing, or not all of it
    troubles: tuple[str, ...] = ()  # what has to be known before the figures are believed, of all seeds, each once


@dataclass(frozen=True)
class GridComparison:
    """What all cells say together."""

    population: str
    axes: tuple[GridAxis, ...]
    seeds: tuple[int, ...]
    rows: tuple[GridRow, ...]
    metric: Metric = ACCURACY
    are_clients_drawn: bool = False  # as of a comparison, in all cells


def compare_grid(
    axes: Sequence[GridAxis], cells: Sequence[Cell], summaries: Mapping[str, Sequence[Summary]]
) -> GridComparison:
    """Return a row for each cell and each method that its configuration names, in their order.

    ``summaries`` are those of a cell's runs, one a seed, by the cell's name; all of them have ended.
    """
    first = next(one for found in summaries.values() for one in found)
    rows = [
        _row(cell, short_name(method), summaries[cell.name])
        for cell in cells
        if cell.name in summaries
        for method in cell.config.methods
    ]
    seeds = dict.fromkeys(one.seed for found in summaries.values() for one in found)
    are_drawn = all(cell.config.population.is_drawn for cell in cells)
    return GridComparison(first.population, tuple(axes), tuple(sorted(seeds)), tuple(rows), first.metric, are_drawn)


def _row(cell: Cell, method: str, summaries: Sequence[Summary]) -> GridRow:
    ended = [one for one in summaries if method in one.finished]
    found = [one.methods[method] for one in ended]
    if not found:
        return GridRow(cell.name, cell.words, method, seeds=(), note=_note(method, summaries))
    metric = ended[0].metric
    aris = [one.ari for one in found if one.ari is not None]
    return GridRow(
        cell=cell.name,
        choices=cell.words,
        method=method,
        seeds=tuple(one.seed for one in ended),
        accuracy=interval([metric.scale * one.final_accuracy for one in found]),
        difference=_difference(method, ended),
        speedup=mean_speedup([one.brought.speedup for one in found]),
        resource_speedup=mean_speedup([one.brought.resource_speedup for one in found]),
        speedup_between=mean_between([one.brought.speedup_between for one in found]),
        resource_speedup_between=mean_between([one.brought.resource_speedup_between for one in found]),
        device_s=_mean([one.device_s + one.wasted_device_s for one in found]),
        tuning_device_s=_mean([one.tuning_device_s for one in found]),
        downloads=_mean([one.downloads for one in found]),
        ari=_mean(aris) if aris else None,
        cohorts=tuple(one.cohorts for one in found),
        note=_note(method, summaries),
        troubles=tuple(dict.fromkeys(words for one in found for words in one.troubles)),
    )


def _difference(method: str, summaries: Sequence[Summary]) -> Interval | None:
    """Return how far a method is from the base, over seeds in which both have come to their end."""
    if method == BASE:
        return None
    pairs = [(one.methods[method], one.methods[BASE]) for one in summaries if BASE in one.finished]
    if not pairs:
        return None
    scale = summaries[0].metric.scale
    return interval([scale * (ours.final_accuracy - base.final_accuracy) for ours, base in pairs])


def _note(method: str, summaries: Sequence[Summary]) -> str:
    refused = next((one.refused[method] for one in summaries if method in one.refused), None)
    if refused is not None:
        return f"refused: {refused}"
    failed = [one for one in summaries if method in one.methods and not one.methods[method].is_finished]
    if failed:
        trouble = (*failed[0].methods[method].troubles, "it did not train the rounds asked for")[0]
        return f"failed in {len(failed)} of {len(summaries)} seeds: {trouble}"
    if not any(method in one.methods for one in summaries):
        return "left out: these clients have no known groups to tell apart"
    return ""


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
