"""Where two values differ, to the bit: what a broken promise of equal results is told with."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
from numpy.typing import NDArray

from auxo.testing.contract import expect


def expect_same(one: object, other: object, expected: str) -> None:
    """Raise `Unkept` unless two values are the same to the bit; ``expected`` says what that means."""
    difference = first_difference(one, other)
    expect(difference is None, expected, f"a difference {difference}")


def first_difference(one: object, other: object, path: str = "") -> str | None:
    """Return where two values differ first, and how; None: nowhere. NaN is the same as itself.

    >>> first_difference((1, (2.0, 3.0)), (1, (2.0, 4.0)))
    'at [1][1]: 3.0 and 4.0'
    """
    where = f"at {path or 'the top'}"
    if type(one) is not type(other):
        return f"{where}: {type(one).__name__} and {type(other).__name__}"
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _of_arrays(one, other, where)
    mine, theirs = _parts(one), _parts(other)
    if mine is None or theirs is None:
        # A float's text tells -0.0 from 0.0, and NaN is the same as itself in it.
        is_same = repr(one) == repr(other) if isinstance(one, float) else one == other
        return None if is_same else f"{where}: {one!r} and {other!r}"
    if list(mine) != list(theirs):
        return f"{where}: {len(mine)} and {len(theirs)} parts, {', '.join(mine)} and {', '.join(theirs)}"
    found = (first_difference(mine[key], theirs[key], f"{path}{key}") for key in mine)
    return next((difference for difference in found if difference is not None), None)


def _parts(value: object) -> dict[str, object] | None:
    """Return what a value is made of, by the end of its path; None: it is not made of anything."""
    if isinstance(value, Mapping):
        return {f"[{key!r}]": part for key, part in value.items()}
    if isinstance(value, tuple | list):
        return {f"[{place}]": part for place, part in enumerate(value)}
    if is_dataclass(value):
        return {f".{field.name}": getattr(value, field.name) for field in fields(value)}
    return None


def _of_arrays(one: NDArray[np.generic], other: NDArray[np.generic], where: str) -> str | None:
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{where}: arrays of {one.dtype} {one.shape} and {other.dtype} {other.shape}"
    if one.tobytes() == other.tobytes():
        return None
    pairs = list(zip(one.ravel(), other.ravel(), strict=True))
    differ = [(mine, theirs) for mine, theirs in pairs if mine.tobytes() != theirs.tobytes()]
    return f"{where}: {len(differ)} of {len(pairs)} elements, such as {differ[0][0]} and {differ[0][1]}"
