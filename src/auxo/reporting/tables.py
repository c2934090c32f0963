"""The report's tables: the methods side by side, and what became of every cohort's rounds."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from auxo.core.metric import ACCURACY, Metric
from auxo.experiments.summary import MethodSummary, reach, reach_between
from auxo.protocol.cohorts_seen import in_order
from auxo.protocol.events import ClientBanned, EmptyRound, UpdateRejected
from auxo.reporting.facts import MethodFacts, RunFacts
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.method_names import method_colours
from auxo.reporting.number_format import ABSENT, counted, duration, number, percent, score
from auxo.reporting.page import scrolling


def comparison_table(facts: RunFacts) -> Markup:
    """Return the methods side by side, one column each; what is known of none has no row."""
    colours = method_colours(facts.methods)
    runs, metric = list(facts.methods.values()), facts.metric
    last = "Final" if all(_has_ended(run) for run in runs) else "Last"
    unit = f", {metric.variance_unit}" if metric.unit else ""
    beyond = [("… beyond what small test sets explain", _ends(runs, lambda end: number(end.variance_beyond_binomial)))]
    cells: list[tuple[str, list[str]]] = [
        (f"{last} mean {metric.name}{_of_whom(runs)}", _ends(runs, lambda end: score(end.final_accuracy, metric))),
        (f"Worst {percent(0.1, 0)} of clients", _ends(runs, lambda end: score(end.worst_10, metric))),
        (f"Best {percent(0.1, 0)} of clients", _ends(runs, lambda end: score(end.best_10, metric))),
        (f"Variance across clients{unit}", _ends(runs, lambda end: number(end.variance * metric.variance_scale))),
        *(beyond if metric == ACCURACY else ()),  # of other scores chance is not known
        (_time_title(facts), _times(facts, runs)),
        ("… between evaluations at", _between(facts, runs)),
        ("Device-hours used", [_device_hours(run, wasted=False) for run in runs]),
        ("Device-hours wasted", [_device_hours(run, wasted=True) for run in runs]),
        ("Models downloaded", [number(run.evaluations[-1].downloads) if run.evaluations else ABSENT for run in runs]),
        ("Cohorts", _ends(runs, lambda end: number(end.cohorts) + (" in use" if end.are_cohorts_in_use else ""))),
    ]
    optional = [
        ("… with attackers, too", _ends(runs, lambda end: _score_or_absent(end.accuracy_of_all, metric))),
        ("Clients that attack", _ends(runs, lambda end: number(end.attackers or None))),
        ("Device-hours of tuning, besides", _ends(runs, lambda end: number(end.tuning_device_s / 3600 or None))),
        ("Agreement with the true groups (ARI)", _ends(runs, lambda end: _two_digits(end.ari))),
        (
            "Share of the oracle\N{RIGHT SINGLE QUOTATION MARK}s gain",
            [percent(run.brought.oracle_gain_share, 0) for run in runs],
        ),
        ("Lost clients: they compare models", _ends(runs, lambda end: number(None if end.cohorts == 1 else end.lost))),
    ]
    if any(run.end is not None and run.end.lost for run in runs):  # or all is as above
        optional += [
            (
                f"Mean {metric.name} as matched: the lost where they are sent",
                _ends(runs, lambda end: score(end.matched_accuracy, metric)),
            ),
            ("… and agreement (ARI)", _ends(runs, lambda end: _two_digits(end.matched_ari))),
        ]
    cells += [(title, row) for title, row in optional if set(row) != {ABSENT}]
    rows = []
    for title, row in cells:
        written = (tag("td", escaped(cell), class_=colours[run.method]) for run, cell in zip(runs, row, strict=True))
        rows.append(tag("tr", tag("th", escaped(title), scope="row"), *written))
    heads = [tag("th", escaped(_head(run)), scope="col", class_=colours[run.method]) for run in runs]
    head = tag("thead", tag("tr", tag("td"), *heads))
    return scrolling(tag("table", head, tag("tbody", *rows)))


def rounds_table(facts: RunFacts) -> Markup:
    """Return each cohort's totals, grouped by method."""
    heads = (
        *("Cohort", "Rounds", "Updates used", "Late", "Failed", "Rejected"),
        *("Misfits", "Empty rounds", "Restarts", "Mean round"),
    )
    head = tag("thead", tag("tr", *(tag("th", escaped(words), scope="col") for words in heads)))
    bodies = []
    for run in facts.methods.values():
        title = tag("th", escaped(run.name), scope="rowgroup", colspan=len(heads))
        cohorts = in_order({*(one.cohort for one in run.rounds), *(one.cohort for one in run.empty_rounds)})
        rows = [_totals_row(cohort, run) for cohort in cohorts]
        bodies.append(tag("tbody", tag("tr", title), *rows))
    return scrolling(tag("table", head, *bodies))


