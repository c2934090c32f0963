"""Traces on a page: the figures, and charts of when devices are on line and how fast they are."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from auxo.commands.traces_text import MBPS, MS, figure_rows
from auxo.core.types import FloatArray
from auxo.files.atomic_write import write_whole
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.number_format import PER_CENT
from auxo.reporting.style import STYLE
from auxo.reporting.svg import Axis, Line, LineChart, draw
from auxo.traces.figures import HOURS, session_figures
from auxo.traces.trace import Trace

_WIDE, _NARROW = 900, 370  # widths at which a chart is laid out: a page and a phone
_COLOURS = 6  # in the style sheet
_STEPS = 200  # points of a distribution; our choice
_SHOWN = 0.95  # part of the devices up to which a distribution is drawn: the last ones are far away; our choice


def write_page(traces: Mapping[str, Trace], path: Path) -> None:
    """Write one HTML file that needs nothing else; it appears when it is complete.

    Raises:
        FileError: there is no place for the file.
    """
    title = escaped(f"Traces of devices: {', '.join(traces)}")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>{tag('main', *_parts(traces))}</body></html>\n"
    )
    write_whole(path, page.encode())


def _parts(traces: Mapping[str, Trace]) -> list[Markup]:
    parts = [
        tag("p", escaped("Auxo traces"), class_="over"),
        tag("h1", escaped(f"Devices of {', '.join(traces)}")),
        _table(traces),
    ]
    hours = _hours_chart(traces)
    if hours is not None:
        caption = "Mean over devices of the share of each hour that they were on line. Hours are those of the device."
        parts += [tag("h2", escaped("On line by hour of the day")), _figure(hours, caption)]
    caption = f"Read: so many devices have at most this. Drawn up to {_SHOWN:.0%} of the devices."
    compute = {name: MS * trace.speeds.compute_s_per_sample for name, trace in traces.items() if trace.speeds}
    download = {name: MBPS * trace.speeds.download_bps for name, trace in traces.items() if trace.speeds}
    if compute:
        chart = _distribution("milliseconds to train a sample", compute)
        parts += [tag("h2", escaped("Time to train a sample")), _figure(chart, caption)]
        chart = _distribution("Mbit/s of download", download)
        parts += [tag("h2", escaped("Bandwidth")), _figure(chart, caption)]
    return parts


def _table(traces: Mapping[str, Trace]) -> Markup:
    head = tag("tr", tag("th"), *(tag("th", escaped(name), scope="col") for name in traces))
    rows = [
        tag("tr", tag("th", escaped(heading), scope="row"), *(tag("td", escaped(value)) for value in values))
        for heading, values in figure_rows(traces)
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll")


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


def _figure(chart: LineChart, caption: str) -> Markup:
    # Two layouts instead of one that shrinks: on a phone, scaled-down words could not be read.
    wide, narrow = tag("div", draw(chart, _WIDE), class_="wide"), tag("div", draw(chart, _NARROW), class_="narrow")
    return tag("figure", wide, narrow, tag("figcaption", escaped(caption)))
