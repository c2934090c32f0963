"""Availability: shares come out as set, sessions are consistent with who is on line, and the clock can go on."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.types import BoolArray, IntArray
from auxo.simulation.availability import DAY_S, AlwaysOnline, Availability, DayNightPattern
from auxo.traces.availability import draw_availability
from auxo.traces.trace import Sessions

# One is on line twice a day and over midnight, one never, one always; their spans differ.
TRACE = Sessions(
    devices=("busy", "broken", "plugged in"),
    span_s=np.array([2 * DAY_S, DAY_S, 3 * DAY_S + 7]),
    offsets=np.array([0, 4, 4, 5]),
    start_s=np.array([0, 40_000, DAY_S - 600, 2 * DAY_S - 50, 0]),
    end_s=np.array([500, 40_061, DAY_S + 7200, 2 * DAY_S, 3 * DAY_S + 7]),
)
POPULATIONS: dict[str, Callable[[int], Availability]] = {
    "always on line": AlwaysOnline,
    "day and night": lambda n_clients: DayNightPattern(share=0.3).draw(n_clients, seed=5),
    "day and night without randomness of clients": lambda n_clients: DayNightPattern(
        share=0.3, night_to_day=1, night_spread_s=0, propensity_sigma=0
    ).draw(n_clients, seed=5),
    "short slots, always from the stretch": lambda n_clients: DayNightPattern(
        share=0.7, slot_s=7, persistence=1, shortest_stretch_s=7
    ).draw(n_clients, seed=5),
    "share 1": lambda n_clients: DayNightPattern(share=1).draw(n_clients, seed=5),
    "a trace of three devices": lambda n_clients: draw_availability(TRACE, n_clients, seed=5),
}
every_population = pytest.mark.parametrize("make", POPULATIONS.values(), ids=POPULATIONS.keys())
times_s = st.floats(0, 400 * DAY_S)


def week(pattern: DayNightPattern, n_clients: int, seed: int) -> BoolArray:
    """Return who is on line at every ten minutes of a week: (times, clients)."""
    availability = pattern.draw(n_clients, seed)
    return np.array([availability.online(time_s) for time_s in range(0, 7 * DAY_S, 600)])


@every_population
@given(time_s=times_s)
@settings(deadline=None, max_examples=20)
def test_a_client_stays_on_line_until_its_session_ends(make: Callable[[int], Availability], time_s: float) -> None:
    availability = make(40)
    rows: IntArray = np.flatnonzero(availability.online(time_s))
    until_s = availability.online_until_s(time_s, rows)
    assert (until_s > time_s).all()
    inside_s = time_s + np.linspace(0, 1, 9, endpoint=False) * (np.minimum(until_s, time_s + DAY_S)[:, None] - time_s)
    for row, moments_s in zip(rows, inside_s, strict=True):
        assert all(availability.online(moment_s)[row] for moment_s in moments_s)


@every_population
@given(time_s=times_s)
@settings(deadline=None, max_examples=20)
def test_a_client_off_line_has_no_session_left(make: Callable[[int], Availability], time_s: float) -> None:
    availability = make(40)
    rows: IntArray = np.flatnonzero(~availability.online(time_s))
    np.testing.assert_array_equal(availability.online_until_s(time_s, rows), time_s)


@every_population
@given(time_s=times_s)
@settings(deadline=None, max_examples=20)
def test_nobody_comes_on_line_before_the_next_change(make: Callable[[int], Availability], time_s: float) -> None:
    availability = make(3)
    next_s = availability.next_change_s(time_s)
    assert next_s > time_s
    last_s = min(next_s, time_s + DAY_S)
    moments = [availability.online(moment_s) for moment_s in np.linspace(time_s, last_s, 60, endpoint=False)]
    for earlier, later in itertools.pairwise(moments):
        assert not (later & ~earlier).any()


@every_population
def test_asking_twice_gives_the_same_answer(make: Callable[[int], Availability]) -> None:
    np.testing.assert_array_equal(make(50).online(12345.6), make(50).online(12345.6))


@every_population
@pytest.mark.parametrize("time_s", [-1.0, math.inf, math.nan])
def test_a_time_that_is_none_is_refused(make: Callable[[int], Availability], time_s: float) -> None:
    with pytest.raises(ValueError, match="time_s: expected seconds since the start"):
        make(3).online(time_s)


@every_population
def test_an_empty_population_is_refused(make: Callable[[int], Availability]) -> None:
    with pytest.raises(ValueError, match="n_clients: expected at least 1, got 0"):
        make(0)


@pytest.mark.parametrize("make", [AlwaysOnline, POPULATIONS["share 1"]])
def test_a_population_that_is_always_on_line_never_changes(make: Callable[[int], Availability]) -> None:
    availability = make(20)
    assert availability.online(777.0).all()
    assert (availability.online_until_s(777.0, np.arange(20)) == math.inf).all()
    assert availability.next_change_s(777.0) == math.inf


def test_a_session_ends_when_it_is_said_to_end() -> None:
    availability = DayNightPattern(share=0.2).draw(300, seed=2)
    rows: IntArray = np.flatnonzero(availability.online(5000.5))
    until_s = availability.online_until_s(5000.5, rows)
    seen_to_end = until_s < 5000 + 40 * 600
    assert seen_to_end.sum() > 20
    for row, end_s in zip(rows[seen_to_end], until_s[seen_to_end], strict=True):
        assert not availability.online(end_s)[row]


def test_when_the_next_client_comes_somebody_new_is_on_line() -> None:
    availability = DayNightPattern(share=0.05).draw(20, seed=2)
    time_s = 0.0
    for _ in range(30):
        next_s = availability.next_change_s(time_s)
        assert (availability.online(next_s) & ~availability.online(np.nextafter(next_s, 0))).any()
        time_s = next_s


def test_the_clock_goes_on_by_a_day_when_nobody_comes() -> None:
    availability = DayNightPattern(share=1e-9).draw(2, seed=2)
    assert availability.next_change_s(100.25) == 100.25 + DAY_S


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3, 0.7, 0.95])
def test_the_mean_share_on_line_is_the_share_set(share: float) -> None:
    assert week(DayNightPattern(share=share), 3000, seed=4).mean() == pytest.approx(share, rel=0.04)


@pytest.mark.parametrize("n_clients", [10, 1001, 2500])
def test_calibration_holds_for_populations_of_any_size(n_clients: int) -> None:
    availability = DayNightPattern(share=0.4, propensity_sigma=2).draw(n_clients, seed=4)
    probabilities = np.minimum(1, availability.habits.rates[:, None] * availability.pattern)
    assert probabilities.mean() == pytest.approx(0.4, rel=0.005)


def test_more_clients_are_on_line_at_night_by_the_ratio_set() -> None:
    pattern = DayNightPattern(share=0.05, night_to_day=3, night_centre_s=3 * 3600, night_spread_s=0)
    hourly = week(pattern, 10_000, seed=4).mean(axis=1).reshape(7, 24, 6).mean(axis=(0, 2))
    assert hourly[2:4].mean() / hourly[14:16].mean() == pytest.approx(3, rel=0.15)
    assert abs(int(hourly.argmax()) - 3) <= 2


def test_spread_over_nights_flattens_the_population() -> None:
    together, apart = (
        week(DayNightPattern(share=0.1, night_spread_s=spread_s), 5_000, seed=4).mean(axis=1).std()
        for spread_s in (0.0, 6 * 3600.0)
    )
    assert apart < 0.6 * together


def test_propensities_make_some_clients_far_more_available_than_others() -> None:
    equal, unequal = (
        np.quantile(week(DayNightPattern(share=0.1, propensity_sigma=sigma), 2_000, seed=4).mean(axis=0), [0.5, 0.95])
        for sigma in (0.0, 1.0)
    )
    assert unequal[1] > 4 * unequal[0]
    assert equal[1] < 2 * equal[0]


def test_persistence_makes_sessions_longer_at_the_same_share() -> None:
    sessions_of = {}
    for persistence in (0.0, 0.9):
        online = week(DayNightPattern(share=0.1, persistence=persistence), 2_000, seed=4)
        assert online.mean() == pytest.approx(0.1, rel=0.05)
        sessions_of[persistence] = np.count_nonzero(online[1:] & ~online[:-1])
    assert sessions_of[0.9] < 0.5 * sessions_of[0.0]


def test_sessions_last_from_minutes_to_hours() -> None:
    availability = DayNightPattern().draw(20_000, seed=4)
    rows: IntArray = np.flatnonzero(availability.online(7200.0))
    left_s = availability.online_until_s(7200.0, rows) - 7200.0
    shortest, longest = np.quantile(left_s, [0.05, 0.95])
    assert shortest < 600
    assert longest > 2 * 3600


def test_clients_are_independent_of_each_other() -> None:
    pattern = DayNightPattern(share=0.3, propensity_sigma=0, night_to_day=1)
    online = week(pattern, 400, seed=4)[::48].astype(float)  # every 8 hours: no stretch is longer
    correlations = np.corrcoef(online, rowvar=False)[np.triu_indices(400, k=1)]
    assert abs(correlations.mean()) < 0.01
    assert correlations.std() == pytest.approx(1 / math.sqrt(len(online) - 1), rel=0.1)


def test_clients_do_not_all_change_at_once() -> None:
    availability = DayNightPattern(share=0.5).draw(5_000, seed=4)
    changes = [
        np.count_nonzero(availability.online(time_s) != availability.online(time_s + 60))
        for time_s in range(0, 600, 60)
    ]
    assert min(changes) > 0.5 * max(changes) > 0


def test_seeds_give_different_populations() -> None:
    one, other = (DayNightPattern(share=0.5).draw(1000, seed).online(0.0) for seed in (1, 2))
    assert 300 < np.count_nonzero(one != other) < 700


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: DayNightPattern(share=0), "share"),
        (lambda: DayNightPattern(share=1.1), "share"),
        (lambda: DayNightPattern(night_to_day=0.5), "night_to_day"),
        (lambda: DayNightPattern(night_centre_s=DAY_S), "night_centre_s"),
        (lambda: DayNightPattern(night_spread_s=-1), "night_spread_s"),
        (lambda: DayNightPattern(propensity_sigma=math.nan), "propensity_sigma"),
        (lambda: DayNightPattern(slot_s=0), "slot_s"),
        (lambda: DayNightPattern(shortest_stretch_s=599), "shortest_stretch_s"),
        (lambda: DayNightPattern(longest_stretch_s=1000), "longest_stretch_s"),
        (lambda: DayNightPattern(persistence=1.01), "persistence"),
    ],
)
def test_impossible_settings_are_refused_by_name(make: Callable[[], DayNightPattern], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        make()
