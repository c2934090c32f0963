"""Several seeds together: paired differences, intervals, and what is said about them."""

import math

import pytest

from auxo.experiments.comparison import Comparison, compare, interval, mean_speedup
from auxo.reporting.comparison_tables import findings, markdown_row, signed, verdict


def scores(accuracy: float, **others: float) -> dict[str, object]:
    return {
        "final_accuracy": accuracy,
        "worst_10": accuracy - 0.2,
        "best_10": min(1.0, accuracy + 0.1),
        "variance": 100.0,
        "variance_beyond_binomial": 60.0,
        "perplexity": None,
        **others,
    }


def summary(seed: int, base: float, auxo: float, **others: object) -> dict[str, object]:
    return {"population": "toy", "seed": seed, "base": scores(base), "auxo": scores(auxo), "oracle": None, **others}


def paired() -> Comparison:
    """Seeds differ by far more than the methods do."""
    return compare([summary(0, 0.50, 0.52), summary(1, 0.70, 0.721), summary(2, 0.90, 0.919)])


def test_interval_is_that_of_student() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.half_width is not None
    assert (found.mean, round(found.half_width, 3)) == (2.0, 2.484)
    assert interval([5.0]).half_width is None


def test_differences_are_paired_by_seed_so_that_what_seeds_share_does_not_count() -> None:
    difference = paired().accuracy.difference
    assert difference.mean == pytest.approx(2.0)
    assert difference.half_width is not None
    assert difference.half_width < 0.3  # of unpaired differences it would be beyond 40
    assert difference.is_above_zero
    assert not difference.is_below_zero


@pytest.mark.parametrize(
    ("auxo", "words"),
    [([0.6, 0.6, 0.61], "better"), ([0.4, 0.41, 0.4], "worse"), ([0.51, 0.49, 0.5], "do not differ")],
)
def test_verdict_says_what_the_interval_says(auxo: list[float], words: str) -> None:
    assert words in verdict(compare([summary(seed, 0.5, accuracy) for seed, accuracy in enumerate(auxo)]))


def test_one_seed_gives_no_verdict() -> None:
    assert "one seed" in verdict(compare([summary(0, 0.5, 0.9)]))


def test_speed_up_is_a_geometric_mean_and_unknown_if_a_seed_never_came_there() -> None:
    assert mean_speedup([1.0, 4.0]) == pytest.approx(2.0)
    assert mean_speedup([1.0, None]) is None
    assert mean_speedup([]) is None
    told = findings(compare([summary(0, 0.5, 0.4, speedup=None), summary(1, 0.5, 0.6, speedup=2.0)]))
    assert "in time: never" in told[0]


def test_perplexity_is_the_main_figure_where_it_was_measured_and_left_out_where_not() -> None:
    plain = paired()
    assert "perplexity" not in {row.measure.key for row in plain.rows}
    text = [summary(seed, 0.5, 0.5) for seed in range(2)]
    for seed, one in enumerate(text):
        one["base"], one["auxo"] = scores(0.5, perplexity=7.0 + seed), scores(0.5, perplexity=6.5 + seed)
    row = markdown_row(compare(text))
    assert row[:3] == ("7.500", "7.000", "\N{MINUS SIGN}0.500 ± 0.000")


def test_a_summary_without_a_method_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the base and Auxo in each"):
        compare([summary(0, 0.5, 0.6), {**summary(1, 0.5, 0.6), "auxo": None}])
    with pytest.raises(ValueError, match="at least one"):
        compare([])


def test_signs_are_written_out() -> None:
    assert signed(interval([math.pi]), 2) == "+3.14"
    assert signed(interval([-1.0, -1.0]), 1) == "\N{MINUS SIGN}1.0 ± 0.0"
