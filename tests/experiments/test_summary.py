"""The summary: where methods end, how much sooner they are as good as the base, and what an unfinished run tells."""

import math
from collections.abc import Mapping, Sequence

import pytest

from auxo.experiments.summary import Between, MethodSummary, best_accuracy, reach, speedup, speedup_between, summarise
from auxo.protocol.events import CohortEnded, CohortScore, Evaluated, Event, Partitioned


def evaluated(time_s: float, accuracy: float, ari: float | None = None, cohorts: tuple[str, ...] = ("0",)) -> Evaluated:
    scores = tuple(CohortScore(name, 10, accuracy) for name in cohorts)
    participations = int(time_s) // 2
    so_far = (time_s, time_s / 10, participations, 1, 5.0, 2.0, 2 * participations)
    return Evaluated(*so_far, accuracy, 0.1, 0.9, 30.0, 3.0, scores, ari, 4, accuracy - 0.1, ari, 7.5, 6.5)


BASE = [evaluated(10, 0.2), evaluated(20, 0.6), evaluated(30, 0.5)]
AUXO = [evaluated(10, 0.4, 0.0), evaluated(20, 0.8, 1.0)]
PARTITION = Partitioned(12.0, "0", 2, ("0.0", "0.1", "0.2"), (1, 1, 1), 0.3)


def method_ends(events: Mapping[str, Sequence[Event]], finished: list[str]) -> dict[str, MethodSummary]:
    return summarise("digits", 0, "finished", events, finished).methods


def test_speedup_is_to_the_best_accuracy_of_the_base() -> None:
    assert speedup(BASE, AUXO, lambda point: point.time_s) == pytest.approx(20 / 15)
    assert speedup(BASE, AUXO, lambda point: point.participations) == pytest.approx(10 / 7.5)


def test_there_is_no_speedup_to_what_is_never_reached() -> None:
    assert speedup(BASE, AUXO[:1], lambda point: point.time_s) is None
    assert speedup(BASE, [], lambda point: point.time_s) is None
    assert speedup([], AUXO, lambda point: point.time_s) is None


def test_a_mark_is_reached_between_two_evaluations() -> None:
    assert best_accuracy(BASE) == 0.6
    assert best_accuracy([]) is None
    assert reach(AUXO, 0.6, lambda point: point.time_s) == pytest.approx(15.0)
    assert reach(AUXO, 0.9, lambda point: point.time_s) is None


@pytest.mark.parametrize("every", [2, 5, 10, 25, 50])
def test_what_evaluations_that_are_apart_leave_open_has_the_speedup_in_it(every: int) -> None:
    rounds = range(1, 101)
    base = [evaluated(one, min(0.5, one / 160)) for one in rounds]  # at its best in round 80
    auxo = [evaluated(one, min(0.9, one / 26)) for one in rounds]  # as good in round 13
    true = speedup(base, auxo, lambda point: point.time_s)
    seen = [[point for point in curve if point.time_s % every == 0] for curve in (base, auxo)]
    between = speedup_between(seen[0], seen[1], lambda point: point.time_s)
    assert true == pytest.approx(80 / 13)
    assert between is not None
    assert between.low <= 80 / 13 <= (between.high or math.inf)
    assert (between.high is None) == (every > 13)


@pytest.mark.parametrize("every", [2, 5, 10])
def test_a_base_that_wavers_counts_at_the_least_from_when_it_came_to_its_plateau(every: int) -> None:
    wavers = [0.01 * math.sin(7 * one) for one in range(1, 101)]
    base = [evaluated(one, min(0.5, one / 40) + wavers[one - 1]) for one in range(1, 101)]  # there in round 20
    auxo = [evaluated(one, min(0.9, one / 20)) for one in range(1, 101)]
    seen = [[point for point in curve if point.time_s % every == 0] for curve in (base, auxo)]
    by_chance = reach(seen[0], max(point.accuracy for point in seen[0]), lambda point: point.time_s)
    between = speedup_between(seen[0], seen[1], lambda point: point.time_s)
    assert by_chance is not None
    assert by_chance > 30
    assert between is not None
    assert between.low <= 20 / 10 <= (between.high or math.inf)


def test_nothing_is_known_of_a_speedup_where_both_are_there_by_the_first_evaluation() -> None:
    at_once = [evaluated(10, 1.0), evaluated(20, 1.0)]
    flat = [evaluated(10, 0.49), evaluated(20, 0.49)]
    assert speedup(flat, at_once, lambda point: point.time_s) == 1.0
    assert speedup_between(flat, at_once, lambda point: point.time_s) == Between(0.0, None)
    assert speedup_between(flat, [], lambda point: point.time_s) is None
    assert speedup_between([], flat, lambda point: point.time_s) is None


