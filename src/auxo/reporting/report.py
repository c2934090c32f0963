"""The report of a run: one HTML file that needs nothing else, whether the run has finished or not."""

from collections.abc import Callable, Sequence
from pathlib import Path

from auxo.core.metric import Metric
from auxo.experiments.run_directory import RunDirectory
from auxo.protocol.notes import explains
from auxo.reporting.below_zero import not_beyond_chance, worse_than_the_mean
from auxo.reporting.cohort_section import cohort_parts
from auxo.reporting.facts import MethodFacts, RunFacts, speedup_doubts
from auxo.reporting.figures import (
    WORTH_SAYING,
    accuracy_over_time,
    accuracy_over_work,
    better_and_worse,
    client_curve,
    gain_chart,
    heterogeneity_chart,
)
from auxo.reporting.markup import Markup, escaped, joined, tag
from auxo.reporting.method_names import words_for
from auxo.reporting.number_format import capital, counted, number, open_to, percent, score, times
from auxo.reporting.page import chart_figure, figure, note, page, section
from auxo.reporting.tables import comparison_table, incidents_table, rounds_table
from auxo.reporting.tree_picture import Node, cohort_tree, draw_tree


def write_report(run: RunDirectory, facts: RunFacts) -> Path:
    """Write the report of what a run's files say (`gather_facts`) into its directory and return where it is."""
    sections = (
        _summary_section(facts),
        _accuracy_section(facts),
        _tree_section(facts),
        _cohorts_section(facts),
        _clients_section(facts),
        _gain_section(facts),
        rounds_section(facts),
        _config_section(facts),
    )
    return run.write_report(page(f"Auxo run: {facts.name}", sections))


_LOSERS_NAMED = 10  # our choice
_WORTH_TELLING = 0.02  # accuracy that an oracle must have ahead before a missed partition is spoken of; our choice
GAIN_TITLE = "What a partition would bring"
_TRIED = (
    "The gain is the share of their loss that the judges of a trial would gain by the best partition; 0: by none. A "
    "cohort is partitioned when its trial ends with a gain that is large enough and beyond chance."
)
_ASKED = "A cohort is partitioned when its gain (solid) is what is asked for (dashed), and participants suffice."


def headline(facts: RunFacts) -> str:
    """Return the run's result in one sentence."""
    failed = [run for run in facts.methods.values() if facts.has_failed and run.end and not run.end.is_finished]
    if failed:
        return f"This run failed: {' and '.join(run.name for run in failed)} did not train the rounds asked for."
    featured, metric = facts.featured, facts.metric
    if featured is None or featured.end is None:
        return _without_contender(facts)
    opening = (
        f"{featured.name} {_made(featured)}" if facts.is_finished else f"So far, {featured.name} {_made(featured)}"
    )
    beside = facts.beside_base(featured)
    if beside is None:
        why = "no evaluation of the base in the same round" if facts.base and facts.base.end else "no base"
        return f"{opening}; mean {metric.name} {score(featured.end.final_accuracy, metric)}, with {why} to compare to."
    before, after = score(beside.base, metric), score(beside.ours, metric)
    when = "" if beside.round is None else f", both in round {beside.round}"
    if featured.end.cohorts == 1 and not featured.seen.begin_several:
        missed = _missed(facts, featured)
        return f"{opening}, like the base: mean {metric.name} {after} against {before}{when}{missed}."
    if before == after:
        return f"{opening}, which left mean {metric.name} at {after}{when}."
    is_better = beside.ours > beside.base
    share = featured.brought.oracle_gain_share
    compared = f" ({percent(share, 0)} of what an oracle gains)" if share is not None and is_better else ""
    return f"{opening} and {_changed(metric, is_better)} mean {metric.name} from {before} to {after}{when}{compared}."


def _changed(metric: Metric, is_better: bool) -> str:
    """Return in a verb what became of a metric; where smaller is better, which way it went does not say it."""
    if metric.smaller_is_better:
        return "improved" if is_better else "worsened"
    return "raised" if is_better else "lowered"


