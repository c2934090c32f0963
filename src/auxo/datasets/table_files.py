"""Tables on disk, a part at a time: parquet (one file or a folder of them), csv and npz."""

import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, IntArray
from auxo.files.errors import FileError, file_error
from auxo.files.npz import read_arrays

_ROWS_AT_ONCE = 4096  # our choice: an image of 224 x 224 in three colours makes 600 MB of this
KNOWN = ".parquet (or a folder of such files), .csv or .npz"
"""What files of tables are called."""

GAPS = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""What stands for a missing number in a table without types, whatever the case of its letters; our choice."""

_AGAIN = "copy it again from its origin"
_BETWEEN = (",", ";", "\t")  # values of a csv file
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")  # a number with a decimal comma, or with one between thousands
_POINT = re.compile(r"[+-]?[0-9]+\.[0-9]+")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}|[0-9]{1,2}:[0-9]{2}(:|$)")


@dataclass(frozen=True)
class TablePart:
    """Some rows of a table, column by column; text is an array of strings or of Python's own (object).

    A gap is None in an array of objects, NaN among floats, and in a table without types an empty text.
    """

    path: Path
    word: str  # "row" or "line"
    numbers: IntArray  # (rows,) where each stands in the file
    columns: dict[str, NDArray[Any]]  # (rows, ...) each

    def place(self, row: int, column: str) -> str:
        """Return the words for a place in the file."""
        return f"{self.word} {self.numbers[row]}, {column}"

    def only(self, rows: BoolArray) -> "TablePart":
        """Return some of the rows."""
        return TablePart(
            self.path, self.word, self.numbers[rows], {name: of[rows] for name, of in self.columns.items()}
        )


@dataclass(frozen=True, eq=False)
class TableFile(ABC):
    """A table that can be read more than once."""

    path: Path
    names: tuple[str, ...]  # of its columns
    numeric: tuple[str, ...]  # names of those that hold one number a row
    others: dict[str, str]  # columns that do not, and what they hold: "text", "times", "lists" or the name of a type
    has_types: bool  # whether numbers are told from text; where not, everything is text

    @abstractmethod
    def parts(self, names: Sequence[str]) -> Iterator[TablePart]:
        """Yield these columns, some rows at a time."""


def open_table_file(path: Path) -> TableFile:
    """Return the table in a file, by the file's name."""
    if path.is_dir():
        files = tuple(sorted(path.rglob("*.parquet")))
        if not files:
            raise file_error(path, "folder", "parquet files", "none", "check the path")
        return ParquetTable.of(path, files)
    if not path.is_file():
        raise file_error(path, "file", f"a table: {KNOWN}", "no such file", "check the path")
    match path.suffix.lower():
        case ".parquet":
            return ParquetTable.of(path, (path,))
        case ".csv":
            return CsvTable.of(path)
        case ".npz":
            return NpzTable.of(path)
        case other:
            raise file_error(path, "file", f"a table: {KNOWN}", other or "no ending", "convert or rename it")


@dataclass(frozen=True, eq=False)
class ParquetTable(TableFile):
    """Parquet files with the same columns."""

    files: tuple[Path, ...]

    @staticmethod
    def of(path: Path, files: tuple[Path, ...]) -> "ParquetTable":
        """Return the table that the first file begins; others are opened when they are read."""
        import pyarrow as pa  # noqa: PLC0415 - optional, and takes long to import

        with _opened_parquet(files[0]) as file:
            fields = list(file.schema_arrow)
        held = {field.name: _held(field.type, pa.types) for field in fields}
        numeric = tuple(name for name, kind in held.items() if kind == "numbers")
        others = {name: kind for name, kind in held.items() if kind != "numbers"}
        return ParquetTable(path, tuple(held), numeric, others, True, files)

    def parts(self, names: Sequence[str]) -> Iterator[TablePart]:
        """Yield these columns, some rows at a time."""
        for path in self.files:
            with _opened_parquet(path) as file:
                missing = [name for name in names if name not in file.schema_arrow.names]
                if missing:
                    got, expected = ", ".join(file.schema_arrow.names), f"the columns of {self.files[0].name}"
                    raise file_error(path, ", ".join(missing), expected, got, "give all files the same columns")
                first = 0
                for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(names)):
                    numbers = np.arange(first, first + batch.num_rows)
                    columns = {name: _array(path, first, name, batch.column(name)) for name in names}
                    yield TablePart(path, "row", numbers, columns)
                    first += batch.num_rows


def _held(kind: Any, kinds: Any) -> str:
    """Return in a word what a column of an Arrow type holds."""
    kind = kind.value_type if kinds.is_dictionary(kind) else kind
    if any(is_one(kind) for is_one in (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)):
        return "numbers"
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return "text"
    if kinds.is_temporal(kind):
        return "times"
    return "lists" if kinds.is_nested(kind) else str(kind)


