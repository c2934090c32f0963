"""Sessions of phones as the FLASH study recorded them (Yang et al., WWW 2021), from one file of numpy arrays.

``device`` names the phones. ``offset`` delimits each phone's ``active`` and ``inactive``: seconds since the phone's
``trace_start`` at which it came on line and left, within ``span``. The clock of ``trace_start`` shows local time up to
whole days: laid out by it, phones are on line most at about four at night, twice as often as in the early afternoon.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import IntArray
from auxo.files.errors import file_error
from auxo.files.npz import read_arrays
from auxo.simulation.availability import DAY_S
from auxo.traces.trace import Sessions, check_traced

ARRAYS = ("device", "offset", "active", "inactive", "trace_start", "span")


def read_flash(path: Path) -> Sessions:
    """Return the sessions with midnight at second 0; one that lasts over the end of its span is cut in two."""
    arrays = _load(path)
    offsets, active, inactive = arrays["offset"], arrays["active"], arrays["inactive"]
    phones = len(arrays["device"])
    expected = {"offset": phones + 1, "trace_start": phones, "span": phones, "inactive": len(active)}
    for name, length in expected.items():
        if len(arrays[name]) != length:
            got = f"{len(arrays[name])}"
            raise file_error(path, name, f"{length} values, to fit the other arrays", got, "get the file again")
    if phones == 0:
        raise file_error(path, "device", "at least one device", "none", "check that it is the right file")
    if offsets[0] != 0 or offsets[-1] != len(active) or (np.diff(offsets) < 0).any():
        wanted = f"values that ascend from 0 to {len(active)}"
        raise file_error(path, "offset", wanted, "others", "get the file again")
    names = tuple(str(device) for device in arrays["device"].tolist())
    recorded = Sessions(names, arrays["span"], offsets, active, inactive)
    check_traced(path, recorded)
    return from_midnight(recorded, arrays["trace_start"])


def from_midnight(sessions: Sessions, starts_at_s: IntArray) -> Sessions:
    """Return sessions laid out so that second 0 is midnight.

    Their times are from the start of each device's recording, which was ``starts_at_s`` seconds after some midnight.
    """
    device = sessions.device_of_interval
    span_s = sessions.span_s[device]
    shift_s = (starts_at_s % DAY_S)[device] % span_s
    start_s = (sessions.start_s + shift_s) % span_s
    end_s = start_s + sessions.end_s - sessions.start_s
    over = np.flatnonzero(end_s > span_s)  # goes on at the beginning of the span
    all_devices = np.concatenate([device, device[over]])
    all_starts = np.concatenate([start_s, np.zeros(len(over), dtype=np.int64)])
    all_ends = np.concatenate([np.minimum(end_s, span_s), (end_s - span_s)[over]])
    order = np.lexsort((all_starts, all_devices))
    counts = np.bincount(all_devices, minlength=len(sessions.devices))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Sessions(sessions.devices, sessions.span_s, offsets, all_starts[order], all_ends[order])


def _load(path: Path) -> dict[str, NDArray[np.int64]]:
    arrays = read_arrays(path)
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        got = ", ".join(arrays) or "none"
        raise file_error(path, ", ".join(missing), f"the arrays {', '.join(ARRAYS)}", got, "add what is missing")
    arrays = {name: arrays[name] for name in ARRAYS}
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "iu":
            got = f"{array.dtype} of shape {array.shape}"
            raise file_error(path, name, "a row of whole numbers", got, "save it as such")
    return {name: array.astype(np.int64) for name, array in arrays.items()}