def _made(run: MethodFacts) -> str:
    """Return what became of a method's cohorts."""
    cohorts = run.end.cohorts if run.end else 1
    if run.seen.begin_several:  # it was told how many, so it has not found them
        return f"began with several cohorts ({cohorts} {'in use' if run.seen.are_counted_by_use else 'at the end'})"
    return f"found {cohorts} cohorts" if cohorts > 1 else "made no partition and trained one model"


def _without_contender(facts: RunFacts) -> str:
    ends = {"one model for everybody": facts.base, "an oracle": facts.oracle}
    known = [
        f"{name} reaches {score(run.end.final_accuracy, facts.metric)}" for name, run in ends.items() if run and run.end
    ]
    if not known:
        return "No evaluation was recorded, so there is nothing to compare."
    return f"{capital('; '.join(known))}; no other method was evaluated."


def _missed(facts: RunFacts, run: MethodFacts) -> str:
    """Return what to say when known groups show that a partition would have paid."""
    ours, oracle = run.end, facts.oracle.end if facts.oracle else None
    if ours is None or oracle is None or not (ours.is_finished and oracle.is_finished):
        return ""
    if oracle.final_accuracy < ours.final_accuracy + _WORTH_TELLING:
        return ""
    reached = score(oracle.final_accuracy, facts.metric)
    known = [words for words in ours.troubles if explains(words)]
    why = (
        "the judges of a trial were not sure of it in time; more rounds (training.rounds) or more samples of each "
        "client may help"
    )
    return f", while an oracle reaches {reached}: {known[0] if known else why}"


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
        ends = [run.end for run in facts.methods.values() if run.end is not None]
        below = worse_than_the_mean(facts.metric, [end.worst_10 for end in ends])
        below += not_beyond_chance([end.variance_beyond_binomial for end in ends])
        parts += [note(f"{capital(words)}.") for words in below]
    return tag("header", *parts)


def _what_was_compared(facts: RunFacts) -> str:
    last = [run.evaluations[-1] for run in facts.methods.values() if run.evaluations]
    clients = sum(score.clients for score in last[0].cohorts) if last else 0
    population = f" for {counted(clients, 'client')}" if clients else ""
    compared = [words_for(method).description for method in facts.methods]
    if not compared:
        return "No method has begun."
    if len(compared) == 1:
        return f"Only {compared[0]} was run{population}."
    return f"Compared{population}: {', '.join(compared[:-1])} and {compared[-1]}."


def _banner(facts: RunFacts) -> Markup:
    notes = []
    for run in facts.methods.values():
        notes += [f"{run.name}: {words}." for words in (run.end.troubles if run.end else ())]
    if not facts.is_finished and not facts.has_failed:
        notes.append("This run did not finish. The report shows what was recorded until it stopped.")
        reached = [
            f"{run.name} {f'{run.evaluations[-1].round:.0f}' if run.evaluations else 'not at all'}"
            for run in facts.methods.values()
        ]
        if reached:
            notes.append(
                f"Evaluated up to round: {', '.join(reached)}. Sentences and tiles compare methods in the same round; "
                "the table has the last numbers of each."
            )
    for run in facts.methods.values():
        if run.is_truncated:
            notes.append(f"The last event of {run.name} was only half written and is left out.")
    if not notes:
        return escaped("")
    return tag("div", *(tag("p", escaped(note)) for note in notes), class_="banner", role="note")


