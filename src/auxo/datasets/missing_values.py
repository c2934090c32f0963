"""Missing values of a table: which they are, and how many, of all rows at once."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, FloatArray
from auxo.datasets.table_files import FLAGS, GAPS, TablePart, as_number
from auxo.files.errors import FileError, file_error

_NAMED = 5  # columns that are named; our choice


def gaps(values: NDArray[Any]) -> BoolArray:
    """Return which values of a column of names or labels are missing: None, NaN, and empty text."""
    if values.dtype.kind == "f":
        is_gap: BoolArray = np.isnan(values)
        return is_gap
    if values.dtype.kind in "biu":
        return np.zeros(len(values), dtype=np.bool_)
    return np.array([value is None or str(value).strip() == "" for value in values.tolist()], dtype=np.bool_)


def as_numbers_if_all_are(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of numbers for one of objects that are numbers: a column whose gaps have been taken out."""
    if values.dtype.kind != "O" or not all(isinstance(value, int | float) for value in values.tolist()):
        return values
    return values.astype(np.float64)


def numbers_with_gaps(values: NDArray[Any]) -> FloatArray | None:
    """Return a column of numbers with NaN for gaps; None: some value is no number."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    listed = [_number(value) for value in values.tolist()]
    if any(value is None for value in listed):
        return None
    return np.array(listed, dtype=np.float64)


def finite_column(part: TablePart, name: str, expected: str, remedy: str) -> FloatArray:
    """Return a column of numbers with NaN for gaps; what is no finite number is an error that names its row."""
    values = part.columns[name]
    numbers = numbers_with_gaps(values) if values.ndim == 1 else None
    if numbers is None or np.isinf(numbers).any():
        listed = [_number(value) for value in values.tolist()] if values.ndim == 1 else []
        row = next((row for row, one in enumerate(listed) if one is None or np.isinf(one)), 0)
        raise file_error(part.path, part.place(row, name), expected, f"{values[row]!r:.80}", remedy)
    return numbers


def _number(value: object) -> float | None:
    text = "" if value is None else str(value).strip().lower()
    return float("nan") if text in GAPS else FLAGS.get(text, as_number(text))


@dataclass
class MissingCount:
    """How many values of each column are missing, counted while a table is read."""

    rows: int = 0
    rows_with_gaps: int = 0
    by_column: Counter[str] = field(default_factory=Counter)
    first: str | None = None  # the first place

    def add(self, part: TablePart, missing: dict[str, BoolArray]) -> BoolArray:
        """Count the gaps of some rows and return which rows have any."""
        some = np.zeros(len(part.numbers), dtype=np.bool_)
        for name, is_gap in missing.items():
            count = int(np.count_nonzero(is_gap))
            if count:
                self.by_column[name] += count
                some |= is_gap
        if self.first is None and some.any():
            row = int(np.argmax(some))
            name = next(name for name, is_gap in missing.items() if is_gap[row])
            self.first = part.place(row, name)
        self.rows += len(some)
        self.rows_with_gaps += int(np.count_nonzero(some))
        return some

    def words(self) -> str:
        """Return how many there are, and where.

        >>> MissingCount(10, 3, Counter(age=2, pay=1), "line 4, age").words()
        '3 of 10 rows have missing values (age: 2, pay: 1)'
        """
        named = ", ".join(f"{name}: {count:,}" for name, count in self.by_column.most_common(_NAMED))
        more = f", and {len(self.by_column) - _NAMED} columns more" if len(self.by_column) > _NAMED else ""
        return f"{self.rows_with_gaps:,} of {self.rows:,} rows have missing values ({named}{more})"

    def error(self, path: object, hint: str = "") -> FileError:
        """Return the error that says so, and what can be done."""
        remedy = "leave these rows out with --missing drop, fill gaps with means with --missing mean, or mend the table"
        remedy += hint
        return file_error(str(path), self.first or "rows", "a value in every row", self.words(), remedy)
