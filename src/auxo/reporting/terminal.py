"""A finished run on the terminal: the cohort tree and the table that compares the methods."""

from collections.abc import Iterable, Mapping

from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from auxo.core.types import ROOT
from auxo.protocol.events import CohortScore, Evaluated, Event, Partitioned
from auxo.reporting.number_format import counted
from auxo.reporting.progress import simulated_time_text

_METHOD_TITLES = {"base": "base: one model for all", "auxo": "Auxo: cohorts found", "oracle": "oracle: true groups"}
_SCORES = ("final_accuracy", "variance", "worst_10", "best_10")
_UNKNOWN = "-"


def headline(summary: Mapping[str, object]) -> dict[str, object]:
    """Return the few numbers of a summary that scripts ask for; None where a run could not tell."""
    methods = {
        method: None if scores is None else {key: scores.get(key) for key in _SCORES}
        for method, scores in ((method, _scores(summary, method)) for method in ("base", "auxo"))
    }
    return {**methods, **{key: summary.get(key) for key in ("speedup", "cohorts", "ari", "oracle_gain_share")}}


def cohort_tree_text(events: Iterable[Event]) -> Tree:
    """Return the cohort tree of one method's run.

    A partitioned cohort says when and for which gain; a leaf says how many clients are matched to it and how well it
    serves them, as of the last evaluation.
    """
    partitions: dict[str, Partitioned] = {}
    scores: dict[str, CohortScore] = {}
    for event in events:
        if isinstance(event, Partitioned):
            partitions[event.cohort] = event
        elif isinstance(event, Evaluated):
            scores = {score.cohort: score for score in event.cohorts}
    tree = Tree(_cohort_line(ROOT, partitions, scores), highlight=False)
    pending = [(tree, str(ROOT))]
    while pending:
        node, cohort = pending.pop()
        for child in partitions[cohort].children if cohort in partitions else ():
            pending.append((node.add(_cohort_line(child, partitions, scores)), child))
    return tree


def comparison_table(summary: Mapping[str, object]) -> Table:
    """Return the methods side by side; accuracies in per cent, over all clients' test data."""
    title = f"{summary.get('population', 'population')}, seed {summary.get('seed', _UNKNOWN)}"
    table = Table("", title=escape(title), caption="\n".join(_findings(summary)), caption_justify="left")
    for heading in ("accuracy", "worst 10 %", "best 10 %", "variance"):
        table.add_column(heading, justify="right")
    every = {method: scores for method in _METHOD_TITLES if (scores := _scores(summary, method)) is not None}
    has_perplexity = any(scores.get("perplexity") is not None for scores in every.values())
    if has_perplexity:
        table.add_column("perplexity", justify="right")
    for method, scores in every.items():
        accuracies = (_percent(scores.get(key)) for key in ("final_accuracy", "worst_10", "best_10"))
        perplexity = (_number(scores.get("perplexity"), "{:.2f}"),) if has_perplexity else ()
        table.add_row(_METHOD_TITLES[method], *accuracies, _number(scores.get("variance"), "{:.1f}"), *perplexity)
    return table


def _findings(summary: Mapping[str, object]) -> list[str]:
    """Return what Auxo brought, one line each, without what is not known."""
    lines = (
        ("cohorts", _number(summary.get("cohorts"), "{:.0f}")),
        ("speed-up to the base's accuracy, in time", _number(summary.get("speedup"), "{:.1f} x")),
        ("speed-up to the base's accuracy, in resources", _number(summary.get("resource_speedup"), "{:.1f} x")),
        ("agreement with the true groups (ARI)", _number(summary.get("ari"), "{:.2f}")),
        ("share of the oracle's gain", _percent(summary.get("oracle_gain_share"))),
    )
    return [f"{name}: {value}" for name, value in lines if value != _UNKNOWN]


def _cohort_line(cohort: str, partitions: Mapping[str, Partitioned], scores: Mapping[str, CohortScore]) -> str:
    if cohort in partitions:
        event = partitions[cohort]
        when = f"round {event.round} ({simulated_time_text(event.time_s)})"
        return f"{cohort}  partitioned in {when}, gain {event.gain:.2f}"
    if cohort in scores:
        score = scores[cohort]
        return f"{cohort}  {counted(score.clients, 'client')}, accuracy {_percent(score.accuracy)}"
    return cohort


def _scores(summary: Mapping[str, object], method: str) -> Mapping[str, object] | None:
    scores = summary.get(method)
    return scores if isinstance(scores, Mapping) else None


def _percent(value: object) -> str:
    return f"{100 * value:.1f} %" if isinstance(value, int | float) else _UNKNOWN


def _number(value: object, form: str) -> str:
    return form.format(value) if isinstance(value, int | float) else _UNKNOWN
