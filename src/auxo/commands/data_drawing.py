"""A data set's description drawn: bars on the terminal, charts on a page of its own."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from auxo.commands.describing import bars, distributions, write_description
from auxo.core.types import IntArray
from auxo.datasets.describe import Description, TargetSummary
from auxo.population.preparation import LearningTask
from auxo.reporting.markup import Markup
from auxo.reporting.number_format import counted, number, percent, plain
from auxo.reporting.page import table
from auxo.reporting.svg import LineChart

LEARNED = {"classification": "classes", "regression": "numbers to learn", "multi-label": "labels"}
"""What there is to learn of a data set, in words."""

_MOST_GROUPS = 12  # that are listed; our choice
_SKEW_EDGES = np.linspace(0, 1, 11)
_SKEW_MEANS = (
    "Label skew is the total variation distance of a client's labels from everybody's: 0 is alike, 1 is apart. Small "
    "clients are skewed by chance alone, so it is also shown for clients of the same sizes with labels dealt anew."
)


def facts(described: Description) -> list[tuple[str, str]]:
    """Return what there is to say about a data set, name and value."""
    samples = described.train_samples + described.test_samples
    empty = described.classes_without_samples
    lines = [
        ("clients", number(described.clients)),
        (
            "samples",
            f"{number(samples)} ({number(described.train_samples)} to train, {number(described.test_samples)} to test)",
        ),
        ("inputs", f"{' x '.join(map(str, described.features))} {described.kind}"),
        (LEARNED[described.task], number(described.n_classes) + (f" ({empty} without a sample)" if empty else "")),
        ("samples a client", _quartiles(described.sizes)),
    ]
    if described.task == "classification":
        skew, by_chance = described.skew.mean(), described.skew_by_chance.mean()
        lines.append(("classes a client", _quartiles(described.classes_each)))
        lines.append(("label skew", f"{skew:.3f} on average; by chance {by_chance:.3f}"))
    else:
        named = described.targets[:_MOST_GROUPS]
        more = ", ..." if len(described.targets) > _MOST_GROUPS else ""
        lines[3] = (lines[3][0], f"{lines[3][1]} ({', '.join(one.name for one in named)}{more})")
        lines += [(target.name, _target(target, described.task)) for target in named]
    if described.groups:
        lines.append(("groups", number(len(described.groups))))
    return lines


def _target(target: TargetSummary, task: LearningTask) -> str:
    """Return what there is to say of a number or a label, and how far clients are apart in it."""
    if task == "multi-label":
        share, least, most = (
            plain(percent(one, 0)) for one in (target.mean, target.client_least, target.client_greatest)
        )
        between, chance = (plain(percent(one)) for one in (target.client_deviation, target.by_chance))
        return f"{share} of samples, by client {least} to {most}; clients deviate by {between}, by chance {chance}"
    mean, deviation, least, most = (
        number(one) for one in (target.mean, target.deviation, target.least, target.greatest)
    )
    between, chance = number(target.client_deviation), number(target.by_chance)
    return (
        f"{mean} on average, deviation {deviation}, {least} to {most}; clients' means deviate by {between}, by chance "
        f"{chance}"
    )


def _quartiles(column: IntArray) -> str:
    least, lower, median, upper, most = (number(one) for one in np.quantile(column, [0, 0.25, 0.5, 0.75, 1]).tolist())
    return f"{least} to {most}, quartiles {lower}, {median}, {upper}"


def on_terminal(described: Description, is_ascii: bool = False) -> RenderableType:
    """Return the description for a terminal."""
    summary = Table.grid(padding=(0, 2))
    for name, value in facts(described):
        summary.add_row(name, escape(value))
    drawn = [_size_bars(described.sizes, is_ascii)]
    if described.task == "classification":
        drawn.append(_skew_bars(described, is_ascii))
    if described.groups:
        drawn.append(_group_table(described))
    return Group(escape(described.name), summary, *(part for one in drawn for part in ("", one)))


def _size_bars(sizes: IntArray, is_ascii: bool) -> Table:
    edges = size_edges(int(sizes.min()), int(sizes.max()))
    ranges = [f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}" for low, high in pairwise(edges)]
    counts = np.histogram(sizes, bins=edges)[0].astype(np.float64)
    return bars("clients by samples", ranges, {"clients": counts}, number, is_ascii)


def size_edges(least: int, most: int) -> list[int]:
    """Return edges of ranges that hold all numbers from ``least`` to ``most``: 1, 2, 5, 10, 20 and so on.

    >>> size_edges(3, 40)
    [2, 5, 10, 20, 50]
    """
    steps = [0] + [factor * 10**power for power in range(19) for factor in (1, 2, 5)]
    first = max(place for place, step in enumerate(steps) if step <= least)
    last = min(place for place, step in enumerate(steps) if step > most)
    return steps[first : last + 1]


def _skew_bars(described: Description, is_ascii: bool) -> Table:
    skews = {"clients": described.skew, "by chance": described.skew_by_chance}
    counts = {name: np.histogram(skew, _SKEW_EDGES)[0].astype(np.float64) for name, skew in skews.items()}
    shown = np.flatnonzero(np.sum(list(counts.values()), axis=0))
    ranges = [f"{_SKEW_EDGES[place]:.1f} to {_SKEW_EDGES[place + 1]:.1f}" for place in shown]
    columns = {name: column[shown] for name, column in counts.items()}
    return bars("clients by label skew", ranges, columns, number, is_ascii)


def _group_table(described: Description) -> Table:
    listed = Table("group", box=None, padding=(0, 1), pad_edge=False)
    for heading in ("clients", "samples"):
        listed.add_column(heading, justify="right")
    for group in described.groups[:_MOST_GROUPS]:
        listed.add_row(escape(group.name), f"{group.clients:,}", f"{group.samples:,}")
    if len(described.groups) > _MOST_GROUPS:
        listed.add_row(f"{len(described.groups) - _MOST_GROUPS} more", "", "")
    return listed


def write_data_page(described: Description, path: Path) -> None:
    """Write the description as a page."""
    samples = described.train_samples + described.test_samples
    words = f"{counted(described.clients, 'client')} with {counted(samples, 'sample')}"
    if described.task == "classification":
        classes = f"{described.n_classes:,} class{'' if described.n_classes == 1 else 'es'}"
        skew = f"{described.skew.mean():.2f}, and {described.skew_by_chance.mean():.2f} by chance"
        words = f"{words} of {classes}; label skew is {skew}"
    else:
        words = f"{words}; {LEARNED[described.task]}: {described.n_classes:,}"
    sizes = {"": described.sizes.astype(np.float64)}
    skews = {"clients": described.skew, "by chance": described.skew_by_chance}
    sections: dict[str, Markup | tuple[LineChart, str]] = {
        "Samples a client": (distributions("samples", "clients", sizes), "Read: so many clients have at most this."),
    }
    if described.task == "classification":
        sections["Label skew"] = (distributions("label skew", "clients", skews), _SKEW_MEANS)
    if described.groups:
        rows = (
            (group.name, f"{group.clients:,}", f"{group.samples:,} ({percent(group.samples / samples)})")
            for group in described.groups
        )
        sections["Groups"] = table(("group", "clients", "samples"), rows)
    write_description(
        path,
        f"Data set: {described.name}",
        words,
        table((), facts(described), {1: "words"}),
        sections,
    )
