from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.privacy.accounting import (
    Exponential,
    Gaussian,
    PrivacyBudget,
    Pure,
    RandomisedResponse,
    Release,
    amplified_epsilon,
    epsilon_of,
    least_noise,
    rho_for,
    rho_of,
    times_within,
)

DELTA = 1e-6
CLOSE = 1e-2


@pytest.mark.parametrize(
    ("epsilon", "times", "noise"),
    [(2, 1, 4.461), (4, 1, 2.387), (8, 1, 1.306), (2, 10, 14.107), (4, 10, 7.548), (8, 10, 4.130)],
)
def test_noise_in_clips_at_client_level(epsilon: float, times: int, noise: float) -> None:
    # Two clients' updates are up to two clips apart.
    found = least_noise(PrivacyBudget(epsilon, DELTA), lambda sigma: {Gaussian(sigma / 2): times})
    assert found == pytest.approx(noise, rel=CLOSE)
    assert times_within(PrivacyBudget(epsilon, DELTA), {Gaussian(found / 2): 1}) == times


@pytest.mark.parametrize(("rho", "epsilon"), [(0.1, 2.142), (0.5, 5.222), (1.0, 7.766)])
def test_concentrated_privacy_as_epsilon_and_back(rho: float, epsilon: float) -> None:
    assert rho_for(epsilon, DELTA) == pytest.approx(rho, rel=CLOSE)


def test_twenty_exponential_mechanisms() -> None:
    assert 20 * rho_of(Exponential(0.45)) == pytest.approx(0.5063, rel=CLOSE)
    assert epsilon_of({Exponential(0.45): 20}, 1e-4) == pytest.approx(4.206, rel=CLOSE)


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.994, 2), (0.766, 4), (0.603, 8)])
def test_figures_of_the_paper_are_amplified_ones(sigma: float, epsilon: float) -> None:
    # What it prints for epsilon 2, 4 and 8 is 1.0, .77 and .6.
    assert amplified_epsilon(sigma, 0.01, 500, DELTA) == pytest.approx(epsilon, rel=CLOSE)


@pytest.mark.parametrize(("sigma", "alone", "any_two"), [(1.0, 4.89, 11.0), (0.77, 6.60, 15.2), (0.6, 8.84, 20.8)])
def test_the_same_noise_before_a_server_that_sees_who_takes_part(sigma: float, alone: float, any_two: float) -> None:
    # One visit only: a client that is there or not, and any two data sets of it.
    assert epsilon_of({Gaussian(sigma): 1}, DELTA) == pytest.approx(alone, rel=CLOSE)
    assert epsilon_of({Gaussian(sigma / 2): 1}, DELTA) == pytest.approx(any_two, rel=CLOSE)


@pytest.mark.parametrize(("visits", "renyi"), [(5, (13.5, 18.6, 26.3)), (10, (21, 29, 40)), (50, (61, 89, 130))])
def test_what_is_exact_lies_a_little_below_what_renyi_divergences_tell(visits: int, renyi: tuple[float, ...]) -> None:
    for sigma, bound in zip((1.0, 0.77, 0.6), renyi, strict=True):
        assert 0.9 * bound < epsilon_of({Gaussian(sigma): visits}, DELTA) < bound


def test_one_pure_release_is_its_epsilon_and_nothing_costs_nothing() -> None:
    assert epsilon_of({RandomisedResponse(2.0, 4): 1}, DELTA) == pytest.approx(2.0, rel=CLOSE)
    assert epsilon_of({Pure(1.0): 2}, DELTA) == pytest.approx(2.0, rel=CLOSE)
    assert epsilon_of({}, DELTA) == epsilon_of({Pure(1.0): 0}, DELTA) == 0


def test_where_no_noise_helps_there_is_none() -> None:
    assert least_noise(PrivacyBudget(1.0, DELTA), lambda noise: {Gaussian(noise): 1, Pure(3.0): 1}) == inf
    assert times_within(PrivacyBudget(1.0, DELTA), {Pure(3.0): 1}) == 0


releases = st.one_of(
    st.floats(0.5, 50).map(Gaussian),
    st.builds(RandomisedResponse, st.floats(0.05, 5), st.integers(2, 9)),
    st.floats(0.05, 5).map(Exponential),
    st.floats(0.05, 5).map(Pure),
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(releases, st.integers(1, 20), min_size=1, max_size=3), releases)
def test_more_releases_never_cost_less(some: dict[Release, int], another: Release) -> None:
    more = {**some, another: some.get(another, 0) + 1}
    assert epsilon_of(some, DELTA) > 0
    # A mixture is told by a bound, which may lie a little above what is exact for a part of it, never below.
    assert epsilon_of(more, DELTA) >= epsilon_of(some, DELTA) * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.3, 20), st.integers(1, 50))
def test_noise_for_a_budget_keeps_it_and_no_more(epsilon: float, times: int) -> None:
    budget = PrivacyBudget(epsilon, DELTA)
    noise = least_noise(budget, lambda sigma: {Gaussian(sigma): times})
    assert budget.holds({Gaussian(noise): times})
    assert not budget.holds({Gaussian(noise * 0.99): times})


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, DELTA), (-1.0, DELTA), (inf, DELTA), (1.0, 0.0), (1.0, 1.0)])
def test_a_budget_that_cannot_be_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="expected a"):
        PrivacyBudget(epsilon, delta)
