"""A data set's description drawn: bars on the terminal, charts on a page of its own."""

from itertools import pairwise

import numpy as np
from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from auxo.core.types import FloatArray, IntArray
from auxo.datasets.describe import Description, Quartiles
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.number_format import PER_CENT, counted, number, percent
from auxo.reporting.page import chart_figure, page, scrolling, section
from auxo.reporting.svg import Axis, Line, LineChart

_BAR = 24  # characters of a bar on the terminal; our choice
_MOST_GROUPS = 12  # that are listed; our choice
_SKEW_MEANS = (
    "Label skew is the total variation distance of a client's labels from everybody's: 0 is alike, 1 is apart. Small "
    "clients are skewed by chance alone, so it is also shown for clients of the same sizes with labels dealt anew."
)


def facts(described: Description) -> list[tuple[str, str]]:
    """Return what there is to say about a data set, name and value."""
    sizes, classes = Quartiles.of(described.sizes), Quartiles.of(described.classes_each)
    samples = described.train_samples + described.test_samples
    empty = described.classes_without_samples
    lines = [
        ("clients", number(described.clients)),
        (
            "samples",
            f"{number(samples)} ({number(described.train_samples)} to train, {number(described.test_samples)} to test)",
        ),
        ("inputs", f"{' x '.join(map(str, described.features))} {described.kind}"),
        ("classes", number(described.n_classes) + (f" ({empty} without a sample)" if empty else "")),
        ("samples a client", _five(sizes)),
        ("classes a client", _five(classes)),
        ("label skew", f"{described.skew.mean():.3f} on average; by chance {described.skew_by_chance.mean():.3f}"),
    ]
    if described.groups:
        lines.append(("groups", number(len(described.groups))))
    return lines


def _five(quartiles: Quartiles) -> str:
    middle = f"quartiles {number(quartiles.lower)}, {number(quartiles.median)}, {number(quartiles.upper)}"
    return f"{number(quartiles.least)} to {number(quartiles.most)}, {middle}"


def on_terminal(described: Description) -> RenderableType:
    """Return the description for a terminal."""
    summary = Table.grid(padding=(0, 2))
    for name, value in facts(described):
        summary.add_row(name, escape(value))
    parts: list[RenderableType] = [
        escape(described.name),
        summary,
        "",
        _size_bars(described.sizes),
        "",
        _skew_bars(described),
    ]
    if described.groups:
        parts += ["", _group_table(described)]
    return Group(*parts)


def _size_bars(sizes: IntArray) -> Table:
    edges = size_edges(int(sizes.min()), int(sizes.max()))
    counts, _ = np.histogram(sizes, bins=edges)
    table = _bars_table("samples a client", "clients")
    for (low, high), count in zip(pairwise(edges), counts.tolist(), strict=True):
        span = f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"
        table.add_row(span, _bar(count, counts.max()), f"{count:,}")
    return table


def size_edges(least: int, most: int) -> list[int]:
    """Return edges of ranges that hold all numbers from ``least`` to ``most``: 1, 2, 5, 10, 20 and so on.

    >>> size_edges(3, 40)
    [2, 5, 10, 20, 50]
    """
    steps = [0] + [factor * 10**power for power in range(19) for factor in (1, 2, 5)]
    first = max(place for place, step in enumerate(steps) if step <= least)
    last = min(place for place, step in enumerate(steps) if step > most)
    return steps[first : last + 1]


def _skew_bars(described: Description) -> Table:
    edges = np.linspace(0, 1, 11)
    own, _ = np.histogram(described.skew, bins=edges)
    chance, _ = np.histogram(described.skew_by_chance, bins=edges)
    table = _bars_table("label skew", "clients")
    table.add_column("")
    table.add_column("by chance", justify="right")
    most = max(own.max(), chance.max())
    for place in range(len(edges) - 1):
        if own[place] or chance[place]:
            span = f"{edges[place]:.1f} to {edges[place + 1]:.1f}"
            bars = (_bar(count, most) for count in (int(own[place]), int(chance[place])))
            table.add_row(span, next(bars), f"{own[place]:,}", next(bars), f"{chance[place]:,}")
    return table


