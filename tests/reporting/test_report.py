"""The report of a run: what it says in words, whether it is whole, and that it needs nothing else."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from auxo.core.metric import Metric
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.summary import Loser, Losers, Summary
from auxo.protocol.events import EmptyRound, Event, Partitioned, UpdateRejected
from auxo.reporting.facts import gather_facts
from auxo.reporting.report import headline, write_report
from tests.experiments.made_summaries import brought, made_method
from tests.reporting.made_runs import (
    AUXO,
    AUXO_END,
    BASE,
    HOUR,
    IFCA,
    closed,
    evaluated,
    finished,
    record,
    several,
    words,
)


def page(run: RunDirectory) -> str:
    return write_report(run, gather_facts(run)).read_text(encoding="utf-8")


class Nesting(HTMLParser):
    """Collects tags and checks that they close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Nesting()
    parser.feed(html)
    assert parser.open == []
    return parser.seen


def test_headline_figures_say_what_they_would_be_as_matched_where_clients_are_lost(run: RunDirectory) -> None:
    lost = replace(AUXO_END, lost=3, matched_accuracy=0.87, matched_ari=0.8)
    told = words(page(finished(run, auxo=lost)))
    assert "93.0 % mean accuracy base 62.0 %; as matched 87.0 %" in told
    assert "0.91 agreement with the true groups adjusted Rand index; 1 is perfect; as matched 0.80" in told


def test_nothing_is_said_of_matching_where_nobody_is_lost(run: RunDirectory) -> None:
    assert "as matched" not in words(page(finished(run)))


def test_report_is_written_into_the_run(run: RunDirectory) -> None:
    path = write_report(run, gather_facts(finished(run)))
    assert path == run.path / "report.html"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_report_needs_nothing_from_elsewhere(run: RunDirectory) -> None:
    html = page(finished(run))
    names = {name for name, _ in tags(html)}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    assert not re.search(r"https?:|url\(|@import|\bsrc=", html)


def test_same_run_gives_the_same_bytes(run: RunDirectory) -> None:
    assert page(finished(run)) == page(run)


def test_text_from_the_run_is_escaped(run: RunDirectory) -> None:
    evil = "<script>alert('x')</script>"
    trouble = (
        UpdateRejected(HOUR, "0", 1, "client-1", evil),
        EmptyRound(HOUR, evil, 1, evil),
        closed(5, evil, 5, gain=0.01),
        Partitioned(5 * HOUR, evil, 5, (f"{evil}.0", f"{evil}.1"), (1, 1), 0.1),
    )
    html = page(record(finished(run, population=evil), auxo=trouble))
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "<b>digits" not in html


def test_headline_tells_cohorts_accuracies_and_share_of_the_oracle(run: RunDirectory) -> None:
    shared = replace(AUXO_END, against_base=brought(oracle_gain_share=0.97))
    facts = gather_facts(finished(run, auxo=shared, oracle=made_method(0.94)))
    assert words(headline(facts)) == (
        "Auxo found 2 cohorts and raised mean accuracy from 62.0 % to 93.0 % (97 % of what an oracle gains)."
    )


def test_headline_says_when_nothing_was_worth_partitioning(run: RunDirectory) -> None:
    facts = gather_facts(finished(run, auxo=made_method(0.62)))
    assert words(headline(facts)) == (
        "Auxo made no partition and trained one model, like the base: mean accuracy 62.0 % against 62.0 %."
    )


def test_headline_says_when_an_oracle_shows_that_a_partition_was_missed(run: RunDirectory) -> None:
    record(run, oracle=BASE)
    facts = gather_facts(finished(run, auxo=made_method(0.62), oracle=made_method(0.94)))
    assert "while an oracle reaches 94.0 %" in words(headline(facts))


def test_headline_does_not_hide_a_loss(run: RunDirectory) -> None:
    lost = made_method(0.5, cohorts=2, against_base=brought(oracle_gain_share=-1.0))
    facts = gather_facts(finished(run, auxo=lost))
    assert words(headline(facts)) == "Auxo found 2 cohorts and lowered mean accuracy from 62.0 % to 50.0 %."


def test_pictures_and_tables_are_accessible(run: RunDirectory) -> None:
    found = tags(page(finished(run)))
    pictures = [attributes for name, attributes in found if name == "svg"]
    assert pictures
    assert all(picture.get("role") == "img" and picture.get("aria-label") for picture in pictures)
    heads = [attributes for name, attributes in found if name == "th"]
    assert heads
    assert all(head.get("scope") for head in heads)
    assert ("html", {"lang": "en"}) in found


def test_config_is_in_the_report(run: RunDirectory) -> None:
    assert "name = &quot;&lt;b&gt;digits&lt;/b&gt;&quot;" in page(finished(run))


@pytest.mark.parametrize(
    "methods",
    [
        {},
        {"base": ()},
        {"base": BASE[:1]},
        {"base": BASE},
        {"base": BASE, "auxo": ()},
        {"base": BASE, "auxo": AUXO[:1]},
        {"base": BASE, "auxo": AUXO[:4]},
        {"base": (), "auxo": AUXO},
        {"auxo": AUXO},
    ],
)
def test_run_that_stopped_anywhere_has_a_report_that_says_so(
    run: RunDirectory, methods: dict[str, tuple[Event, ...]]
) -> None:
    html = page(record(run, **methods))
    tags(html)
    assert "This run did not finish" in words(html)


