"""The labels of a table: whole numbers from 0, or names, which are numbered in sorted order."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import IntArray
from auxo.datasets.missing_values import as_numbers_if_all_are, gaps
from auxo.datasets.table_files import TableFile, TablePart, as_number
from auxo.files.errors import FileError, file_error

MAX_CLASSES = 100_000
"""Our choice: beyond it labels are ids or hashes, and a model of that width would not fit."""

_RANGE = f"a class: a whole number from 0 to {MAX_CLASSES - 1}, or a name"
_NUMBER_THEM = "number the classes from 0, or name the column of labels with --label"


@dataclass(frozen=True)
class Labels:
    """The classes of a data set; ``numbers`` is empty where labels are numbers already."""

    classes: tuple[str, ...]
    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, part: TablePart, column: str) -> IntArray:
        """Return the labels of some rows."""
        values = part.columns[column]
        if self.numbers:
            return np.array([self.numbers[str(value).strip()] for value in values.tolist()], dtype=np.int64)
        labels: IntArray = values.astype(np.float64).astype(np.int64)
        return labels


def read_labels(table: TableFile, column: str) -> Labels:
    """Return the classes that a column of labels has; gaps are passed over."""
    most, names = -1, dict[str, tuple[Path, str]]()  # where each name was first found
    for whole in table.parts((column,)):
        if whole.columns[column].ndim != 1:
            got = f"lists of {whole.columns[column].shape[1:]}"
            raise file_error(whole.path, whole.place(0, column), _RANGE, got, _NUMBER_THEM)
        part = whole.only(~gaps(whole.columns[column]))
        values = as_numbers_if_all_are(part.columns[column])
        if values.dtype.kind in "biuf":
            most = max(most, _largest(part, column, values))
        else:
            _gather(names, part, column, values)
    if names and most >= 0:
        name, (path, place) = next(iter(names.items()))
        expected = "a whole number, as in other files of the table"
        raise file_error(path, place, expected, repr(name), "use numbers in all files, or names in all")
    if names and not table.has_types:
        numbers = [number for name in names if (number := as_number(name)) is not None]
        if len(numbers) == len(names):  # text because all of the file is
            for (name, (path, place)), number in zip(names.items(), numbers, strict=True):
                if not (0 <= number < MAX_CLASSES and number.is_integer()):
                    raise file_error(path, place, _RANGE, name, _NUMBER_THEM)
            return _numbered(int(max(numbers)))
    if names:
        classes = tuple(sorted(names))
        return Labels(classes, {name: number for number, name in enumerate(classes)})
    if most < 0:
        raise file_error(table.path, "rows", "at least one sample", "none", "check that this is the right file")
    return _numbered(most)


def _numbered(most: int) -> Labels:
    return Labels(tuple(str(number) for number in range(most + 1)))


def _largest(part: TablePart, column: str, values: NDArray[Any]) -> int:
    numbers = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        is_label = (numbers >= 0) & (numbers < MAX_CLASSES) & (numbers == np.floor(numbers))
    if not is_label.all():
        row = int(np.argmin(is_label))
        raise _not_a_label(part, column, row, f"{values[row]}")
    return int(numbers.max(initial=-1))


def _gather(names: dict[str, tuple[Path, str]], part: TablePart, column: str, values: NDArray[Any]) -> None:
    for row, value in enumerate(values.tolist()):
        name = str(value).strip()
        if name not in names:
            names[name] = part.path, part.place(row, column)
            if len(names) > MAX_CLASSES:
                raise _not_a_label(part, column, row, f"the {len(names)}th name")


def _not_a_label(part: TablePart, column: str, row: int, got: str) -> FileError:
    return file_error(part.path, part.place(row, column), _RANGE, got, _NUMBER_THEM)
