"""Sessions of a trace as an availability: exact against a look at every interval, whatever was asked before."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.simulation.availability import DAY_S, Availability
from auxo.traces.availability import TraceAvailability, draw_availability
from auxo.traces.trace import Sessions, check_traced

Device = tuple[int, list[tuple[int, int]]]  # span and intervals


def sessions_of(devices: list[Device]) -> Sessions:
    counts = [len(intervals) for _, intervals in devices]
    flat = np.array([interval for _, intervals in devices for interval in intervals], dtype=np.int64).reshape(-1, 2)
    return Sessions(
        devices=tuple(f"phone-{row}" for row in range(len(devices))),
        span_s=np.array([span for span, _ in devices], dtype=np.int64),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        start_s=flat[:, 0],
        end_s=flat[:, 1],
    )


@st.composite
def devices(draw: st.DrawFn) -> Device:
    """Return a device of a few seconds, with intervals that may touch each other and both ends of the span."""
    span = draw(st.integers(1, 12))
    states = draw(st.lists(st.booleans(), min_size=span, max_size=span))
    cuts = draw(st.lists(st.booleans(), min_size=span, max_size=span))  # where an interval ends although it goes on
    intervals: list[tuple[int, int]] = []
    for second in range(span):
        if states[second]:
            if intervals and intervals[-1][1] == second and not cuts[second]:
                intervals[-1] = (intervals[-1][0], second + 1)
            else:
                intervals.append((second, second + 1))
    return span, intervals


populations = st.lists(devices(), min_size=1, max_size=5)
times_s = st.lists(st.floats(0, 40) | st.integers(0, 40).map(float), min_size=1, max_size=6)


def is_online(device: Device, shift_s: int, second: int) -> bool:
    span, intervals = device
    into = (second + shift_s) % span
    return any(start <= into < end for start, end in intervals)


def first(device: Device, shift_s: int, second: int, state: bool) -> float:
    """Return the first second from this one on in which the device is in a state, by trying them all."""
    span = device[0]
    tried = range(second, second + 2 * span + 1)
    return next((float(later) for later in tried if is_online(device, shift_s, later) == state), math.inf)


@given(population=populations, shifts=st.lists(st.integers(0, 11), min_size=5, max_size=5), asked=times_s)
@settings(deadline=None, max_examples=300)
def test_answers_are_those_of_a_look_at_every_second(
    population: list[Device], shifts: list[int], asked: list[float]
) -> None:
    clients = len(population)
    shift_s = np.array(shifts[:clients], dtype=np.int32)
    availability = TraceAvailability(sessions_of(population), np.arange(clients, dtype=np.int32), shift_s)
    for time_s in asked:  # in any order: going back must not matter
        second = math.floor(time_s)
        pairs = list(zip(population, shift_s.tolist(), strict=True))
        expected = [is_online(device, shift, second) for device, shift in pairs]
        assert availability.online(time_s).tolist() == expected
        ends = [first(device, shift, second, state=False) for device, shift in pairs]
        until_s = [end if online else time_s for end, online in zip(ends, expected, strict=True)]
        assert availability.online_until_s(time_s, np.arange(clients)).tolist() == until_s
        starts = [
            first(device, shift, int(end), state=True) if math.isfinite(end) else math.inf
            for (device, shift), end in zip(pairs, ends, strict=True)
        ]
        assert availability.next_change_s(time_s) == min(starts)


def phones() -> Availability:
    day, night = (DAY_S, [(0, 20_000), (70_000, DAY_S)]), (3 * DAY_S, [(40_000, 41_000), (130_000, 200_000)])
    return draw_availability(sessions_of([day, night, (DAY_S, [])]), 30, seed=1)


@pytest.mark.parametrize("time_s", [0.0, 0.5, 69_999.999, 70_000.0, 1e6 + 0.25])
def test_nobody_comes_before_the_next_change_and_then_somebody_does(time_s: float) -> None:
    availability = phones()
    next_s = availability.next_change_s(time_s)
    assert next_s > time_s
    moments = [availability.online(moment) for moment in np.linspace(time_s, next_s, 50, endpoint=False)]
    assert not any((later & ~earlier).any() for earlier, later in itertools.pairwise(moments))
    assert (availability.online(next_s) & ~availability.online(np.nextafter(next_s, 0))).any()


def test_a_session_over_midnight_is_one_session() -> None:
    availability = TraceAvailability(
        sessions_of([(DAY_S, [(0, 100), (80_000, DAY_S)])]), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32)
    )
    assert availability.online_until_s(80_000.0, np.array([0])).tolist() == [DAY_S + 100]
    assert availability.next_change_s(80_000.0) == DAY_S + 80_000


def test_a_device_that_is_always_or_never_on_line_never_changes() -> None:
    availability = draw_availability(sessions_of([(50, [(0, 20), (20, 50)]), (50, [])]), 2, seed=0)
    online = availability.online(7.0)
    assert sorted(online.tolist()) == [False, True]
    assert sorted(availability.online_until_s(7.0, np.arange(2)).tolist()) == [7.0, math.inf]
    assert availability.next_change_s(7.0) == math.inf


def test_what_is_returned_is_the_callers() -> None:
    availability = phones()
    availability.online(0.0)[:] = True
    assert not availability.online(0.0).all()


@pytest.mark.parametrize("time_s", [-1.0, math.inf, math.nan])
def test_a_time_that_is_none_is_refused(time_s: float) -> None:
    with pytest.raises(ValueError, match="time_s: expected seconds since the start"):
        phones().online(time_s)


def test_an_empty_population_is_refused() -> None:
    with pytest.raises(ValueError, match="n_clients: expected at least 1, got 0"):
        draw_availability(sessions_of([(50, [])]), 0, seed=0)


def test_clients_are_shifted_by_whole_days_within_their_span() -> None:
    sessions = sessions_of([(5 * DAY_S, [(0, 10)]), (DAY_S // 2, [(0, 10)])])
    availability = draw_availability(sessions, 400, seed=3)
    assert (availability.shift_s % DAY_S == 0).all()
    long, short = (availability.shift_s[availability.device == device] // DAY_S for device in (0, 1))
    assert set(long.tolist()) == {0, 1, 2, 3, 4}
    assert set(short.tolist()) == {0}


def test_more_clients_do_not_change_the_first_ones() -> None:
    sessions = sessions_of([(4 * DAY_S, [(0, 10)])] * 7)
    few, many = draw_availability(sessions, 11, seed=4), draw_availability(sessions, 50, seed=4)
    assert few.device.tolist() == many.device[:11].tolist()
    assert few.shift_s.tolist() == many.shift_s[:11].tolist()


@given(devices())
@settings(deadline=None, max_examples=50)
def test_the_sessions_that_are_tested_with_are_valid(device: Device) -> None:
    check_traced("a.arrow", sessions_of([device]))
