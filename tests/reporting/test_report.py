import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.protocol.events import CohortScore, EmptyRound, Evaluated, Event, Partitioned, RoundClosed, UpdateRejected
from auxo.reporting.facts import gather
from auxo.reporting.figures import (
    accuracy_over_time,
    accuracy_over_work,
    better_and_worse,
    client_curve,
    criterion_chart,
    heterogeneity_chart,
)
from auxo.reporting.number_format import duration
from auxo.reporting.report import headline, write_report
from auxo.reporting.tree_picture import cohort_tree

HOUR = 3600.0


def closed(time_h: float, cohort: str, number: int, *, gain: float | None = None, needed: float = 0.02) -> RoundClosed:
    used, late, failed, rejected = 100, 12, 5, 1
    known, labelled, judged = 0, 0, 0 if gain is None else 50
    counts = (used, late, failed, rejected, 900.0, known, labelled, judged)
    return RoundClosed(time_h * HOUR, cohort, number, *counts, gain, needed, 0.8, 1, restarted=number == 2, misfits=3)


def evaluated(
    time_h: float, participations: int, accuracy: float, cohorts: dict[str, float] | None = None
) -> Evaluated:
    scores = tuple(CohortScore(name, 2, score) for name, score in (cohorts or {"0": accuracy}).items())
    return Evaluated(
        time_s=time_h * HOUR,
        round=participations / 100,
        participations=participations,
        wasted_participations=18,
        device_s=10 * HOUR,
        wasted_device_s=2 * HOUR,
        accuracy=accuracy,
        worst_10=accuracy - 0.2,
        best_10=accuracy + 0.05,
        variance=300.0,
        variance_beyond_binomial=200.0,
        cohorts=scores,
        ari=None,
        lost=0,
        matched_accuracy=accuracy,
        matched_ari=None,
        perplexity=None,
    )


BASE: tuple[Event, ...] = (
    closed(1, "0", 1),
    evaluated(1, 100, 0.4),
    closed(8, "0", 2),
    evaluated(8, 200, 0.62),
)
AUXO: tuple[Event, ...] = (
    closed(1, "0", 1),
    evaluated(1, 100, 0.4),
    closed(2, "0", 2, gain=0.03),
    Partitioned(2 * HOUR, "0", 2, ("0.0", "0.1"), (50, 50), 0.03),
    closed(3, "0.0", 3, gain=0.001),
    closed(3, "0.1", 3, gain=0.002),
    evaluated(4, 400, 0.93, {"0.0": 0.9, "0.1": 0.96}),
)


def scores(accuracy: list[float], cohorts: list[str], groups: list[int] | None = None) -> ClientScores:
    group = None if groups is None else np.array(groups)
    return ClientScores(np.array(accuracy), np.full(len(accuracy), 10), np.array(cohorts), group)


def result(accuracy: float) -> dict[str, float]:
    return {
        "final_accuracy": accuracy,
        "variance": 310.0,
        "variance_beyond_binomial": 210.0,
        "worst_10": accuracy - 0.3,
        "best_10": accuracy + 0.05,
    }


def summary(**changes: object) -> dict[str, object]:
    return {
        "population": "rotated digits",
        "seed": 7,
        "status": "finished",
        "base": result(0.62),
        "auxo": result(0.93),
        "oracle": None,
        "speedup": 3.4,
        "resource_speedup": 2.1,
        "cohorts": 2,
        "ari": 0.91,
        "oracle_gain_share": None,
    } | changes


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", 'name = "<b>digits</b>"\n')


def record(run: RunDirectory, **events: tuple[Event, ...]) -> RunDirectory:
    for method, happened in events.items():
        with run.event_writer(method) as write:
            for event in happened:
                write(event)
    return run


def finished(run: RunDirectory, **changes: object) -> RunDirectory:
    record(run, base=BASE, auxo=AUXO)
    run.write_clients("base", scores([0.2, 0.6, 0.8, 0.9], ["0"] * 4, [0, 0, 1, 1]))
    run.write_clients("auxo", scores([0.9, 0.9, 0.8, 0.7], ["0.0", "0.0", "0.1", "0.0"], [0, 0, 1, 1]))
    run.write_summary(summary(**changes))
    return run


def page(run: RunDirectory) -> str:
    return write_report(run).read_text(encoding="utf-8")


