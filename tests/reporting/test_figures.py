"""The report's charts: what is drawn of a run's facts."""

from dataclasses import replace

import numpy as np

from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.reporting.facts import gather_facts
from auxo.reporting.figures import (
    accuracy_over_time,
    accuracy_over_work,
    better_and_worse,
    client_curve,
    gain_chart,
    heterogeneity_chart,
)
from tests.experiments.made_summaries import brought, made_method
from tests.reporting.made_runs import AUXO, AUXO_END, BASE, closed, finished, record, scores, several


def test_accuracy_is_drawn_over_hours_with_band_partition_and_speedup(run: RunDirectory) -> None:
    chart = accuracy_over_time(gather_facts(finished(run)))
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
    chart = accuracy_over_work(gather_facts(finished(run)))
    assert chart is not None
    assert [mark.x for mark in chart.marks] == [200.0]
    assert next(line for line in chart.lines if line.name == "Auxo").x.tolist() == [100.0, 400.0]


def test_speedup_not_worth_the_word_is_not_drawn(run: RunDirectory) -> None:
    chart = accuracy_over_time(gather_facts(finished(run, auxo=replace(AUXO_END, against_base=brought(1.01)))))
    assert chart is not None
    assert chart.spans == ()


def test_client_curve_is_sorted_and_leaves_out_clients_without_tests(run: RunDirectory) -> None:
    finished(run)
    untested = ClientScores(np.array([0.9, 0.0, 0.3]), np.array([5, 0, 5]), np.array(["0"] * 3))
    run.write_clients("base", untested)
    chart = client_curve(gather_facts(run))
    assert chart is not None
    assert [line.y.tolist() for line in chart.lines] == [[0.3, 0.9], [0.7, 0.8, 0.9, 0.9]]


def test_clients_served_better_and_worse_are_counted(run: RunDirectory) -> None:
    methods = gather_facts(finished(run)).methods
    assert better_and_worse(methods["base"], methods["auxo"]) == (2, 1, 1)


def test_clients_that_cannot_be_paired_are_not_counted(run: RunDirectory) -> None:
    finished(run).write_clients("base", scores([0.5], ["0"]))
    methods = gather_facts(run).methods
    assert better_and_worse(methods["base"], methods["auxo"]) is None


def test_gains_are_shown_with_what_was_asked_for_and_partitions(run: RunDirectory) -> None:
    chart = gain_chart(gather_facts(finished(run)).methods["auxo"])
    assert chart is not None
    gains = {line.name: line.y.tolist() for line in chart.lines if not line.is_dashed}
    assert gains == {"gain of 0": [0.03], "gain of 0.0": [0.001], "gain of 0.1": [0.002]}
    (needed,) = [line for line in chart.lines if line.is_dashed]
    assert needed.y.tolist() == [0.02, 0.02, 0.02]
    assert [mark.x for mark in chart.marks] == [2.0]


def test_where_no_gain_is_asked_for_there_is_no_line_for_it(run: RunDirectory) -> None:
    record(run, auxo=(closed(1, "0", 1, needed=0.0), closed(2, "0", 2, gain=0.03, needed=0.0)))
    chart = gain_chart(gather_facts(run).methods["auxo"])
    assert chart is not None
    assert [line.name for line in chart.lines] == ["gain of 0"]
    assert "needed" not in chart.description


def test_needs_that_differ_between_cohorts_are_drawn_apart(run: RunDirectory) -> None:
    record(run, auxo=(*AUXO, closed(4, "0.0", 4, gain=0.0, needed=0.05), closed(4, "0.1", 4, gain=0.0, needed=0.01)))
    chart = gain_chart(gather_facts(run).methods["auxo"])
    assert chart is not None
    assert {line.name for line in chart.lines if line.is_dashed} == {f"gain {c} needed" for c in ("0", "0.0", "0.1")}


def test_tenth_child_comes_after_the_ninth(run: RunDirectory) -> None:
    record(run, auxo=tuple(closed(1, f"0.{child}", 1) for child in (10, 9, 1)))
    chart = heterogeneity_chart(gather_facts(run).methods["auxo"])
    assert chart is not None
    assert [line.label for line in chart.lines] == ["0.1", "0.9", "0.10"]


def test_oracle_has_a_dashed_line_when_it_ran(run: RunDirectory) -> None:
    record(run, oracle=BASE)
    chart = accuracy_over_time(gather_facts(finished(run, oracle=made_method(0.94))))
    assert chart is not None
    assert {line.name: line.is_dashed for line in chart.lines} == {"base": False, "Auxo": False, "oracle": True}


def test_every_method_has_a_line_in_a_colour_of_its_own(run: RunDirectory) -> None:
    facts = gather_facts(several(run))
    for chart in (accuracy_over_time(facts), accuracy_over_work(facts)):
        assert chart is not None
        assert {line.name: line.colour for line in chart.lines} == {
            "base": "base",
            "Auxo": "auxo",
            "fedavg-2": "m0",
            "grouped+": "m1",
            "oracle": "oracle",
        }
        assert chart.lines[-1].name == "Auxo"  # on top
        assert [band.colour for band in chart.bands] == ["auxo"]


def test_bands_partitions_and_speedup_are_those_of_the_only_contender(run: RunDirectory) -> None:
    record(run, **{"base": BASE, "grouped+": AUXO})
    chart = accuracy_over_time(gather_facts(run))
    assert chart is not None
    assert [band.colour for band in chart.bands] == ["m0"]
    assert [mark.x for mark in chart.marks] == [2.0]
    assert [span.text for span in chart.spans] == ["3.6\N{MULTIPLICATION SIGN} (0.2 to 8.0) sooner"]


def test_clients_of_every_method_but_the_oracle_are_drawn_with_labels_apart(run: RunDirectory) -> None:
    several(run).write_clients("oracle", scores([1.0] * 4, ["0"] * 4))
    chart = client_curve(gather_facts(run))
    assert chart is not None
    assert [line.name for line in chart.lines] == ["base", "Auxo", "grouped+"]
    assert {line.label_x for line in chart.lines} == {None}  # at their ends, where they are kept apart
