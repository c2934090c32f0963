"""A grid of experiments for people: one table, on the terminal and on a page, and pictures."""

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from auxo.experiments.comparison import FEWEST_SEEDS
from auxo.experiments.grid_comparison import GridComparison, GridRow
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import BASE, Between, evaluations
from auxo.reporting.comparison_tables import covered, signed
from auxo.reporting.markup import escaped, tag
from auxo.reporting.method_names import method_colours, words_for
from auxo.reporting.number_format import OPEN, capital, counted, number, open_to
from auxo.reporting.page import note, page, section, table
from auxo.reporting.plots import Plot, plot_section, write_illustrated
from auxo.reporting.race import Course, Runner, race

_UNKNOWN = "-"
_STYLE = "main{max-width:78rem}figure{max-width:57rem}"  # room for a table of many columns


def grid_table(comparison: GridComparison) -> Table:
    """Return the table for the terminal: a line for each cell and method."""
    headings, lines, notes = _cells(comparison)
    title = f"{comparison.population}, {counted(len(comparison.seeds), 'seed')}"
    caption = escape("\n".join(notes))
    shown = Table(title=escape(title), caption=caption, caption_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    before: str | None = None
    for place, heading in enumerate(headings):
        is_word = place <= len(comparison.axes)
        shown.add_column(heading, justify="left" if is_word else "right", overflow="fold")
    for row, line in zip(comparison.rows, lines, strict=True):
        if before is not None and row.cell != before:
            shown.add_section()
        before = row.cell
        shown.add_row(*(escape(cell) for cell in line))
    return shown


def write_grid_report(folder: Path, comparison: GridComparison) -> Path:
    """Write report.html and the folder ``figures`` beside the cells of a grid, and return where the page is."""
    plots = _plots(folder, comparison)
    return write_illustrated(folder, _page(comparison, plots), plots)


def _page(comparison: GridComparison, plots: Sequence[Plot]) -> str:
    title = f"Auxo comparison: {comparison.population}"
    headings, lines, notes = _cells(comparison)
    links = [
        tag("li", tag("a", escaped(f"{cell}, seed {seed}"), href=f"{cell}/seed-{seed}/report.html"))
        for cell, seed in dict.fromkeys((row.cell, seed) for row in comparison.rows for seed in row.seeds)
    ]
    names = dict.fromkeys(range(1, len(comparison.axes) + 1), "name")
    axes = " x ".join(axis.title for axis in comparison.axes)
    parts = [
        tag("p", escaped(f"{title}, {counted(len(comparison.seeds), 'seed')}"), class_="over"),
        tag("h1", escaped(f"Methods by {axes}")),
        section("Measures", table([heading.replace("\n", " ") for heading in headings], lines, names)),
        *(note(f"{capital(line)}.") for line in notes),
        *(plot_section(plot) for plot in plots),
        section("Runs", tag("ul", *links)),
    ]
    return page(title, parts, style=_STYLE)


def _cells(comparison: GridComparison) -> tuple[list[str], list[list[str]], list[str]]:
    """Return headings, the cells of each row, and what is to be said below."""
    is_enough, metric = len(comparison.seeds) >= FEWEST_SEEDS, comparison.metric
    scored, digits = f"{metric.name}, {metric.unit}" if metric.unit else metric.name, 2 if metric.is_fraction else 4
    columns: dict[str, list[str]] = {
        **{axis.title: [row.choices[place] for row in comparison.rows] for place, axis in enumerate(comparison.axes)},
        "method": [words_for(row.method).name for row in comparison.rows],
        scored: [_accuracy(row, digits) for row in comparison.rows],
        "difference\nfrom base" + (" (95 %)" if is_enough else ""): [
            _UNKNOWN if row.difference is None else signed(row.difference, digits) for row in comparison.rows
        ],
        "speed-up,\nin time": [_speedup(row, row.speedup, row.speedup_between) for row in comparison.rows],
        "in partici-\npations": [
            _speedup(row, row.resource_speedup, row.resource_speedup_between) for row in comparison.rows
        ],
        "device-\nhours": [_hours(row.device_s) for row in comparison.rows],
        "of tuning,\nbesides": [_hours(row.tuning_device_s or None) for row in comparison.rows],
        "models\nsent": [_UNKNOWN if row.downloads is None else number(row.downloads) for row in comparison.rows],
        "cohorts": [_range(row.cohorts) for row in comparison.rows],
        "ARI": [_UNKNOWN if row.ari is None else f"{row.ari:.2f}" for row in comparison.rows],
    }
    needed = {scored, "method", *(axis.title for axis in comparison.axes)}
    shown = {name: cells for name, cells in columns.items() if name in needed or set(cells) - {_UNKNOWN, ""}}
    lines = [list(line) for line in zip(*shown.values(), strict=True)]
    return list(shown), lines, _notes(comparison)


def _accuracy(row: GridRow, digits: int) -> str:
    """Return the mean, or in a word why there is none."""
    return (
        row.note.partition(":")[0].partition(" in ")[0] if row.accuracy is None else f"{row.accuracy.mean:.{digits}f}"
    )


def _range(counts: Sequence[int]) -> str:
    if not counts:
        return _UNKNOWN
    return f"{counts[0]}" if len(set(counts)) == 1 else f"{min(counts)}-{max(counts)}"


def _notes(comparison: GridComparison) -> list[str]:
    notes = [f"{_label(row)}: {row.note}" for row in comparison.rows if row.note]
    troubles = dict.fromkeys(words for row in comparison.rows for words in row.troubles)
    for words in troubles:  # which rows often share
        notes.append(f"{'; '.join(_label(row) for row in comparison.rows if words in row.troubles)}: {words}")
    notes += ["differences and speed-ups are against the base of the same settings", *covered(comparison)]
    if any(row.speedup_between is not None for row in comparison.rows):
        notes.append(OPEN)
    if comparison.metric.smaller_is_better:
        notes.append(f"of {comparison.metric.name} smaller is better")
    if any(_speedup(row, one) == "never" for row in comparison.rows for one in (row.speedup, row.resource_speedup)):
        notes.append(f"never: a seed missed the base's best {comparison.metric.name}")
    if len(comparison.seeds) < FEWEST_SEEDS:
        notes.append(
            f"fewer than {FEWEST_SEEDS} seeds say next to nothing about chance: run more (--seeds {FEWEST_SEEDS})"
        )
    return notes


def _speedup(row: GridRow, mean: float | None, between: Between | None = None) -> str:
    if row.method == BASE or row.difference is None:
        return _UNKNOWN
    return "never" if mean is None else f"{mean:.2f} x{open_to(between)}"


def _hours(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else number(seconds / 3600)


def _plots(folder: Path, comparison: GridComparison) -> list[Plot]:
    """Return the pictures of each cell by itself: curves of all of them in one would hide each other."""
    cells = {row.cell: row.choices for row in comparison.rows}
    courses = []
    for cell, choices in cells.items():
        rows = [row for row in comparison.rows if row.cell == cell and row.seeds]
        colours = method_colours(row.method for row in rows)
        runners = [
            Runner(
                words_for(row.method).name,
                colours[row.method],
                [
                    evaluations(RunDirectory.open(folder / cell / f"seed-{seed}").events(row.method).events)
                    for seed in row.seeds
                ],
            )
            for row in rows
        ]
        courses.append(Course(runners, cell, ", ".join(choices)))
    return race(courses, comparison.metric, len(comparison.seeds))


def _label(row: GridRow) -> str:
    return ", ".join((words_for(row.method).name, *row.choices))
