"""Traces in the terminal: a table of figures, and bars for hours of the day, speeds and bandwidths."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from auxo.core.types import FloatArray
from auxo.reporting.number_format import ABSENT, duration, number, percent
from auxo.traces.figures import (
    HOURS,
    PERCENTILES,
    SLOW_BPS,
    SessionFigures,
    SpeedFigures,
    session_figures,
    shares_between,
    speed_figures,
)
from auxo.traces.trace import Trace

MS = 1e3
MBPS = 1e-6
_COMPUTE_EDGES_MS = (20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)  # our choice, as are those below
_DOWNLOAD_EDGES_MBPS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_BAR_WIDTH = 24  # characters; our choice, so that three files fit side by side
_EIGHTHS = " \N{LEFT ONE EIGHTH BLOCK}\N{LEFT ONE QUARTER BLOCK}\N{LEFT THREE EIGHTHS BLOCK}\N{LEFT HALF BLOCK}" + (
    "\N{LEFT FIVE EIGHTHS BLOCK}\N{LEFT THREE QUARTERS BLOCK}\N{LEFT SEVEN EIGHTHS BLOCK}"
)


def pictures(traces: Mapping[str, Trace], is_ascii: bool = False) -> Iterator[Table]:
    """Yield the table of figures and a drawing of each kind of values that some trace has; a column for each."""
    table = Table("", box=box.SIMPLE_HEAD)
    for name in traces:
        table.add_column(escape(name), justify="right")
    for heading, values in figure_rows(traces):
        table.add_row(heading, *values)
    yield table
    hours = {name: session_figures(trace.sessions).by_hour for name, trace in traces.items() if trace.sessions}
    if hours:
        yield _bars("on line by hour of the day", [f"{hour:02d}" for hour in range(HOURS)], hours, is_ascii)
    speeds = {name: trace.speeds for name, trace in traces.items() if trace.speeds}
    if speeds:
        shares = {name: shares_between(MS * of.compute_s_per_sample, _COMPUTE_EDGES_MS) for name, of in speeds.items()}
        yield _bars("devices by time to train a sample", _ranges(_COMPUTE_EDGES_MS, "ms"), shares, is_ascii)
        shares = {name: shares_between(MBPS * of.download_bps, _DOWNLOAD_EDGES_MBPS) for name, of in speeds.items()}
        yield _bars("devices by download", _ranges(_DOWNLOAD_EDGES_MBPS, "Mbit/s"), shares, is_ascii)


def figure_rows(traces: Mapping[str, Trace]) -> list[tuple[str, list[str]]]:
    """Return what is said about each trace, line by line, as words."""
    rows: list[tuple[str, list[str]]] = []
    if any(trace.sessions for trace in traces.values()):
        sessions = [trace.sessions and session_figures(trace.sessions) for trace in traces.values()]
        rows += [(heading, [ABSENT if of is None else write(of) for of in sessions]) for heading, write in _SESSIONS]
    if any(trace.speeds for trace in traces.values()):
        speeds = [trace.speeds and speed_figures(trace.speeds) for trace in traces.values()]
        rows.append(("devices with speeds", [ABSENT if of is None else f"{of.devices:,}" for of in speeds]))
        columns = [[ABSENT] * len(_PERCENTILE_HEADINGS) if of is None else _percentiles(of) for of in speeds]
        rows += [(heading, [column[row] for column in columns]) for row, heading in enumerate(_PERCENTILE_HEADINGS)]
        slow = f"download under {number(MBPS * SLOW_BPS)} Mbit/s"
        rows.append((slow, [ABSENT if of is None else percent(of.slow_share) for of in speeds]))
    return rows


def _spans(of: SessionFigures) -> str:
    if of.shortest_span_s == of.longest_span_s:
        return duration(of.median_span_s)
    return f"{duration(of.median_span_s)} ({duration(of.shortest_span_s)} to {duration(of.longest_span_s)})"


def _percentiles(of: SpeedFigures) -> list[str]:
    columns = ((MS, of.compute_s_per_sample), (MBPS, of.download_bps), (MBPS, of.upload_bps))
    return [number(float(f"{factor * value:.3g}")) for factor, column in columns for value in column.tolist()]


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


def _bars(title: str, headings: list[str], shares: Mapping[str, FloatArray], is_ascii: bool) -> Table:
    """Return a row of bars for each heading, a column for each trace; all to one scale."""
    table = Table("", box=None, title=title, title_justify="left", show_header=len(shares) > 1)
    for name in shares:
        table.add_column(escape(name), min_width=_BAR_WIDTH)
        table.add_column("", justify="right")
    longest = max(float(np.nanmax(column, initial=0.0)) for column in shares.values())
    for row, heading in enumerate(headings):
        cells = []
        for column in shares.values():
            share = float(column[row])
            is_known = not np.isnan(share)
            cells.append(bar(share / longest if is_known and longest else 0.0, is_ascii))
            cells.append(percent(share) if is_known else ABSENT)
        table.add_row(heading, *cells)
    return table


def bar(share: float, is_ascii: bool = False) -> str:
    """Return a bar that fills a share of the width, to an eighth of a character.

    >>> bar(0.5, is_ascii=True)
    '############'
    """
    if is_ascii:
        return "#" * round(share * _BAR_WIDTH)
    whole, eighths = divmod(round(8 * share * _BAR_WIDTH), 8)
    return "\N{FULL BLOCK}" * whole + _EIGHTHS[eighths].strip()
