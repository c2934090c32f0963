"""The summary: how much sooner Auxo is as good as the base, and what is said while a run is not finished."""

import pytest

from auxo.experiments.summary import speedup, summarise
from auxo.protocol.events import CohortScore, Evaluated, Event, Partitioned


def evaluated(time_s: float, accuracy: float, ari: float | None = None) -> Evaluated:
    whole = (CohortScore("0", 10, accuracy),)
    participations = int(time_s) // 2
    so_far = (time_s, time_s / 10, participations, 1, 5.0, 2.0)
    return Evaluated(*so_far, accuracy, 0.1, 0.9, 30.0, 3.0, whole, ari, 0, accuracy, ari, None)


BASE = [evaluated(10, 0.2), evaluated(20, 0.6), evaluated(30, 0.5)]
AUXO = [evaluated(10, 0.4, 0.0), evaluated(20, 0.8, 1.0)]


def test_speedup_is_to_the_best_accuracy_of_the_base() -> None:
    assert speedup(BASE, AUXO, lambda point: point.time_s) == pytest.approx(20 / 15)
    assert speedup(BASE, AUXO, lambda point: point.participations) == pytest.approx(10 / 7.5)


def test_there_is_no_speedup_to_what_is_never_reached() -> None:
    assert speedup(BASE, AUXO[:1], lambda point: point.time_s) is None
    assert speedup(BASE, [], lambda point: point.time_s) is None
    assert speedup([], AUXO, lambda point: point.time_s) is None


def test_a_finished_run_tells_all() -> None:
    partition = Partitioned(12.0, "0", 2, ("0.0", "0.1", "0.2"), (1, 1, 1), 0.3)
    events: dict[str, list[Event]] = {
        "base": [*BASE],
        "auxo": [AUXO[0], partition, AUXO[1]],
        "oracle": [evaluated(30, 0.9)],
    }
    summary = summarise("digits", 7, "finished", events, ["base", "auxo", "oracle"])
    assert (summary.population, summary.seed, summary.status) == ("digits", 7, "finished")
    assert summary.base is not None
    assert summary.base.final_accuracy == 0.5
    assert (summary.cohorts, summary.ari) == (3, 1.0)
    assert summary.oracle_gain_share == pytest.approx(0.3 / 0.4)
    assert summary.speedup == pytest.approx(20 / 15)


def test_an_unfinished_method_has_no_result_but_what_it_has_found_is_told() -> None:
    summary = summarise("digits", 0, "interrupted", {"base": BASE, "auxo": AUXO}, ["base"])
    assert (summary.auxo, summary.oracle, summary.oracle_gain_share) == (None, None, None)
    assert (summary.cohorts, summary.ari) == (1, 1.0)
    assert summary.speedup == pytest.approx(20 / 15)


def test_nothing_is_compared_with_an_unfinished_base() -> None:
    summary = summarise("digits", 0, "interrupted", {"base": BASE[:2], "auxo": AUXO}, ["auxo"])
    assert (summary.base, summary.speedup, summary.resource_speedup) == (None, None, None)


def test_a_run_that_has_not_begun_tells_nothing() -> None:
    summary = summarise("digits", 0, "interrupted", {"base": []}, [])
    assert (summary.base, summary.cohorts, summary.ari, summary.speedup) == (None, None, None, None)