def words(html: str) -> str:
    """Return what a reader of the page sees, with plain spaces."""
    text = re.sub(r"<(style|desc|title)\b.*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


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


def test_report_is_written_into_the_run(run: RunDirectory) -> None:
    path = write_report(finished(run))
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
    facts = gather(finished(run, oracle=result(0.94), oracle_gain_share=0.97))
    assert words(headline(facts)) == (
        "Auxo found 2 cohorts and raised mean accuracy from 62.0 % to 93.0 % (97 % of what an oracle gains)."
    )


def test_headline_says_when_nothing_was_worth_partitioning(run: RunDirectory) -> None:
    facts = gather(finished(run, cohorts=1, auxo=result(0.62)))
    assert words(headline(facts)) == (
        "Auxo made no partition and trained one model, like the base: mean accuracy 62.0 % against 62.0 %."
    )


def test_headline_says_when_an_oracle_shows_that_a_partition_was_missed(run: RunDirectory) -> None:
    with run.event_writer("oracle") as write:
        for event in BASE:
            write(event)
    facts = gather(finished(run, cohorts=1, auxo=result(0.62), oracle=result(0.94)))
    assert "while an oracle reaches 94.0 %" in words(headline(facts))


def test_headline_does_not_hide_a_loss(run: RunDirectory) -> None:
    facts = gather(finished(run, auxo=result(0.5), oracle_gain_share=-1.0))
    assert words(headline(facts)) == "Auxo found 2 cohorts and lowered mean accuracy from 62.0 % to 50.0 %."


def test_comparison_shows_every_number_of_the_summary(run: RunDirectory) -> None:
    seen = words(page(finished(run)))
    assert "Final mean accuracy 62.0 % 93.0 %" in seen
    assert "Worst 10 % of clients 32.0 % 63.0 %" in seen
    assert "Best 10 % of clients 67.0 % 98.0 %" in seen
    assert "Variance across clients, %² 310 310" in seen
    assert "beyond what small test sets explain 210 210" in seen
    assert "Device-hours used 10 10" in seen
    assert "Device-hours wasted 2 (17 %) 2 (17 %)" in seen
    assert "3.4\N{MULTIPLICATION SIGN}" in seen


def test_times_are_to_the_base_s_best_accuracy(run: RunDirectory) -> None:
    # Auxo climbs from 0.40 to 0.93 between hours 1 and 4, so it passes 0.62 at 1 + 3 * 22 / 53 hours.
    reached = words(duration((1 + 3 * 22 / 53) * HOUR))
    assert f"best accuracy 8 h {reached} " in words(page(finished(run)))


def test_method_that_never_gets_there_is_said_not_to(run: RunDirectory) -> None:
    record(run, base=BASE, auxo=AUXO[:2])
    assert "not reached" in words(page(run))


def test_oracle_has_a_column_and_a_line_when_it_ran(run: RunDirectory) -> None:
    record(run, oracle=BASE)
    facts = gather(finished(run, oracle=result(0.94)))
    chart = accuracy_over_time(facts)
    assert chart is not None
    assert {line.name for line in chart.lines} == {"base", "Auxo", "oracle"}
    assert "Final mean accuracy 62.0 % 93.0 % 94.0 %" in words(page(run))


def test_accuracy_is_drawn_over_hours_with_band_partition_and_speedup(run: RunDirectory) -> None:
    chart = accuracy_over_time(gather(finished(run)))
    assert chart is not None
    auxo = next(line for line in chart.lines if line.name == "Auxo")
    assert auxo.x.tolist() == [1.0, 4.0]
    (band,) = chart.bands
    assert (band.low.tolist(), band.high.tolist()) == ([0.4, 0.9], [0.4, 0.96])
    assert [mark.x for mark in chart.marks] == [2.0]
    (span,) = chart.spans
    assert span.text == "3.4\N{MULTIPLICATION SIGN} sooner"
    assert span.x1 == 8.0


def test_accuracy_is_drawn_over_participations_with_partitions_where_they_fell(run: RunDirectory) -> None:
    chart = accuracy_over_work(gather(finished(run)))
    assert chart is not None
    assert [mark.x for mark in chart.marks] == [200.0]
    assert next(line for line in chart.lines if line.name == "Auxo").x.tolist() == [100.0, 400.0]


def test_speedup_not_worth_the_word_is_not_drawn(run: RunDirectory) -> None:
    chart = accuracy_over_time(gather(finished(run, speedup=1.01)))
    assert chart is not None
    assert chart.spans == ()


def test_tree_has_partition_rounds_and_what_became_of_the_leaves(run: RunDirectory) -> None:
    (root,) = cohort_tree(gather(finished(run)).methods["auxo"])
    assert (root.cohort, root.partition_round) == ("0", 2)
    left, right = root.leaves()
    assert (left.cohort, left.clients, left.accuracy) == ("0.0", 2, 0.9)
    assert left.groups == {0: 2, 1: 1}
    assert right.groups == {1: 1}


def test_leaf_without_clients_differs_from_one_not_evaluated(run: RunDirectory) -> None:
    without_clients = (*AUXO, evaluated(5, 500, 0.9, {"0.0": 0.9}))
    not_evaluated = Partitioned(5 * HOUR, "0.0", 5, ("0.0.0", "0.0.1"), (25, 25), 0.03)
    record(run, auxo=(*without_clients, not_evaluated))
    (root,) = cohort_tree(gather(run).methods["auxo"])
    assert {leaf.cohort: leaf.clients for leaf in root.leaves()} == {"0.0.0": None, "0.0.1": None, "0.1": 0}


def test_client_curve_is_sorted_and_leaves_out_clients_without_tests(run: RunDirectory) -> None:
    finished(run)
    untested = ClientScores(np.array([0.9, 0.0, 0.3]), np.array([5, 0, 5]), np.array(["0"] * 3))
    run.write_clients("base", untested)
    chart = client_curve(gather(run))
    assert chart is not None
    assert [line.y.tolist() for line in chart.lines] == [[0.3, 0.9], [0.7, 0.8, 0.9, 0.9]]


def test_clients_served_better_and_worse_are_counted(run: RunDirectory) -> None:
    assert better_and_worse(gather(finished(run))) == (2, 1, 1)


def test_clients_that_cannot_be_paired_are_not_counted(run: RunDirectory) -> None:
    finished(run).write_clients("base", scores([0.5], ["0"]))
    assert better_and_worse(gather(run)) is None


def test_criterion_shows_gain_need_and_partition(run: RunDirectory) -> None:
    chart = criterion_chart(gather(finished(run)).methods["auxo"])
    assert chart is not None
    gains = {line.name: line.y.tolist() for line in chart.lines if not line.is_dashed}
    assert gains == {"gain of 0": [0.03], "gain of 0.0": [0.001], "gain of 0.1": [0.002]}
    (needed,) = [line for line in chart.lines if line.is_dashed]
    assert needed.y.tolist() == [0.02, 0.02, 0.02]
    assert [mark.x for mark in chart.marks] == [2.0]


def test_needs_that_differ_between_cohorts_are_drawn_apart(run: RunDirectory) -> None:
    record(run, auxo=(*AUXO, closed(4, "0.0", 4, gain=0.0, needed=0.05), closed(4, "0.1", 4, gain=0.0, needed=0.01)))
    chart = criterion_chart(gather(run).methods["auxo"])
    assert chart is not None
    assert {line.name for line in chart.lines if line.is_dashed} == {f"gain {c} needed" for c in ("0", "0.0", "0.1")}


def test_tenth_child_comes_after_the_ninth(run: RunDirectory) -> None:
    record(run, auxo=tuple(closed(1, f"0.{child}", 1) for child in (10, 9, 1)))
    chart = heterogeneity_chart(gather(run).methods["auxo"])
    assert chart is not None
    assert [line.label for line in chart.lines] == ["0.1", "0.9", "0.10"]


def test_rounds_are_added_up_for_each_cohort(run: RunDirectory) -> None:
    seen = words(page(finished(run)))
    assert "Auxo 0 2 200 24 10 2 6 0 1 15 min" in seen
    assert "0.1 1 100 12 5 1 3 0 0 15 min" in seen
    assert "No update was rejected and no round was empty" in seen


def test_rejections_and_empty_rounds_are_counted_by_reason(run: RunDirectory) -> None:
    rejections = tuple(UpdateRejected(HOUR, "0", 1, client, "not finite") for client in ("a", "b", "a"))
    seen = words(page(record(finished(run), auxo=(*rejections, EmptyRound(HOUR, "0", 2, "nobody on line")))))
    assert "Auxo update rejected (2 clients) not finite 3" in seen
    assert "Auxo empty round nobody on line 1" in seen


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
    assert headline(gather(run)) == "No evaluation was recorded, so there is nothing to compare."


def test_half_written_last_event_is_mentioned(run: RunDirectory) -> None:
    path = record(run, base=BASE, auxo=AUXO).path / "auxo" / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert "last event of Auxo was only half written" in words(page(run))


def test_speedups_of_an_unfinished_run_come_from_its_evaluations(run: RunDirectory) -> None:
    facts = gather(record(run, base=BASE, auxo=AUXO))
    assert facts.speedup == pytest.approx(8 / (1 + 3 * 22 / 53))
    # The 18 participations that were wasted were spent, too.
    assert facts.resource_speedup == pytest.approx(218 / (118 + 300 * 22 / 53))