def _tiles(facts: RunFacts) -> Markup:
    featured = facts.featured
    if featured is None or featured.end is None:
        return escaped("")
    end, brought, beside, metric = featured.end, featured.brought, facts.beside_base(featured), facts.metric
    worst = f"for the worst {percent(0.1, 0)} of clients"
    honest = f"of honest clients; {counted(end.attackers, 'client')} attack" if end.attackers else ""
    matched = f"as matched {score(end.matched_accuracy, metric)}" if end.lost else ""
    matched = "; ".join(filter(None, (honest, matched)))
    if beside is None:
        tiles = [
            (score(end.final_accuracy, metric), f"mean {metric.name}", matched),
            (score(end.worst_10, metric), worst, ""),
        ]
    else:
        when = "" if beside.round is None else f"; both in round {beside.round}"
        base = f"base {score(beside.base, metric)}{when}"
        tiles = [
            (score(beside.ours, metric), f"mean {metric.name}", "; ".join(filter(None, (base, matched)))),
            (score(beside.worst_10, metric), worst, f"base {score(beside.base_worst_10, metric)}{when}"),
        ]
    if brought.speedup is not None:
        word = "sooner at" if brought.speedup >= WORTH_SAYING else "the speed to"
        work = "" if brought.resource_speedup is None else f"{times(brought.resource_speedup)} in participations"
        work += open_to(brought.resource_speedup_between) if work else ""
        words = f"{word} base\N{RIGHT SINGLE QUOTATION MARK}s best {metric.name}"
        between = f"by evaluations{open_to(brought.speedup_between)}" if brought.speedup_between else ""
        doubts = "; ".join(filter(None, (between, work, *speedup_doubts(facts, featured))))
        tiles.append((times(brought.speedup), words, doubts))
    if end.ari is not None:
        matched = f"; as matched {end.matched_ari:.2f}" if end.lost and end.matched_ari is not None else ""
        words = f"adjusted Rand index; 1 is perfect{matched}"
        tiles.append((f"{end.ari:.2f}", "agreement with the true groups", words))
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
    title = capital(facts.metric.name)
    if time is None or work is None:
        return section(title, note("No evaluation was recorded."))
    featured = facts.featured
    caption = "Every client is tested with the model of the cohort it would use."
    if featured and time.bands:
        caption += (
            f" The band spans {featured.name}\N{RIGHT SINGLE QUOTATION MARK}s cohorts from the worst to the best."
        )
    caption += " Vertical lines are partitions." if featured and featured.partitions else ""
    return section(
        title,
        chart_figure(time, caption),
        tag("h3", escaped("The same against the work it took")),
        chart_figure(work, "A participation is one update that a client trained and the coordinator used."),
    )


def _each_contender(facts: RunFacts, show: Callable[[MethodFacts], Sequence[Markup]]) -> list[Markup]:
    """Return what there is to show of each contender, under its name where there are several."""
    if len(facts.contenders) == 1:
        return [*show(facts.contenders[0])]
    shown = [(run, show(run)) for run in facts.contenders]
    return [part for run, parts in shown if parts for part in (tag("h3", escaped(run.name)), *parts)]


def _tree_section(facts: RunFacts) -> Markup:
    parts = _each_contender(facts, tree_parts) or [note("No method that could make cohorts has begun.")]
    return section("Cohort tree", *parts)


def _cohorts_section(facts: RunFacts) -> Markup:
    parts = _each_contender(facts, cohort_parts)
    return section("What distinguishes the cohorts", *parts) if parts else escaped("")


def tree_parts(run: MethodFacts, roots: tuple[Node, ...] | None = None, shown: str = "") -> list[Markup]:
    """Return a method's tree of cohorts, in words where there is none; ``roots`` that tell what ``shown`` says."""
    if roots is None:
        roots = cohort_tree(run)
        shown = f"their clients and {run.metric.name} at the last evaluation" if run.evaluations else ""
    if not roots:
        return [note(f"{run.name} has not closed a round.")]
    has_groups = any(leaf.groups for root in roots for leaf in root.leaves())
    caption = "Leaves train a model each" + (f"; shown are {shown}." if shown else ".")
    caption += (
        " Cohorts that no client has used are not known of, and not shown." if run.seen.are_counted_by_use else ""
    )
    caption += " Bars are their clients by true group, which only an oracle is told." if has_groups else ""
    opening = [] if run.seen.children or len(roots) > 1 else [note(_why_one_model(run))]
    return [*opening, figure(lambda width: draw_tree(roots, width), caption)]


