from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pytest

from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.simulation.availability import AlwaysOnline, Availability, DayNightPattern
from auxo.simulation.devices import Devices, DeviceSource, EqualDevices, SyntheticDevices
from auxo.testing import ContractBroken, check_availability, check_devices, devices
from auxo.testing.contract import Check
from auxo.traces.availability import draw_availability
from auxo.traces.devices import TraceDevices
from auxo.traces.synthetic import synthetic_trace
from auxo.traces.trace import Sessions, Speeds
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every


def speeds() -> Speeds:
    found = synthetic_trace(20, seed=1, share=0.3).speeds
    assert found is not None
    return found


def sessions() -> Sessions:
    found = synthetic_trace(20, seed=1, share=0.3).sessions
    assert found is not None
    return found


SOURCES: Mapping[str, DeviceSource] = {
    "equal": EqualDevices(),
    "synthetic": SyntheticDevices(),
    "trace": TraceDevices(speeds(), slowdown=2.0),
}
AVAILABILITIES: Mapping[str, Availability] = {
    "always": AlwaysOnline(7),
    "day and night": DayNightPattern(share=0.3).draw(30, seed=1),
    "hardly ever": DayNightPattern(share=0.01).draw(3, seed=1),
    "night for all": DayNightPattern(share=1.0).draw(30, seed=1),
    "trace": draw_availability(sessions(), 30, seed=1),
}


@pytest.mark.parametrize("name", SOURCES)
@every(devices.DEVICES.checks)
def test_device_sources_keep_the_contract(check: Check[DeviceSource], name: str) -> None:
    check(SOURCES[name])


@pytest.mark.parametrize("name", AVAILABILITIES)
@every(devices.AVAILABILITY.checks)
def test_availabilities_keep_the_contract(check: Check[Availability], name: str) -> None:
    check(AVAILABILITIES[name])


SEEDS = count()


@dataclass(frozen=True)
class TwoKinds:
    """Old and new phones, by turns; it may do one thing wrong."""

    kind: str = ""

    def draw(self, n_clients: int, seed: int) -> Devices:
        if self.kind == "moody":
            return SyntheticDevices().draw(n_clients, next(SEEDS))
        drawn = EqualDevices().draw(n_clients + (self.kind == "one more"), seed)
        if self.kind == "whole":
            bps = np.full(n_clients, 1_000)
            return replace(drawn, download_bps=bps, upload_bps=bps)
        return drawn


class LooseKinds(TwoKinds):
    """Not frozen."""


BROKEN_SOURCES: list[tuple[Check[DeviceSource], DeviceSource]] = [
    (devices.source_is_a_value, LooseKinds()),
    (devices.draws_a_device_for_each_client, TwoKinds("one more")),
    (devices.draws_a_device_for_each_client, TwoKinds("whole")),
    (devices.draws_the_same_again, TwoKinds("moody")),
]


@each_broken(BROKEN_SOURCES)
def test_broken_promises_of_device_sources_are_caught_by_name(check: Check[DeviceSource], part: DeviceSource) -> None:
    assert_caught(check, part)


@dataclass(frozen=True)
class Shifts:
    """Even clients are on line in even hours, odd ones in odd hours; it may do one thing wrong."""

    kind: str = ""
    kept: BoolArray = field(default_factory=lambda: np.zeros(6, dtype=np.bool_))

    def online(self, time_s: float) -> BoolArray:
        on: BoolArray = np.arange(6) % 2 == self._hour(time_s) % 2
        if self.kind == "same memory":
            self.kept[:] = on
        wrong: dict[str, BoolArray] = {
            "fewer": on[: 6 - self._hour(time_s) % 2],
            "numbers": on.astype(np.int64),
            "same memory": self.kept,
            "moody": np.roll(on, next(SEEDS)),
        }
        return wrong.get(self.kind, on)

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        end_s = 3600.0 * (self._hour(time_s) + (2 if self.kind == "optimist" else 1))
        until_s = np.where(rows % 2 == self._hour(time_s) % 2, end_s, 0.0 if self.kind == "past" else time_s)
        return np.sort(until_s) if self.kind == "sorts" else until_s

    def next_change_s(self, time_s: float) -> float:
        if self.kind == "never":
            return float("inf")
        return time_s if self.kind == "now" else 3600.0 * (self._hour(time_s) + 1)

    def _hour(self, time_s: float) -> int:
        return int(time_s // 3600)


class LooseShifts(Shifts):
    """Not frozen."""


BROKEN_AVAILABILITIES: list[tuple[Check[Availability], Availability]] = [
    (devices.availability_is_a_value, LooseShifts()),
    (devices.knows_who_is_on_line, Shifts("fewer")),
    (devices.knows_who_is_on_line, Shifts("numbers")),
    (devices.does_not_depend_on_questions, Shifts("same memory")),
    (devices.does_not_depend_on_questions, Shifts("moody")),
    (devices.sessions_last, Shifts("optimist")),
    (devices.sessions_last, Shifts("past")),
    (devices.a_session_is_asked_for_by_row, Shifts("sorts")),
    (devices.nobody_comes_before_the_next_change, Shifts("never")),
    (devices.nobody_comes_before_the_next_change, Shifts("now")),
]


@each_broken(BROKEN_AVAILABILITIES)
def test_broken_promises_of_availabilities_are_caught_by_name(check: Check[Availability], part: Availability) -> None:
    assert_caught(check, part)


def test_every_promise_can_be_broken() -> None:
    assert_all_can_fail(devices.DEVICES.checks, BROKEN_SOURCES)
    assert_all_can_fail(devices.AVAILABILITY.checks, BROKEN_AVAILABILITIES)


def test_the_whole_contracts_are_one_call_each() -> None:
    check_devices(TwoKinds())
    check_availability(Shifts())
    with pytest.raises(ContractBroken, match="Expected 1 devices, got 2"):
        check_devices(TwoKinds("one more"))
    with pytest.raises(ContractBroken, match="Shifts breaks a promise of an availability: A client that is on line"):
        check_availability(Shifts("optimist"))
