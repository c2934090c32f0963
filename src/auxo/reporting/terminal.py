"""A finished run on the terminal: the cohort tree and the table that compares the methods."""

from collections.abc import Iterable, Mapping

from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from auxo.core.types import ROOT
from auxo.experiments.summary import BASE, ORACLE, MethodSummary, Summary
from auxo.protocol.events import CohortScore, Evaluated, Event, Partitioned
from auxo.reporting.method_names import AUXO, contenders, words_for
from auxo.reporting.number_format import counted
from auxo.reporting.progress import simulated_time_text

_UNKNOWN = "-"

Figures = dict[str, float | None]


def headline(summary: Summary) -> dict[str, Figures | float | None]:
    """Return the few numbers of a summary that scripts ask for; None where a run could not tell.

    What is not under a method's name is Auxo's. Methods beyond the base, Auxo and the oracle have all under theirs.
    """
    finished = summary.finished
    others = {name: method for name, method in finished.items() if name not in {BASE, AUXO, ORACLE}}
    auxo = finished.get(AUXO)
    return {
        **{name: _scores(finished[name]) if name in finished else None for name in (BASE, AUXO)},
        **{name: {**_scores(method), **_findings(method)} for name, method in others.items()},
        **(dict.fromkeys(("speedup", "cohorts", "ari", "oracle_gain_share")) if auxo is None else _findings(auxo)),
    }


def _scores(method: MethodSummary) -> Figures:
    return {
        "final_accuracy": method.final_accuracy,
        "variance": method.variance,
        "worst_10": method.worst_10,
        "best_10": method.best_10,
    }


def _findings(method: MethodSummary) -> Figures:
    return {
        "speedup": method.brought.speedup,
        "cohorts": method.cohorts,
        "ari": method.ari,
        "oracle_gain_share": method.brought.oracle_gain_share,
    }


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
    born = {child for partition in partitions.values() for child in partition.children}
    roots = [cohort for cohort in {**partitions, **scores} if cohort not in born] or [str(ROOT)]
    if len(roots) == 1:
        tree = Tree(_cohort_line(roots[0], partitions, scores), highlight=False)
        pending = [(tree, roots[0])]
    else:  # of a method that begins with several cohorts
        tree = Tree(counted(len(roots), "cohort"), highlight=False)
        pending = [(tree.add(_cohort_line(root, partitions, scores)), root) for root in roots]
    while pending:
        node, cohort = pending.pop()
        for child in partitions[cohort].children if cohort in partitions else ():
            pending.append((node.add(_cohort_line(child, partitions, scores)), child))
    return tree


def comparison_table(summary: Summary) -> Table:
    """Return the methods that have finished side by side; accuracies in per cent, over all clients' test data."""
    title = f"{summary.population}, seed {summary.seed}"
    table = Table("", title=escape(title), caption=escape("\n".join(_captions(summary))), caption_justify="left")
    for heading in ("accuracy", "worst 10 %", "best 10 %", "variance"):
        table.add_column(heading, justify="right")
    has_perplexity = any(method.perplexity is not None for method in summary.finished.values())
    if has_perplexity:
        table.add_column("perplexity", justify="right")
    for name, method in summary.finished.items():
        accuracies = (_percent(value) for value in (method.final_accuracy, method.worst_10, method.best_10))
        perplexity = (_number(method.perplexity, "{:.2f}"),) if has_perplexity else ()
        table.add_row(escape(words_for(name).title), *accuracies, _number(method.variance, "{:.1f}"), *perplexity)
    return table


def _captions(summary: Summary) -> list[str]:
    """Return what each contender brought, one line each, without what is not known."""
    names = contenders(summary.finished)
    return [
        f"{words_for(name).name}, {line}" if len(names) > 1 else line
        for name in names
        for line in _brought(summary.methods[name])
    ]


def _brought(method: MethodSummary) -> list[str]:
    brought = method.brought
    lines = (
        ("cohorts", f"{method.cohorts}"),
        ("speed-up to the base's accuracy, in time", _number(brought.speedup, "{:.1f} x")),
        ("speed-up to the base's accuracy, in resources", _number(brought.resource_speedup, "{:.1f} x")),
        ("agreement with the true groups (ARI)", _number(method.ari, "{:.2f}")),
        ("share of the oracle's gain", _percent(brought.oracle_gain_share)),
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


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{100 * value:.1f} %"


def _number(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else form.format(value)
