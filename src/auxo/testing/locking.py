"""Arguments that nobody can change: arrays are read-only for as long as a function is watched."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass

import numpy as np
from numpy.typing import NDArray

from auxo.testing.contract import expect


@contextmanager
def locked(*values: object) -> Iterator[None]:
    """Make all arrays in these values read-only meanwhile, so that writing to one raises a ValueError.

    Raises:
        Unkept: in the end a mapping or a list among them does not hold what it held.
    """
    found = list(_reachable(values))
    arrays = [value for value in found if isinstance(value, np.ndarray) and value.flags.writeable]
    before = [(value, _held(value)) for value in found if isinstance(value, dict | list)]
    for array in arrays:
        array.flags.writeable = False
    try:
        yield
    finally:
        # A view can be made writable again once the array that it looks at is.
        for array in sorted(arrays, key=lambda array: array.base is not None):
            array.flags.writeable = True
    for value, held in before:
        is_same = [id(one) for one in _held(value)] == [id(one) for one in held]
        expect(is_same, "arguments as they were", f"a {type(value).__name__} that holds something else")


def _held(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [one for pair in value.items() for one in pair]
    return list(value) if isinstance(value, list | tuple) else []


def _reachable(values: tuple[object, ...]) -> Iterator[NDArray[np.generic] | dict[object, object] | list[object]]:
    """Yield arrays, mappings and lists in frozen values, what they have worked out and kept included."""
    seen: set[int] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray | dict | list):
            yield value
        if is_dataclass(value) and not isinstance(value, type):
            waiting.extend(getattr(value, "__dict__", {}).values())
        else:
            waiting.extend(_held(value))
