"""The trace file: devices in one Arrow file, a row for each, with its sessions, its speeds, or both.

An Arrow IPC file (feather version 2, uncompressed) with these columns:

- ``device``: string, each name once;
- ``span_s``: int64, ``online_start_s`` and ``online_end_s``: list of int64, when the device was on line;
- ``compute_s_per_sample``, ``download_bps`` and ``upload_bps``: float64, how fast it is.

Either group of three may be missing, as a whole or, with nulls, for single devices. The schema's metadata hold
``auxo.traces``, the format's version. It is one file and not two because a device's habits and its
speed belong together, and lists in a row because they are then the very columns that the simulation uses. Arrow and
not parquet because nothing has to be decoded.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from auxo.core.types import FloatArray, IntArray
from auxo.files.atomic_write import whole_file
from auxo.files.errors import FileError, file_error
from auxo.traces.trace import Sessions, Speeds, Trace, check_traced

_FORMAT = "1"
SESSION_COLUMNS = ("span_s", "online_start_s", "online_end_s")
SPEED_COLUMNS = ("compute_s_per_sample", "download_bps", "upload_bps")
_REMEDY = "write it again with `auxo traces convert`"


def arrow(path: str | Path) -> ModuleType:
    """Return the module pyarrow, which is wanted for a file."""
    try:
        import pyarrow  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        remedy = "install it with: pip install 'auxo[data]'"
        raise file_error(path, "file", "pyarrow, to work with such files", "none installed", remedy) from error
    module: ModuleType = pyarrow
    return module


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace file, which appears when it is complete."""
    pa = arrow(path)
    sessions, speeds = trace.sessions, trace.speeds
    names = () if sessions is None else sessions.devices
    rows = {name: row for row, name in enumerate(names)}
    for name in () if speeds is None else speeds.devices:
        rows.setdefault(name, len(rows))
    if not rows:
        raise file_error(path, "trace", "at least one device", "none", "check what it is made from")
    columns: dict[str, Any] = {"device": pa.array(list(rows), pa.string())}
    if sessions is not None:
        check_traced(path, sessions)
        is_absent = np.arange(len(rows)) >= len(names)
        offsets = pa.array(np.append(sessions.offsets, np.full(is_absent.sum(), sessions.offsets[-1])), pa.int32())
        span_s = np.append(sessions.span_s, np.zeros(is_absent.sum(), dtype=np.int64))
        columns["span_s"] = pa.array(span_s, pa.int64(), mask=is_absent)
        for name, values in (("online_start_s", sessions.start_s), ("online_end_s", sessions.end_s)):
            mask = pa.array(is_absent) if is_absent.any() else None
            columns[name] = pa.ListArray.from_arrays(offsets, pa.array(values, pa.int64()), mask=mask)
    if speeds is not None:
        check_traced(path, speeds)
        places = np.array([rows[name] for name in speeds.devices], dtype=np.int64)
        is_absent = np.ones(len(rows), dtype=np.bool_)
        is_absent[places] = False
        for name, column in speeds.columns.items():
            spread = np.zeros(len(rows))
            spread[places] = column
            columns[name] = pa.array(spread, pa.float64(), mask=is_absent)
    metadata = {"auxo.traces": _FORMAT}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)).replace_schema_metadata(metadata)
    with whole_file(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def read_trace(path: Path) -> Trace:
    """Return what a trace file holds, checked."""
    pa = arrow(path)
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            table = reader.read_all()
        # A file may be cut so that only its values are wrong; this looks at offsets and texts, too.
        table.validate(full=True)
    except FileNotFoundError as error:
        raise file_error(path, "file", "a trace file", "no such file", "check the path") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        got = f"one that cannot be read ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        raise file_error(path, "file", "a trace file (Arrow)", got, _REMEDY) from error
    metadata = {key.decode(): value.decode(errors="replace") for key, value in (table.schema.metadata or {}).items()}
    if metadata.get("auxo.traces") != _FORMAT:
        got = f"version {metadata['auxo.traces']!r}" if "auxo.traces" in metadata else "an Arrow file of another kind"
        raise file_error(path, "auxo.traces", f"version {_FORMAT} in its metadata", got, _REMEDY)
    groups = [[name for name in group if name in table.column_names] for group in (SESSION_COLUMNS, SPEED_COLUMNS)]
    missing = [
        name
        for group, there in zip((SESSION_COLUMNS, SPEED_COLUMNS), groups, strict=True)
        for name in group
        if name not in there and (there or not any(groups))
    ]
    missing = [*(["device"] if "device" not in table.column_names else []), *missing]
    if missing:
        expected = f"device with {', '.join(SESSION_COLUMNS)} or {', '.join(SPEED_COLUMNS)}, or with all of them"
        raise file_error(path, f"columns {', '.join(missing)}", expected, ", ".join(table.column_names), _REMEDY)
    if table.num_rows == 0:
        raise file_error(path, "rows", "at least one device", "none", _REMEDY)
    try:
        return _from_table(path, pa, table)
    except FileError:
        raise
    except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise file_error(path, "columns", "those of a trace file", f"others ({error})", _REMEDY) from error


def _from_table(path: Path, pa: ModuleType, table: Any) -> Trace:
    column = {name: pa.concat_arrays(table.column(name).chunks) for name in table.column_names}
    if column["device"].null_count:
        row = int(_is_null(column["device"]).argmax())
        raise file_error(path, f"row {row}, device", "a name", "nothing", "name it, or drop the row")
    devices = [str(device) for device in column["device"].to_pylist()]
    sessions: Sessions | None = None
    speeds: Speeds | None = None
    if "span_s" in column:
        rows = _rows_there(path, column, SESSION_COLUMNS)
        spans, starts, ends = (column[name].take(pa.array(rows)) for name in SESSION_COLUMNS)
        offsets, start_s = _lists(path, pa, starts, "online_start_s", rows)
        other, end_s = _lists(path, pa, ends, "online_end_s", rows)
        if not np.array_equal(offsets, other):
            at = int((np.diff(offsets) != np.diff(other)).argmax())
            place = f"row {rows[at]}, device {devices[rows[at]]!r}, online_end_s"
            expected, got = (f"{ends_of[at + 1] - ends_of[at]}" for ends_of in (offsets, other))
            raise file_error(path, place, f"{expected} values, as in online_start_s", got, "pair them up")
        if not pa.types.is_integer(spans.type):
            raise file_error(path, "span_s", "whole seconds (int64)", str(spans.type), "round them")
        names = tuple(devices[row] for row in rows.tolist())
        sessions = Sessions(names, _numbers(spans, np.int64), offsets, start_s, end_s) if names else None
        if sessions is not None:
            check_traced(path, sessions, rows)
    if "download_bps" in column:
        rows = _rows_there(path, column, SPEED_COLUMNS)
        values: list[FloatArray] = []
        for speed in SPEED_COLUMNS:
            kind = column[speed].type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
                raise file_error(path, speed, "numbers (float64)", str(kind), _REMEDY)
            values.append(_numbers(column[speed].take(pa.array(rows)), np.float64))
        names = tuple(devices[row] for row in rows.tolist())
        speeds = Speeds(names, *values) if names else None
        if speeds is not None:
            check_traced(path, speeds, rows)
    return Trace(sessions, speeds)


def _rows_there(path: Path, column: dict[str, Any], group: tuple[str, ...]) -> IntArray:
    """Return the rows where a group of columns has values; it must have all of them or none."""
    is_null = np.array([_is_null(column[name]) for name in group])
    partly = is_null.any(axis=0) & ~is_null.all(axis=0)
    if partly.any():
        row = int(partly.argmax())
        name = group[int(is_null[:, row].argmax())]
        expected = f"values in all of {', '.join(group)}, or in none"
        raise file_error(path, f"row {row}, {name}", expected, "nothing", "fill it in, or empty the others")
    return np.flatnonzero(~is_null[0])


def _lists(path: Path, pa: ModuleType, lists: Any, name: str, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return a column of lists as the offsets of each and all values in a row."""
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        raise file_error(path, name, "a list of whole seconds (int64) for each device", str(lists.type), _REMEDY)
    if not pa.types.is_integer(lists.type.value_type) and len(lists.flatten()):
        raise file_error(path, name, "whole seconds (int64)", str(lists.type.value_type), "round them")
    values = lists.flatten()
    lengths = np.diff(np.asarray(lists.offsets))
    if values.null_count:
        at = int(np.repeat(rows, lengths)[_is_null(values).argmax()])
        raise file_error(path, f"row {at}, {name}", "times without gaps", "nothing in a list", "drop the interval")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), _numbers(values, np.int64)


def _numbers(array: Any, kind: type[Any]) -> Any:
    return array.to_numpy(zero_copy_only=False).astype(kind, copy=False)


def _is_null(array: Any) -> Any:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