@contextmanager
def _opened_parquet(path: Path) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415 - optional, and takes long to import
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except FileError:
        raise
    except (OSError, pa.ArrowException) as error:
        got = f"one that cannot be read ({str(error).splitlines()[0]})"
        raise file_error(path, "file", "a complete parquet file", got, _AGAIN) from error


def _array(path: Path, first: int, name: str, column: Any) -> NDArray[Any]:
    """Return an Arrow column as an array: lists in lists of the same length become its further axes."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    kinds = pa.types
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    shape: list[int] = []
    while True:
        is_list = kinds.is_list(column.type) or kinds.is_large_list(column.type)
        is_list = is_list or kinds.is_fixed_size_list(column.type)
        if column.null_count and (is_list or shape):
            row = first + int(np.flatnonzero(np.asarray(column.is_null()))[0]) // max(1, prod(shape))
            raise file_error(path, f"row {row}, {name}", "a value", "nothing", "fill it in or drop the row")
        if not is_list:
            break
        lengths = np.asarray(compute.list_value_length(column))
        other = np.flatnonzero((lengths != lengths[0]) | (lengths == 0)) if len(lengths) else lengths
        if len(other):
            row = first + int(other[0]) // max(1, prod(shape))
            expected = f"{lengths[0] or 'some'} values, as in row {first}"
            got, remedy = f"{lengths[other[0]]}", "bring all samples to one shape"
            raise file_error(path, f"row {row}, {name}", expected, got, remedy)
        shape.append(int(lengths[0]) if len(lengths) else 1)
        column = column.flatten()
    if kinds.is_decimal(column.type):
        column = column.cast(pa.float64())
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        values = np.array(column.to_pylist(), dtype=np.object_)
    elif kinds.is_boolean(column.type) or kinds.is_integer(column.type) or kinds.is_floating(column.type):
        # Whole numbers with gaps stay what they are: as floats, long ids would become others.
        values = (
            np.array(column.to_pylist(), dtype=np.object_)
            if column.null_count
            else column.to_numpy(zero_copy_only=False)
        )
    else:
        expected = "numbers, strings, booleans, or lists of numbers"
        raise file_error(path, name, expected, str(column.type), "convert this column, or name another")
    return values.reshape(-1, *shape) if shape else values


@dataclass(frozen=True, eq=False)
class CsvTable(TableFile):
    """Values with commas between them, or semicolons or tabs; the first line names the columns.

    Where commas are not between values, they are decimal: 1,5 is 1.5.
    """

    between: str

    @staticmethod
    def of(path: Path) -> "CsvTable":
        """Return the table in a file; a column counts as numeric if its first value, gaps left out, is a number."""
        between = _between(path)
        rows = _csv_rows(path, between)
        _, header = next(rows, (1, []))
        names = tuple(name.strip() for name in header)
        if not names or len(set(names)) < len(names) or "" in names:
            got = ", ".join(map(repr, names)) or "nothing"
            remedy = "name every column in the first line, each differently"
            raise file_error(path, "line 1", "the names of the columns", got, remedy)
        first: dict[str, str] = {}
        for _, row in rows:
            for name, value in zip(names, row, strict=False):
                if value.strip().lower() not in GAPS:
                    first.setdefault(name, value.strip())
            if len(first) == len(names):
                break
        held = {name: _held_by_text(first.get(name, ""), between) for name in names}
        numeric = tuple(name for name in names if held[name] == "numbers")
        others = {name: kind for name, kind in held.items() if kind != "numbers"}
        return CsvTable(path, names, numeric, others, False, between)

    def parts(self, names: Sequence[str]) -> Iterator[TablePart]:
        """Yield these columns, some rows at a time; all values are text."""
        places = [self.names.index(name) for name in names]
        lines: list[int] = []
        kept: list[list[str]] = []
        rows = _csv_rows(self.path, self.between)
        next(rows)
        for line, row in rows:
            if len(row) != len(self.names):
                expected, got = f"{len(self.names)} values, as there are columns", f"{len(row)}"
                remedy = f"put values with {self.between!r} in them in quotation marks"
                raise file_error(self.path, f"line {line}", expected, got, remedy)
            lines.append(line)
            kept.append([row[place] for place in places])
            if len(kept) == _ROWS_AT_ONCE:
                yield self._part(names, lines, kept)
                lines, kept = [], []
        if kept:
            yield self._part(names, lines, kept)

    def _part(self, names: Sequence[str], lines: list[int], rows: list[list[str]]) -> TablePart:
        columns = dict(zip(names, np.array(rows, dtype=np.object_).T, strict=True))
        part = TablePart(self.path, "line", np.array(lines), columns)
        if self.between != ",":
            for name, values in columns.items():
                columns[name] = _with_points(part, name, values)
        return part


def _between(path: Path) -> str:
    """Return what stands between the values of a csv file: what its first line has most of."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline()
    return max(_BETWEEN, key=header.count)  # a comma where there is none of them


def _held_by_text(value: str, between: str) -> str:
    """Return in a word what a column holds whose first value this is."""
    if not value:
        return "nothing"
    if as_number(value) is not None or value.lower() in FLAGS:
        return "numbers"
    if _COMMA.fullmatch(value):
        return "numbers" if between != "," else "numbers with commas"
    return "times" if _TIME.match(value) else "text"


