"""The report of a run: one HTML file that needs nothing else, whether the run has finished or not."""

from pathlib import Path

from auxo.experiments.run_directory import RunDirectory
from auxo.reporting.facts import MethodFacts, RunFacts, gather
from auxo.reporting.figures import (
    WORTH_SAYING,
    accuracy_over_time,
    accuracy_over_work,
    better_and_worse,
    client_curve,
    criterion_chart,
    heterogeneity_chart,
)
from auxo.reporting.markup import Markup, escaped, joined, tag
from auxo.reporting.number_format import NAMES, counted, duration, number, percent, times
from auxo.reporting.page import chart_figure, figure, note, page, section
from auxo.reporting.tables import comparison_table, incidents_table, rounds_table
from auxo.reporting.tree_picture import cohort_tree, draw_tree


def write_report(run: RunDirectory) -> Path:
    """Write the run's report into its directory and return where it is.

    Raises:
        ValueError: a file of the run is damaged.
    """
    facts = gather(run)
    sections = (
        _summary_section(facts),
        _accuracy_section(facts),
        _tree_section(facts),
        _clients_section(facts),
        _criterion_section(facts),
        _rounds_section(facts),
        _config_section(facts),
    )
    return run.write_report(page(f"Auxo run: {facts.name}", sections))


_WORTH_TELLING = 0.02  # accuracy that an oracle must have ahead before a missed partition is spoken of; our choice


def headline(facts: RunFacts) -> str:
    """Return the run's result in one sentence."""
    base, auxo = facts.outcome("base"), facts.outcome("auxo")
    before = None if base is None else base.accuracy
    after = None if auxo is None else auxo.accuracy
    cohorts = facts.cohorts or 1
    if before is None and after is None:
        return "No evaluation was recorded, so there is nothing to compare."
    if after is None:
        return f"One model for everybody reaches {percent(before)}; Auxo was not evaluated."
    found = f"found {cohorts} cohorts" if cohorts > 1 else "made no partition and trained one model"
    opening = f"Auxo {found}" if facts.is_finished else f"So far, Auxo {found}"
    if before is None:
        return f"{opening}; mean accuracy {percent(after)}, with no base to compare to."
    if cohorts == 1:
        missed = _missed(facts, after)
        return f"{opening}, like the base: mean accuracy {percent(after)} against {percent(before)}{missed}."
    if percent(before) == percent(after):
        return f"{opening}, which left mean accuracy at {percent(after)}."
    verb = "raised" if after > before else "lowered"
    share = facts.oracle_gain_share
    compared = f" ({percent(share, 0)} of what an oracle gains)" if share is not None and after > before else ""
    return f"{opening} and {verb} mean accuracy from {percent(before)} to {percent(after)}{compared}."


def _missed(facts: RunFacts, after: float) -> str:
    """Return what to say when known groups show that a partition would have paid."""
    oracle = facts.outcome("oracle")
    if oracle is None or oracle.accuracy is None or oracle.accuracy < after + _WORTH_TELLING:
        return ""
    return (
        f", while an oracle reaches {percent(oracle.accuracy)}: the evidence did not suffice in time, or children "
        "would have had too few participants (auxo.min_participants); more rounds or participants may help"
    )


def _summary_section(facts: RunFacts) -> Markup:
    over = " \N{MIDDLE DOT} ".join([f"Auxo run: {facts.name}"] + ([] if facts.seed is None else [f"seed {facts.seed}"]))
    parts = [
        tag("p", escaped(over), class_="over"),
        tag("h1", escaped(headline(facts))),
        tag("p", escaped(_what_was_compared(facts)), class_="lead"),
        _banner(facts),
        _tiles(facts),
    ]
    if facts.methods:
        parts.append(comparison_table(facts))
    return tag("header", *parts)


def _what_was_compared(facts: RunFacts) -> str:
    who = {
        "base": "one model for everybody (base)",
        "auxo": "cohorts found while training (Auxo)",
        "oracle": "an oracle that is told the true groups",
    }
    last = [run.evaluations[-1] for run in facts.methods.values() if run.evaluations]
    clients = sum(score.clients for score in last[0].cohorts) if last else 0
    population = f" for {counted(clients, 'client')}" if clients else ""
    compared = [who[method] for method in facts.methods]
    if not compared:
        return "No method has begun."
    if len(compared) == 1:
        return f"Only {compared[0]} was run{population}."
    return f"Compared{population}: {', '.join(compared[:-1])} and {compared[-1]}."


def _banner(facts: RunFacts) -> Markup:
    notes = []
    if not facts.is_finished:
        notes.append("This run did not finish. The report shows what was recorded until it stopped.")
        reached = [
            f"{NAMES[run.method]} {duration(run.evaluations[-1].time_s) if run.evaluations else 'not at all'}"
            for run in facts.methods.values()
        ]
        if reached:
            notes.append(f"Evaluated up to simulated time: {', '.join(reached)}. Last numbers may not be comparable.")
    for run in facts.methods.values():
        if run.is_truncated:
            notes.append(f"The last event of {NAMES[run.method]} was only half written and is left out.")
    if not notes:
        return escaped("")
    return tag("div", *(tag("p", escaped(note)) for note in notes), class_="banner", role="note")


