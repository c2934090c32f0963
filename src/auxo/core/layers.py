"""What a model's flat weights are made of: tensors, and the units (neurons, filters) that their entries belong to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from auxo.core.types import Float32Array, IntArray


@dataclass(frozen=True)
class Layer:
    """One tensor of a model; a tuple of them, in the order of the flat weights, describes the model.

    Tensors of two dimensions and more have a unit for each index along ``units_axis``: the rows of a linear layer's
    matrix, the filters of a convolution.
    """

    shape: tuple[int, ...]
    units_axis: int = 0

    def __post_init__(self) -> None:
        if any(length < 1 for length in self.shape):
            raise ValueError(f"shape: expected lengths of at least 1, got {self.shape}; leave empty tensors out")
        if not 0 <= self.units_axis < max(len(self.shape), 1):
            raise ValueError(f"units_axis: expected an axis of the shape {self.shape}, got {self.units_axis}")

    @cached_property
    def size(self) -> int:
        """Return the number of its parameters."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Units:
    """The units of one tensor, with their bias where there is one; a vector that is nobody's bias is a single unit."""

    first: int  # where the tensor begins in the flat weights
    layer: Layer
    bias: int | None = None  # where its bias begins, one entry for each unit

    @cached_property
    def count(self) -> int:
        """Return how many there are."""
        return self.layer.shape[self.layer.units_axis] if len(self.layer.shape) > 1 else 1

    @cached_property
    def inputs(self) -> int:
        """Return the parameters of a unit without its bias."""
        return self.layer.size // self.count

    @property
    def size(self) -> int:
        """Return the parameters of a unit."""
        return self.inputs + (self.bias is not None)

    def rows(self, flat: Float32Array) -> Float32Array:
        """Return the tensor as (units, inputs), a view of ``flat`` where that can be."""
        tensor = flat[self.first : self.first + self.layer.size]
        if self.layer.units_axis == 0:
            return tensor.reshape(self.count, self.inputs)
        return tensor.reshape(self.layer.shape).transpose(self._units_first).reshape(self.count, self.inputs)

    @cached_property
    def _units_first(self) -> tuple[int, ...]:
        """Return the tensor's axes, that of the units first: this is asked for with every update."""
        units = self.layer.units_axis
        return (units, *(axis for axis in range(len(self.layer.shape)) if axis != units))

    def biases(self, flat: Float32Array) -> Float32Array | None:
        """Return the units' biases, a view of ``flat``; None where there are none."""
        return None if self.bias is None else flat[self.bias : self.bias + self.count]


def check_layers(layers: Sequence[Layer], n_params: int, name: str = "layers") -> None:
    """Raise a ValueError unless layers, which the caller knows as ``name``, describe a model of so many parameters."""
    found = sum(layer.size for layer in layers)
    if found != n_params:
        raise ValueError(
            f"{name}: expected tensors of {n_params} parameters in all, got {found}; "
            "give the shape of every trainable tensor, in the order of the flat weights"
        )


def units_of(layers: Sequence[Layer]) -> tuple[Units, ...]:
    """Return the units of a model's tensors.

    A vector just after a tensor of two dimensions or more, as long as that has units, is its bias.

    >>> model = Layer((64, 784)), Layer((64,)), Layer((10, 64)), Layer((7,))
    >>> [(units.count, units.size) for units in units_of(model)]
    [(64, 785), (10, 64), (1, 7)]
    """
    found: list[Units] = []
    before: Units | None = None  # of the tensor just before, where that can have a bias
    first = 0
    for layer in layers:
        if before is not None and layer.shape == (before.count,):
            found[-1] = Units(before.first, before.layer, bias=first)
            before = None
        else:
            found.append(Units(first, layer))
            before = found[-1] if len(layer.shape) > 1 else None
        first += layer.size
    return tuple(found)


def unit_of_parameter(layers: Sequence[Layer]) -> IntArray:
    """Return the number of the unit that each parameter belongs to, in the order of the flat weights."""
    numbers = np.zeros(sum(layer.size for layer in layers), dtype=np.int64)
    first_unit = 0
    for units in units_of(layers):
        own = np.arange(first_unit, first_unit + units.count)
        sides = [1] * max(len(units.layer.shape), 1)
        if units.count > 1:
            sides[units.layer.units_axis] = units.count
        spread = np.broadcast_to(own.reshape(sides), units.layer.shape or (1,))
        numbers[units.first : units.first + units.layer.size] = spread.ravel()
        if units.bias is not None:
            numbers[units.bias : units.bias + units.count] = own
        first_unit += units.count
    return numbers
