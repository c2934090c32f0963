"""The report of a run: what it says in words, whether it is whole, and that it needs nothing else."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from auxo.experiments.run_directory import RunDirectory
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
            {"base": BASE, "grouped+": AUXO},
            "So far, grouped+ found 2 cohorts and raised mean accuracy from 62.0 % to 93.0 %.",
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
        "So far, IFCA began with several cohorts (2 in use) and raised mean accuracy from 62.0 % to 90.0 %."
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