def _tiles(facts: RunFacts) -> Markup:
    base, auxo = facts.outcome("base"), facts.outcome("auxo")
    if auxo is None:
        return escaped("")
    worst = f"for the worst {percent(0.1, 0)} of clients"
    tiles = [
        (percent(auxo.accuracy), "mean accuracy", f"base {percent(base.accuracy)}" if base else ""),
        (percent(auxo.worst_10), worst, f"base {percent(base.worst_10)}" if base else ""),
    ]
    if facts.speedup is not None:
        word = "sooner at" if facts.speedup >= WORTH_SAYING else "the speed to"
        work = "" if facts.resource_speedup is None else f"{times(facts.resource_speedup)} in participations"
        tiles.append((times(facts.speedup), f"{word} base\N{RIGHT SINGLE QUOTATION MARK}s best accuracy", work))
    if facts.ari is not None:
        tiles.append((f"{facts.ari:.2f}", "agreement with the true groups", "adjusted Rand index; 1 is perfect"))
    return tag(
        "ul",
        *(
            tag("li", tag("b", escaped(value)), *(tag("span", escaped(line)) for line in lines if line))
            for value, *lines in tiles
        ),
        class_="tiles",
    )


def _accuracy_section(facts: RunFacts) -> Markup:
    time, work = accuracy_over_time(facts), accuracy_over_work(facts)
    if time is None or work is None:
        return section("Accuracy", note("No evaluation was recorded."))
    auxo = facts.methods.get("auxo")
    caption = "Every client is tested with the model of the cohort it would use."
    if time.bands:
        caption += " The band spans Auxo\N{RIGHT SINGLE QUOTATION MARK}s cohorts from the worst to the best."
    caption += " Vertical lines are partitions." if auxo and auxo.partitions else ""
    return section(
        "Accuracy",
        chart_figure(time, caption),
        tag("h3", escaped("The same against the work it took")),
        chart_figure(work, "A participation is one update that a client trained and the coordinator used."),
    )


def _tree_section(facts: RunFacts) -> Markup:
    auxo = facts.methods.get("auxo")
    roots = cohort_tree(auxo) if auxo else ()
    if not roots:
        return section("Cohort tree", note("Auxo has not closed a round."))
    has_groups = any(leaf.groups for root in roots for leaf in root.leaves())
    caption = "Leaves train a model each; shown are their clients and accuracy at the last evaluation."
    caption += " Bars are their clients by true group, which Auxo never sees." if has_groups else ""
    opening = () if auxo and auxo.partitions else (note(_why_one_model(auxo)),)
    return section("Cohort tree", *opening, figure(lambda width: draw_tree(roots, width), caption))


def _why_one_model(auxo: MethodFacts | None) -> str:
    text = "No partition happened: all clients share one model."
    if auxo and auxo.stops:
        text += f" Auxo stopped looking after round {auxo.stops[0].round}: no groups it saw were worth a partition."
    return text


def _clients_section(facts: RunFacts) -> Markup:
    chart = client_curve(facts)
    if chart is None:
        return section("Client by client", note("No client scores were written; they come at the end of a method."))
    caption = "Heavy strokes are the means of the worst and the best tenth of clients."
    drawn = {line.name for line in chart.lines}
    if missing := [NAMES[method] for method in ("base", "auxo") if NAMES[method] not in drawn]:
        caption += f" There are no client scores of {' and '.join(missing)}; they come at the end of a method."
    compared = better_and_worse(facts)
    opening: tuple[Markup, ...] = ()
    if compared is not None:
        better, same, worse = (number(count) for count in compared)
        words = f"Against the base, Auxo serves {better} clients better, {same} the same and {worse} worse."
        opening = (tag("p", escaped(words)),)
    return section("Client by client", *opening, chart_figure(chart, caption))


def _criterion_section(facts: RunFacts) -> Markup:
    title = "What the partition criterion saw"
    auxo = facts.methods.get("auxo")
    gain = criterion_chart(auxo) if auxo else None
    heterogeneity = heterogeneity_chart(auxo) if auxo else None
    parts = []
    if gain is None:
        parts.append(note("The criterion had nothing to judge: no round had enough participants seen before."))
    else:
        caption = "A cohort is partitioned when its gain (solid) exceeds the gain needed (dashed)."
        parts.append(chart_figure(gain, caption))
    if heterogeneity is not None:
        caption = "Heterogeneity is the mean squared distance of normalised updates to their mean."
        parts.append(chart_figure(heterogeneity, caption))
    return section(title, *parts)


def _rounds_section(facts: RunFacts) -> Markup:
    if not facts.methods:
        return section("Rounds", note("No method has begun."))
    incidents = incidents_table(facts)
    tail = (
        note("No update was rejected and no round was empty.")
        if incidents is None
        else joined([tag("h3", escaped("Rejected updates and empty rounds")), incidents])
    )
    words = (
        "Late, failed and rejected updates were wasted, and so were those of misfits: newcomers whose updates did not "
        "fit the cohort. At a restart, clustering threw its labels away."
    )
    return section("Rounds", tag("p", escaped(words), class_="soft"), rounds_table(facts), tail)


def _config_section(facts: RunFacts) -> Markup:
    config = tag("pre", escaped(facts.config_text))
    return section("Configuration", tag("details", tag("summary", escaped("The complete configuration")), config))
