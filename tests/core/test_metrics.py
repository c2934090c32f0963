import numpy as np
import pytest

from auxo.core.metrics import agreement, first_reach, oracle_gain_share, spread
from auxo.core.rng import stream

# Spread.


def test_every_client_counts_the_same() -> None:
    found = spread(np.array([10, 0]), np.array([10, 1000]))

    assert found.accuracy == pytest.approx(0.5)


def test_the_worst_and_the_best_tenth_are_means_over_clients() -> None:
    correct = np.arange(20)
    found = spread(stream(0, "order").permutation(correct), np.full(20, 20))

    assert found.worst_10 == pytest.approx((0 + 1) / 2 / 20)
    assert found.best_10 == pytest.approx((18 + 19) / 2 / 20)


def test_of_a_few_clients_one_is_the_worst_and_one_the_best() -> None:
    found = spread(np.array([1, 2, 4]), np.array([4, 4, 4]))

    assert (found.worst_10, found.best_10) == (0.25, 1.0)


def test_variance_is_that_of_accuracies_in_per_cent() -> None:
    found = spread(np.array([4, 6]), np.array([10, 10]))

    assert found.variance == pytest.approx(100.0)


def test_clients_without_test_samples_are_left_out() -> None:
    correct, tests = np.array([3, 0, 5, 0]), np.array([4, 0, 10, 0])

    assert spread(correct, tests) == spread(correct[[0, 2]], tests[[0, 2]])


def test_a_population_without_test_samples_cannot_be_scored() -> None:
    with pytest.raises(ValueError, match="at least one client with test samples"):
        spread(np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64))


def test_clients_with_the_same_chance_have_no_variance_beyond_what_small_test_sets_explain() -> None:
    rng = stream(0, "alike")
    tests = rng.integers(2, 40, 20_000)
    found = spread(rng.binomial(tests, 0.7), tests)

    assert found.variance > 100
    assert abs(found.variance_beyond_binomial) < 0.03 * found.variance


def test_variance_between_clients_with_different_chances_is_found_again() -> None:
    rng = stream(0, "different")
    chances = rng.choice([0.6, 0.8], 20_000)
    tests = rng.integers(2, 40, 20_000)
    found = spread(rng.binomial(tests, chances), tests)

    assert found.variance_beyond_binomial == pytest.approx(100.0, rel=0.1)


def test_the_part_that_chance_explains_is_taken_off_by_hand() -> None:
    found = spread(np.array([1, 3, 1]), np.array([4, 4, 1]))
    accuracy = np.array([0.25, 0.75, 1.0])

    assert found.variance == pytest.approx(1e4 * accuracy.var())
    assert found.variance - found.variance_beyond_binomial == pytest.approx(1e4 * (0.1875 / 3 + 0.1875 / 3) / 3)


# Agreement with known groups.


def test_cohorts_that_are_the_groups_under_other_numbers_agree_fully() -> None:
    assert agreement(np.array([5, 5, 2, 2, 9]), np.array([0, 0, 1, 1, 2])) == 1.0


def test_one_cohort_or_random_cohorts_agree_with_nothing() -> None:
    rng = stream(0, "groups")
    groups = rng.integers(0, 4, 4000)

    assert agreement(np.zeros(4000, dtype=np.int64), groups) == pytest.approx(0.0)
    assert agreement(rng.integers(0, 4, 4000), groups) == pytest.approx(0.0, abs=0.01)


# Time and resource to a target.


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (0.0, 0.0),  # reached before anything was measured
        (0.1, 0.0),  # on the first point
        (0.2, 5.0),  # half way between two points
        (0.3, 10.0),  # on a point
        (0.5, 25.0),  # beyond a dip
        (0.7, 30.0),  # on the last point
        (0.71, None),  # never
    ],
)
def test_a_target_is_reached_between_two_points_linearly(target: float, expected: float | None) -> None:
    reached = first_reach([0.0, 10.0, 20.0, 30.0], [0.1, 0.3, 0.3, 0.7], target)

    assert reached == (None if expected is None else pytest.approx(expected))


def test_the_first_of_several_times_counts() -> None:
    assert first_reach([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 0.0, 1.0], 0.5) == pytest.approx(0.5)


def test_nothing_measured_is_nothing_reached() -> None:
    assert first_reach([], [], 0.5) is None


@pytest.mark.parametrize(
    ("base", "auxo", "oracle", "expected"),
    [(0.5, 0.7, 0.9, 0.5), (0.5, 0.5, 0.9, 0.0), (0.5, 0.4, 0.6, -1.0), (0.5, 0.6, 0.5, None), (0.5, 0.6, 0.4, None)],
)
def test_the_share_of_the_oracles_gain(base: float, auxo: float, oracle: float, expected: float | None) -> None:
    assert oracle_gain_share(base, auxo, oracle) == (None if expected is None else pytest.approx(expected))
