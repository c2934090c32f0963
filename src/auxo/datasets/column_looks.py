"""Columns of a table that became inputs but look like none: ids, numbers of rows, and times."""

import re

import numpy as np
from numpy.typing import NDArray

_ID = re.compile(r"(^|_)(id|ids|uuid|guid|key|index|idx|rowid|row_number|unnamed)($|_)|(?<=[a-z])(Id|ID|Key)$")
_TIME = re.compile(r"(^|_)(timestamp|datetime|date|time|ts|epoch|unixtime)($|_)|created_at|updated_at")
_SECONDS = (6.0e8, 4.0e9)  # since 1970, from 1989 to 2096; our choice, and so are the next two
_FEWEST = 20  # rows before values say anything
_MANY = 0.99  # share of neighbours that ascend in a column of row numbers
_SPARSE = 10  # times as wide as there are rows, whole numbers may be different by chance


class ColumnLooks:
    """What the values of each column look like, gathered while a table is read."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        size = len(names)
        self._least, self._most = np.full(size, np.inf), np.full(size, -np.inf)
        self._is_whole = np.ones(size, dtype=np.bool_)
        self._is_distinct = np.ones(size, dtype=np.bool_)  # as far as whole numbers go, in rows that come together
        self._ascends, self._rows = np.zeros(size), 0

    def add(self, x: NDArray[np.generic]) -> None:
        """Take some rows into account, in their order."""
        numbers = x.astype(np.float64)
        self._least = np.fmin(self._least, np.fmin.reduce(numbers, axis=0))
        self._most = np.fmax(self._most, np.fmax.reduce(numbers, axis=0))
        with np.errstate(invalid="ignore"):
            self._is_whole &= ((numbers == np.floor(numbers)) | np.isnan(numbers)).all(axis=0)
            self._is_distinct &= self._is_whole
            ordered = np.sort(numbers[:, self._is_distinct], axis=0)
            self._is_distinct[self._is_distinct] = (np.diff(ordered, axis=0) != 0).all(axis=0)
            self._ascends += np.count_nonzero(np.diff(numbers, axis=0) > 0, axis=0)
        self._rows += max(0, len(numbers) - 1)

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each column that looks like an id or a time."""
        found = []
        for place, name in enumerate(self.names):
            what = self._is_doubtful(place, name)
            if what is not None:
                found.append(
                    f"column {name!r} became an input, but looks like {what}; "
                    "if it says nothing about a sample, name the columns of inputs with --features"
                )
        return tuple(found)

    def _is_doubtful(self, place: int, name: str) -> str | None:
        if _TIME.search(name.lower()):
            return "a time (by its name)"
        if _ID.search(name) or _ID.search(name.lower()):
            return "an id (by its name)"
        is_enough = self._rows >= _FEWEST and self._is_whole[place]
        return self._by_values(place) if is_enough else None

    def _by_values(self, place: int) -> str | None:
        if any(_SECONDS[0] * unit <= self._least[place] and self._most[place] <= _SECONDS[1] * unit for unit in _UNITS):
            return "a time (by its values)"
        span = self._most[place] - self._least[place]
        if self._ascends[place] >= _MANY * self._rows and span >= self._rows:
            return "a number of rows (its values ascend)"
        if self._is_distinct[place] and span <= _SPARSE * self._rows:
            return "an id (no two rows have the same)"
        return None


_UNITS = (1.0, 1e3, 1e6, 1e9)  # seconds, and their thousandth, millionth and billionth parts
