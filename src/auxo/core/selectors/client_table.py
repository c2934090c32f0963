"""A table keyed by client: what a selector remembers of each client that has taken part in a cohort's rounds."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import FloatArray, IntArray


@dataclass(frozen=True)
class ClientTable:
    """One row for each client that has taken part: 64 bytes each, so that a million of them take 64 MB.

    It grows with the clients that have taken part, not with the population: who has never been there has no row.
    """

    clients: IntArray  # ascending, each once
    utility: FloatArray  # statistical, of its last round
    usual_s: FloatArray  # how long a round's usual work takes it; NaN: nobody knows
    epoch_s: FloatArray  # of that, one pass of training; NaN: nobody knows
    upload_s: FloatArray  # of that, a whole upload; NaN: nobody knows
    gain: FloatArray  # length of its last update times the samples behind it; NaN: it has sent none
    last_round: IntArray  # in which it took part
    turns: IntArray  # rounds in which it took part

    @staticmethod
    def empty() -> "ClientTable":
        """Return a table of nobody."""
        nothing, never = np.zeros(0), np.zeros(0, dtype=np.int64)
        return ClientTable(never, nothing, nothing, nothing, nothing, nothing, never, never)

    def __post_init__(self) -> None:
        lengths = {one.name: len(getattr(self, one.name)) for one in fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns: expected one entry for each client, got {lengths}")
        if len(self.clients) > 1 and not (np.diff(self.clients) > 0).all():
            raise ValueError("clients: expected each once, ascending")

    def __len__(self) -> int:
        return len(self.clients)

    def places(self, clients: IntArray) -> IntArray:
        """Return the row of each of these clients; -1: it has none.

        >>> ClientTable.empty().with_rows_for(np.array([7, 3])).places(np.array([3, 5, 7]))
        array([ 0, -1,  1])
        """
        if len(self) == 0:
            return np.full(len(clients), -1, dtype=np.int64)
        found = np.searchsorted(self.clients, clients).clip(max=len(self) - 1)
        return np.where(self.clients[found] == clients, found, -1)

    def with_rows_for(self, clients: IntArray) -> "ClientTable":
        """Return the table with a row for each of these clients; new ones hold NaN and zeros."""
        newcomers = np.unique(clients[self.places(clients) < 0])
        if len(newcomers) == 0:
            return self
        at = np.searchsorted(self.clients, newcomers)

        def widened(name: str) -> NDArray[Any]:
            column: NDArray[Any] = getattr(self, name)
            return np.insert(column, at, np.nan if column.dtype.kind == "f" else 0)

        columns = {one.name: widened(one.name) for one in fields(self) if one.name != "clients"}
        return ClientTable(clients=np.insert(self.clients, at, newcomers), **columns)

    def put(self, rows: IntArray, **columns: NDArray[Any]) -> "ClientTable":
        """Return the table with these values in these rows; columns that are not named are shared with this one."""

        def written(name: str, values: NDArray[Any]) -> NDArray[Any]:
            column: NDArray[Any] = getattr(self, name).copy()
            column[rows] = values
            return column

        return replace(self, **{name: written(name, values) for name, values in columns.items()})