def test_finished_run_has_no_warning(run: RunDirectory) -> None:
    assert "did not finish" not in words(page(finished(run)))


def test_summary_of_an_interrupted_run_does_not_make_it_finished(run: RunDirectory) -> None:
    html = page(finished(run, status="interrupted"))
    assert "This run did not finish" in words(html)
    assert "So far, Auxo found 2 cohorts" in words(html)


def interrupted(run: RunDirectory, *auxo: Event) -> RunDirectory:
    """Record a base that came to its end in round 4, and what Auxo did until it was stopped."""
    base = (evaluated(1, 100, 0.3), evaluated(2, 200, 0.33), evaluated(4, 400, 0.415))
    ends = {"base": made_method(0.415), "auxo": made_method(0.334, is_finished=False)}
    record(run, base=base, auxo=auxo).write_summary(Summary("digits", 7, "interrupted", ends))
    return run


def test_a_method_that_was_stopped_is_compared_with_the_base_in_the_same_round(run: RunDirectory) -> None:
    html = words(page(interrupted(run, evaluated(1, 100, 0.3), evaluated(2, 195, 0.334))))
    assert "like the base: mean accuracy 33.4 % against 33.0 %, both in round 2." in html
    assert "33.4 % mean accuracy base 33.0 %; both in round 2" in html
    assert "13.4 % for the worst 10 % of clients base 13.0 %; both in round 2" in html
    assert "Evaluated up to round: base 4, Auxo 2." in html
    assert "base Auxo, up to round 2 Last mean accuracy 41.5 % 33.4 %" in html
    assert "best accuracy 4 h not yet" in html
    assert "lowered" not in html


def test_a_method_that_was_stopped_where_the_base_was_not_evaluated_is_not_compared(run: RunDirectory) -> None:
    html = words(page(interrupted(run, evaluated(3, 300, 0.334))))
    assert "mean accuracy 33.4 %, with no evaluation of the base in the same round to compare to." in html
    assert "33.4 % mean accuracy 3.4 % for the worst 10 % of clients" in html


ERROR = Metric("absolute_error", "EUR", smaller_is_better=True)


def test_an_error_that_falls_is_an_improvement_in_its_own_unit(run: RunDirectory) -> None:
    def told(participations: int, score: float, cohorts: dict[str, float] | None = None) -> Event:
        event = evaluated(participations / 100, participations, score, cohorts)
        return replace(event, worst_10=score - 0.2, best_10=score + 0.01, metric=ERROR)

    base = (told(100, -0.7), told(200, -0.654))
    auxo = (told(100, -0.7), AUXO[3], told(200, -0.088, {"0.0": -0.08, "0.1": -0.096}))
    ends = {
        "base": made_method(-0.654),
        "auxo": made_method(-0.088, cohorts=2, variance=10.0, against_base=brought(1.5)),
    }
    record(run, base=base, auxo=auxo).write_summary(Summary("homes", 7, "finished", ends, metric=ERROR))
    facts = gather_facts(run)
    assert words(headline(facts)) == (
        "Auxo found 2 cohorts and improved mean absolute_error from 0.654 EUR to 0.088 EUR."
    )
    html = words(page(run))
    assert "2 clients · 0.096 EUR" in html
    assert "Variance across clients, EUR² 0.031 0.001" in html
    assert "smaller is better" in html
    assert "accuracy" not in html
    assert not re.search(r"-\d", html.partition("Configuration")[0])


def test_scores_below_zero_are_explained(run: RunDirectory) -> None:
    html = words(page(finished(run, auxo=replace(AUXO_END, variance_beyond_binomial=-3.9))))
    assert "Variance beyond small test sets below 0: clients differ less than the chance of so few" in html
    assert "below 0" not in words(page(finished(RunDirectory.create(run.path.parent / "other", ""))))


def test_nothing_evaluated_is_said_plainly(run: RunDirectory) -> None:
    assert headline(gather_facts(run)) == "No evaluation was recorded, so there is nothing to compare."


def test_half_written_last_event_is_mentioned(run: RunDirectory) -> None:
    path = record(run, base=BASE, auxo=AUXO).path / "auxo" / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert "last event of Auxo was only half written" in words(page(run))


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        ({"base": BASE}, "One model for everybody reaches 62.0 %; no other method was evaluated."),
        (
            {"base": BASE, "oracle": AUXO},
            "One model for everybody reaches 62.0 %; an oracle reaches 93.0 %; no other method was evaluated.",
        ),
        ({"oracle": AUXO}, "An oracle reaches 93.0 %; no other method was evaluated."),
        (
            {"base": BASE, "grouped+": (*AUXO[:4], evaluated(3, 200, 0.93, {"0.0": 0.9, "0.1": 0.96}))},
            "So far, grouped+ found 2 cohorts and raised mean accuracy from 62.0 % to 93.0 %, both in round 2.",
        ),
        ({"grouped+": AUXO}, "So far, grouped+ found 2 cohorts; mean accuracy 93.0 %, with no base to compare to."),
    ],
)
def test_headline_is_about_whatever_methods_there_are(
    run: RunDirectory, methods: dict[str, tuple[Event, ...]], sentence: str
) -> None:
    assert words(headline(gather_facts(record(run, **methods)))) == sentence
    tags(page(run))


