"""What a Flower strategy remembers between rounds, found by looking: model-like arrays and plain numbers.

Flower's strategies keep their state in attributes: moments, momentum, the last model, a clipping norm. No strategy says
which of them are state, so an attribute counts that is not as it was when the strategy was made. Strategies inside a
strategy, as in the wrappers for differential privacy, are looked into. What is neither arrays nor numbers stays with
the object: it is carried on as long as the process lives, and is named when a checkpoint cannot hold it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import Strategy

from auxo.flower.model_arrays import AppArray

Plain = bool | int | float | str | None


@dataclass(frozen=True)
class Remembered:
    """A strategy's state by the path of each attribute, such as ``strategy.m_t``."""

    arrays: Mapping[str, Mapping[str, AppArray]] = field(default_factory=dict)  # of one attribute, by name or place
    plain: Mapping[str, Plain] = field(default_factory=dict)
    others: tuple[str, ...] = ()  # attributes that differ and are neither


def remembered(strategy: Strategy, as_made: Strategy) -> Remembered:
    """Return what a strategy remembers; ``as_made`` is a new one of the same settings."""
    arrays: dict[str, Mapping[str, AppArray]] = {}
    plain: dict[str, Plain] = {}
    others: list[str] = []
    for path, value in _attributes(strategy):
        made = _get(as_made, path)
        found = _named_arrays(value)
        if found is not None:
            arrays[path] = found
        elif isinstance(value, Plain):
            if type(value) is not type(made) or value != made:
                plain[path] = value
        elif isinstance(value, np.generic) and value.dtype.kind in "biuf":
            plain[path] = value.item()
        elif not callable(value) and not is_alike(value, made):
            others.append(path)
    return Remembered(arrays, plain, tuple(others))


def recall(strategy: Strategy, state: Remembered) -> None:
    """Give a new strategy what another one remembers.

    Raises:
        ValueError: it has no such attribute; it is a strategy of another kind.
    """
    for path, found in state.arrays.items():
        _set(strategy, path, _in_the_form_of(path, found))
    for path, value in state.plain.items():
        _set(strategy, path, value)


def hand_over(old: Strategy, new: Strategy, as_made: Strategy) -> None:
    """Give a new strategy all that an old one remembers; ``as_made`` is one of the old one's settings.

    Settings of the new one, such as by how many clients it divides its noise, stay.
    """
    state = remembered(old, as_made)
    recall(new, state)
    for path in state.others:
        _set(new, path, _get(old, path))


def _attributes(strategy: Strategy, before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in sorted(vars(strategy).items()):
        if isinstance(value, Strategy):
            yield from _attributes(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _get(strategy: Strategy, path: str) -> object:
    found: object = strategy
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _set(strategy: Strategy, path: str, value: object) -> None:
    *above, name = path.split(".")
    holder = _get(strategy, ".".join(above)) if above else strategy
    if not isinstance(holder, Strategy) or not hasattr(holder, name):
        raise ValueError(
            f"{type(strategy).__name__}.{path}: expected this attribute, as the strategy of the checkpoint had it, got "
            "none; make the strategy as it was made then"
        )
    setattr(holder, name, value)


def _named_arrays(value: object) -> Mapping[str, AppArray] | None:
    """Return the arrays of an attribute by name or place; None: it is something else, or holds none."""
    if isinstance(value, ArrayRecord):
        return {f"r:{name}": array.numpy() for name, array in value.items()} if len(value) else None
    if isinstance(value, np.ndarray):
        return {"a:": value} if value.dtype.kind in "biuf" else None
    if isinstance(value, dict) and value and all(isinstance(one, np.ndarray) for one in value.values()):
        are_named = all(isinstance(name, str) for name in value)
        return {f"d:{name}": array for name, array in value.items()} if are_named else None
    if isinstance(value, list) and value and all(isinstance(one, np.ndarray) for one in value):
        return {f"l:{place}": array for place, array in enumerate(value)}
    return None


def _in_the_form_of(path: str, found: Mapping[str, AppArray]) -> object:
    kinds = {name[:2] for name in found}
    plain = {name[2:]: array for name, array in found.items()}
    match kinds.pop() if len(kinds) == 1 else "":
        case "r:":
            return ArrayRecord({name: Array(np.asarray(array)) for name, array in plain.items()})
        case "d:":
            return dict(plain)
        case "l:":
            return [plain[str(place)] for place in range(len(plain))]
        case "a:":
            return plain[""]
        case _:
            raise ValueError(f"{path}: expected arrays of one attribute, got {sorted(found)[:4]}")


def is_alike(value: object, made: object) -> bool:
    """Return whether two values of an attribute are the same; arrays never are."""
    if type(value) is not type(made):
        return False
    try:
        return bool(value == made)
    except (TypeError, ValueError):
        return False
