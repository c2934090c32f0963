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


@dataclass(frozen=True)
class Course:
    """A race of some runners; those that are run under other settings have a picture of their own."""

    runners: Sequence[Runner]
    name: str = ""  # of its files, beside that of the picture
    words: str = ""  # which settings


def race(courses: Sequence[Course], metric: Metric, seeds: int) -> list[Plot]:
    """Return the pictures of what evaluations score, with one scale for all; none where nothing was evaluated twice."""
    plots = []
    better = ", of which smaller is better," if metric.smaller_is_better else ""
    for against in _PICTURES:
        found = [(course, lines) for course in courses if (lines := _means(course, against, metric))]
        y = np.concatenate([np.zeros(0), *(line.y for _, lines in found for line in lines)])
        for course, lines in found:
            where = f", {course.words}" if course.words else ""
            caption = (
                f"{capital(metric.name)}{better} against {against.what}{where}; mean over {counted(seeds, 'seed')}"
            )
            axis = Axis(metric.name, *scale_of(metric), low=float(y.min()), high=float(y.max()))
            plots.append(_picture(course, lines, against, axis, caption))
    return plots


def _means(course: Course, against: _Against, metric: Metric) -> tuple[Line, ...]:
    means = [(one, mean) for one in course.runners if (mean := _mean(one.runs, against.of)) is not None]
    return tuple(Line(one.name, one.colour, x, metric.sign * y, one.name) for one, (x, y) in means)


def _picture(course: Course, lines: tuple[Line, ...], against: _Against, y: Axis, caption: str) -> Plot:
    chart = LineChart(caption, Axis(against.axis, low=0.0), y, lines)
    points = [(line.name, at, value) for line in lines for at, value in zip(line.x, line.y, strict=True)]
    name = f"{against.name}_{course.name}" if course.name else against.name
    return Plot(name, caption, chart, [("method", against.axis, y.label), *points])


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
