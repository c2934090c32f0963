"""Several seeds together: paired differences and their intervals, for any methods."""

from dataclasses import fields, replace
from typing import Any

import pytest

from auxo.core.metric import ACCURACY
from auxo.experiments.comparison import Comparison, compare, interval, mean_between, mean_speedup, measures
from auxo.experiments.summary import Between, MethodSummary, Summary
from tests.experiments.made_summaries import brought, made_method, made_summary


def summary(seed: int, base: float, auxo: float, **changes: Any) -> Summary:
    return made_summary(seed, base=made_method(base), auxo=made_method(auxo, **changes))


def paired() -> Comparison:
    """Seeds differ by far more than the methods do."""
    return compare([summary(0, 0.50, 0.52), summary(1, 0.70, 0.721), summary(2, 0.90, 0.919)])


def test_interval_is_that_of_student() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.half_width is not None
    assert (found.mean, round(found.half_width, 3)) == (2.0, 2.484)
    assert interval([5.0]).half_width is None


def test_every_measure_is_a_field_of_a_methods_summary() -> None:
    assert {measure.key for measure in measures(ACCURACY)} <= {field.name for field in fields(MethodSummary)}


def test_differences_are_paired_by_seed_so_that_what_seeds_share_does_not_count() -> None:
    difference = paired().accuracy.differences["auxo"]
    assert difference.mean == pytest.approx(2.0)
    assert difference.half_width is not None
    assert difference.half_width < 0.3  # of unpaired differences it would be beyond 40
    assert difference.is_beyond_chance
    assert difference.mean > 0


def test_every_other_method_is_held_against_the_base() -> None:
    runs = [
        made_summary(
            seed,
            late=made_method(0.3 + seed / 10, cohorts=3 + seed, against_base=brought(0.5)),
            base=made_method(0.5),
            oracle=made_method(0.9, cohorts=2),
        )
        for seed in range(2)
    ]
    found = compare(runs)
    assert found.methods == tuple(found.accuracy.means) == ("late", "base", "oracle")
    assert found.accuracy.means["late"] == pytest.approx(35.0)
    assert {method: one.mean for method, one in found.accuracy.differences.items()} == pytest.approx(
        {"late": -15.0, "oracle": 40.0}
    )
    assert list(found.by_seed) == ["late", "oracle"]
    assert found.by_seed["late"].cohorts == (3, 4)
    assert found.by_seed["late"].speedups == (0.5, 0.5)
    assert found.by_seed["oracle"].speedups == (None, None)


def test_without_a_base_there_are_means_and_no_differences() -> None:
    found = compare([made_summary(0, auxo=made_method(0.5), other=made_method(0.6))])
    assert found.accuracy.means == {"auxo": 50.0, "other": 60.0}
    assert found.accuracy.differences == {}


def test_speed_up_is_a_geometric_mean_and_unknown_if_a_seed_never_came_there() -> None:
    assert mean_speedup([1.0, 4.0]) == pytest.approx(2.0)
    assert mean_speedup([1.0, None]) is None
    assert mean_speedup([]) is None


def test_the_mean_speed_up_lies_between_the_means_of_what_each_seed_leaves_open() -> None:
    for one, other, mean in (
        (Between(1.0, 4.0), Between(4.0, 16.0), Between(2.0, 8.0)),
        (Between(1.0, 4.0), Between(4.0, None), Between(2.0, None)),
        (Between(0.0, 4.0), Between(4.0, 4.0), Between(0.0, 4.0)),
    ):
        found = mean_between([one, other])
        assert found is not None
        assert (found.low, found.high) == pytest.approx((mean.low, mean.high))
    assert mean_between([Between(0.0, 4.0), None]) is None
    assert mean_between([]) is None


def test_a_measure_that_nobody_took_has_no_row_and_one_that_a_method_lacks_no_place_for_it() -> None:
    assert "perplexity" not in {row.measure.key for row in paired().rows}
    run = summary(0, 0.5, 0.6)
    measured = {**run.methods, "base": replace(run.methods["base"], perplexity=7.0)}
    (row,) = [row for row in compare([replace(run, methods=measured)]).rows if row.measure.key == "perplexity"]
    assert (row.means, row.differences) == ({"base": 7.0}, {})


def test_seeds_with_other_methods_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected base, auxo of every seed, as of seed 0, got base of seed 1; run"):
        compare([summary(0, 0.5, 0.6), summary(1, 0.5, 0.6, is_finished=False)])
    with pytest.raises(ValueError, match="at least one"):
        compare([])
