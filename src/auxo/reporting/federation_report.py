"""The report of a federation on Flower: what its directory knows, on one page, whether it still trains or not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from auxo.core.validation import why
from auxo.files.atomic_write import write_whole
from auxo.protocol.cohorts_seen import in_order
from auxo.protocol.event_log import read_events
from auxo.protocol.notes import NO_EVALUATION, refusals_in_words
from auxo.reporting.facts import MethodFacts, RunFacts
from auxo.reporting.figures import measured_charts, participants_chart
from auxo.reporting.markup import Markup, escaped, tag
from auxo.reporting.method_names import AUXO
from auxo.reporting.number_format import counted, duration, number
from auxo.reporting.page import chart_figure, note, page, section, table
from auxo.reporting.report import GAIN_TITLE, gain_parts, rounds_section, tree_parts
from auxo.reporting.tree_picture import federation_tree

EVENTS, REPORT = "events.jsonl", "report.html"
_SOURCES = {
    "evaluation": "Measured by clients\N{RIGHT SINGLE QUOTATION MARK} evaluation, as the strategy has put it together.",
    "server": "Measured on the server.",
    "training": "Measured while clients train, as the strategy has put it together.",
}  # in the order in which they are shown


_MOST_NODES = 100  # of a cohort that are named; our choice, events.jsonl has all
_NODES = "the nodes of their last round"
_NODES_AND_METRIC = f"{_NODES} and the app\N{RIGHT SINGLE QUOTATION MARK}s metric after it"


def write_federation_report(folder: Path) -> Path:
    """Write the report of a federation into its directory and return where it is."""
    recorded = read_events(folder / EVENTS)
    facts = RunFacts(folder.name, is_finished=True).after(AUXO, *recorded.events)
    run = replace(facts.methods[AUXO], is_truncated=recorded.is_truncated)
    sections = (
        _summary_section(folder.resolve().name, run),
        _metrics_section(run),
        section("Cohort tree", *tree_parts(run, federation_tree(run), _NODES_AND_METRIC if run.measured else _NODES)),
        *_members_section(run),
        _participants_section(run),
        *([section(GAIN_TITLE, *parts)] if (parts := gain_parts(run)) else []),
        rounds_section(facts),
    )
    path = folder / REPORT
    write_whole(path, page(f"Auxo federation: {folder.resolve().name}", sections).encode())
    return path


def federation_headline(run: MethodFacts) -> str:
    """Return the federation's state in one sentence."""
    if not run.rounds:
        return "No round has closed yet."
    rounds = max(one.round for one in run.rounds)
    if not run.partitions:
        return f"One model for all nodes, after {counted(rounds, 'round')}: no partition was made."
    return f"{counted(len(run.seen.leaves), 'cohort')} found, after {counted(rounds, 'round')}."


def _summary_section(name: str, run: MethodFacts) -> Markup:
    last = max((one.time_s for one in run.rounds), default=0.0)
    used = sum(one.participants for one in run.rounds)
    lead = f"{counted(used, 'update')} used in {counted(len(run.rounds), 'round')} of all cohorts, in {duration(last)}."
    parts = [
        tag("p", escaped(f"Auxo federation: {name}"), class_="over"),
        tag("h1", escaped(federation_headline(run))),
        tag("p", escaped(lead), class_="lead"),
    ]
    notes = [words for words in (run.trials.note(NO_EVALUATION),) if words is not None]
    if run.rejections:
        notes.append(refusals_in_words(run.rejections) + why([event.reason for event in run.rejections]))
    if run.is_truncated:
        notes.append("the last event was only half written and is left out")
    if notes:
        lines = (tag("p", escaped(f"{words[0].upper()}{words[1:]}.")) for words in notes)
        parts.append(tag("div", *lines, class_="banner", role="note"))
    metrics = _last_metrics(run)
    return tag("header", *parts, *([] if metrics is None else [metrics]))


def _last_metrics(run: MethodFacts) -> Markup | None:
    """Return the last of each metric, a row for each cohort that trains; None where there are none."""
    leaves, found = in_order(run.seen.leaves), dict[str, dict[str, float]]()
    for one in run.measured:
        if one.cohort in leaves:
            for name, value in zip(one.names, one.values, strict=True):
                found.setdefault(name, {})[one.cohort] = value
    if not found:
        return None
    closed = {one.cohort: one for one in run.rounds}
    heads = ("Cohort", "Round", "Nodes in that round", *found)
    rows = []
    for cohort in leaves:
        last = closed.get(cohort)
        cells = ["", ""] if last is None else [number(last.round), number(last.participants)]
        cells += [f"{by[cohort]:.4g}" if cohort in by else "" for by in found.values()]
        rows.append([cohort, *cells])
    return table(heads, rows)


def _metrics_section(run: MethodFacts) -> Markup:
    charts = measured_charts(run)
    if not charts:
        return section("Metrics", note("The app has told no metrics."))
    places = list(_SOURCES)
    charts.sort(key=lambda one: places.index(one[0]) if one[0] in places else len(places))
    parts = []
    for source, name, chart in charts:
        caption = _SOURCES.get(source, f"Measured by: {source}.")
        caption += " Vertical lines are partitions." if run.partitions else ""
        parts += [tag("h3", escaped(name)), chart_figure(chart, caption)]
    return section("Metrics", *parts)


def _members_section(run: MethodFacts) -> list[Markup]:
    """Return which nodes are in which cohort, where the federation has told it of those that train."""
    last = {one.cohort: one for one in run.members}
    told = [last[cohort] for cohort in in_order(run.seen.leaves) if cohort in last]
    rows = [
        [one.cohort, f"{counted(len(one.clients), 'node')} after round {number(one.round)}: {_some_of(one.clients)}"]
        for one in told
    ]
    if not rows:
        return []
    words = "Nodes by the ids that the SuperLink knows them by. Who is in no cohort has not said yet where it belongs."
    return [section("Nodes", table((), rows, {1: "words"}), note(words))]


def _some_of(nodes: Sequence[str]) -> str:
    more = len(nodes) - _MOST_NODES
    return ", ".join(nodes[:_MOST_NODES]) + (f", and {number(more)} more" if more > 0 else "")


def _participants_section(run: MethodFacts) -> Markup:
    chart = participants_chart(run)
    if chart is None:
        return section("Participants", note("No round has closed yet."))
    return section("Participants", chart_figure(chart, "Updates that have moved a model, round by round."))
