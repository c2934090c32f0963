"""The report of a comparison over seeds: one page with intervals, and its figures as SVG, PDF and CSV files."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from auxo.experiments.comparison import FEWEST_SEEDS, Comparison, Row
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import evaluations
from auxo.files.atomic_write import write_whole
from auxo.reporting.comparison_tables import brought, explained, findings, signed, title_of, verdicts
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.method_names import contenders, words_for
from auxo.reporting.number_format import counted
from auxo.reporting.page import page, scrolling, section
from auxo.reporting.plain_figure import RULE, SOFT, Dot, Figure, Stroke, Words, as_pdf, as_svg, svg_markup
from auxo.reporting.race import Runner, race
from auxo.reporting.svg import tick_step, ticks

_COLOURS = {"base": "#6b7682", "auxo": "#0072b2", "oracle": "#009e73"}
_OTHERS = ("#d55e00", "#cc79a7", "#e69f00", "#56b4e9")
_WIDTH, _LEFT, _RIGHT = 820.0, 190.0, 70.0
_CAP = 4.0  # half the height of the ends of an interval


@dataclass(frozen=True)
class Plot:
    """A figure, and the numbers that it shows."""

    name: str  # of its files
    caption: str
    figure: Figure
    rows: Sequence[Sequence[str | float | None]]  # for a CSV file, the headings first


def write_comparison_report(folder: Path, comparison: Comparison) -> Path:
    """Write report.html and the folder ``figures`` beside the runs of a comparison, and return where the page is.

    Raises:
        FileError: a file of a run is damaged, or there is no place for the page.
    """
    plots = [plot for plot in (differences(comparison), curves(folder, comparison)) if plot is not None]
    for plot in plots:
        write_plot(folder, plot)
    path = folder / "report.html"
    write_whole(path, comparison_page(comparison, plots).encode())
    return path


def write_plot(folder: Path, plot: Plot) -> None:
    """Write a figure as SVG, PDF and CSV into the folder ``figures``."""
    (folder / "figures").mkdir(exist_ok=True)
    for ending, content in (("svg", as_svg(plot.figure)), ("pdf", as_pdf(plot.figure)), ("csv", _csv(plot.rows))):
        write_whole(folder / "figures" / f"{plot.name}.{ending}", content)


def comparison_page(comparison: Comparison, plots: Iterable[Plot]) -> str:
    """Return the page."""
    title = f"Auxo comparison: {comparison.population}"
    told, (headline, *others) = findings(comparison), verdicts(comparison)
    lines = [*others, *told[: len(told) - 1 - len(others)]]
    names = contenders(comparison.methods)
    parts = [
        tag("p", escaped(f"{title}, {counted(len(comparison.seeds), 'seed')}"), class_="over"),
        tag("h1", escaped(_sentence(headline))),
        *(tag("p", escaped(_sentence(line))) for line in lines),
        *([_brought(comparison, names)] if len(names) > 1 else []),
        section("Measures", _table(comparison)),
        *(plot_section(plot) for plot in plots),
        section("Runs", _runs(comparison)),
    ]
    return page(title, parts)


def _brought(comparison: Comparison, names: Sequence[str]) -> Markup:
    """Return what several methods brought, side by side."""
    columns = brought(comparison, names)
    head = tag("tr", *(tag("th", escaped(name.replace("\n", " ")), scope="col") for name in ("", *columns)))
    rows = [
        tag(
            "tr",
            tag("th", escaped(words_for(name).name), scope="row"),
            *(tag("td", escaped(cells[place])) for cells in columns.values()),
        )
        for place, name in enumerate(names)
    ]
    table = scrolling(tag("table", tag("thead", head), tag("tbody", *rows)))
    notes = [tag("p", escaped(_sentence(line)), class_="soft") for line in explained(comparison, names)]
    return tag("section", tag("h2", escaped("What they brought")), table, *notes)


def _sentence(line: str) -> str:
    return line[0].upper() + line[1:] + "."


def plot_section(plot: Plot) -> Markup:
    """Return a figure for a page, with links to its files."""
    files = [
        tag("a", escaped(ending.upper()), href=f"figures/{plot.name}.{ending}") for ending in ("svg", "pdf", "csv")
    ]
    links = tag("p", escaped("As a file: "), *(part for file in files for part in (file, escaped(" "))), class_="soft")
    return tag("section", tag("h2", escaped(plot.caption)), tag("figure", svg_markup(plot.figure)), links)


def _runs(comparison: Comparison) -> Markup:
    links = (tag("li", tag("a", escaped(f"seed {seed}"), href=f"seed-{seed}/report.html")) for seed in comparison.seeds)
    return tag("ul", *links)


def _table(comparison: Comparison) -> Markup:
    is_enough = len(comparison.seeds) >= FEWEST_SEEDS
    what = "difference from the base" + (" (95 % interval)" if is_enough else "")
    head = tag("tr", *(tag("th", escaped(name), scope="col") for name in ("", "method", "mean", what)))
    rows = []
    for row in comparison.rows:
        for place, method in enumerate(row.means):
            title = "" if place else title_of(row, comparison)
            found = row.differences.get(method)
            cells = (
                words_for(method).name,
                f"{row.means[method]:.{row.measure.digits}f} {row.measure.unit}".strip(),
                "" if found is None else signed(found, row.measure.digits),
            )
            rows.append(
                tag("tr", tag("th", escaped(title), scope="row"), *(tag("td", escaped(cell)) for cell in cells))
            )
    for place, (method, why) in enumerate(comparison.refused.items()):
        title = tag("th", escaped("" if place else "refused"), scope="row")
        rows.append(tag("tr", title, tag("td", escaped(words_for(method).name)), tag("td", escaped(why), colspan=2)))
    return scrolling(tag("table", tag("thead", head), tag("tbody", *rows)))


def differences(comparison: Comparison) -> Plot | None:
    """Return how far each method is from the base in each measure in per cent, with its interval; None without any."""
    shown = [row for row in comparison.rows if row.differences and row.measure.unit == "%"]
    if not shown:
        return None
    colours = _colours(comparison.methods)
    lines = [(row, method) for row in shown for method in row.differences]
    ends = [0.0]
    for row, method in lines:
        found = row.differences[method]
        ends += [found.mean - (found.half_width or 0), found.mean + (found.half_width or 0)]
    is_one = len(lines) == len(shown)  # of one method, which need not be told line by line
    height = 26.0 + 26 * len(lines) if is_one else 26.0 + 20 * len(lines) + 22 * len(shown)
    scale, axis, bottom = _x_axis(min(ends), max(ends), height, "percentage points")
    marks: list[Stroke | Dot | Words] = [*axis, Stroke([(scale(0.0), 10), (scale(0.0), bottom)], SOFT)]
    rows: list[Sequence[str | float | None]] = [("measure", "method", "difference", "half_width_95")]
    y = 10.0
    before: Row | None = None
    for row, method in lines:
        if row is not before and not is_one:
            y += 22
            marks.append(Words(8, y, title_of(row, comparison), colour=SOFT))
        before = row
        y += 26 if is_one else 20
        found, colour = row.differences[method], colours[method]
        name = f"{words_for(method).name}, {title_of(row, comparison)}" if is_one else words_for(method).name
        marks.append(Words(_LEFT - 12, y + 4, name, "end"))
        if found.half_width is not None:
            low, high = scale(found.mean - found.half_width), scale(found.mean + found.half_width)
            marks.append(Stroke([(low, y), (high, y)], colour, 2.0))
            marks += [Stroke([(end, y - _CAP), (end, y + _CAP)], colour, 2.0) for end in (low, high)]
        marks.append(Dot(scale(found.mean), y, colour, 4.0))
        rows.append((title_of(row, comparison), method, found.mean, found.half_width))
    what = "means and 95 % intervals" if len(comparison.seeds) >= FEWEST_SEEDS else "means"
    caption = f"Differences from the base over {counted(len(comparison.seeds), 'seed')}: {what}"
    return Plot("differences", caption, Figure(_WIDTH, bottom + 44, marks, caption), rows)


def curves(folder: Path, comparison: Comparison) -> Plot | None:
    """Return each method's score against time and against participations; None where no run was evaluated twice."""
    colours = _colours(comparison.methods)
    found = {
        method: Runner(
            words_for(method).name,
            colours[method],
            [
                evaluations(RunDirectory.open(folder / f"seed-{seed}").events(method).events)
                for seed in comparison.seeds
            ],
        )
        for method in comparison.methods
    }
    name = comparison.metric[0].upper() + comparison.metric[1:]
    caption = f"{name} against time, and against resources; mean over {counted(len(comparison.seeds), 'seed')}"
    drawn = race(found, comparison.metric, caption)
    return None if drawn is None else Plot("curves", caption, *drawn)


def _colours(methods: Iterable[str]) -> dict[str, str]:
    others = [method for method in methods if method not in _COLOURS]
    return _COLOURS | {method: _OTHERS[place % len(_OTHERS)] for place, method in enumerate(others)}


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float

    def __call__(self, value: float) -> float:
        return _LEFT + (value - self.low) / (self.high - self.low) * (_WIDTH - _RIGHT - _LEFT)


def _x_axis(low: float, high: float, bottom: float, name: str) -> tuple[_Scale, list[Stroke | Words], float]:
    """Return where values stand from left to right, the axis below with its grid, and the height of its line."""
    room = 0.05 * (high - low) or 1.0
    scale = _Scale(low - room if low < 0 else low, high + room)
    marks: list[Stroke | Words] = []
    for value in ticks(scale.low, scale.high, tick_step(scale.low, scale.high, 6)).tolist():
        if scale.low <= value <= scale.high:
            marks.append(Stroke([(scale(value), 10), (scale(value), bottom)], RULE))
            marks.append(Words(scale(value), bottom + 16, f"{value:g}", "middle", colour=SOFT))
    marks.append(Words((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 34, name, "middle", colour=SOFT))
    return scale, marks, bottom


def _csv(rows: Sequence[Sequence[str | float | None]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
