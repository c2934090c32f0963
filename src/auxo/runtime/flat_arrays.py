"""What a user's loop has for an update or a model, as the flat array that is meant, where that is plain."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import Float32Array


def as_array(value: object) -> NDArray[np.generic] | None:
    """Return an array, a torch tensor or a list of numbers as an array; None: it is none of them.

    A tensor may be on any device and part of a graph; torch itself is not needed to tell.
    """
    if isinstance(value, np.ndarray):
        return value
    try:
        if type(value).__module__.partition(".")[0] == "torch":
            return _of_tensor(value)
        if isinstance(value, list | tuple) and value:
            return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, AttributeError, OverflowError):
        return None
    return None


def as_flat(value: object, n_params: int) -> object:
    """Return an update as a flat array of floats where that is plainly meant; else as it came, to be refused.

    An array of more axes is raveled, and a list of arrays, one for each tensor of the model, is put end to end, if
    there are as many numbers as parameters. Whole numbers are no update, unless a list has no other.
    """
    array = as_array(value)
    if array is None and isinstance(value, list | tuple) and value:
        parts = [as_array(one) for one in value]
        known = [part for part in parts if part is not None and part.dtype.kind == "f"]
        array = np.concatenate([part.ravel() for part in known]) if len(known) == len(parts) else None
    if array is None or array.size != n_params:
        return value
    return array.ravel()


def flat_update(value: object) -> Float32Array:
    """Return what a client's training gave as a flat update; a ValueError says that it is no such thing."""
    parts = value if isinstance(value, list | tuple) and _holds_arrays(value) else [value]
    arrays = [as_array(one) for one in parts]
    floats = [one.ravel() for one in arrays if one is not None and one.dtype.kind == "f"]
    if not floats or len(floats) < len(arrays):
        raise ValueError(
            f"train: expected new weights minus old, as an array of floats or one for each tensor, got {value!r:.80}"
        )
    with np.errstate(over="ignore"):  # what is infinite then is for the server to refuse
        return np.concatenate(floats, dtype=np.float32, casting="same_kind")


def _of_tensor(tensor: object) -> NDArray[np.generic]:
    detached = tensor.detach().cpu()  # type: ignore[attr-defined]  # torch is not imported here
    if detached.is_floating_point():  # numpy does not know all of torch's kinds
        detached = detached.float() if detached.element_size() < 4 else detached
    array: NDArray[np.generic] = detached.numpy()
    return array


def models_in_arrays(weights: object) -> list[NDArray[np.generic]]:
    """Return the models that a server is given: an array, a tensor or a list of numbers is one, a list of them several.

    Raises:
        ValueError: they are nothing of the kind, or of several sizes, or not finite.
    """
    one = as_array(weights) if not _holds_arrays(weights) else None
    several = list(weights) if one is None and isinstance(weights, Sequence) and not isinstance(weights, str) else []
    models = [one] if one is not None else [as_array(model) for model in several]
    if not models:
        raise ValueError("weights: expected an array or several, got none")
    flat = [np.zeros(0) if model is None else model.ravel() for model in models]
    for model in flat:
        if model.dtype.kind != "f" or not len(model) or not np.isfinite(model).all():
            raise ValueError(
                "weights: expected a flat, non-empty array of finite floats; concatenate your layers' raveled arrays"
            )
        if len(model) != len(flat[0]):
            raise ValueError(
                f"weights: expected models of one size, got {len(flat[0])} and {len(model)} parameters; "
                "concatenate the raveled arrays of one model's layers"
            )
    return flat


def _holds_arrays(value: object) -> bool:
    """Return whether it is a list whose items are arrays or lists themselves: each is a model."""
    return isinstance(value, list | tuple) and any(not isinstance(one, int | float | np.number) for one in value)
