"""Arrays as people have them in Python, of objects, of pandas, with categories or flags, as numbers or texts."""

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray


def is_frame(data: object) -> TypeGuard[Any]:
    """Return whether this is a data frame of pandas, by its attributes: the library need not be installed."""
    return all(hasattr(data, name) for name in ("columns", "iloc", "dtypes"))


def plain_array(values: object) -> NDArray[Any]:
    """Return an array of numbers or texts; one of objects that are neither stays what it is."""
    found = np.asarray(values)
    if found.dtype != object:
        return found
    listed = found.ravel().tolist()
    if all(isinstance(one, str) for one in listed):
        return found.astype(np.str_)
    if all(isinstance(one, bool | int | np.bool_ | np.integer) for one in listed):
        return found.astype(np.int64)
    return found.astype(np.float64) if all(isinstance(one, bool | int | float | np.number) for one in listed) else found
