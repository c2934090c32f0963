"""A run's figures by themselves: SVG documents that need no page around them."""

from collections.abc import Callable

from auxo.experiments.run_directory import RunDirectory
from auxo.reporting.facts import RunFacts, gather_facts
from auxo.reporting.figures import accuracy_over_time, accuracy_over_work, client_curve
from auxo.reporting.markup import Markup
from auxo.reporting.style import STYLE
from auxo.reporting.svg import LineChart, draw
from auxo.reporting.tree_picture import cohort_tree, draw_tree

_WIDTH = 900
_CHARTS: dict[str, Callable[[RunFacts], LineChart | None]] = {
    "accuracy-over-time": accuracy_over_time,
    "accuracy-over-work": accuracy_over_work,
    "clients": client_curve,
}


def figures_of(run: RunDirectory) -> dict[str, str]:
    """Return the figures of a run's report by name, without those that it has nothing for."""
    facts = gather_facts(run)
    charts = {name: chart for name, make in _CHARTS.items() if (chart := make(facts)) is not None}
    found = {name: standalone(draw(chart, _WIDTH)) for name, chart in charts.items()}
    for method in facts.contenders:
        roots = cohort_tree(method)
        if roots:
            name = "cohort-tree" if len(facts.contenders) == 1 else f"cohort-tree-{method.method}"
            found[name] = standalone(draw_tree(roots, _WIDTH))
    return found


def standalone(svg: Markup) -> str:
    """Return an SVG element of a page as a document of its own, with the page's style."""
    start, rest = svg.split(">", 1)
    style = f"<style>{STYLE}svg{{background:var(--bg)}}</style>"
    return f'{start} xmlns="http://www.w3.org/2000/svg">{style}{rest}\n'
