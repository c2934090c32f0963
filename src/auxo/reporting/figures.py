"""The report's line charts: what is drawn from a run's facts, before any pixel."""

from collections.abc import Callable, Sequence

import numpy as np

from auxo.core.metric import Metric
from auxo.core.types import FloatArray
from auxo.experiments.run_directory import ClientScores
from auxo.experiments.summary import ORACLE, Between, reach
from auxo.protocol.cohorts_seen import in_order
from auxo.protocol.events import Evaluated, Partitioned, RoundClosed
from auxo.reporting.facts import MethodFacts, RunFacts
from auxo.reporting.method_names import method_colours
from auxo.reporting.number_format import (
    PER_CENT,
    capital,
    counted,
    number,
    open_to,
    percent,
    scale_of,
    score,
    time_unit,
    times,
)
from auxo.reporting.svg import Axis, Band, Level, Line, LineChart, Moment, Span, Zone

_COHORT_COLOURS = 6  # how many the style sheet has; more cohorts than that use them again
_TENTH = 0.1
WORTH_SAYING = 1.05  # our choice: a ratio below this is not called a speedup


def accuracy_over_time(facts: RunFacts) -> LineChart | None:
    """Return mean accuracy against simulated time; None without an evaluation."""
    featured = facts.featured
    longest_s = max((run.evaluations[-1].time_s for run in facts.methods.values() if run.evaluations), default=0.0)
    unit = time_unit(longest_s)
    axis = Axis(f"simulated time, {unit.name}", low=0.0)
    return _accuracy_chart(
        facts,
        axis,
        of_evaluation=lambda evaluated: evaluated.time_s / unit.seconds,
        of_partition=lambda partition: partition.time_s / unit.seconds,
        gain=_gain(featured.brought.speedup, featured.brought.speedup_between, "sooner") if featured else None,
        height=380,
    )


def accuracy_over_work(facts: RunFacts) -> LineChart | None:
    """Return mean accuracy against updates aggregated; None without an evaluation."""
    featured = facts.featured
    return _accuracy_chart(
        facts,
        Axis("participations (updates aggregated)", low=0.0),
        of_evaluation=lambda evaluated: float(evaluated.participations),
        of_partition=lambda partition: float(featured.participations_at(partition.time_s)) if featured else 0.0,
        gain=_gain(featured.brought.resource_speedup, featured.brought.resource_speedup_between, "less work")
        if featured
        else None,
        height=300,
    )


def client_curve(facts: RunFacts) -> LineChart | None:
    """Return every client's accuracy from worst to best, by method; None before any has client scores.

    The oracle has no line: what matters here is who gains and who loses by a method that could be used.
    """
    colours, metric = method_colours(facts.methods), facts.metric
    runs = [run for run in facts.methods.values() if run.method != ORACLE and len(_scored(run.clients))]
    if not runs:
        return None
    lines, levels = [], []
    for run in runs:
        scores = _scored(run.clients)
        share = (np.arange(len(scores)) + 0.5) / len(scores)
        label = f"{run.name}, median {score(float(np.median(scores)), metric, 0)}"
        label_x = 0.5 if len(runs) < 3 else None  # words above and below two lines stand closer than those at the end
        ordered = metric.sign * np.sort(scores)
        lines.append(Line(run.name, colours[run.method], share, ordered, label, label_x=label_x))
        if run.end:
            words = f"{run.name}, worst {percent(_TENTH, 0)}: {score(run.end.worst_10, metric)}"
            levels.append(Level(colours[run.method], 0.0, _TENTH, metric.sign * run.end.worst_10, words))
            words = f"{run.name}, best {percent(_TENTH, 0)}: {score(run.end.best_10, metric)}"
            levels.append(Level(colours[run.method], 1 - _TENTH, 1.0, metric.sign * run.end.best_10, words))
    halves = ", ".join(f"{line.name} {score(metric.sign * float(np.median(line.y)), metric)}" for line in lines)
    return LineChart(
        description=f"{capital(metric.name)} of every client, from worst to best. The median client: {halves}.",
        x=Axis("clients, from worst to best", *PER_CENT, low=0.0, high=1.0),
        y=Axis(f"{metric.name} of a client's test samples{_better(metric)}", *scale_of(metric)),
        lines=tuple(lines),
        zones=(Zone(0.0, _TENTH, f"worst {percent(_TENTH, 0)}"), Zone(1 - _TENTH, 1.0, f"best {percent(_TENTH, 0)}")),
        levels=tuple(levels),
    )


def better_and_worse(base: MethodFacts, other: MethodFacts) -> tuple[int, int, int] | None:
    """Return how many clients a method serves better, the same and worse than the base; None without pairs."""
    if base.clients is None or other.clients is None:
        return None
    if len(base.clients.accuracy) != len(other.clients.accuracy):
        return None
    difference = other.clients.accuracy - base.clients.accuracy
    return int((difference > 0).sum()), int((difference == 0).sum()), int((difference < 0).sum())