def _why_one_model(run: MethodFacts) -> str:
    text = "No partition happened: all clients share one model."
    if run.stops and run.trials.given_up == run.trials.unjudged:
        return f"{text} {run.name} stopped looking after round {run.stops[0].round}: nobody judged what was on trial."
    if run.stops:
        unsure, unworthy = "judges were not sure of what was on trial", "no groups it saw were worth a partition"
        why = unsure if run.trials.unsure else unworthy
        text += f" {run.name} stopped looking after round {run.stops[0].round}: {why}."
    return text


def _clients_section(facts: RunFacts) -> Markup:
    title, comes = "Client by client", "they come at the end of a method"
    chart = client_curve(facts)
    if chart is None:
        return section(title, note(f"No client scores were written; {comes}."))
    caption = "Heavy strokes are the means of the worst and the best tenth of clients."
    drawn = {line.name for line in chart.lines}
    shown = [run for run in (facts.base, *facts.contenders) if run is not None]
    if missing := [run.name for run in shown if run.name not in drawn]:
        caption += f" There are no client scores of {' and '.join(missing)}; {comes}."
    opening = [words for run in facts.contenders if (words := _served(facts.base, run)) is not None]
    return section(title, *opening, chart_figure(chart, caption))


def _served(base: MethodFacts | None, run: MethodFacts) -> Markup | None:
    compared = None if base is None else better_and_worse(base, run)
    if compared is None:
        return None
    better, same, worse = (number(count) for count in compared)
    words = f"Against the base, {run.name} serves {better} clients better, {same} the same and {worse} worse."
    return tag("p", escaped(words + _losers_named(run)))


def _losers_named(run: MethodFacts) -> str:
    """Return who is worse off than with the base; nothing where nobody is, or nobody compares."""
    losers = run.end.losers if run.end else None
    if losers is None or losers.clients == 0:
        return ""
    named = "; ".join(
        f"{one.client} (from {score(one.base_accuracy, run.metric, 0)} to {score(one.accuracy, run.metric, 0)}, cohort "
        f"{one.cohort})"
        for one in losers.worst[:_LOSERS_NAMED]
    )
    of_all = "Worse off" if losers.clients <= _LOSERS_NAMED else "Worse off by the most"
    beyond = losers.beyond_chance
    surely = "" if beyond is None else f" For {number(beyond)} of these it is beyond the chance of small test sets."
    return f"{surely} {of_all}: {named}. {run.method}/clients.csv has every client."


def _gain_section(facts: RunFacts) -> Markup:
    parts = _each_contender(facts, gain_parts)
    return section(GAIN_TITLE, *parts) if parts else escaped("")


def gain_parts(run: MethodFacts) -> list[Markup]:
    """Return what partitions would bring by a method's own measure; nothing where it has none."""
    if not run.has_gains:
        return []
    gain, heterogeneity = gain_chart(run), heterogeneity_chart(run)
    nothing = note("There was nothing to judge: no round had enough participants seen before.")
    parts = [nothing if gain is None else chart_figure(gain, _ASKED if run.asks_for_gain else _TRIED)]
    if heterogeneity is not None:
        caption = "Heterogeneity is the mean squared distance of normalised updates to their mean."
        parts.append(chart_figure(heterogeneity, caption))
    return parts


def rounds_section(facts: RunFacts) -> Markup:
    """Return the section on what became of rounds and updates."""
    if not facts.methods:
        return section("Rounds", note("No method has begun."))
    incidents = incidents_table(facts)
    tail = (
        note("No update was rejected, nobody was banned and no round was empty.")
        if incidents is None
        else joined([tag("h3", escaped("Rejected updates, bans and empty rounds")), incidents])
    )
    words = (
        "Late, failed and rejected updates were wasted, and so were those of misfits: newcomers whose updates did not "
        "fit the cohort. At a restart, clustering threw its labels away."
    )
    return section("Rounds", tag("p", escaped(words), class_="soft"), rounds_table(facts), tail)


def _config_section(facts: RunFacts) -> Markup:
    config = tag("pre", escaped(facts.config_text))
    return section("Configuration", tag("details", tag("summary", escaped("The complete configuration")), config))
