"""Which rows of a long column are others than before: of a million clients a few thousand change between two looks."""

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[np.generic]

_CHUNK_BYTES = 4 * 2**20  # compared at a time; our choice
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def resized(array: AnyArray | None, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> AnyArray:
    """Return a copy with so many rows, new ones zero; all are zero if there was no array, or one of another kind."""
    after = np.zeros(shape, dtype=dtype)
    if array is not None and array.dtype == dtype and array.shape[1:] == shape[1:]:
        rows = min(len(array), shape[0])
        after[:rows] = array[:rows]
    return after


def changed_rows(before: AnyArray | None, now: AnyArray) -> NDArray[np.int64]:
    """Return the rows of ``now``, at least of one dimension, whose bits differ from `resized` ``before``.

    >>> changed_rows(np.array([1, 2]), np.array([1, 3, 0, 4]))
    array([1, 3])
    """
    if before is None or before.dtype != now.dtype or before.shape[1:] != now.shape[1:]:
        before = now[:0]
    rows, width = len(now), now[:1].nbytes
    if rows == 0 or width == 0:
        return np.zeros(0, dtype=np.int64)
    # As bits: a NaN is no change of another with the same ones, and -0.0 is one of 0.0.
    word = _WORDS[now.dtype.itemsize]
    per_row = width // now.dtype.itemsize
    new, old = (np.ascontiguousarray(array).view(word).reshape(len(array), per_row) for array in (now, before))
    step = max(1, _CHUNK_BYTES // width)
    found = []
    for first in range(0, rows, step):
        here = new[first : first + step]
        there = old[first : first + len(here)]
        differs = np.concatenate([(here[: len(there)] != there).any(axis=1), here[len(there) :].any(axis=1)])
        found.append(np.flatnonzero(differs) + first)
    return np.concatenate(found)