def gain_chart(run: MethodFacts) -> LineChart | None:
    """Return the gain of each cohort's best partition, and what was asked for; None when there was nothing to judge."""
    colours = cohort_colours(run)
    lines = []
    for cohort, closed in _judging(run).items():
        judged = [one for one in closed if one.gain is not None]
        gains = np.array([one.gain for one in judged], dtype=np.float64)
        if judged:
            lines.append(Line(f"gain of {cohort}", colours[cohort], _rounds(judged), gains, cohort))
    if not lines:
        return None
    marks = tuple(
        Moment(
            float(partition.round),
            f"{partition.cohort} \N{RIGHTWARDS ARROW} {len(partition.children)}",
            f"{partition.cohort} partitioned into {counted(len(partition.children), 'cohort')} in round "
            f"{partition.round}" + ("" if partition.gain is None else f" with a gain of {number(partition.gain)}"),
        )
        for partition in run.partitions
    )
    done = "; ".join(mark.detail for mark in marks) or "no partition happened"
    needed = _needed(run, colours) if run.asks_for_gain else ()
    asked = ", and the gain needed (dashed)" if needed else ""
    return LineChart(
        description=f"Gain of the best partition over rounds for each cohort{asked}: {done}.",
        x=Axis("round", low=0.0, is_whole=True),
        y=Axis("gain of the best partition"),
        lines=(*needed, *lines),
        marks=marks,
        height=320,
    )


def heterogeneity_chart(run: MethodFacts) -> LineChart | None:
    """Return the heterogeneity of each cohort's updates over rounds; None before the first round."""
    axis = Axis("heterogeneity of updates")
    return _chart_of_rounds(run, "Heterogeneity of updates", axis, lambda closed: closed.heterogeneity)


def participants_chart(run: MethodFacts) -> LineChart | None:
    """Return the updates that each cohort's rounds have used; None before the first round."""
    axis = Axis("updates used", low=0.0)
    return _chart_of_rounds(run, "Updates that were used", axis, lambda closed: float(closed.participants))


def _chart_of_rounds(run: MethodFacts, what: str, y: Axis, of: Callable[[RoundClosed], float]) -> LineChart | None:
    colours = cohort_colours(run)
    lines = tuple(
        Line(f"{y.label}, cohort {cohort}", colours[cohort], _rounds(closed), np.array([*map(of, closed)]), cohort)
        for cohort, closed in _by_cohort(run).items()
    )
    return _over_rounds(run, what, y, lines, 230) if lines else None


def _over_rounds(run: MethodFacts, what: str, y: Axis, lines: tuple[Line, ...], height: int) -> LineChart:
    marks = tuple(Moment(float(partition.round), "", f"{partition.cohort} partitioned") for partition in run.partitions)
    x = Axis("round", low=0.0, is_whole=True)
    return LineChart(f"{what} over rounds, for each cohort.", x, y, lines, marks=marks, height=height)


def measured_charts(run: MethodFacts) -> list[tuple[str, str, LineChart]]:
    """Return a chart for each of an app's own metrics over rounds, with who has measured it and its name."""
    colours, charts = cohort_colours(run), []
    values: dict[tuple[str, str], dict[str, list[tuple[int, float]]]] = {}
    for one in run.measured:
        for name, value in zip(one.names, one.values, strict=True):
            values.setdefault((one.source, name), {}).setdefault(one.cohort, []).append((one.round, value))
    for (source, name), cohorts in values.items():
        lines = []
        for cohort in in_order(cohorts):
            rounds, told = np.array(cohorts[cohort], dtype=np.float64).T
            lines.append(Line(f"{name} of {cohort}", colours.get(cohort, "ink"), rounds, told, cohort))
        charts.append((source, name, _over_rounds(run, name, Axis(name), tuple(lines), 260)))
    return charts


def cohort_colours(run: MethodFacts) -> dict[str, str]:
    """Return the colour of each cohort that trained: neutral for the first, then the palette in order."""
    cohorts = _by_cohort(run)
    return {cohort: f"k{(place - 1) % _COHORT_COLOURS}" if place else "ink" for place, cohort in enumerate(cohorts)}