def _with_points(part: TablePart, name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return a column with points in place of decimal commas."""
    has_comma = np.array([_COMMA.fullmatch(value.strip()) is not None for value in values.tolist()], dtype=np.bool_)
    if not has_comma.any():
        return values
    for row, value in enumerate(values.tolist()):
        if _POINT.fullmatch(value.strip()):
            expected, remedy = "one decimal sign in all of a column", "write all numbers with a point"
            got = f"{value!r} and {values[has_comma][0]!r}"
            raise file_error(part.path, part.place(row, name), expected, got, remedy)
    made = values.copy()
    made[has_comma] = [value.replace(",", ".") for value in values[has_comma].tolist()]
    return made


def _csv_rows(path: Path, between: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line at which each row ends, from 1, and its values; empty lines are passed over."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True, delimiter=between)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except UnicodeDecodeError as error:
            line, byte = _first_line_that_is_not_utf8(path)
            got, remedy = f"the byte 0x{byte:02x}", "save the file with the encoding UTF-8"
            raise file_error(path, f"line {line}", "text in UTF-8", got, remedy) from error
        except csv.Error as error:
            remedy = "check its quotation marks; parquet suits long texts better"
            raise file_error(path, f"line {reader.line_num}", "values and commas", str(error), remedy) from error


def _first_line_that_is_not_utf8(path: Path) -> tuple[int, int]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return number, line[error.start]
    raise AssertionError(f"{path}: changed while it was read")


FLAGS = {"true": 1.0, "false": 0.0}
"""Truth values in a table, as numbers, whatever the case of their letters."""


def as_number(value: object) -> float | None:
    """Return a value of a table as a number; None: it is none."""
    try:
        return float(str(value))
    except ValueError:
        return None


def held_by_arrays(arrays: dict[str, NDArray[Any]]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return which arrays hold one number a row, and what the others do."""
    words = {"M": "times", "m": "times", "U": "text", "S": "text", "O": "text"}
    others = {
        name: "lists" if values.ndim > 1 else words.get(values.dtype.kind, str(values.dtype))
        for name, values in arrays.items()
        if values.ndim > 1 or values.dtype.kind not in "biuf"
    }
    return tuple(name for name in arrays if name not in others), others


@dataclass(frozen=True, eq=False)
class NpzTable(TableFile):
    """Arrays of the same length that are in memory: nothing in an archive can be read in parts."""

    arrays: dict[str, NDArray[Any]]

    @staticmethod
    def of(path: Path) -> "NpzTable":
        """Return the arrays of a file as a table."""
        arrays = read_arrays(path)
        lengths = {name: values.shape[:1] for name, values in arrays.items()}
        if len(set(lengths.values())) != 1 or () in lengths.values():
            got = ", ".join(f"{name} {values.shape}" for name, values in arrays.items()) or "none"
            remedy = "save arrays with one entry for each sample, and no others"
            raise file_error(path, "arrays", "some of the same length", got, remedy)
        return NpzTable(path, tuple(arrays), *held_by_arrays(arrays), True, arrays)

    def parts(self, names: Sequence[str]) -> Iterator[TablePart]:
        """Yield these columns, some rows at a time."""
        length = len(self.arrays[self.names[0]])
        for first in range(0, length, _ROWS_AT_ONCE):
            rows = slice(first, min(first + _ROWS_AT_ONCE, length))
            yield TablePart(
                self.path, "row", np.arange(rows.start, rows.stop), {name: self.arrays[name][rows] for name in names}
            )


def frame_table(frame: Any, name: str) -> TableFile:
    """Return a data frame of pandas as a table; errors call it by ``name``."""
    from pandas.api.types import infer_dtype  # noqa: PLC0415 - optional: whoever has a frame has it

    if not frame.columns.is_unique:
        raise file_error(name, "columns", "names that differ", "some twice", "rename them")
    arrays: dict[str, NDArray[Any]] = {}
    others: dict[str, str] = {}
    for column in frame.columns:
        values = frame[column]
        kind = infer_dtype(values.cat.categories if hasattr(values, "cat") else values, skipna=True)
        if kind.startswith(("date", "time", "period")):
            others[str(column)] = "times"
        elif kind not in ("integer", "floating", "boolean", "mixed-integer-float", "decimal"):
            others[str(column)] = "text" if kind == "string" else "nothing" if kind == "empty" else f"{kind} values"
        objects = values.astype(object)
        has_gaps = bool(values.isna().any())
        listed = [None if is_gap else one for one, is_gap in zip(objects, values.isna(), strict=True)]
        plain = str(column) in others or has_gaps
        arrays[str(column)] = np.array(listed, dtype=np.object_) if plain else np.array(listed)
    numeric = tuple(column for column in arrays if column not in others)
    return NpzTable(Path(name), tuple(arrays), numeric, others, True, arrays)
