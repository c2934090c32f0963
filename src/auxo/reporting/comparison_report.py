"""The report of a comparison over seeds: one page with intervals, and its figures as SVG, PDF and CSV files."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from auxo.experiments.comparison import FEWEST_SEEDS, SCORE_KEYS, Comparison
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import evaluations
from auxo.reporting.comparison_tables import (
    below_zero,
    brought,
    difference_of,
    explained,
    findings,
    troubles_in_words,
    value_of,
    verdicts,
)
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.method_names import contenders, method_colours, words_for
from auxo.reporting.number_format import capital, counted
from auxo.reporting.page import note, page, scrolling, section, table
from auxo.reporting.plots import Plot, plot_section, write_illustrated
from auxo.reporting.race import Course, Runner, race
from auxo.reporting.svg import Axis, Line, LineChart, Moment

_ROW = 30  # pixels of a difference


def write_comparison_report(folder: Path, comparison: Comparison) -> Path:
    """Write report.html and the folder ``figures`` beside the runs of a comparison, and return where the page is."""
    plots = [*difference_plots(comparison), *curves(folder, comparison)]
    return write_illustrated(folder, comparison_page(comparison, plots), plots)


def comparison_page(comparison: Comparison, plots: Iterable[Plot]) -> str:
    """Return the page."""
    title = f"Auxo comparison: {comparison.population}"
    told, (headline, *others) = findings(comparison), verdicts(comparison)
    lines = [*others, *told[: len(told) - 1 - len(others)]]
    names = contenders(comparison.methods)
    links = (tag("a", escaped(f"seed {seed}"), href=f"seed-{seed}/report.html") for seed in comparison.seeds)
    parts = [
        tag("p", escaped(f"{title}, {counted(len(comparison.seeds), 'seed')}"), class_="over"),
        tag("h1", escaped(_sentence(headline))),
        *(tag("p", escaped(_sentence(line))) for line in lines),
        *_troubles(comparison),
        *([_brought(comparison, names)] if len(names) > 1 else []),
        section("Measures", _table(comparison), *(note(_sentence(line)) for line in below_zero(comparison))),
        *(plot_section(plot) for plot in plots),
        section("Runs", tag("ul", *(tag("li", link) for link in links))),
    ]
    return page(title, parts)


def _brought(comparison: Comparison, names: Sequence[str]) -> Markup:
    """Return what several methods brought, side by side."""
    columns = brought(comparison, names)
    heads = ["", *(name.replace("\n", " ") for name in columns)]
    rows = ([words_for(name).name, *(cells[place] for cells in columns.values())] for place, name in enumerate(names))
    notes = [note(_sentence(line)) for line in explained(comparison, names)]
    by_seed = {place: "list" for place, heading in enumerate(heads) if heading.endswith("by seed")}
    return section("What they brought", table(heads, rows, by_seed), *notes)


def _troubles(comparison: Comparison) -> list[Markup]:
    notes = [tag("p", escaped(f"{words}.")) for words in troubles_in_words(comparison)]
    return [tag("div", *notes, class_="banner", role="note")] if notes else []


def _sentence(line: str) -> str:
    return f"{capital(line)}."


def _table(comparison: Comparison) -> Markup:
    is_enough = len(comparison.seeds) >= FEWEST_SEEDS
    what = "difference from the base" + (" (95 % interval)" if is_enough else "")
    head = tag("tr", *(tag("th", escaped(name), scope="col") for name in ("", "mean", what)))
    bodies = [
        _body(
            row.measure.title,
            [
                [tag("td", escaped(cell)) for cell in (value_of(row, method), difference_of(row, method))]
                for method in row.means
            ],
            list(row.means),
        )
        for row in comparison.rows
    ]
    if comparison.refused:
        why = [[tag("td", escaped(words), class_="words", colspan=2)] for words in comparison.refused.values()]
        bodies.append(_body("refused", why, list(comparison.refused)))
    return scrolling(tag("table", tag("thead", head), *bodies))


def _body(title: str, cells: Sequence[Sequence[Markup]], methods: Sequence[str]) -> Markup:
    """Return the rows of one measure below its title, which would take a column where there is no room for one."""
    rows = [
        tag("tr", tag("th", escaped(words_for(method).name), scope="row"), *row)
        for method, row in zip(methods, cells, strict=True)
    ]
    return tag("tbody", tag("tr", tag("th", escaped(title), scope="rowgroup", colspan=3)), *rows)


def difference_plots(comparison: Comparison) -> list[Plot]:
    """Return how far each method is from the base in each measure of scores, with its interval; none without any."""
    metric = comparison.metric
    found = [
        (f"{words_for(method).name}, {row.measure.title}", method, row.measure.title, difference)
        for row in comparison.rows
        if row.measure.key in SCORE_KEYS
        for method, difference in row.differences.items()
    ]
    if not found:
        return []
    colours = method_colours(comparison.methods)
    lines = []
    for place, (_, method, _, difference) in enumerate(found):
        if difference.half_width is not None:
            ends = difference.mean + difference.half_width * np.array([-1.0, 1.0])
            lines.append(Line("95 % interval", colours[method], ends, np.full(2, float(place))))
        lines.append(Line("mean", colours[method], np.array([difference.mean]), np.array([float(place)])))
    reached = np.concatenate([np.zeros(1), *(line.x for line in lines)])
    least, most = float(reached.min()), float(reached.max())
    room = 0.05 * (most - least) or 1.0
    same = "" if comparison.are_clients_drawn else ", of the same clients and held-out samples"
    what = f"means and 95 % intervals{same}" if len(comparison.seeds) >= FEWEST_SEEDS else "means"
    caption = f"Differences from the base over {counted(len(comparison.seeds), 'seed')}: {what}"
    chart = LineChart(
        caption,
        Axis(
            "percentage points" if metric.is_fraction else ", ".join(filter(None, (metric.name, metric.unit))),
            low=least - room if least < 0 else least,
            high=most + room,
        ),
        Axis("", names=tuple(name for name, *_ in found)),
        tuple(lines),
        marks=(Moment(0.0, "", "no difference"),),
        height=90 + _ROW * len(found),
    )
    rows = [(title, method, difference.mean, difference.half_width) for _, method, title, difference in found]
    return [Plot("differences", caption, chart, [("measure", "method", "difference", "half_width_95"), *rows])]


def curves(folder: Path, comparison: Comparison) -> list[Plot]:
    """Return each method's score against time and against participations; none where no run was evaluated twice."""
    colours = method_colours(comparison.methods)
    runs = [RunDirectory.open(folder / f"seed-{seed}") for seed in comparison.seeds]
    runners = [
        Runner(words_for(method).name, colours[method], [evaluations(run.events(method).events) for run in runs])
        for method in comparison.methods
    ]
    return race([Course(runners)], comparison.metric, len(comparison.seeds))
