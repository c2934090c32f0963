"""What a table's rows ask for besides one class: numbers (regression), or which of several labels a sample has."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, FloatArray
from auxo.datasets.missing_values import finite_column, gaps, numbers_with_gaps
from auxo.datasets.table_files import TableFile, TablePart
from auxo.files.errors import file_error
from auxo.population.preparation import LearningTask

_FLAGS = {"1": 1.0, "true": 1.0, "yes": 1.0, "1.0": 1.0, "0": 0.0, "false": 0.0, "no": 0.0, "0.0": 0.0}
_APART = re.compile(r"[;|]")
_MOST_LABELS = 10_000  # beyond it they are words rather than labels; our choice


@dataclass(frozen=True)
class Targets:
    """How columns become targets: each a number, each a flag, or one with names of labels, ``;`` between them."""

    task: LearningTask
    columns: tuple[str, ...]
    names: tuple[str, ...]  # of the targets

    def gaps(self, part: TablePart) -> dict[str, BoolArray]:
        """Return which rows lack a value in each column; an empty text is one, and of ``;`` alone no label."""
        if self.task == "multi-label":
            return {name: gaps(part.columns[name]) for name in self.columns}
        found = {name: numbers_with_gaps(part.columns[name]) for name in self.columns}
        return {name: np.isnan(numbers) for name, numbers in found.items() if numbers is not None}

    def of(self, part: TablePart) -> FloatArray:
        """Return the targets of some rows, (rows, targets)."""
        if self._are_named:
            place = {name: number for number, name in enumerate(self.names)}
            found = np.zeros((len(part.numbers), len(self.names)))
            for row, value in enumerate(part.columns[self.columns[0]].tolist()):
                found[row, [place[name] for name in _names(value)]] = 1.0
            return found
        read = _flags if self.task == "multi-label" else _numbers
        return np.stack([read(part, name) for name in self.columns], axis=1)

    def unknown_names(self, part: TablePart) -> Iterator[tuple[int, str]]:
        """Yield names of labels that are none of the targets, each with its row."""
        if self._are_named:
            for row, value in enumerate(part.columns[self.columns[0]].tolist()):
                yield from ((row, name) for name in _names(value) if name not in self.names)

    @property
    def _are_named(self) -> bool:
        return self.task == "multi-label" and len(self.columns) == 1


def read_targets(table: TableFile, task: LearningTask, columns: tuple[str, ...]) -> Targets:
    """Return how these columns become targets; names of labels are gathered from all rows."""
    if task == "regression" or len(columns) > 1:
        return Targets(task, columns, columns)
    values = (value for part in table.parts(columns) for value in part.columns[columns[0]].tolist())
    names = sorted({name for value in values for name in _names(value)})
    if not 1 <= len(names) <= _MOST_LABELS:
        expected = f"names of 1 to {_MOST_LABELS} labels with ; between them, or a column of 0 and 1 for each"
        remedy = "name the columns of labels with --label, each once"
        raise file_error(table.path, f"column {columns[0]!r}", expected, f"{len(names)} names", remedy)
    return Targets(task, columns, tuple(names))


def _names(value: object) -> list[str]:
    return [] if value is None else [name for one in _APART.split(str(value)) if (name := one.strip())]


def _numbers(part: TablePart, name: str) -> FloatArray:
    return finite_column(part, name, "a number to be learned", "drop the row, or learn classes instead")


def _flags(part: TablePart, name: str) -> FloatArray:
    values: NDArray[Any] = part.columns[name]
    told = [str(value).strip().lower() for value in values.tolist()]
    wrong = next((row for row, value in enumerate(told) if value not in _FLAGS), None)
    if wrong is not None:
        expected = "0 or 1, true or false, or yes or no"
        raise file_error(
            part.path, part.place(wrong, name), expected, repr(told[wrong]), "say whether it has the label"
        )
    return np.array([_FLAGS[value] for value in told], dtype=np.float64)
