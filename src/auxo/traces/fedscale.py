"""FedScale's two files of devices, as a trace (Lai et al., FedScale, ICML 2022).

Both are pickled dicts by device. Capacity: ``computation`` (milliseconds to infer one sample) and ``communication``
(kbit/s, one figure for both ways). Availability: ``active`` and ``inactive`` (seconds at which sessions start and end)
and ``finish_time`` (after which all repeats).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from auxo.core.types import FloatArray, IntArray
from auxo.files.errors import FileError, file_error
from auxo.simulation.devices import SyntheticDevices
from auxo.traces.plain_pickle import read_plain_pickle
from auxo.traces.trace import Part, Sessions, Speeds, check_traced, usable_traced

_T = TypeVar("_T")

_S_PER_MS = 1e-3
_BPS_PER_KBPS = 1e3
_MOST_BITS = 128  # of a whole number that is shown as it is: Python refuses to write down very large ones
_REMEDY = "check that this is FedScale's file, or leave such devices out with --skip-bad"


def read_fedscale_capacity(path: Path, skip_bad: bool = False) -> tuple[Speeds, FileError | None]:
    """Return the speeds in a capacity file, and with ``skip_bad`` the first error of those left out.

    Training a sample costs as many forward passes as `SyntheticDevices` says.

    Raises:
        FileError: the file is no such file, or a device in it is wrong and ``skip_bad`` is not set.
    """
    left_out: list[FileError] = []
    found = {device: read for _, device, read in _read(path, _capacity, skip_bad, left_out)}
    computation_ms, communication_kbps = np.array([*found.values()]).reshape(-1, 2).T
    compute_s = SyntheticDevices().training_factor * _S_PER_MS * computation_ms
    bandwidth_bps = _BPS_PER_KBPS * communication_kbps
    return _checked(path, Speeds(tuple(found), compute_s, bandwidth_bps, bandwidth_bps), skip_bad, left_out)


def read_fedscale_availability(path: Path, skip_bad: bool = False) -> tuple[Sessions, FileError | None]:
    """Return the sessions in an availability file; arguments and errors as with `read_fedscale_capacity`.

    Times are rounded to whole seconds, and sessions that are then empty are left out. FedScale does not say when in
    the day its time 0 was; it is taken for midnight.
    """
    most = path.stat().st_size  # every number takes at least a byte, unless the file repeats itself
    left_out: list[FileError] = []
    found: dict[str, tuple[IntArray, int]] = {}
    for row, device, (intervals, span_s) in _read(path, _availability, skip_bad, left_out):
        found[device] = intervals, span_s
        most -= len(intervals)
        if most < 0:
            got = "one list for very many devices"
            raise file_error(path, f"row {row}, device {device!r}", "lists of its own", got, _REMEDY)
    lists, spans = [one[0] for one in found.values()], [one[1] for one in found.values()]
    offsets = np.concatenate([[0], np.cumsum([len(intervals) for intervals in lists])]).astype(np.int64)
    starts, ends = np.concatenate([np.zeros((0, 2), dtype=np.int64), *lists]).T.copy()
    sessions = Sessions(tuple(found), np.array(spans, dtype=np.int64), offsets, starts, ends)
    return _checked(path, sessions, skip_bad, left_out)


def _read(
    path: Path, read: Callable[[Path, int, str, object], _T], skip_bad: bool, left_out: list[FileError]
) -> Iterator[tuple[int, str, _T]]:
    """Yield what is read of each device, with its row; ``skip_bad`` has errors of those left out put into a list."""
    for row, (device, entry) in enumerate(_entries(path).items()):
        try:
            found = read(path, row, device, entry)
        except FileError as wrong:
            if not skip_bad:
                raise
            left_out.append(wrong)
        else:
            yield row, device, found


def _checked(path: Path, part: Part, skip_bad: bool, left_out: list[FileError]) -> tuple[Part, FileError | None]:
    if not skip_bad:
        check_traced(path, part)
        return part, None
    kept, another = usable_traced(path, part)
    error = left_out[0] if left_out else another
    if not kept.devices and error is not None:
        raise error
    return kept, error


def _capacity(path: Path, row: int, device: str, entry: object) -> tuple[float, float]:
    return _number(path, row, device, entry, "computation"), _number(path, row, device, entry, "communication")


def _availability(path: Path, row: int, device: str, entry: object) -> tuple[IntArray, int]:
    intervals = _intervals(path, row, device, entry)
    return intervals, round(_number(path, row, device, entry, "finish_time"))


def _entries(path: Path) -> dict[str, object]:
    """Return what a file says about each device, by the device's name."""
    value = read_plain_pickle(path)
    if not isinstance(value, dict) or not value:
        got = "an empty dict" if value == {} else f"a {type(value).__name__}"
        raise file_error(path, "file", "a dict with an entry for each device", got, "check that it is the right one")
    entries = {key if isinstance(key, str) else _shown(key): entry for key, entry in value.items()}
    if len(entries) < len(value):
        raise file_error(path, "keys", "each device once", "a number and a text that read alike", _REMEDY)
    return entries


def _field(path: Path, row: int, device: str, entry: object, key: str) -> object:
    place = f"row {row}, device {device!r}"
    if not isinstance(entry, dict):
        raise file_error(path, place, "a dict", f"a {type(entry).__name__}", _REMEDY)
    if key not in entry:
        got = ", ".join(repr(name) for name in list(entry)[:8]) or "nothing"
        raise file_error(path, place, f"the key {key!r}", got, _REMEDY)
    value: object = entry[key]
    return value


def _number(path: Path, row: int, device: str, entry: object, key: str) -> float:
    value = _field(path, row, device, entry, key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise file_error(path, f"row {row}, device {device!r}, {key}", "a number", _shown(value), _REMEDY)
    return float(value)


def _shown(value: object) -> str:
    """Return a value in a few words, whatever a file made of it: all of it may be without end."""
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return f"{value!r:.40}"


def _intervals(path: Path, row: int, device: str, entry: object) -> IntArray:
    """Return a device's sessions that are not empty: (intervals, 2)."""
    starts, ends = (_times(path, row, device, entry, key) for key in ("active", "inactive"))
    if len(starts) != len(ends):
        place = f"row {row}, device {device!r}, inactive"
        raise file_error(path, place, f"{len(starts)} times, as in active", f"{len(ends)}", _REMEDY)
    intervals: IntArray = np.rint(np.stack([starts, ends], axis=1)).astype(np.int64)
    kept: IntArray = intervals[intervals[:, 0] != intervals[:, 1]]
    return kept


def _times(path: Path, row: int, device: str, entry: object, key: str) -> FloatArray:
    value = _field(path, row, device, entry, key)
    place = f"row {row}, device {device!r}, {key}"
    if not isinstance(value, list | tuple):
        raise file_error(path, place, "a list of seconds", f"a {type(value).__name__}", _REMEDY)
    if not value:
        return np.zeros(0)
    if not all(type(time) in (int, float) and abs(time) < 1e15 for time in value):
        raise file_error(path, place, "a list of seconds", "other values in it", _REMEDY)
    return np.array(value, dtype=np.float64)
