"""A trace of devices as columns: when each was on line, how fast each is, and what makes such columns wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, final

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.files.errors import FileError, file_error

LONGEST_SPAN_S = 2**31 - 1
"""A span is shorter than 68 years; our choice, so that sums of a million spans stay far from overflow."""


@final
@dataclass(frozen=True)
class Sessions:
    """When devices were on line: intervals [start, end) of whole seconds within a span, after which they repeat.

    The intervals of device ``d`` are those from ``offsets[d]`` up to ``offsets[d + 1]``, ascending and apart; two may
    touch. Second 0 is midnight.
    """

    devices: tuple[str, ...]
    span_s: IntArray  # (devices,)
    offsets: IntArray  # (devices + 1,) from 0 to the number of intervals
    start_s: IntArray  # (intervals,)
    end_s: IntArray  # (intervals,)

    @property
    def device_of_interval(self) -> IntArray:
        """Return the row of the device that each interval belongs to."""
        return np.repeat(np.arange(len(self.devices)), np.diff(self.offsets))

    def of(self, rows: IntArray) -> "Sessions":
        """Return the sessions of some devices, in the order of ``rows``."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        intervals = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], counts)
        names = tuple(self.devices[row] for row in rows.tolist())
        return Sessions(names, self.span_s[rows], offsets, self.start_s[intervals], self.end_s[intervals])


@final
@dataclass(frozen=True)
class Speeds:
    """How fast devices are, row aligned."""

    devices: tuple[str, ...]
    compute_s_per_sample: FloatArray  # (devices,) one training step's time for one sample, forward and backward
    download_bps: FloatArray  # (devices,) bit/s
    upload_bps: FloatArray  # (devices,) bit/s

    @property
    def columns(self) -> dict[str, FloatArray]:
        """Return the three columns by their names."""
        return {name: column for name, column in vars(self).items() if name != "devices"}

    def of(self, rows: IntArray) -> "Speeds":
        """Return the speeds of some devices, in the order of ``rows``."""
        names = tuple(self.devices[row] for row in rows.tolist())
        return Speeds(names, **{name: column[rows] for name, column in self.columns.items()})


Part = TypeVar("Part", Sessions, Speeds)


@final
@dataclass(frozen=True)
class Trace:
    """What is known about devices: their sessions, their speeds, or both; the two may be of different devices."""

    sessions: Sessions | None = None
    speeds: Speeds | None = None


@dataclass(frozen=True)
class _Rule:
    """What a column must keep to, and where it does not."""

    column: str
    values: NDArray[np.int64] | FloatArray
    is_broken: BoolArray  # by value
    expected: str
    remedy: str
    device: IntArray | None = None  # of each value; None: there is one value a device


def check_traced(path: str | Path, part: Sessions | Speeds, rows: IntArray | None = None) -> None:
    """Check that intervals are in order, apart and within the span, or that speeds are positive and finite.

    ``rows`` says in which row of the file each device stands; None: they are counted from 0.

    Raises:
        FileError: they are not; it names the first row and device that is wrong.
    """
    devices = part.devices
    if len(set(devices)) < len(devices):
        first = {name: row for row, name in reversed(list(enumerate(devices)))}
        row = next(row for row, name in enumerate(devices) if first[name] != row)
        place = f"row {row if rows is None else rows[row]}, device"
        raise file_error(path, place, "each device once", f"{devices[row]!r} again", "give each a name of its own")
    error = _first_error(path, devices, _rules(part), rows)
    if error is not None:
        raise error


def usable_traced(path: str | Path, part: Part) -> tuple[Part, FileError | None]:
    """Return the part of the devices that pass `check_traced`, and the first error if there is one."""
    rules, is_usable = _rules(part), np.ones(len(part.devices), dtype=np.bool_)
    for rule in rules:
        wrong = np.flatnonzero(rule.is_broken)
        is_usable[wrong if rule.device is None else rule.device[wrong]] = False
    error = _first_error(path, part.devices, rules, None)
    return (part if error is None else part.of(np.flatnonzero(is_usable))), error


def _rules(part: Sessions | Speeds) -> tuple[_Rule, ...]:
    return _session_rules(part) if isinstance(part, Sessions) else _speed_rules(part)


def _session_rules(sessions: Sessions) -> tuple[_Rule, ...]:
    start_s, end_s, device = sessions.start_s, sessions.end_s, sessions.device_of_interval
    follows = device[1:] == device[:-1]
    is_unsorted, is_overlapping = np.zeros((2, len(device)), dtype=np.bool_)
    is_unsorted[1:] = follows & (start_s[1:] < start_s[:-1])
    is_overlapping[1:] = follows & (start_s[1:] < end_s[:-1])
    span_s = sessions.span_s
    is_span_wrong = (span_s < 1) | (span_s > LONGEST_SPAN_S)
    return (
        _Rule("span_s", span_s, is_span_wrong, f"1 to {LONGEST_SPAN_S} seconds", "say after which time it repeats"),
        _Rule("online_start_s", start_s, start_s < 0, "a time >= 0", "count from the start of the span", device),
        _Rule("online_end_s", end_s, end_s <= start_s, "an end after its start", "swap or drop the interval", device),
        _Rule("online_start_s", start_s, is_unsorted, "intervals in the order of time", "sort them", device),
        _Rule("online_start_s", start_s, is_overlapping, "a start not before the last end", "join the two", device),
        _Rule(
            "online_end_s",
            end_s,
            end_s > span_s[device],
            "an end within span_s",
            "cut the interval, or lengthen the span",
            device,
        ),
    )


def _speed_rules(speeds: Speeds) -> tuple[_Rule, ...]:
    return tuple(
        _Rule(name, column, ~((column > 0) & (column < np.inf)), "a positive number", "measure it, or drop the device")
        for name, column in speeds.columns.items()
    )


def _first_error(
    path: str | Path, devices: tuple[str, ...], rules: Iterable[_Rule], rows: IntArray | None
) -> FileError | None:
    for rule in rules:
        if not rule.is_broken.any():
            continue
        at = int(rule.is_broken.argmax())
        device = at if rule.device is None else int(rule.device[at])
        row = device if rows is None else int(rows[device])
        interval = "" if rule.device is None else f"[{at - int(np.searchsorted(rule.device, device))}]"
        place = f"row {row}, device {devices[device]!r}, {rule.column}{interval}"
        return file_error(path, place, rule.expected, f"{rule.values[at]}", rule.remedy)
    return None