def test_report_of_any_methods_shows_each_by_its_name(run: RunDirectory) -> None:
    html = page(several(run))
    tags(html)
    seen = words(html)
    assert "Auxo found 2 cohorts and raised mean accuracy from 62.0 % to 93.0 %" in seen
    assert (
        "Compared for 2 clients: one model for everybody (base), cohorts found while training (Auxo), fedavg-2, "
        "grouped+ and an oracle that is told the true groups."
    ) in seen
    assert "Against the base, Auxo serves 2 clients better, 1 the same and 1 worse." in seen
    assert "Against the base, grouped+ serves 3 clients better, 1 the same and 0 worse." in seen
    tree = html[html.index("<h2>Cohort tree") : html.index("<h2>Client by client")]
    assert re.findall("<h3>(.*?)</h3>", tree) == ["Auxo", "fedavg-2", "grouped+"]
    assert "No partition happened: all clients share one model." in tree


def test_one_contender_needs_no_heading_of_its_own(run: RunDirectory) -> None:
    assert "<h3>Auxo</h3>" not in page(finished(run))
    assert "<h3>Auxo</h3>" in page(several(run))


def test_headline_does_not_say_found_of_cohorts_that_were_told(run: RunDirectory) -> None:
    facts = gather_facts(record(run, base=BASE, ifca=IFCA, oracle=()))
    assert words(headline(facts)) == (
        "So far, IFCA began with several cohorts (2 in use) and raised mean accuracy from 62.0 % to 90.0 %, "
        "both in round 2."
    )


def test_headline_does_not_say_one_model_of_several_of_which_one_is_used(run: RunDirectory) -> None:
    facts = gather_facts(record(run, base=BASE, ifca=(*IFCA, evaluated(5, 300, 0.9, {"0.3": 0.9})), oracle=()))
    assert "began with several cohorts (1 in use) and raised" in headline(facts)


def test_tree_of_several_models_does_not_say_that_all_share_one(run: RunDirectory) -> None:
    text = words(page(record(run, base=BASE, ifca=IFCA)))
    assert "all clients share one model" not in text
    assert "Cohorts that no client has used are not known of" in text


def test_methods_that_know_no_gain_are_left_out_of_what_partitions_bring(run: RunDirectory) -> None:
    html = page(record(run, base=BASE, auxo=AUXO, ifca=IFCA))
    saw = html.split("What a partition would bring")[1].split("Rounds</h2>")[0]
    assert ">Auxo<" in saw
    assert "IFCA" not in saw
    assert "nothing to judge" not in saw


def test_where_no_method_knows_a_gain_nothing_is_said_of_one(run: RunDirectory) -> None:
    assert "partition would bring" not in words(page(record(run, base=BASE, ifca=IFCA))).split("Configuration")[0]


def test_a_trial_is_not_said_to_compare_its_gain_with_a_line(run: RunDirectory) -> None:
    tried = (closed(1, "0", 1, needed=0.0), closed(2, "0", 2, gain=0.03, needed=0.0))
    text = words(page(record(run, base=BASE, auxo=tried)))
    assert "The gain is the share of their loss that the judges of a trial would gain" in text
    assert "dashed" not in text
    assert "(dashed)" in words(page(record(run, paper=AUXO)))


def test_a_speedup_that_says_little_says_so(run: RunDirectory) -> None:
    flat = (evaluated(1, 100, 0.5), evaluated(8, 200, 0.45))
    sinking = (evaluated(1, 100, 0.5), evaluated(8, 200, 0.4))
    text = words(page(record(run, base=flat, auxo=sinking, oracle=())))
    assert "1.0\N{MULTIPLICATION SIGN} the speed to base\N{RIGHT SINGLE QUOTATION MARK}s best accuracy" in text
    assert "by evaluations (not known); 1.0" in text
    assert "the base was best at its first evaluation; ends below the base" in text
    assert "best accuracy (at its first evaluation)" in text
    assert "60 min (ends below)" in text


def test_a_speedup_that_says_what_it_seems_to_has_no_doubts(run: RunDirectory) -> None:
    text = words(page(finished(run)))
    assert "first evaluation" not in text
    assert "ends below" not in text


def test_who_is_worse_off_is_told_from_what_to_what_and_in_which_cohort(run: RunDirectory) -> None:
    losers = Losers(1, 0, (Loser("phone 7", "0.0", 0.75, 0.92),))
    html = words(page(finished(run, auxo=replace(AUXO_END, losers=losers))))
    assert "Worse off: phone 7 (from 92 % to 75 %, cohort 0.0)." in html
