"""What `describe` commands share: bars on the terminal, and a page with figures and charts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.markup import escape
from rich.table import Table

from auxo.core.types import FloatArray
from auxo.files.atomic_write import write_whole
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.number_format import ABSENT, PER_CENT
from auxo.reporting.page import chart_figure, page, section
from auxo.reporting.svg import Axis, Line, LineChart

_BAR_WIDTH = 24  # characters; our choice, so that three columns fit side by side
_EIGHTHS = " \N{LEFT ONE EIGHTH BLOCK}\N{LEFT ONE QUARTER BLOCK}\N{LEFT THREE EIGHTHS BLOCK}\N{LEFT HALF BLOCK}" + (
    "\N{LEFT FIVE EIGHTHS BLOCK}\N{LEFT THREE QUARTERS BLOCK}\N{LEFT SEVEN EIGHTHS BLOCK}"
)
_COLOURS = 6  # in the style sheet
_STEPS = 200  # points of a distribution; our choice


def bars(
    title: str,
    headings: Sequence[str],
    columns: Mapping[str, FloatArray],
    write: Callable[[float], str],
    is_ascii: bool = False,
) -> Table:
    """Return a row of bars for each heading, a column for each name; all to one scale."""
    table = Table("", box=None, title=title, title_justify="left", show_header=len(columns) > 1)
    for name in columns:
        table.add_column(escape(name), min_width=_BAR_WIDTH)
        table.add_column("", justify="right")
    longest = max(float(np.nanmax(column, initial=0.0)) for column in columns.values())
    for row, heading in enumerate(headings):
        cells = []
        for column in columns.values():
            value = float(column[row])
            is_known = not np.isnan(value)
            cells.append(bar(value / longest if is_known and longest else 0.0, is_ascii))
            cells.append(write(value) if is_known else ABSENT)
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


def distributions(label: str, of: str, columns: Mapping[str, FloatArray], up_to: float = 1.0) -> LineChart:
    """Return a chart of the share of clients or devices (``of``) that have at most so much; a line for each column."""
    shares = np.linspace(0.0, up_to, _STEPS)
    lines = tuple(
        Line(name, colour(place), np.quantile(values, shares), shares, label=name)
        for place, (name, values) in enumerate(columns.items())
    )
    description = f"Share of {of} by {label}"
    return LineChart(description, Axis(label, low=0.0), Axis(of, *PER_CENT, low=0.0, high=1.0), lines)


def colour(place: int) -> str:
    """Return the class in the style sheet of the line in a place."""
    return f"k{place % _COLOURS}"


def write_description(
    path: Path, title: str, headline: str, figures: Markup, sections: Mapping[str, Markup | tuple[LineChart, str]]
) -> None:
    """Write one HTML file that needs nothing else; under each heading comes markup, or a chart and its caption."""
    parts = [
        section(heading, chart_figure(*one) if isinstance(one, tuple) else one) for heading, one in sections.items()
    ]
    over, headed = tag("p", escaped(title), class_="over"), tag("h1", escaped(headline))
    write_whole(path, page(title, [over, headed, figures, *parts]).encode())
