"""Traces drawn: figures, and hours of the day, speeds and bandwidths as bars on the terminal, as charts on a page."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from auxo.commands.describing import bars, colour, distributions, write_description
from auxo.reporting.number_format import ABSENT, PER_CENT, duration, number, percent
from auxo.reporting.page import table
from auxo.reporting.svg import Axis, Line, LineChart
from auxo.traces.figures import (
    HOURS,
    PERCENTILES,
    SLOW_BPS,
    SessionFigures,
    session_figures,
    shares_between,
    slow_share,
)
from auxo.traces.trace import Speeds, Trace

_MS = 1e3
_MBPS = 1e-6
_COMPUTE_EDGES_MS = (20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)  # our choice, as are those below
_DOWNLOAD_EDGES_MBPS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_SHOWN = 0.95  # part of the devices up to which a distribution is drawn: the last ones are far away; our choice


def pictures(traces: Mapping[str, Trace], is_ascii: bool = False) -> Iterator[Table]:
    """Yield the table of figures and a drawing of each kind of values that some trace has; a column for each."""
    figures = Table("", box=box.SIMPLE_HEAD)
    for name in traces:
        figures.add_column(escape(name), justify="right")
    for heading, values in figure_rows(traces):
        figures.add_row(heading, *values)
    yield figures
    hours = {name: session_figures(trace.sessions).by_hour for name, trace in traces.items() if trace.sessions}
    if hours:
        yield bars("on line by hour of the day", [f"{hour:02d}" for hour in range(HOURS)], hours, percent, is_ascii)
    speeds = {name: trace.speeds for name, trace in traces.items() if trace.speeds}
    if speeds:
        shares = {name: shares_between(_MS * of.compute_s_per_sample, _COMPUTE_EDGES_MS) for name, of in speeds.items()}
        yield bars("devices by time to train a sample", _ranges(_COMPUTE_EDGES_MS, "ms"), shares, percent, is_ascii)
        shares = {name: shares_between(_MBPS * of.download_bps, _DOWNLOAD_EDGES_MBPS) for name, of in speeds.items()}
        yield bars("devices by download", _ranges(_DOWNLOAD_EDGES_MBPS, "Mbit/s"), shares, percent, is_ascii)


def figure_rows(traces: Mapping[str, Trace]) -> list[tuple[str, list[str]]]:
    """Return what is said about each trace, line by line, as words."""
    rows: list[tuple[str, list[str]]] = []
    if any(trace.sessions for trace in traces.values()):
        sessions = [trace.sessions and session_figures(trace.sessions) for trace in traces.values()]
        rows += [(heading, [ABSENT if of is None else write(of) for of in sessions]) for heading, write in _SESSIONS]
    if any(trace.speeds for trace in traces.values()):
        speeds = [trace.speeds for trace in traces.values()]
        rows.append(("devices with speeds", [ABSENT if of is None else f"{len(of.devices):,}" for of in speeds]))
        columns = [[ABSENT] * len(_PERCENTILE_HEADINGS) if of is None else _percentiles(of) for of in speeds]
        rows += [(heading, [column[row] for column in columns]) for row, heading in enumerate(_PERCENTILE_HEADINGS)]
        slow = f"download under {number(_MBPS * SLOW_BPS)} Mbit/s"
        rows.append((slow, [ABSENT if of is None else percent(slow_share(of)) for of in speeds]))
    return rows


def _spans(of: SessionFigures) -> str:
    if of.shortest_span_s == of.longest_span_s:
        return duration(of.median_span_s)
    return f"{duration(of.median_span_s)} ({duration(of.shortest_span_s)} to {duration(of.longest_span_s)})"


def _percentiles(of: Speeds) -> list[str]:
    columns = ((_MS, of.compute_s_per_sample), (_MBPS, of.download_bps), (_MBPS, of.upload_bps))
    found = ((factor, np.percentile(column, PERCENTILES).tolist()) for factor, column in columns)
    return [number(float(f"{factor * value:.3g}")) for factor, values in found for value in values]


_QUANTITIES = ("ms to train a sample", "download in Mbit/s", "upload in Mbit/s")
_PERCENTILE_HEADINGS = [f"{quantity}, {percentile} %" for quantity in _QUANTITIES for percentile in PERCENTILES]
_SESSIONS: tuple[tuple[str, Callable[[SessionFigures], str]], ...] = (
    ("devices with sessions", lambda of: f"{of.devices:,}"),
    ("span", _spans),
    ("intervals on line", lambda of: f"{of.intervals:,}"),
    ("mean share on line", lambda of: percent(of.share_online)),
    ("median interval", lambda of: duration(of.median_interval_s)),
    ("fullest hour", lambda of: f"{of.peak_hour:02d}:00, {percent(float(np.nanmax(of.by_hour)))}"),
    ("fullest over emptiest hour", lambda of: number(of.peak_to_trough and round(of.peak_to_trough, 2))),
)


def _ranges(edges: tuple[float, ...], unit: str) -> list[str]:
    between = [f"{number(low)} to {number(high)} {unit}" for low, high in pairwise(edges)]
    return [f"under {number(edges[0])} {unit}", *between, f"{number(edges[-1])} {unit} and more"]


def write_traces_page(traces: Mapping[str, Trace], path: Path) -> None:
    """Write figures and charts as a page."""
    names = ", ".join(traces)
    sections = {}
    if any(trace.sessions for trace in traces.values()):
        caption = "Mean over devices of the share of each hour that they were on line. Hours are those of the device."
        sections["On line by hour of the day"] = (_hours_chart(traces), caption)
    speeds = {name: trace.speeds for name, trace in traces.items() if trace.speeds}
    if speeds:
        caption = f"Read: so many devices have at most this. Drawn up to {_SHOWN:.0%} of the devices."
        compute = {name: _MS * of.compute_s_per_sample for name, of in speeds.items()}
        chart = distributions("milliseconds to train a sample", "devices", compute, _SHOWN)
        sections["Time to train a sample"] = (chart, caption)
        download = {name: _MBPS * of.download_bps for name, of in speeds.items()}
        sections["Bandwidth"] = (distributions("Mbit/s of download", "devices", download, _SHOWN), caption)
    figures = table(("", *traces), ((heading, *values) for heading, values in figure_rows(traces)))
    write_description(path, f"Traces of devices: {names}", f"Devices of {names}", figures, sections)


def _hours_chart(traces: Mapping[str, Trace]) -> LineChart:
    edges = np.arange(HOURS + 1, dtype=np.float64)
    lines = tuple(
        Line(name, colour(place), np.repeat(edges, 2)[1:-1], np.repeat(session_figures(of.sessions).by_hour, 2), name)
        for place, (name, of) in enumerate(traces.items())
        if of.sessions is not None
    )
    description, x = "Share of devices on line in each hour of the day", Axis("hour of the day", low=0.0, high=HOURS)
    return LineChart(description, x, Axis("on line", *PER_CENT, low=0.0), lines)
