"""A Flower model as Auxo sees it: the named arrays of an `ArrayRecord`, and their floats as one flat vector."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common.constant import SType
from numpy.typing import NDArray

from auxo.core.layers import Layer
from auxo.core.thin_models import ThinModel
from auxo.core.types import Float32Array, FloatArray

AppArray = NDArray[Any]  # of whatever kind of numbers an app's model has

_MALFORMED = (ValueError, TypeError, KeyError, EOFError, OSError, MemoryError, AttributeError, OverflowError)
"""What reading an array that a peer has sent may raise: its header may claim any size and kind."""

_SCALES, _STEPS = "auxo.scales", "auxo.steps"  # of a thin model

_NPY, _PREFIX = b"\x93NUMPY\x01\x00", 10  # how an array's bytes begin, and how many these are with the header's length


@dataclass(frozen=True)
class _Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    header: bytes  # of the initial array's bytes: an array that begins with the same is of the same kind and shape

    @property
    def is_float(self) -> bool:
        return np.dtype(self.dtype).kind == "f"

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class ModelArrays:
    """What the arrays of a model are called, and their shapes; arrays of whole numbers are no part of the vector."""

    tensors: tuple[_Tensor, ...]

    @staticmethod
    def of(arrays: ArrayRecord) -> "ModelArrays":
        """Return what the initial arrays tell.

        Raises:
            ValueError: they hold no floats, or what is not finite.
        """
        tensors = []
        for name, array in arrays.items():
            values = array.numpy()
            header = array.data[: len(array.data) - values.nbytes]
            tensors.append(_Tensor(name, values.shape, str(values.dtype), header))
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise ValueError(f"initial_arrays: expected finite numbers, got others in {name!r}")
        model = ModelArrays(tuple(tensors))
        if not model.n_params:
            raise ValueError("initial_arrays: expected arrays of floats, got none; Auxo compares updates of numbers")
        return model

    @property
    def n_params(self) -> int:
        """Return the length of the vector."""
        return sum(tensor.size for tensor in self.tensors if tensor.is_float)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the shapes of what is in the vector, units along the first axis."""
        return tuple(Layer(tensor.shape) for tensor in self.tensors if tensor.is_float and tensor.size)

    def floats(self, arrays: ArrayRecord) -> list[AppArray] | None:
        """Return the arrays that are in the vector, in its order; None: they are not those of this model.

        Nothing is copied where an array is stored as the model's own first one was.
        """
        if len(arrays) != len(self.tensors):
            return None
        found: list[AppArray] = []
        for tensor in self.tensors:
            values = _values(arrays.get(tensor.name), tensor)
            if values is None:
                return None
            if tensor.is_float:
                found.append(values)
        return found

    def flat(self, arrays: ArrayRecord) -> FloatArray:
        """Return the vector of arrays; a ValueError says that they are not of this model."""
        found = self.floats(arrays)
        if found is None:
            raise ValueError(f"arrays: expected those of the initial model, {self.described()}, got others")
        return np.concatenate([values.ravel() for values in found]).astype(np.float64)

    def flat32(self, found: Sequence[AppArray]) -> Float32Array:
        """Return arrays of the vector, see `floats`, as one of float32."""
        return np.concatenate([values.ravel() for values in found], dtype=np.float32, casting="unsafe")

    def record(self, flat: Float32Array | FloatArray, like: ArrayRecord) -> ArrayRecord:
        """Return a vector as arrays; whole numbers, and the kinds of all, are those of ``like``."""
        arrays, first = {}, 0
        for tensor in self.tensors:
            kept = like[tensor.name]
            if tensor.is_float:
                values = flat[first : first + tensor.size].reshape(tensor.shape).astype(kept.numpy().dtype)
                arrays[tensor.name] = Array(np.asarray(values))
                first += tensor.size
            else:
                arrays[tensor.name] = kept
        return ArrayRecord(arrays)

    def described(self) -> str:
        """Return the arrays in words."""
        return ", ".join(f"{tensor.name} {tensor.shape}" for tensor in self.tensors[:6])


class Updates:
    """Room for a round's updates, which the next round uses again: new memory costs more than what is done in it."""

    def __init__(self, n_params: int) -> None:
        self._n_params = n_params
        self._rooms: list[Float32Array] = []

    def room(self, place: int) -> Float32Array:
        """Return where the round's update of that place goes; what is in it is of an earlier round."""
        while len(self._rooms) <= place:
            self._rooms.append(np.empty(self._n_params, dtype=np.float32))
        return self._rooms[place]


