"""The table in a federated file: how it is opened, and all that may be wrong with it."""

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from auxo.core.types import BoolArray, IntArray
from auxo.files.errors import FileError, file_error

FORMAT = "1"
FORMAT_WITH_TARGETS = "2"
_COLUMNS = ("client", "features", "label", "split", "group", "target")
SPLITS = ("train", "test")
INPUT_TYPES: dict[str, Any] = {"float32": pa.float32(), "uint8": pa.uint8(), "int32": pa.int32()}
"""Types of inputs, by the name that NumPy has for them."""

REMEDY = "write it again with `auxo data convert`"
"""What to do about a federated file that cannot be used."""

_ROWS_NAMED = 5  # rows that are named for each thing that is wrong with many; our choice


def open_table(path: Path) -> tuple[Any, dict[str, str]]:
    """Return the file's Arrow table, mapped into memory, and its metadata; neither is checked."""
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            metadata = {key.decode(): value.decode() for key, value in (reader.schema.metadata or {}).items()}
            return reader.read_all().combine_chunks(), metadata
    except FileNotFoundError as error:
        raise file_error(path, "file", "a federated file", "no such file", "check the path") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        got = f"one that cannot be read ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        raise file_error(path, "file", "a federated file (Arrow)", got, REMEDY) from error


def problems_with_form(path: Path, table: Any, metadata: dict[str, str]) -> list[FileError]:
    """Return what is wrong with columns, their types and their gaps; while there is any, values make no sense."""
    form = _problem_with_form(path, table, metadata)
    if form is not None:
        return [form]
    return [problem for name in _COLUMNS if name in table.column_names for problem in _gaps(path, name, table)]


def problems_with_values(path: Path, table: Any, metadata: dict[str, str]) -> Iterator[FileError]:
    """Yield what is wrong with labels, splits, clients and groups of a table that has the right form."""
    column = {name: table.column(name).chunk(0) for name in _COLUMNS if name in table.column_names}
    yield from _problems_with_labels(path, column["label"], json.loads(metadata["auxo.classes"]))
    yield from _problems_with_splits(path, column["split"])
    client, clients = coded(column["client"])
    last = {name: number for number, name in enumerate(clients)}
    for number in [number for number, name in enumerate(clients) if last[name] != number][:_ROWS_NAMED]:
        got = f"{clients[number]!r} as client {number} and {last[clients[number]]}"
        yield file_error(path, "client", "names that differ", got, "rename one, or write it as one client")
    if "group" in column:
        yield from _problems_with_groups(path, coded(column["group"]), client, clients)


def coded(column: Any) -> tuple[IntArray, tuple[str, ...]]:
    """Return a column of strings as numbers, and the strings they stand for."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    names = tuple(str(name) for name in column.dictionary.to_pylist())
    numbers: IntArray = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers, names


def group_of_clients(of_sample: IntArray, client: IntArray, clients: int) -> IntArray:
    """Return each client's group, where all samples of a client have the same."""
    group = np.zeros(clients, dtype=np.int64)
    group[client] = of_sample
    return group


def shape_of(metadata: dict[str, str]) -> tuple[int, ...]:
    """Return the shape of an input."""
    return tuple(int(size) for size in json.loads(metadata["auxo.shape"]))


def _problem_with_form(path: Path, table: Any, metadata: dict[str, str]) -> FileError | None:
    has_targets = metadata.get("auxo.format") == FORMAT_WITH_TARGETS
    if has_targets != ("target" in table.column_names) or (not has_targets and metadata.get("auxo.format") != FORMAT):
        got = f"format {metadata['auxo.format']!r}" if "auxo.format" in metadata else "an Arrow file of another origin"
        return file_error(path, "auxo.format", f"version {FORMAT} in its metadata", got, REMEDY)
    missing = [name for name in _COLUMNS[:4] if name not in table.column_names]
    if missing:
        got = ", ".join(table.column_names) or "none"
        return file_error(path, ", ".join(missing), f"the columns {', '.join(_COLUMNS[:4])}", got, REMEDY)
    if table.num_rows == 0:
        return file_error(path, "rows", "at least one sample", "none", REMEDY)
    for name, kind in (("auxo.shape", int), ("auxo.classes", str)):
        if not _is_list_of(kind, metadata.get(name)):
            expected = f"a JSON list of {'whole numbers' if kind is int else 'strings'} in its metadata"
            return file_error(path, name, expected, repr(metadata.get(name)), REMEDY)
    return _problem_with_targets(path, table, metadata) or _problem_with_types(path, table, shape_of(metadata))


