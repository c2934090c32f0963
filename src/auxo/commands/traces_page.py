"""Traces on a page: the figures, and charts of when devices are on line and how fast they are."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from auxo.commands.traces_text import MBPS, MS, figure_rows
from auxo.core.types import FloatArray
from auxo.files.atomic_write import write_whole
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.number_format import PER_CENT
from auxo.reporting.page import chart_figure, page, scrolling, section
from auxo.reporting.svg import Axis, Line, LineChart
from auxo.traces.figures import HOURS, session_figures
from auxo.traces.trace import Trace

_COLOURS = 6  # in the style sheet
_STEPS = 200  # points of a distribution; our choice
_SHOWN = 0.95  # part of the devices up to which a distribution is drawn: the last ones are far away; our choice


def write_page(traces: Mapping[str, Trace], path: Path) -> None:
    """Write one HTML file that needs nothing else; it appears when it is complete.

    Raises:
        FileError: there is no place for the file.
    """
    title = f"Traces of devices: {', '.join(traces)}"
    write_whole(path, page(title, _parts(traces)).encode())


def _parts(traces: Mapping[str, Trace]) -> list[Markup]:
    parts = [
        tag("p", escaped("Auxo traces"), class_="over"),
        tag("h1", escaped(f"Devices of {', '.join(traces)}")),
        _table(traces),
    ]
    hours = _hours_chart(traces)
    if hours is not None:
        caption = "Mean over devices of the share of each hour that they were on line. Hours are those of the device."
        parts.append(section("On line by hour of the day", chart_figure(hours, caption)))
    caption = f"Read: so many devices have at most this. Drawn up to {_SHOWN:.0%} of the devices."
    compute = {name: MS * trace.speeds.compute_s_per_sample for name, trace in traces.items() if trace.speeds}
    download = {name: MBPS * trace.speeds.download_bps for name, trace in traces.items() if trace.speeds}
    if compute:
        chart = _distribution("milliseconds to train a sample", compute)
        parts.append(section("Time to train a sample", chart_figure(chart, caption)))
        chart = _distribution("Mbit/s of download", download)
        parts.append(section("Bandwidth", chart_figure(chart, caption)))
    return parts


def _table(traces: Mapping[str, Trace]) -> Markup:
    head = tag("tr", tag("th"), *(tag("th", escaped(name), scope="col") for name in traces))
    rows = [
        tag("tr", tag("th", escaped(heading), scope="row"), *(tag("td", escaped(value)) for value in values))
        for heading, values in figure_rows(traces)
    ]
    return scrolling(tag("table", tag("thead", head), tag("tbody", *rows)))


def _hours_chart(traces: Mapping[str, Trace]) -> LineChart | None:
    lines = []
    for place, (name, trace) in enumerate(traces.items()):
        if trace.sessions is not None:
            shares = session_figures(trace.sessions).by_hour
            edges: FloatArray = np.arange(HOURS + 1, dtype=np.float64)
            lines.append(Line(name, _colour(place), np.repeat(edges, 2)[1:-1], np.repeat(shares, 2), label=name))
    if not lines:
        return None
    factor, unit = PER_CENT
    return LineChart(
        "Share of devices on line in each hour of the day",
        Axis("hour of the day", low=0.0, high=float(HOURS)),
        Axis("on line", factor, unit, low=0.0),
        tuple(lines),
    )


def _distribution(label: str, columns: Mapping[str, FloatArray]) -> LineChart:
    shares = np.linspace(0.0, _SHOWN, _STEPS)
    lines = tuple(
        Line(name, _colour(place), np.quantile(values, shares), shares, label=name)
        for place, (name, values) in enumerate(columns.items())
    )
    factor, unit = PER_CENT
    return LineChart(
        f"Share of devices by {label}", Axis(label, low=0.0), Axis("devices", factor, unit, low=0.0, high=1.0), lines
    )


def _colour(place: int) -> str:
    return f"k{place % _COLOURS}"
