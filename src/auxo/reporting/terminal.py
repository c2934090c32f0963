"""A finished run on the terminal: the cohort tree and the table that compares the methods."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from auxo.core.metric import Metric
from auxo.experiments.summary import BASE, ORACLE, Between, MethodSummary, Summary
from auxo.protocol.events import Partitioned
from auxo.reporting.below_zero import worse_than_the_mean
from auxo.reporting.facts import MethodFacts
from auxo.reporting.method_names import AUXO, contenders, words_for
from auxo.reporting.number_format import OPEN, counted, number, open_to, plain, score
from auxo.reporting.progress import simulated_time_text
from auxo.reporting.tree_picture import Node, cohort_tree

_UNKNOWN = "-"
_NAMED = 3  # losers that the terminal names; our choice

Figures = dict[str, float | None]
_FINDINGS = ("speedup", "cohorts", "ari", "oracle_gain_share", "lost", "matched_accuracy", "matched_ari")


def headline_figures(summary: Summary) -> dict[str, Figures | str | float | None]:
    """Return the few numbers of a summary that scripts ask for; None where a run could not tell.

    What is not under a method's name is Auxo's. Methods beyond the base, Auxo and the oracle have all under theirs.
    """
    finished = summary.finished
    others = {name: method for name, method in finished.items() if name not in {BASE, AUXO, ORACLE}}
    auxo = finished.get(AUXO)
    return {
        "status": summary.status,
        **{name: _scores(finished[name]) if name in finished else None for name in (BASE, AUXO)},
        **{name: {**_scores(method), **_findings(method)} for name, method in others.items()},
        **(dict.fromkeys(_FINDINGS) if auxo is None else _findings(auxo)),
    }


def _scores(method: MethodSummary) -> Figures:
    return {name: getattr(method, name) for name in ("final_accuracy", "variance", "worst_10", "best_10")}


def _findings(method: MethodSummary) -> Figures:
    of_base = ("speedup", "oracle_gain_share")
    return {name: getattr(method.brought if name in of_base else method, name) for name in _FINDINGS}


def cohort_tree_text(run: MethodFacts) -> Tree:
    """Return the cohort tree of one method's run; a line of words where there is but one model.

    A partitioned cohort says when, and for which gain if there was one; a leaf says how many clients are matched to it
    and how well it serves them, as of the last evaluation.
    """
    roots, partitions = cohort_tree(run), {event.cohort: event for event in run.partitions}
    if len(roots) < 2 and not any(root.children for root in roots):
        told = "".join(_told(root, partitions) for root in roots)
        return Tree(f"one model: {told}" if told else "one model", highlight=False)

    def line(node: Node) -> str:
        return "  ".join(filter(None, (node.cohort, _told(node, partitions))))

    if len(roots) == 1:
        tree = Tree(line(roots[0]), highlight=False)
        pending = [(tree, roots[0])]
    else:  # of a method that does not number its cohorts from one root
        tree = Tree(counted(len(roots), "cohort"), highlight=False)
        pending = [(tree.add(line(root)), root) for root in roots]
    while pending:
        above, node = pending.pop()
        pending += [(above.add(line(child)), child) for child in node.children]
    return tree


def _told(node: Node, partitions: Mapping[str, Partitioned]) -> str:
    """Return what there is to say of a cohort."""
    if node.cohort in partitions:
        event = partitions[node.cohort]
        gain = "" if event.gain is None else f", gain {event.gain:.2f}"
        return f"partitioned in round {event.round} ({simulated_time_text(event.time_s)}){gain}"
    if node.children:
        return "several cohorts from the start"
    if node.clients is None:
        return ""
    accuracy = "" if node.accuracy is None else f", {node.metric.name} {_score(node.accuracy, node.metric)}"
    return f"{counted(node.clients, 'client')}{accuracy}"


def methods_on_terminal(summary: Summary) -> RenderableType:
    """Return the methods that have finished side by side; scores over all clients' test data.

    What one contender brought stands below in words, what several brought in a table of their own.
    """
    names = contenders(summary.finished)
    caption = "\n".join(_brought(summary.methods[names[0]], summary.metric)) if len(names) == 1 else None
    title = f"{summary.population}, seed {summary.seed}"
    table = Table("", title=escape(title), caption=caption and escape(caption), caption_justify="left")
    metric = summary.metric
    for heading in (metric.name, "worst 10 %", "best 10 %", "variance"):
        table.add_column(heading, justify="right")
    has_perplexity = any(method.perplexity is not None for method in summary.finished.values())
    if has_perplexity:
        table.add_column("perplexity", justify="right")
    for name, method in summary.finished.items():
        scores = (_score(value, metric) for value in (method.final_accuracy, method.worst_10, method.best_10))
        variance = f"{method.variance:.1f}" if metric.is_fraction else number(method.variance * metric.variance_scale)
        perplexity = (_number(method.perplexity, "{:.2f}"),) if has_perplexity else ()
        table.add_row(escape(words_for(name).title), *scores, variance, *perplexity)
    lines = [*_attack_lines(summary), *_tuning_line(summary), *map(Text, _below_zero(summary))]
    if len(names) < 2:
        return Group(table, *lines) if lines else table
    brought = _brought_table(summary, names)
    is_open = any(summary.methods[name].brought.speedup_between is not None for name in names)
    what_is_open = (Text(OPEN),) if is_open else ()
    return Group(table, brought, *what_is_open, *_lost_lines(summary, names), *lines)


def _below_zero(summary: Summary) -> list[str]:
    return worse_than_the_mean(summary.metric, [method.worst_10 for method in summary.finished.values()])


def _attack_lines(summary: Summary) -> list[Text]:
    """Return whom the scores are told of where some clients attack, and what they are with these; nothing if none."""
    told = [(words_for(name).name, one) for name, one in summary.finished.items() if one.accuracy_of_all is not None]
    if not told:
        return []
    scores = ", ".join(f"{name} {_score(one.accuracy_of_all or 0.0, summary.metric)}" for name, one in told)
    attackers = counted(told[0][1].attackers, "client")
    return [Text(f"{attackers} attack: scores are those of the honest ones; with attackers {scores}")]


def _tuning_line(summary: Summary) -> list[Text]:
    """Return what it took the clients to make models their own, which is the same for every method; nothing if none."""
    spent_s = max((method.tuning_device_s for method in summary.finished.values()), default=0.0)
    if not spent_s:
        return []
    return [Text(f"clients have tuned their models: {spent_s / 3600:.1f} device-hours besides those of training")]


def _score(value: float, metric: Metric) -> str:
    return plain(score(value, metric))


def _speedup_in_words(method: MethodSummary, speedup: float | None, between: Between | None) -> str:
    if method.against_base is None:
        return _UNKNOWN
    if speedup is None:
        return "never (it did not get as good as the base at its best)"
    return f"{speedup:.1f} x{open_to(between)}" + (" (slower than the base)" if round(speedup, 1) < 1 else "")


def _brought(method: MethodSummary, metric: Metric) -> list[str]:
    """Return what the only contender brought, one line each, without what is not known."""
    brought = method.brought
    lines = (
        ("cohorts in use" if method.are_cohorts_in_use else "cohorts", f"{method.cohorts}"),
        (
            f"speed-up to the base's {metric.name}, in time",
            _speedup_in_words(method, brought.speedup, brought.speedup_between),
        ),
        (
            f"speed-up to the base's {metric.name}, in resources",
            _speedup_in_words(method, brought.resource_speedup, brought.resource_speedup_between),
        ),
        ("agreement with the true groups (ARI)", _number(method.ari, "{:.2f}")),
        ("share of the oracle's gain", _percent(brought.oracle_gain_share)),
        ("lost clients", _lost(method, metric)),
        ("worse off than with the base", _losers(method)),
    )
    told = [f"{name}: {value}" for name, value in lines if value != _UNKNOWN]
    return told if brought.speedup_between is None else [*told, OPEN]


def _lost(method: MethodSummary, metric: Metric) -> str:
    """Return how many had to compare models, and what would be if they were sent somewhere at random instead."""
    if method.cohorts == 1:  # there is nothing to compare
        return _UNKNOWN
    if method.lost == 0:
        return "0"
    agreement = "" if method.matched_ari is None else f", ARI {method.matched_ari:.2f}"
    return f"{method.lost} (as matched: {metric.name} {_score(method.matched_accuracy, metric)}{agreement})"


def _losers(method: MethodSummary) -> str:
    """Return how many clients are worse off than with the base, and who loses the most."""
    losers = method.losers
    if losers is None or method.cohorts == 1:  # of one model each, differences between runs are chance
        return _UNKNOWN
    if losers.clients == 0:
        return "0 clients"
    named = ", ".join(loser.client for loser in losers.worst[:_NAMED])
    more = " ..." if losers.clients > _NAMED else ""
    surely = "" if losers.beyond_chance is None else f", {losers.beyond_chance} beyond chance"
    return f"{counted(losers.clients, 'client')}{surely} ({named}{more}; see clients.csv)"


def _lost_lines(summary: Summary, names: Sequence[str]) -> list[Text]:
    """Return a line for each contender that clients can get lost in, and one for those who lose by it."""
    lost = {f"lost clients of {words_for(name).name}": _lost(summary.methods[name], summary.metric) for name in names}
    worse = {
        f"worse off with {words_for(name).name} than with the base": _losers(summary.methods[name]) for name in names
    }
    return [Text(f"{words}: {text}") for words, text in (lost | worse).items() if text != _UNKNOWN]


def _brought_table(summary: Summary, names: Sequence[str]) -> Table:
    """Return what each contender brought, without columns in which nothing is known."""
    methods = [summary.methods[name] for name in names]
    columns = {
        "cohorts": [f"{method.cohorts}{' in use' if method.are_cohorts_in_use else ''}" for method in methods],
        "speed-up,\nin time": [
            _number(one.speedup, "{:.1f} x") + open_to(one.speedup_between) for one in (m.brought for m in methods)
        ],
        "speed-up,\nin resources": [
            _number(one.resource_speedup, "{:.1f} x") + open_to(one.resource_speedup_between)
            for one in (m.brought for m in methods)
        ],
        "ARI": [_number(method.ari, "{:.2f}") for method in methods],
        "share of the\noracle's gain": [_percent(method.brought.oracle_gain_share) for method in methods],
    }
    return methods_table(names, {heading: cells for heading, cells in columns.items() if set(cells) != {_UNKNOWN}})


def methods_table(names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Table:
    """Return a row for each method; ``columns`` are its cells, by their headings."""
    table = Table("")
    for heading in columns:
        table.add_column(heading, justify="right")
    for place, name in enumerate(names):
        table.add_row(escape(words_for(name).name), *(cells[place] for cells in columns.values()))
    return table


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{100 * value:.1f} %"


def _number(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else form.format(value)
