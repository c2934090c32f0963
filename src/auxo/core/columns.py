"""Columns: frozen values all of whose arrays have a row for each client, check-in or participant."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Columns = TypeVar("Columns", bound="DataclassInstance")


def arrays_of(columns: "DataclassInstance") -> dict[str, NDArray[Any]]:
    """Return the arrays, by the names of their fields."""
    values = {field.name: getattr(columns, field.name) for field in fields(columns)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def take(columns: Columns, rows: NDArray[Any] | slice) -> Columns:
    """Return some rows, in that order; a slice of them in the same memory."""
    return replace(columns, **{name: array[rows] for name, array in arrays_of(columns).items()})


def with_rows(columns: Columns, rows: NDArray[Any], some: Columns) -> Columns:
    """Return a copy in which some rows are those of another value, in that order; a column that it lacks stays."""
    values = arrays_of(some)

    def changed(name: str, array: NDArray[Any]) -> NDArray[Any]:
        copy = array.copy()
        copy[rows] = values[name]
        return copy

    return replace(
        columns, **{name: changed(name, array) for name, array in arrays_of(columns).items() if name in values}
    )