def update_between(before: Sequence[AppArray], after: Sequence[AppArray], flat: Float32Array) -> Float32Array:
    """Return new weights minus old, flat, in the room that is given for it."""
    first = 0
    with np.errstate(all="ignore"):  # what is no number is refused afterwards, with its reason
        for old, new in zip(before, after, strict=True):
            part = flat[first : first + old.size].reshape(old.shape)
            np.subtract(new, old, out=part, casting="unsafe")
            first += old.size
    return flat


def mean_of(records: Sequence[ArrayRecord], weights: Sequence[float]) -> ArrayRecord:
    """Return the mean of records with the same arrays; of whole numbers, those of the largest weight."""
    heaviest = records[max(range(len(records)), key=lambda place: weights[place])]
    total = sum(weights)
    arrays = {}
    for name, kept in heaviest.items():
        dtype = kept.numpy().dtype
        if dtype.kind != "f":
            arrays[name] = kept
            continue
        parts = [
            record[name].numpy().astype(np.float64) * (weight / total)
            for record, weight in zip(records, weights, strict=True)
        ]
        arrays[name] = Array(np.asarray(np.sum(parts, axis=0).astype(dtype)))
    return ArrayRecord(arrays)


def thin_arrays(model: ModelArrays, arrays: ArrayRecord, like: ArrayRecord) -> ArrayRecord:
    """Return what travels of a model to somebody who has another one; see `auxo.core.thin_models`."""
    thin = ThinModel.of(*(model.flat(one).astype(np.float32) for one in (arrays, like)))
    return ArrayRecord({_SCALES: Array(thin.scales), _STEPS: Array(thin.steps)})


def whole_arrays(model: ModelArrays, thin: ArrayRecord, like: ArrayRecord) -> ArrayRecord:
    """Return the model that has travelled so; whole numbers are those of the other one.

    Raises:
        ValueError: it is of another model, or no numbers.
    """
    found = ThinModel(*(thin[name].numpy() for name in (_SCALES, _STEPS)))
    if found.scales.dtype != np.float32 or found.steps.dtype != np.uint8:
        raise ValueError(
            f"expected scales of float32 and steps of bytes, got {found.scales.dtype}, {found.steps.dtype}"
        )
    return model.record(found.added_to(model.flat(like).astype(np.float32)), like)


def is_thin(arrays: ArrayRecord) -> bool:
    """Return whether arrays are those of a thin model."""
    return set(arrays) == {_SCALES, _STEPS}


def _values(array: Array | None, tensor: _Tensor) -> AppArray | None:
    """Return an array's numbers if they are of the tensor's shape and of its kind of numbers."""
    if not isinstance(array, Array):
        return None
    try:
        dtype = np.dtype(tensor.dtype)
        length = len(tensor.header)
        if array.data[:length] == tensor.header and len(array.data) == length + tensor.size * dtype.itemsize:
            return np.frombuffer(array.data, dtype, offset=length).reshape(tensor.shape)
        values = _stored(array)
    except _MALFORMED:
        return None
    if values.shape != tensor.shape or (tensor.is_float and values.dtype.kind != "f"):
        return None
    return values


def _stored(array: Array) -> AppArray:
    """Return an array's numbers, as `Array.numpy` does; those that are stored plainly are not copied.

    A strategy may make a model of another kind of numbers than the first one's, and then all replies are of that.
    """
    length = _PREFIX + int.from_bytes(array.data[_PREFIX - 2 : _PREFIX], "little")
    found = _layout(array.data[:length]) if array.stype == SType.NUMPY and array.data.startswith(_NPY) else None
    if found is None:
        return array.numpy()
    shape, dtype = found
    if len(array.data) != length + math.prod(shape) * dtype.itemsize:
        return array.numpy()
    return np.frombuffer(array.data, dtype, offset=length).reshape(shape)


@lru_cache(maxsize=256)
def _layout(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return shape and kind of numbers by a header of numpy's own file format; None: leave it to numpy."""
    file = BytesIO(header)
    if np.lib.format.read_magic(file) != (1, 0):
        return None
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if is_fortran or dtype.kind not in "fiub" or any(size < 0 for size in shape):
        return None
    return shape, dtype
