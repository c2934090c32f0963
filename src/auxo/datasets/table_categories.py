"""Columns of a table that hold one of several values: an input for every value, 1 where a row has it and else 0."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import FloatArray
from auxo.datasets.missing_values import gaps
from auxo.datasets.table_files import TableFile, TablePart
from auxo.files.errors import file_error
from auxo.population.preparation import Preparation

MOST_VALUES = 1000
"""Of one column: beyond it they are ids or texts; our choice."""


@dataclass(frozen=True)
class Categories:
    """A column and the values that become inputs."""

    column: str
    values: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return what the inputs are called."""
        return tuple(f"{self.column}={value}" for value in self.values)

    def of(self, part: TablePart) -> FloatArray:
        """Return the inputs of some rows, (rows, values): NaN for gaps, and 0 for a value that is none of these."""
        told = part.columns[self.column]
        place = {value: number for number, value in enumerate(self.values)}
        made = np.zeros((len(told), len(self.values)))
        for row, value in enumerate(_texts(told)):
            if value in place:
                made[row, place[value]] = 1.0
        made[gaps(told)] = np.nan
        return made

    def unknown(self, part: TablePart) -> list[str]:
        """Return the values in some rows that are none of these."""
        told = part.columns[self.column]
        return sorted(set(_texts(told[~gaps(told)])) - set(self.values))


def read_categories(table: TableFile, column: str) -> Categories:
    """Return the values that a column has, sorted."""
    found: set[str] = set()
    for part in table.parts((column,)):
        values = part.columns[column]
        if values.ndim != 1:
            got = f"lists of {values.shape[1:]}"
            raise file_error(part.path, part.place(0, column), "one value a row", got, "leave it out of --categories")
        found |= set(_texts(values[~gaps(values)]))
        if len(found) > MOST_VALUES:
            expected, remedy = (
                f"at most {MOST_VALUES:,} categories",
                "leave it out of --categories, or put some together",
            )
            raise file_error(part.path, f"column {column!r}", expected, "more", remedy)
    if not found:
        raise file_error(table.path, f"column {column!r}", "categories", "none", "leave it out of --categories")
    return Categories(column, tuple(sorted(found)))


def categories_of(done: Preparation) -> dict[str, Categories]:
    """Return the columns of categories that became inputs, by name."""
    return {column: Categories(column, values) for column, values in done.categories}


def columns_read(done: Preparation) -> tuple[str, ...]:
    """Return the columns of a table that inputs are made of, in the order of the inputs."""
    origin = {name: one.column for one in categories_of(done).values() for name in one.names}
    return tuple(dict.fromkeys(origin.get(name, name) for name in done.columns))


def _texts(values: NDArray[Any]) -> list[str]:
    """Return values as text: 3 and 3.0 are the same."""
    listed = values.tolist()
    return [str(int(one)) if isinstance(one, float) and one.is_integer() else str(one).strip() for one in listed]