def incidents_table(facts: RunFacts) -> Markup | None:
    """Return rejected updates, bans and empty rounds by reason; None when there were none."""
    rows = []
    for run in facts.methods.values():
        clients: dict[str, set[str]] = {}
        for rejection in run.rejections:
            clients.setdefault(rejection.reason, set()).add(rejection.client)
        for reason, count in _by_reason(run.rejections):
            what = f"update rejected ({counted(len(clients[reason]), 'client')})"
            rows.append(_incident_row(run, what, reason, count))
        for reason, count in _by_reason(run.bans):
            rows.append(_incident_row(run, "client banned", reason, count))
        for reason, count in _by_reason(run.empty_rounds):
            rows.append(_incident_row(run, "empty round", reason, count))
    if not rows:
        return None
    heads = [tag("th", escaped(words), scope="col", class_="words") for words in ("Method", "What", "Reason")]
    head = tag("thead", tag("tr", *heads, tag("th", escaped("How often"), scope="col")))
    return scrolling(tag("table", head, tag("tbody", *rows)))


def _has_ended(run: MethodFacts) -> bool:
    return run.end is not None and run.end.is_finished


def _head(run: MethodFacts) -> str:
    """Return a method's name, and how far it came if not to its end."""
    if _has_ended(run) or not run.evaluations:
        return run.name
    return f"{run.name}, up to round {run.evaluations[-1].round:.0f}"


def _ends(runs: Sequence[MethodFacts], write: Callable[[MethodSummary], str]) -> list[str]:
    return [ABSENT if run.end is None else write(run.end) for run in runs]


def _of_whom(runs: Sequence[MethodFacts]) -> str:
    """Return of whom scores are told, where some clients attack."""
    return " of honest clients" if any(run.end is not None and run.end.attackers for run in runs) else ""


def _score_or_absent(value: float | None, metric: Metric) -> str:
    return ABSENT if value is None else score(value, metric)


def _two_digits(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def _time_title(facts: RunFacts) -> str:
    title = f"Time to base\N{RIGHT SINGLE QUOTATION MARK}s best {facts.metric.name}"
    return f"{title} (at its first evaluation)" if facts.is_base_best_at_first else title


def _times(facts: RunFacts, runs: Sequence[MethodFacts]) -> list[str]:
    target = facts.target
    if target is None:
        return [ABSENT] * len(runs)
    return [_time(facts, run, reach(run.evaluations, target, lambda one: one.time_s)) for run in runs]


def _time(facts: RunFacts, run: MethodFacts, seconds: float | None) -> str:
    if seconds is None:
        return "not reached" if _has_ended(run) else "not yet"
    return f"{duration(seconds)} (ends below)" if facts.ends_below_base(run) else duration(seconds)


def _between(facts: RunFacts, runs: Sequence[MethodFacts]) -> list[str]:
    """Return the two evaluations that the times above lie between; 0 stands for none before."""
    target = facts.target
    if target is None:
        return [ABSENT] * len(runs)
    found = (reach_between(run.evaluations, target, lambda one: one.time_s) for run in runs)
    return [ABSENT if one is None else f"{duration(one[0])} and {duration(one[1])}" for one in found]


def _device_hours(run: MethodFacts, *, wasted: bool) -> str:
    if not run.evaluations:
        return ABSENT
    last = run.evaluations[-1]
    used_s, wasted_s = last.device_s, last.wasted_device_s
    if not wasted:
        return number(used_s / 3600)
    share = f" ({percent(wasted_s / (used_s + wasted_s), 0)})" if used_s + wasted_s else ""
    return number(wasted_s / 3600) + share


def _totals_row(cohort: str, run: MethodFacts) -> Markup:
    """Return one cohort's rounds, added up."""
    closed = [one for one in run.rounds if one.cohort == cohort]
    updates = ("participants", "late", "failed", "rejected", "misfits")
    empty = sum(one.cohort == cohort for one in run.empty_rounds)
    added = (sum(getattr(one, name) for one in closed) for name in updates)
    counts = (len(closed), *added, empty, sum(one.restarted for one in closed))
    mean_s = sum(one.duration_s for one in closed) / len(closed) if closed else None
    cells = [*(number(count) for count in counts), duration(mean_s)]
    return tag("tr", tag("th", escaped(cohort), scope="row"), *(tag("td", escaped(cell)) for cell in cells))


def _by_reason(events: Iterable[UpdateRejected | ClientBanned | EmptyRound]) -> list[tuple[str, int]]:
    return Counter(event.reason for event in events).most_common()


def _incident_row(run: MethodFacts, what: str, reason: str, count: int) -> Markup:
    return tag(
        "tr",
        tag("th", escaped(run.name), scope="row"),
        tag("td", escaped(what), class_="words"),
        tag("td", escaped(reason), class_="words"),
        tag("td", escaped(number(count))),
    )
