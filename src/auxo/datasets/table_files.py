"""Tables on disk, a part at a time: parquet (one file or a folder of them), csv and npz."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from auxo.core.types import BoolArray, IntArray
from auxo.files.errors import FileError, file_error

_ROWS_AT_ONCE = 4096  # our choice: an image of 224 x 224 in three colours makes 600 MB of this
KNOWN = ".parquet (or a folder of such files), .csv or .npz"
"""What files of tables are called."""

_AGAIN = "copy it again from its origin"


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


class TableFile(Protocol):
    """A table that can be read more than once."""

    @property
    def path(self) -> Path:
        """Return where it is."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its columns."""
        ...

    @property
    def numeric(self) -> tuple[str, ...]:
        """Return the names of the columns that hold one number a row."""
        ...

    @property
    def has_types(self) -> bool:
        """Return whether numbers are told from text; where not, everything is text."""
        ...

    def parts(self, names: Sequence[str]) -> Iterator[TablePart]:
        """Yield these columns, some rows at a time."""
        ...


def open_table_file(path: Path) -> TableFile:
    """Return the table in a file, by the file's name.

    Raises:
        FileError: there is no such file, it cannot be read, or it is of no known kind.
    """
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


@dataclass(frozen=True)
class ParquetTable:
    """Parquet files with the same columns."""

    path: Path
    files: tuple[Path, ...]
    names: tuple[str, ...]
    numeric: tuple[str, ...]
    has_types: bool = True

    @staticmethod
    def of(path: Path, files: tuple[Path, ...]) -> "ParquetTable":
        """Return the table that the first file begins; others are opened when they are read."""
        import pyarrow as pa  # noqa: PLC0415 - optional, and takes long to import

        with _opened_parquet(files[0]) as file:
            fields = list(file.schema_arrow)
        numeric = [
            field.name for field in fields if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        ]
        return ParquetTable(path, files, tuple(field.name for field in fields), tuple(numeric))

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


@dataclass(frozen=True)
class CsvTable:
    """Values with commas between them; the first line names the columns."""

    path: Path
    names: tuple[str, ...]
    numeric: tuple[str, ...]
    has_types: bool = False

    @staticmethod
    def of(path: Path) -> "CsvTable":
        """Return the table in a file; a column counts as numeric if its first value, gaps left out, is a number."""
        rows = _csv_rows(path)
        _, header = next(rows, (1, []))
        names = tuple(name.strip() for name in header)
        if not names or len(set(names)) < len(names) or "" in names:
            got = ", ".join(map(repr, names)) or "nothing"
            remedy = "name every column in the first line, each differently"
            raise file_error(path, "line 1", "the names of the columns", got, remedy)
        first: dict[str, str] = {}
        for _, row in rows:
            for name, value in zip(names, row, strict=False):
                if value.strip():
                    first.setdefault(name, value)
            if len(first) == len(names):
                break
        return CsvTable(path, names, tuple(name for name in names if _is_number(first.get(name, ""))))

    def parts(self, names: Sequence[str]) -> Iterator[TablePart]:
        """Yield these columns, some rows at a time; all values are text."""
        places = [self.names.index(name) for name in names]
        lines: list[int] = []
        kept: list[list[str]] = []
        rows = _csv_rows(self.path)
        next(rows)
        for line, row in rows:
            if len(row) != len(self.names):
                expected, got = f"{len(self.names)} values, as there are columns", f"{len(row)}"
                remedy = "put values with commas in quotation marks"
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
        return TablePart(self.path, "line", np.array(lines), columns)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line at which each row ends, from 1, and its values; empty lines are passed over."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class NpzTable:
    """Arrays of the same length, which are read as a whole: nothing in an archive can be read in parts."""

    path: Path
    arrays: dict[str, NDArray[Any]]
    names: tuple[str, ...]
    numeric: tuple[str, ...]
    has_types: bool = True

    @staticmethod
    def of(path: Path) -> "NpzTable":
        """Return the arrays of a file as a table."""
        arrays = read_arrays(path)
        lengths = {name: values.shape[:1] for name, values in arrays.items()}
        if len(set(lengths.values())) != 1 or () in lengths.values():
            got = ", ".join(f"{name} {values.shape}" for name, values in arrays.items()) or "none"
            remedy = "save arrays with one entry for each sample, and no others"
            raise file_error(path, "arrays", "some of the same length", got, remedy)
        numeric = [name for name, values in arrays.items() if values.ndim == 1 and values.dtype.kind in "iuf"]
        return NpzTable(path, arrays, tuple(arrays), tuple(numeric))

    def parts(self, names: Sequence[str]) -> Iterator[TablePart]:
        """Yield these columns, some rows at a time."""
        length = len(self.arrays[self.names[0]])
        for first in range(0, length, _ROWS_AT_ONCE):
            rows = slice(first, min(first + _ROWS_AT_ONCE, length))
            yield TablePart(
                self.path, "row", np.arange(rows.start, rows.stop), {name: self.arrays[name][rows] for name in names}
            )


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, as ``np.savez`` writes them. Nothing in it is unpickled.

    Raises:
        FileError: it is no such file, or an array cannot be read.
    """
    arrays, place = {}, "file"
    try:
        # Opened here, because NumPy leaves its own file open when the archive in it is damaged.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            for place in archive.files if isinstance(archive, NpzFile) else ():
                arrays[place] = _as_text(archive[place])
    except Exception as error:  # damaged bytes make zip, deflate and NumPy's parser of headers raise almost anything
        remedy = "write numbers and strings, no Python objects, with np.savez"
        raise file_error(
            path, place, "an npz archive of arrays", f"one that cannot be read ({error})", remedy
        ) from error
    return arrays


def _as_text(values: NDArray[Any] | bytes) -> NDArray[Any]:
    """Return strings for arrays of bytes, and other arrays as they are."""
    if isinstance(values, bytes):
        raise TypeError("not an array")
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