def test_a_finished_run_tells_all() -> None:
    events: dict[str, list[Event]] = {
        "base": [*BASE],
        "auxo": [AUXO[0], PARTITION, AUXO[1]],
        "oracle": [evaluated(30, 0.9)],
    }
    summary = summarise("digits", 7, "finished", events, ["base", "auxo", "oracle"])
    assert (summary.population, summary.seed, summary.status) == ("digits", 7, "finished")
    assert list(summary.methods) == list(summary.finished) == ["base", "auxo", "oracle"]
    base, auxo = summary.methods["base"], summary.methods["auxo"]
    assert (base.final_accuracy, base.cohorts, base.against_base) == (0.5, 1, None)
    assert (auxo.cohorts, auxo.ari, auxo.lost, auxo.perplexity) == (3, 1.0, 4, 7.5)
    assert auxo.matched_accuracy == pytest.approx(0.7)
    assert auxo.matched_ari == 1.0
    assert auxo.brought.oracle_gain_share == pytest.approx(0.3 / 0.4)
    assert auxo.brought.speedup == pytest.approx(20 / 15)
    assert auxo.brought.speedup_between == Between(10 / 20, 20 / 10)  # the base's step of 0.1 is not its waver's
    assert auxo.brought.resource_speedup_between is not None
    assert auxo.brought.resource_speedup == pytest.approx(11 / 8.5)  # the one that was wasted was spent, too


def test_any_methods_are_summed_up_in_the_order_they_ran() -> None:
    events = {"late+1": AUXO, "base": BASE, "fedavg-2": AUXO[:1], "oracle": [evaluated(30, 0.9)]}
    methods = summarise("digits", 0, "finished", events, list(events)).methods
    assert list(methods) == ["late+1", "base", "fedavg-2", "oracle"]
    assert methods["late+1"].brought.speedup == pytest.approx(20 / 15)
    assert methods["late+1"].brought.oracle_gain_share == pytest.approx(0.3 / 0.4)
    assert methods["fedavg-2"].brought.speedup is None
    assert methods["fedavg-2"].brought.oracle_gain_share == pytest.approx(-0.1 / 0.4)
    assert methods["oracle"].brought.oracle_gain_share is None


def test_without_a_base_nothing_is_held_against_it() -> None:
    methods = method_ends({"auxo": AUXO, "oracle": AUXO}, ["auxo", "oracle"])
    assert [method.against_base for method in methods.values()] == [None, None]


def test_an_unfinished_method_says_so_and_what_it_has_found_is_told() -> None:
    summary = summarise("digits", 0, "interrupted", {"base": BASE, "auxo": AUXO}, ["base"])
    assert list(summary.finished) == ["base"]
    auxo = summary.methods["auxo"]
    assert not auxo.is_finished
    assert (auxo.cohorts, auxo.ari, auxo.final_accuracy) == (1, 1.0, 0.8)
    assert auxo.brought.speedup == pytest.approx(20 / 15)


def test_no_share_of_a_gain_is_told_before_all_three_have_finished() -> None:
    events = {"base": BASE, "auxo": AUXO, "oracle": [evaluated(30, 0.9)]}
    assert method_ends(events, ["base", "auxo"])["auxo"].brought.oracle_gain_share is None
    assert method_ends(events, ["base", "oracle"])["auxo"].brought.oracle_gain_share is None


def test_nothing_is_compared_with_an_unfinished_base() -> None:
    summary = summarise("digits", 0, "interrupted", {"base": BASE[:2], "auxo": AUXO}, ["auxo"])
    assert not summary.methods["base"].is_finished
    assert summary.methods["auxo"].against_base is None
    assert (summary.methods["auxo"].brought.speedup, summary.methods["auxo"].brought.resource_speedup) == (None, None)


def test_a_run_that_has_not_begun_tells_nothing() -> None:
    assert summarise("digits", 0, "interrupted", {"base": []}, []).methods == {}


def test_cohorts_without_clients_count_and_so_do_those_a_method_begins_with() -> None:
    found = method_ends({"auxo": [AUXO[0], PARTITION, evaluated(20, 0.8, None, ("0.1",))]}, ["auxo"])
    assert found["auxo"].cohorts == 3
    several = method_ends({"own": [evaluated(20, 0.8, None, ("a", "b"))]}, ["own"])
    assert several["own"].cohorts == 2


def test_of_cohorts_that_share_the_root_s_rounds_those_in_use_are_counted_and_called_so() -> None:
    events: list[Event] = [
        CohortEnded(5.0, "0", 1),
        evaluated(10, 0.4, None, ("0.0", "0.1", "0.3")),
        evaluated(20, 0.8, None, ("0.0", "0.3")),
    ]
    found = method_ends({"ifca": events}, ["ifca"])["ifca"]
    assert (found.cohorts, found.are_cohorts_in_use) == (2, True)
    assert not method_ends({"auxo": [AUXO[0], PARTITION, AUXO[1]]}, ["auxo"])["auxo"].are_cohorts_in_use
