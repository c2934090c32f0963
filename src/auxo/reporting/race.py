"""The pictures of a comparison: who gets how good by when, and by how many participations; means over seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.core.metric import Metric
from auxo.core.types import FloatArray
from auxo.protocol.events import Evaluated
from auxo.reporting.number_format import capital, counted, scale_of
from auxo.reporting.plots import Plot
from auxo.reporting.svg import Axis, Line, LineChart

_POINTS = 100  # of a curve; our choice
_HOUR_S = 3600.0


@dataclass(frozen=True)
class Runner:
    """A line of the pictures; ``colour`` names a class of the style sheet."""

    name: str
    colour: str
    runs: Sequence[Sequence[Evaluated]]  # evaluations of one seed after another


@dataclass(frozen=True)
class _Against:
    """What scores are drawn against."""

    name: str  # of the files
    what: str
    axis: str
    of: Callable[[Evaluated], float]


_PICTURES = (
    _Against("accuracy-over-time", "time", "simulated hours", lambda one: one.time_s / _HOUR_S),
    _Against(
        "accuracy-over-work", "resources", "participations, what was wasted included", lambda one: float(one.resource)
    ),
)


def race(runners: Sequence[Runner], metric: Metric, seeds: int) -> list[Plot]:
    """Return the pictures of what evaluations score; none where nothing was evaluated twice."""
    return [plot for against in _PICTURES if (plot := _picture(runners, against, metric, seeds)) is not None]


def _picture(runners: Sequence[Runner], against: _Against, metric: Metric, seeds: int) -> Plot | None:
    means = {one.name: (one, mean) for one in runners if (mean := _mean(one.runs, against.of)) is not None}
    if not means:
        return None
    lines = tuple(Line(name, one.colour, x, metric.sign * y, name) for name, (one, (x, y)) in means.items())
    caption = f"{capital(metric.name)} against {against.what}; mean over {counted(seeds, 'seed')}"
    chart = LineChart(caption, Axis(against.axis, low=0.0), Axis(metric.name, *scale_of(metric)), lines)
    points = [(line.name, x, y) for line in lines for x, y in zip(line.x, line.y, strict=True)]
    return Plot(against.name, caption, chart, [("method", against.axis, metric.name), *points])


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
