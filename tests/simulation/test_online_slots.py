"""Slots of clients on line: what is kept from the last question changes no answer."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.types import BoolArray
from auxo.simulation import online_slots
from auxo.simulation.availability import DayNight, DayNightPattern

PATTERNS = {
    "the usual slots": DayNightPattern(share=0.3),
    "few on line": DayNightPattern(share=0.002),
    "slots of a prime number of seconds": DayNightPattern(share=0.5, slot_s=601, persistence=0.5),
    "slots of one second": DayNightPattern(share=0.5, slot_s=1, shortest_stretch_s=1, longest_stretch_s=90),
    "everybody": DayNightPattern(share=1.0),
}
ALL_PATTERNS = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())

# Steps within a slot, over its end, over many, and back.
steps_s = st.lists(
    st.one_of(st.floats(-700, 700), st.sampled_from([0.0, 1.0, 599.0, 600.0, 601.0, 1e5, -1e5])), max_size=8
)


def asked_anew(availability: DayNight) -> DayNight:
    """Return the same clients, of whom nobody has asked anything yet."""
    return replace(availability)


def plainly_online(availability: DayNight, time_s: float) -> BoolArray:
    """Return what `online` says, from the end of each client's session."""
    until_s = availability.online_until_s(time_s, np.arange(availability.n_clients))
    return np.asarray(until_s > time_s)


@ALL_PATTERNS
@given(start_s=st.floats(0, 1e7), steps=steps_s)
@settings(deadline=None, max_examples=15)
def test_answers_do_not_depend_on_what_was_asked_before(
    pattern: DayNightPattern, start_s: float, steps: list[float]
) -> None:
    availability, time_s = pattern.draw(150, seed=3), start_s
    for step_s in [0.0, *steps]:
        time_s = max(0.0, time_s + step_s)
        fresh = asked_anew(availability)

        np.testing.assert_array_equal(availability.online(time_s), plainly_online(availability, time_s))
        assert availability.next_change_s(time_s) == fresh.next_change_s(time_s)


@ALL_PATTERNS
@given(time_s=st.floats(0, 1e7))
@settings(deadline=None, max_examples=8)
def test_the_next_change_is_when_the_first_client_comes_on_line(pattern: DayNightPattern, time_s: float) -> None:
    availability, second = pattern.draw(60, seed=3), math.floor(time_s)
    into_slot_s = (second + availability.habits.offsets_s.astype(np.int64)) % pattern.slot_s
    starts_s = np.unique(second + pattern.slot_s - into_slot_s)  # of everybody's next slot
    comes_s = [
        start_s
        for start_s in starts_s
        if (plainly_online(availability, start_s) & ~plainly_online(availability, start_s - 1)).any()
    ]

    if comes_s:
        assert availability.next_change_s(time_s) == comes_s[0]
    else:
        assert availability.next_change_s(time_s) > starts_s[-1]


def test_more_clients_than_are_worked_on_at_a_time_get_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, in_parts = (DayNightPattern(share=0.2).draw(500, seed=1) for _ in range(2))
    moments = [0.0, 100.0, 130.5, 4000.0, 3990.0]
    expected = [(whole.online(moment), whole.next_change_s(moment)) for moment in moments]
    monkeypatch.setattr(online_slots, "_CHUNK_ROWS", 7)
    monkeypatch.setattr(online_slots, "_FIRST_LOOK", 1)
    for moment, (online, next_s) in zip(moments, expected, strict=True):
        np.testing.assert_array_equal(in_parts.online(moment), online)
        assert in_parts.next_change_s(moment) == next_s


def test_an_answer_is_the_askers_to_keep_and_to_change() -> None:
    availability = DayNightPattern(share=0.5).draw(100, seed=1)
    first = availability.online(0.0)
    kept = first.copy()
    availability.online(300.0)
    np.testing.assert_array_equal(first, kept)
    first[:] = ~first
    np.testing.assert_array_equal(availability.online(0.0), kept)
