"""The contracts of device sources and of availabilities."""

from collections.abc import Iterator
from math import inf, isfinite

import numpy as np

from auxo.core.types import BoolArray, FloatArray
from auxo.simulation.availability import DAY_S, Availability
from auxo.simulation.devices import Devices, DeviceSource, Work, durations_s
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect, expect_array, expect_frozen

DEVICES = Contract[DeviceSource]("a device source", "DeviceSource in auxo.simulation.devices")
check_devices = DEVICES.check
"""Raises `ContractBroken` unless a device source keeps its contract."""

AVAILABILITY = Contract[Availability]("an availability", "Availability in auxo.simulation.availability")
check_availability = AVAILABILITY.check
"""Raises `ContractBroken` unless an availability keeps its contract."""

_SIZES = (1, 2, 50)
_MOMENTS_S = (0.0, 0.5, 599.0, 600.0, 7_200.25, 40_000.0, 86_400.0, 200_000.75)
_LOOKS = 8  # moments looked at between two others
_LONG_S = 3.0 * DAY_S  # as far as anybody looks ahead


@DEVICES.promise
def source_is_a_value(source: DeviceSource) -> None:
    """A device source is a frozen value."""
    expect_frozen(source)


@DEVICES.promise
def draws_a_device_for_each_client(source: DeviceSource) -> None:
    """There is a device for each client, with speeds that are positive and finite."""
    for clients in _SIZES:
        devices = source.draw(clients, seed=1)
        expect(isinstance(devices, Devices), "Devices", devices)
        expect(devices.n_clients == clients, f"{clients} devices", devices.n_clients)
        for column in (devices.compute_s_per_sample, devices.download_bps, devices.upload_bps):
            expect(column.dtype == np.float64, "columns of float64", column.dtype)
        took_s = durations_s(devices, np.arange(clients), Work.plain(np.full(clients, 10)), model_bytes=1000)
        expect(bool(np.isfinite(took_s).all() and (took_s > 0).all()), "rounds of some finite time", took_s)


@DEVICES.promise
def draws_the_same_again(source: DeviceSource) -> None:
    """The same number of clients and the same seed give the same devices, whatever was drawn in between."""
    for clients in _SIZES:
        one = source.draw(clients, seed=1)
        source.draw(clients + 3, seed=2)
        expect_same(one, source.draw(clients, seed=1), "the same devices twice")


@AVAILABILITY.promise
def availability_is_a_value(availability: Availability) -> None:
    """An availability is a frozen value."""
    expect_frozen(availability)


@AVAILABILITY.promise
def knows_who_is_on_line(availability: Availability) -> None:
    """Who is on line is True or False for each client, always for the same number of clients."""
    clients = len(availability.online(0.0))
    expect(clients > 0, "at least one client", clients)
    for time_s in _MOMENTS_S:
        expect_array(availability.online(time_s), "bool", (clients,), f"answers at {time_s} s")


@AVAILABILITY.promise
def does_not_depend_on_questions(availability: Availability) -> None:
    """Answers do not depend on what was asked before, and one that was given does not change."""
    answers, kept = [], []
    for time_s in _MOMENTS_S:
        online, until_s, change_s = _answers(availability, time_s)
        answers.append((online, until_s, change_s))
        kept.append((online.copy(), until_s.copy(), change_s))
    expect_same(kept, answers, "answers that stay what they were")
    again = [_answers(availability, time_s) for time_s in reversed(_MOMENTS_S)]
    expect_same(kept, again[::-1], "the same answers in another order")


def _answers(availability: Availability, time_s: float) -> tuple[BoolArray, FloatArray, float]:
    online = availability.online(time_s)
    return online, availability.online_until_s(time_s, np.arange(len(online))), availability.next_change_s(time_s)


@AVAILABILITY.promise
def sessions_last(availability: Availability) -> None:
    """A client that is on line stays until the time that is said, and one that is off line has no time left."""
    for time_s in _MOMENTS_S:
        online = availability.online(time_s)
        rows = np.arange(len(online))[::-1]
        until_s = availability.online_until_s(time_s, rows)
        expect(until_s.shape == rows.shape, f"a time for each of {len(rows)} rows", until_s.shape)
        left = until_s[~online[rows]]
        expect(bool((left == time_s).all()), f"{time_s} where a client is off line", left[left != time_s][:5])
        stays = until_s[online[rows]]
        expect(bool((stays > time_s).all()), f"times after {time_s} where a client is on line", stays.min(initial=inf))
        for moment_s in _between(time_s, float(until_s.max(initial=time_s))):
            gone = rows[(until_s > moment_s) & ~availability.online(moment_s)[rows]]
            expect(len(gone) == 0, f"that clients stay from {time_s} s to {moment_s} s", f"{gone[:5]} off line")


@AVAILABILITY.promise
def a_session_is_asked_for_by_row(availability: Availability) -> None:
    """Sessions are those of the rows asked for, in their order, also of none and of one twice."""
    clients = len(availability.online(0.0))
    for time_s in _MOMENTS_S:
        everybody = availability.online_until_s(time_s, np.arange(clients))
        for rows in (np.arange(0), np.array([clients - 1, 0, 0])):
            found = availability.online_until_s(time_s, rows)
            expect_same(everybody[rows], found, f"the times of rows {rows}")


@AVAILABILITY.promise
def nobody_comes_before_the_next_change(availability: Availability) -> None:
    """The next change is later than now, and nobody comes on line before it; without any, nobody ever does."""
    for time_s in _MOMENTS_S:
        change_s = availability.next_change_s(time_s)
        expect(change_s > time_s, f"a time after {time_s}", change_s)
        was_online = availability.online(time_s)
        for moment_s in _between(time_s, change_s):
            came = np.flatnonzero(availability.online(moment_s) & ~was_online)
            expect(len(came) == 0, f"that nobody comes from {time_s} s to {moment_s} s", f"clients {came[:5]}")


def _between(from_s: float, to_s: float) -> Iterator[float]:
    """Yield moments in [from, to): evenly, and the last one shortly before the end."""
    end_s = to_s if isfinite(to_s) else from_s + _LONG_S
    for place in range(_LOOKS):
        yield from_s + (end_s - from_s) * place / _LOOKS
    if end_s > from_s:
        yield max(from_s, float(np.nextafter(end_s, from_s)))
