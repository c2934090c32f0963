"""Clients that come and go as the devices of a trace did, for any time and any number of clients."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from auxo.core.rng import stream
from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.simulation.availability import DAY_S
from auxo.traces.device_assignment import assign_devices
from auxo.traces.trace import Sessions

_Int32Array = NDArray[np.int32]

_NEVER = 2**62  # a second that no simulation reaches


@final
@dataclass(frozen=True)
class TraceAvailability:
    """Clients, each with a device of a trace whose span repeats; made by `draw_availability`.

    Sessions begin and end at whole seconds. What was found for the last moment asked for is kept, and is looked up
    anew only for clients whose state has ended since; answers do not depend on what was asked before.
    """

    sessions: Sessions
    device: _Int32Array  # (clients,) row in ``sessions``
    shift_s: _Int32Array  # (clients,) how much later than at second 0 of its span a client starts: whole days

    @property
    def n_clients(self) -> int:
        """Return the number of clients."""
        return len(self.device)

    def online(self, time_s: float) -> BoolArray:
        """Return for every client whether it is on line."""
        return self._now.at(_second(time_s)).copy()

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        """Return when the current session of each client ends, however long it is.

        ``inf`` for a client that never goes off line, ``time_s`` for one that is off line.
        """
        state = self._now.look_up(rows, _second(time_s))
        until_s = np.where(state.until_s < _NEVER // 2, state.until_s.astype(np.float64), math.inf)
        return np.where(state.is_online, until_s, time_s)

    def next_change_s(self, time_s: float) -> float:
        """Return when the next client comes on line; ``inf`` if nobody ever does."""
        comes_s = self._now.next_start_s(_second(time_s))
        return float(comes_s) if comes_s < _NEVER // 2 else math.inf

    @cached_property
    def _now(self) -> "_Now":
        return _Now(_course(self.sessions), self.device, self.shift_s)


def draw_availability(sessions: Sessions, n_clients: int, seed: int) -> TraceAvailability:
    """Return clients with devices by `assign_devices`, each shifted by whole days.

    The shift tells clients with the same device apart and leaves the time of day as it was. More clients do not change
    the first ones.
    """
    device = assign_devices(sessions.devices, n_clients, seed)
    days = np.maximum(sessions.span_s // DAY_S, 1)
    shift_days = (stream(seed, "trace-day").random(n_clients) * days[device]).astype(np.int64)
    return TraceAvailability(sessions, device.astype(np.int32), (shift_days * DAY_S).astype(np.int32))


@dataclass(frozen=True)
class _Course:
    """What each device does in the course of its span: it is off line, then on line, then off line and so on.

    All spans are laid end to end, so that one search finds the state of any device at any second of its span. A device
    with ``n`` intervals has ``2 n + 1`` states; the first or the last is empty when it is on line there.
    """

    span_s: IntArray  # (devices,)
    begin_s: IntArray  # (devices,) where its span begins in the row of all spans
    bounds_s: IntArray  # (2 intervals,) where each interval starts and ends in that row, ascending
    until_s: IntArray  # (states,) second of the span, or of the next, in which the state ends
    comes_s: IntArray  # (states,) the same for the first start of an interval after the state has begun


def _course(sessions: Sessions) -> _Course:
    sessions = _joined(sessions)
    span_s, offsets, start_s, end_s = sessions.span_s, sessions.offsets, sessions.start_s, sessions.end_s
    device, n_intervals = sessions.device_of_interval, len(sessions.start_s)
    begin_s = np.concatenate([[0], np.cumsum(span_s)[:-1]])
    bounds_s = np.stack([start_s, end_s], axis=1) + begin_s[device][:, None]
    until_s, comes_s = np.full((2, 2 * n_intervals + len(span_s)), _NEVER)
    off = 2 * np.arange(n_intervals) + device  # the state before each interval; after it comes that of the interval
    until_s[off], until_s[off + 1], comes_s[off] = start_s, end_s, start_s
    comes_s[off[:-1] + 1] = start_s[1:]  # wrong for a device's last interval; put right below
    some = np.flatnonzero(np.diff(offsets))  # devices that are on line at all
    first, last = offsets[some], offsets[some + 1] - 1
    again_s = span_s[some] + start_s[first]
    after = off[last] + 2
    until_s[after] = comes_s[after] = comes_s[after - 1] = again_s
    # A session that lasts over the end of the span goes on at its beginning.
    wraps = np.flatnonzero((start_s[first] == 0) & (end_s[last] == span_s[some]))
    always, twice = wraps[first[wraps] == last[wraps]], wraps[first[wraps] < last[wraps]]
    until_s[after[always] - 1] = comes_s[after[always] - 1] = _NEVER
    until_s[after[twice] - 1] = span_s[some[twice]] + end_s[first[twice]]
    comes_s[after[twice] - 1] = span_s[some[twice]] + start_s[first[twice] + 1]
    return _Course(span_s, begin_s, bounds_s.ravel(), until_s, comes_s)


def _joined(sessions: Sessions) -> Sessions:
    """Return the sessions with intervals that touch made into one: nobody goes off line between them."""
    device = sessions.device_of_interval
    if not len(device):
        return sessions
    is_first = np.ones(len(device), dtype=np.bool_)
    is_first[1:] = (device[1:] != device[:-1]) | (sessions.start_s[1:] > sessions.end_s[:-1])
    is_last = np.append(is_first[1:], True)
    counts = np.bincount(device[is_first], minlength=len(sessions.devices))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Sessions(sessions.devices, sessions.span_s, offsets, sessions.start_s[is_first], sessions.end_s[is_last])


@dataclass(frozen=True)
class _State:
    """What clients do at a second; seconds are those of the simulation."""

    is_online: BoolArray  # (rows,)
    until_s: IntArray  # (rows,) when this ends
    comes_s: IntArray  # (rows,) when the client next comes on line


class _Now:
    """The state of every client at the last second asked for."""

    def __init__(self, course: _Course, device: _Int32Array, shift_s: _Int32Array) -> None:
        self._course, self._device, self._shift_s = course, device, shift_s
        self._second: int | None = None
        self._state = _State(
            np.zeros(len(device), dtype=np.bool_),
            np.zeros(len(device), dtype=np.int64),
            np.zeros(len(device), dtype=np.int64),
        )

    def at(self, second: int) -> BoolArray:
        """Return for every client whether it is on line; the next call changes it."""
        self._go_to(second)
        return self._state.is_online

    def next_start_s(self, second: int) -> int:
        """Return when the next client comes on line."""
        self._go_to(second)
        return int(self._state.comes_s.min())

    def look_up(self, rows: IntArray, second: int) -> _State:
        """Return the state of some clients, whatever was asked before."""
        course, device = self._course, self._device[rows]
        into_s = (self._shift_s[rows].astype(np.int64) + second) % course.span_s[device]
        passed = np.searchsorted(course.bounds_s, course.begin_s[device] + into_s, side="right")
        # Starts and ends take turns, and each device before this one has one state more than it has bounds.
        state = passed + device
        begin_s = second - into_s
        return _State(passed % 2 == 1, begin_s + course.until_s[state], begin_s + course.comes_s[state])

    def _go_to(self, second: int) -> None:
        if second == self._second:
            return
        kept, is_later = self._state, self._second is not None and second > self._second
        ended = np.flatnonzero(kept.until_s <= second) if is_later else np.arange(len(self._device))
        found = self.look_up(ended, second)
        self._second = None  # until all columns are written
        kept.is_online[ended] = found.is_online
        kept.until_s[ended] = found.until_s
        kept.comes_s[ended] = found.comes_s
        self._second = second


def _second(time_s: float) -> int:
    if not 0 <= time_s < math.inf:
        raise ValueError(f"time_s: expected seconds since the start, >= 0 and finite, got {time_s}")
    return math.floor(time_s)
