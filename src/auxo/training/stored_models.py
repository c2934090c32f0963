"""Models as files that others can load: safetensors, with the names and shapes of the model's own parameters."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from auxo.core.types import Float32Array

Tensors = dict[str, NDArray[np.generic]]
"""Arrays by the names of parameters."""


@runtime_checkable
class StoresModels(Protocol):
    """A trainer that knows its model's parameters by name; of others only the flat weights can be stored."""

    def to_file(self, weights: Float32Array) -> bytes:
        """Return the whole model with these weights as a safetensors file."""
        ...

    def from_file(self, content: bytes) -> Float32Array:
        """Return the flat weights of a model that `to_file` wrote.

        Raises:
            ValueError: it is damaged, or of another model.
        """
        ...


FLAT = "weights"
"""What the one tensor of a model is called whose parameters have no names."""


def stored(trainer: object, weights: Float32Array) -> bytes:
    """Return a model as a safetensors file, with the parameters' names where the trainer knows them."""
    if isinstance(trainer, StoresModels):
        return trainer.to_file(weights)
    return safetensors.numpy.save({FLAT: np.ascontiguousarray(weights)})


def restored(trainer: object, content: bytes) -> Float32Array:
    """Return the flat weights of a model that `stored` wrote for such a trainer.

    Raises:
        ValueError: it is damaged, or of another model.
    """
    if isinstance(trainer, StoresModels):
        return trainer.from_file(content)
    return tensors_in(content, {FLAT: None})[FLAT].astype(np.float32)


def tensors_by_name(content: bytes) -> Tensors:
    """Return the tensors of a safetensors file; a ValueError says that it is damaged."""
    try:
        return safetensors.numpy.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"expected a safetensors file, got something else ({error}); use another copy") from error


def tensors_in(content: bytes, expected: Mapping[str, tuple[int, ...] | None]) -> Tensors:
    """Return the tensors of a safetensors file, which must be these and no others.

    Args:
        content: of the file.
        expected: the shape of each; None: any.

    Raises:
        ValueError: it is damaged, or of another model.
    """
    found = tensors_by_name(content)
    check_names(expected, found)
    for name, shape in expected.items():
        if shape is not None and found[name].shape != shape:
            raise ValueError(
                f"{name}: expected shape {shape}, got {found[name].shape}; load it with the model that was trained"
            )
    return found


def check_names(expected: Mapping[str, object], found: Mapping[str, object]) -> None:
    """Raise a ValueError unless a file has the tensors of a model and no others."""
    if set(found) != set(expected):
        lacking = ", ".join(sorted(set(expected) - set(found))[:5]) or "none"
        beyond = ", ".join(sorted(set(found) - set(expected))[:5]) or "none"
        raise ValueError(
            f"tensors: expected those of the model, but it lacks {lacking}, and has beyond them {beyond}; load it with "
            "the model that was trained"
        )
