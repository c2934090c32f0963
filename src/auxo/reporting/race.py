"""The picture of a comparison: who gets how good by when, and by how many participations; means over seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.core.types import FloatArray
from auxo.protocol.events import Evaluated
from auxo.reporting.plain_figure import RULE, SOFT, Dot, Figure, Stroke, Words
from auxo.reporting.svg import tick_step, ticks

_WIDTH, _GAP, _LEFT, _RIGHT = 760.0, 40.0, 56.0, 16.0
_TOP, _HEIGHT, _LEGEND = 28.0, 240.0, 18.0
_POINTS = 100  # of a curve; our choice
_HOUR_S = 3600.0

Cells = Sequence[Sequence[str | float | None]]


@dataclass(frozen=True)
class Runner:
    """A line of the picture."""

    name: str
    colour: str
    runs: Sequence[Sequence[Evaluated]]  # evaluations of one seed after another


@dataclass(frozen=True)
class _Panel:
    name: str  # of its axis
    key: str  # in the CSV file
    of: Callable[[Evaluated], float]


_PANELS = (
    _Panel("simulated hours", "time_h", lambda one: one.time_s / _HOUR_S),
    _Panel("participations, what was wasted included", "participations", lambda one: float(one.resource)),
)


def race(runners: Mapping[str, Runner], metric: str, caption: str) -> tuple[Figure, Cells] | None:
    """Return the picture and the numbers in it, the headings first; None where nothing was evaluated twice.

    Args:
        runners: what is drawn, by what the numbers call it.
        metric: what evaluations score.
        caption: what the picture is, for those who cannot see it.
    """
    means = {
        panel.key: {name: mean for name, one in runners.items() if (mean := _mean(one.runs, panel.of)) is not None}
        for panel in _PANELS
    }
    drawn = [name for name in runners if all(name in found for found in means.values())]
    if not drawn:
        return None
    scores = np.concatenate([y for found in means.values() for _, y in found.values()])
    low, high = float(scores.min()), float(scores.max())
    high = high if high > low else low + 1
    width = (_WIDTH - _LEFT - _RIGHT - _GAP) / 2
    colours = {name: runners[name].colour for name in drawn}
    marks: list[Stroke | Dot | Words] = [Words(8, 14, f"{metric}, %", colour=SOFT)]
    rows: list[Sequence[str | float | None]] = [("method", "against", "x", metric)]
    for number, panel in enumerate(_PANELS):
        found = {name: means[panel.key][name] for name in drawn}
        left = _LEFT + number * (width + _GAP)
        marks += _panel(found, colours, (left, left + width), (low, high), panel.name)
        rows += [(name, panel.key, a, b) for name, (x, y) in found.items() for a, b in zip(x, y, strict=True)]
    bottom = _TOP + _HEIGHT + 44
    marks += [mark for place, name in enumerate(drawn) for mark in _legend(runners[name], place, bottom)]
    height = bottom + _LEGEND * ((len(drawn) + 1) // 2) + 4
    return Figure(_WIDTH, height, marks, caption), rows


def _panel(
    found: Mapping[str, tuple[FloatArray, FloatArray]],
    colours: Mapping[str, str],
    across: tuple[float, float],
    scores: tuple[float, float],
    name: str,
) -> list[Stroke | Dot | Words]:
    (left, right), (low, high), bottom = across, scores, _TOP + _HEIGHT
    longest = max(float(x[-1]) for x, _ in found.values()) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x / longest * (right - left), bottom - (y - low) / (high - low) * _HEIGHT

    marks: list[Stroke | Dot | Words] = []
    for value in ticks(low, high, tick_step(low, high, 5)).tolist():
        if low <= value <= high:
            _, y = at(0, value)
            marks += [
                Stroke([(left, y), (right, y)], RULE),
                Words(left - 6, y + 4, f"{100 * value:.4g}", "end", 10, SOFT),
            ]
    for value in ticks(0.0, longest, tick_step(0.0, longest, 4)).tolist():
        if 0 <= value <= longest:
            x, _ = at(value, low)
            marks += [Stroke([(x, _TOP), (x, bottom)], RULE), Words(x, bottom + 15, f"{value:,g}", "middle", 10, SOFT)]
    marks.append(Words((left + right) / 2, bottom + 31, name, "middle", colour=SOFT))
    for line, (along, up) in found.items():
        points = [at(a, b) for a, b in zip(along.tolist(), up.tolist(), strict=True)]
        marks += [Stroke(points, colours[line], 1.8), Dot(*points[-1], colours[line], 2.5)]
    return marks


def _legend(runner: Runner, place: int, top: float) -> list[Stroke | Dot | Words]:
    x, y = _LEFT + (place % 2) * (_WIDTH - _LEFT) / 2, top + _LEGEND * (place // 2) + 10
    return [Dot(x, y - 4, runner.colour), Words(x + 10, y, runner.name)]


def _mean(
    runs: Sequence[Sequence[Evaluated]], of: Callable[[Evaluated], float]
) -> tuple[FloatArray, FloatArray] | None:
    """Return the mean of all runs' scores where all have been evaluated; None where there is no such stretch."""
    of_runs = [(np.array([of(one) for one in told]), np.array([one.accuracy for one in told])) for told in runs]
    if not of_runs or any(len(x) < 2 for x, _ in of_runs):
        return None
    first, last = max(float(x[0]) for x, _ in of_runs), min(float(x[-1]) for x, _ in of_runs)
    if first >= last:
        return None
    grid = np.linspace(first, last, _POINTS)
    return grid, np.asarray(np.mean([np.interp(grid, x, y) for x, y in of_runs], axis=0))