def _accuracy_chart(
    facts: RunFacts,
    x: Axis,
    *,
    of_evaluation: Callable[[Evaluated], float],
    of_partition: Callable[[Partitioned], float],
    gain: str | None,
    height: int,
) -> LineChart | None:
    runs = [run for run in facts.methods.values() if run.evaluations]
    if not runs:
        return None
    featured, colours, metric = facts.featured, method_colours(facts.methods), facts.metric
    places = {run.method: np.array([of_evaluation(one) for one in run.evaluations]) for run in runs}
    lines = tuple(
        Line(
            run.name,
            colours[run.method],
            places[run.method],
            metric.sign * np.array([one.accuracy for one in run.evaluations]),
            f"{run.name} {score(run.evaluations[-1].accuracy, metric)}",
            is_dashed=run.method == ORACLE,
        )
        # The last drawn lies on top, and that should be what the report is about.
        for run in sorted(runs, key=lambda run: run is featured)
    )
    ends = ", ".join(line.label for line in lines)
    return LineChart(
        description=f"Mean {metric.name} of clients' test samples against {x.label}. At the end: {ends}.",
        x=x,
        y=Axis(f"mean {metric.name} of clients' test samples{_better(metric)}", *scale_of(metric)),
        lines=lines,
        bands=_cohort_band(featured, places, colours) if featured else (),
        marks=tuple(_partition_mark(partition, of_partition(partition)) for partition in featured.partitions)
        if featured
        else (),
        spans=_span_to_target(facts, of_evaluation, gain),
        height=height,
    )


def _better(metric: Metric) -> str:
    return "; smaller is better" if metric.smaller_is_better else ""


def _gain(ratio: float | None, between: Between | None, words: str) -> str | None:
    return None if ratio is None or ratio < WORTH_SAYING else f"{times(ratio)}{open_to(between)} {words}"


def _cohort_band(run: MethodFacts, places: dict[str, FloatArray], colours: dict[str, str]) -> tuple[Band, ...]:
    # Cohorts without a client yet have no accuracy to speak of.
    scores = [[score.accuracy for score in one.cohorts if score.clients] or [one.accuracy] for one in run.evaluations]
    if not any(len(row) > 1 for row in scores):
        return ()
    low, high = np.array([min(row) for row in scores]), np.array([max(row) for row in scores])
    return (Band(colours[run.method], places[run.method], run.metric.sign * low, run.metric.sign * high),)


def _partition_mark(partition: Partitioned, at: float) -> Moment:
    children = len(partition.children)
    detail = f"round {partition.round}: {partition.cohort} partitioned into {', '.join(partition.children)}"
    return Moment(at, f"{partition.cohort} \N{RIGHTWARDS ARROW} {counted(children, 'cohort')}", detail)


def _span_to_target(facts: RunFacts, of_evaluation: Callable[[Evaluated], float], gain: str | None) -> tuple[Span, ...]:
    base, featured, target = facts.base, facts.featured, facts.target
    if gain is None or base is None or featured is None or target is None:
        return ()
    start, end = (reach(run.evaluations, target, of_evaluation) for run in (featured, base))
    if start is None or end is None or start >= end:
        return ()
    return (Span(start, end, facts.metric.sign * target, gain),)


def _needed(run: MethodFacts, colours: dict[str, str]) -> tuple[Line, ...]:
    cohorts = _judging(run)
    needed: dict[int, set[float]] = {}
    for closed in (one for rounds in cohorts.values() for one in rounds):
        needed.setdefault(closed.round, set()).add(closed.gain_needed)
    if all(len(values) == 1 for values in needed.values()):  # one line says it for every cohort
        rounds = sorted(needed)
        values = np.array([next(iter(needed[one])) for one in rounds])
        return (Line("gain needed", "ink", np.array(rounds, dtype=np.float64), values, "needed", is_dashed=True),)
    return tuple(
        Line(
            f"gain {cohort} needed",
            colours[cohort],
            _rounds(closed),
            np.array([one.gain_needed for one in closed]),
            is_dashed=True,
        )
        for cohort, closed in cohorts.items()
    )


def _by_cohort(run: MethodFacts) -> dict[str, list[RoundClosed]]:
    cohorts: dict[str, list[RoundClosed]] = {}
    for closed in run.rounds:
        cohorts.setdefault(closed.cohort, []).append(closed)
    return {cohort: cohorts[cohort] for cohort in in_order(cohorts)}


def _judging(run: MethodFacts) -> dict[str, list[RoundClosed]]:
    """Return each cohort's rounds up to the last that was judged: later ones only repeat the same gain."""
    judging = {}
    for cohort, closed in _by_cohort(run).items():
        last = max((one.round for one in closed if one.judged), default=0)
        if last:
            judging[cohort] = [one for one in closed if one.round <= last]
    return judging


def _rounds(closed: Sequence[RoundClosed]) -> FloatArray:
    return np.array([one.round for one in closed], dtype=np.float64)


def _scored(clients: ClientScores | None) -> FloatArray:
    if clients is None:
        return np.zeros(0)
    return clients.accuracy[(clients.test_samples > 0) & np.isfinite(clients.accuracy)]