def _problem_with_targets(path: Path, table: Any, metadata: dict[str, str]) -> FileError | None:
    if "target" not in table.column_names:
        return None
    kind, targets = table.schema.field("target").type, len(json.loads(metadata["auxo.classes"]))
    if pa.types.is_fixed_size_list(kind) and kind.value_type == pa.float32() and kind.list_size == targets:
        return None
    return file_error(path, "target", f"fixed size lists of {targets} float32", str(kind), REMEDY)


def _is_list_of(kind: type, text: str | None) -> bool:
    try:
        values = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(values, list) and len(values) > 0 and all(type(value) is kind for value in values)


def _problem_with_types(path: Path, table: Any, shape: tuple[int, ...]) -> FileError | None:
    features = table.schema.field("features").type
    size = prod(shape)
    if not pa.types.is_fixed_size_list(features) or features.list_size != size or min(shape) < 1:
        expected = f"a fixed size list of {size} numbers, of shape {list(shape)}"
        return file_error(path, "features", expected, str(features), REMEDY)
    if features.value_type not in INPUT_TYPES.values():
        expected = f"numbers of type {', '.join(INPUT_TYPES)}"
        return file_error(path, "features", expected, str(features.value_type), REMEDY)
    label = table.schema.field("label").type
    if not pa.types.is_integer(label):
        return file_error(path, "label", "whole numbers (int32)", str(label), REMEDY)
    for name in ("client", "split", "group"):
        if name in table.column_names:
            kind = table.schema.field(name).type
            value = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not (pa.types.is_string(value) or pa.types.is_large_string(value)):
                return file_error(path, name, "strings (dictionary)", str(kind), REMEDY)
            try:
                table.column(name).validate(full=True)  # numbers of names that are not there
            except pa.ArrowException as error:
                return file_error(path, name, "names of its dictionary", f"damaged ones ({error})", REMEDY)
    return None


def _gaps(path: Path, name: str, table: Any) -> Iterator[FileError]:
    column = table.column(name).chunk(0)
    values = column.flatten() if name in ("features", "target") and not column.null_count else column
    if not values.null_count:
        return
    per_row = max(1, len(values) // len(column))
    rows = np.unique(np.flatnonzero(np.asarray(values.is_null())) // per_row)
    for row in rows[:_ROWS_NAMED].tolist():
        yield file_error(path, f"row {row}, {name}", "a value", "nothing", "fill it in or drop the row")


def _first(wrong: BoolArray) -> list[int]:
    return [int(row) for row in np.flatnonzero(wrong)[:_ROWS_NAMED]]


def _problems_with_labels(path: Path, column: Any, classes: list[str]) -> Iterator[FileError]:
    y = column.to_numpy(zero_copy_only=False)
    expected = f"0 to {len(classes) - 1}, for {len(classes)} classes"
    for row in _first((y < 0) | (y >= len(classes))):
        yield file_error(path, f"row {row}, label", expected, f"{y[row]}", "number the classes from 0")


def _problems_with_splits(path: Path, column: Any) -> Iterator[FileError]:
    split, splits = coded(column)
    unknown = [number for number, name in enumerate(splits) if name not in SPLITS]
    for row in _first(np.isin(split, unknown)):
        yield file_error(path, f"row {row}, split", '"train" or "test"', repr(splits[split[row]]), "rename it")


def _problems_with_groups(
    path: Path, grouped: tuple[IntArray, tuple[str, ...]], client: IntArray, clients: tuple[str, ...]
) -> Iterator[FileError]:
    of_sample, groups = grouped
    group = group_of_clients(of_sample, client, len(clients))
    for row in _first(group[client] != of_sample):
        got = f"{groups[of_sample[row]]!r} and {groups[group[client[row]]]!r}"
        expected = f"one group for client {clients[client[row]]!r}"
        yield file_error(path, f"row {row}, group", expected, got, "give each client one")