def _bars_table(what: str, of: str) -> Table:
    table = Table(what, "", box=None, padding=(0, 1), pad_edge=False)
    table.add_column(of, justify="right")
    return table


def _bar(count: int, most: int) -> Bar:
    return Bar(size=max(int(most), 1), begin=0, end=count, width=_BAR)


def _group_table(described: Description) -> Table:
    table = Table("group", box=None, padding=(0, 1), pad_edge=False)
    for heading in ("clients", "samples"):
        table.add_column(heading, justify="right")
    for group in described.groups[:_MOST_GROUPS]:
        table.add_row(escape(group.name), f"{group.clients:,}", f"{group.samples:,}")
    if len(described.groups) > _MOST_GROUPS:
        table.add_row(f"{len(described.groups) - _MOST_GROUPS} more", "", "")
    return table


def description_page(described: Description) -> str:
    """Return the description as one HTML page that needs nothing else."""
    clients, samples = described.clients, described.train_samples + described.test_samples
    skew = f"{described.skew.mean():.2f}, and {described.skew_by_chance.mean():.2f} by chance"
    title = f"Data set: {described.name}"
    classes = f"{described.n_classes:,} class{'' if described.n_classes == 1 else 'es'}"
    words = f"{counted(clients, 'client')} with {counted(samples, 'sample')} of {classes}"
    parts = [
        tag("p", escaped(title), class_="over"),
        tag("h1", escaped(f"{words}; label skew is {skew}")),
        _facts_table(described),
        section("Samples a client", chart_figure(_sizes_chart(described), "Clients in the order of their sizes.")),
        section("Label skew", chart_figure(_skew_chart(described), _SKEW_MEANS)),
    ]
    if described.groups:
        parts.append(section("Groups", _groups_markup(described)))
    return page(title, parts)


def _facts_table(described: Description) -> Markup:
    rows = (
        tag("tr", tag("th", escaped(name), scope="row"), tag("td", escaped(value), class_="words"))
        for name, value in facts(described)
    )
    return scrolling(tag("table", tag("tbody", *rows)))


def _groups_markup(described: Description) -> Markup:
    head = tag("tr", *(tag("th", escaped(name), scope="col") for name in ("group", "clients", "samples")))
    rows = (
        tag(
            "tr",
            tag("th", escaped(group.name), scope="row"),
            tag("td", escaped(f"{group.clients:,}")),
            tag("td", escaped(f"{group.samples:,} ({percent(group.samples / int(described.sizes.sum()))})")),
        )
        for group in described.groups
    )
    return scrolling(tag("table", tag("thead", head), tag("tbody", *rows)))


def _shares(clients: int) -> FloatArray:
    shares: FloatArray = (np.arange(clients) + 0.5) / clients
    return shares


def _clients_axis() -> Axis:
    return Axis("share of clients", *PER_CENT, low=0.0, high=1.0)


def _sizes_chart(described: Description) -> LineChart:
    sizes = np.sort(described.sizes).astype(np.float64)
    middle = Quartiles.of(described.sizes)
    words = f"Samples of each client, smallest first: {_five(middle)}."
    line = Line("samples", "auxo", _shares(len(sizes)), sizes)
    return LineChart(words, _clients_axis(), Axis("samples", low=0.0), (line,))


def _skew_chart(described: Description) -> LineChart:
    x = _shares(described.clients)
    lines = (
        Line("label skew", "auxo", x, np.sort(described.skew), "clients"),
        Line("label skew by chance", "base", x, np.sort(described.skew_by_chance), "by chance", is_dashed=True),
    )
    means = described.skew.mean(), described.skew_by_chance.mean()
    words = f"Label skew of each client, least first: {means[0]:.2f} on average, {means[1]:.2f} by chance."
    return LineChart(words, _clients_axis(), Axis("label skew", low=0.0), lines)
