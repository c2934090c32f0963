"""Fingerprints: a fixed-size sketch of a whole update, taken as it arrives, so that updates need not be kept."""

import math
from bisect import bisect, bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from auxo.core.layers import Layer, Units, check_layers, unit_of_parameter, units_of
from auxo.core.rng import stream
from auxo.core.settings import PositiveInt, checked
from auxo.core.types import Float32Array, FloatArray, IntArray

_ROWS_AT_ONCE = 64  # our choice: signed parameters stay in the cache until they are summed
_FEWEST_BUCKETS = 7  # of a unit; where they are not to be had, neighbouring units share them; our choice
_BUCKETS_AT_ONCE = 128  # parameters of a unit are first summed to about so many: loops over fewer are slow; our choice
_UNITS_AT_ONCE = 256  # their sums stay in the cache; our choice
_NEGLIGIBLE = 1e-6  # of the largest energy, below which there is none
_SUMS_HOLD = 1e-25  # the largest of sums in float32 above this, and below its inverse, lose nothing that counts


@dataclass(frozen=True)
@checked
class Fingerprint:
    """A seeded count sketch of the flat update (every trainable parameter takes part).

    Each parameter is added with a random sign to one of `width` buckets: a linear map that keeps inner products,
    hence cosines, in expectation, with error about ``1 / sqrt(width)``. Models that are not larger than ``size`` are
    kept as they are, without loss.

    Parameter ``i`` goes to bucket ``i mod width``, so the sketch is a sum of rows, read in order, at the speed of
    memory. The width is a prime number: rows of a layer's matrix are not as long as rows of the sketch, and parameters
    that belong together (one input's, one filter's) do not meet in one bucket.

    With ``layers`` a fingerprint is taken by unit: the part of the update that belongs to each row of a matrix or
    filter of a convolution, with its bias, is sketched to buckets of its own and scaled to length one by itself. How
    often a client has each class decides how long these parts are, and would drown what its inputs are like. All
    units have as many buckets as each other, unless they have fewer parameters; with more units than that goes round
    for, neighbouring ones, each scaled by itself, share buckets. The parts that are scaled are the `blocks`.
    """

    n_params: PositiveInt
    size: PositiveInt = 4096  # our choice; docs/departures.md shows what other sizes cost
    seed: int = 0
    layers: tuple[Layer, ...] = ()  # of the model, in the order of the flat weights; none: the update is one block

    def __post_init__(self) -> None:
        if self.layers:
            check_layers(self.layers, self.n_params)

    @cached_property
    def width(self) -> int:
        """Return the length of a fingerprint: of a model larger than ``size``, the largest prime up to that.

        By unit, of such a model, it is what all units' buckets come to.
        """
        if self.n_params <= self.size:
            return self.n_params
        return sum(sketch.width for sketch in self._sketches) or _prime_up_to(self.size)

    @cached_property
    def blocks(self) -> IntArray:
        """Return the number of the block that each entry of a fingerprint belongs to, (width,)."""
        if self.layers and self.n_params <= self.size:
            return unit_of_parameter(self.layers)
        if not self._sketches:
            return np.zeros(self.width, dtype=np.int64)
        widths = np.concatenate([np.full(sketch.ranges, sketch.buckets) for sketch in self._sketches])
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def _signs(self) -> Float32Array:
        coins = stream(self.seed, "fingerprint", "signs").integers(0, 2, self.n_params, dtype=np.int8)
        return np.asarray(coins * np.float32(2) - np.float32(1), dtype=np.float32)

    @cached_property
    def _sketches(self) -> tuple["_UnitSketch", ...]:
        """Return the sketches of each tensor's units; none: the update is sketched as one."""
        if not self.layers or self.n_params <= self.size:
            return ()
        return _affordable(units_of(self.layers), self.size)

    def of(self, update: Float32Array) -> FloatArray:
        """Return the fingerprint of one flat update, scaled to length one (zero updates stay zero).

        Only the direction of an update says what its client's data are like; its length says how many samples and
        steps there were. Scaling keeps updates of any scale from overflow and underflow. By unit, the part of each
        block has the same length, except for those that are zero.
        """
        if self.layers and self.n_params <= self.size:
            return _scale_blocks(update.astype(np.float64), self.blocks)
        if self._sketches:
            sums = [sketch.of(update, self._signs).ravel() for sketch in self._sketches]
            return _scale_blocks(np.concatenate(sums), self.blocks)
        values: FloatArray | Float32Array = update
        if self.n_params > self.size:
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._sums(update)
        largest = np.max(np.abs(values), initial=0.0)
        if self.n_params > self.size and not _SUMS_HOLD < largest < 1 / _SUMS_HOLD:
            scale = np.max(np.abs(update), initial=0.0)
            if scale == 0.0:
                return np.zeros(self.width)
            values = self._sums((update / np.float64(scale)).astype(np.float32))
            largest = np.max(np.abs(values))
        if largest == 0.0:
            return np.zeros(self.width)
        direction: FloatArray = unit_rows(values.astype(np.float64)[None, :] / largest)[0]
        return direction

    def outputs(self, update: Float32Array) -> FloatArray:
        """Return how the last layer's biases move, scaled to length one; empty without layers, or where it has none.

        Of a classifier that is how much more often the client has each class than the model expects.
        """
        if self._output_bias is None:
            return np.zeros(0)
        outputs: FloatArray = unit_rows(update[self._output_bias].astype(np.float64)[None, :])[0]
        return outputs

    def inputs(self, update: Float32Array) -> FloatArray:
        """Return what an update tells of each input of the first layer, in two halves: energies, then means.

        How much of the update's energy falls on an input, as logarithms less their mean: what a client's inputs are
        measured in sets how large the gradients are that they lead to. And what the client's inputs are on average: a
        gradient is a sum of inputs, each times what its sample is off by, and the bias' is the sum of the latter. Zero
        where that layer has no biases.

        Empty without layers, or where that layer has no inputs of its own, or more than a fingerprint has room for.
        """
        if self._input_units is None:
            return np.zeros(0)
        rows = self._input_units.rows(update).astype(np.float64)
        energy = np.sqrt(np.einsum("ui,ui->i", rows, rows))
        largest = energy.max()
        found = np.zeros(2 * len(energy))
        if not 0 < largest < np.inf:
            return found
        logs = np.log(np.maximum(energy, _NEGLIGIBLE * largest))
        found[: len(energy)] = logs - logs.sum() / len(logs)
        biases = self._input_units.biases(update)
        if biases is not None and np.abs(biases).max() > _NEGLIGIBLE * largest:
            found[len(energy) :] = np.sign(biases) @ rows / np.abs(biases).sum(dtype=np.float64)
        return found

    @cached_property
    def _input_units(self) -> Units | None:
        first = units_of(self.layers)[0] if self.layers else None
        return first if first is not None and first.count > 1 and 1 < first.inputs <= self.size else None

    @cached_property
    def _output_bias(self) -> slice | None:
        last = units_of(self.layers)[-1] if self.layers else None
        if last is None or last.bias is None:
            return None
        return slice(last.bias, last.bias + last.count)

    def _sums(self, update: Float32Array) -> Float32Array:
        """Return the signed sums of the parameters in each bucket."""
        width, whole = self.width, self.n_params - self.n_params % self.width
        rows, signs = update[:whole].reshape(-1, width), self._signs[:whole].reshape(-1, width)
        signed = np.empty((min(_ROWS_AT_ONCE, len(rows)), width), dtype=np.float32)
        sums = np.zeros(width, dtype=np.float32)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            np.multiply(some, signs[first : first + _ROWS_AT_ONCE], out=signed[: len(some)])
            sums += signed[: len(some)].sum(axis=0)
        sums[: self.n_params - whole] += update[whole:] * self._signs[whole:]
        return sums


@dataclass(frozen=True)
class _UnitSketch:
    """Sketches the units of one tensor: parameter ``i`` of a unit goes to bucket ``i mod buckets`` of its range."""

    units: Units
    buckets: int  # of a range
    sharing: int = 1  # neighbouring units that have a range together

    @property
    def ranges(self) -> int:
        return -(-self.units.count // self.sharing)

    @property
    def width(self) -> int:
        return self.ranges * self.buckets

    def of(self, update: Float32Array, signs: Float32Array) -> FloatArray:
        """Return the ranges, (ranges, buckets); those of one unit each are not yet scaled."""
        rows, own_signs = self.units.rows(update), self.units.rows(signs)
        sums = np.empty((self.units.count, self.buckets))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(rows), _UNITS_AT_ONCE):
                some = slice(first, first + _UNITS_AT_ONCE)
                sums[some] = _folded(rows[some], own_signs[some], self.buckets)
        if not np.abs(sums).max() < 1 / _SUMS_HOLD:  # sums of small numbers lose nothing
            lost = ~(np.abs(sums).max(axis=1) < 1 / _SUMS_HOLD)
            sums[lost] = _folded(rows[lost].astype(np.float64), own_signs[lost], self.buckets)
        biases, bias_signs = self.units.biases(update), self.units.biases(signs)
        if biases is not None and bias_signs is not None:
            sums[:, self.units.inputs % self.buckets] += biases * bias_signs
        if self.sharing == 1:
            return sums
        shared: FloatArray = np.add.reduceat(unit_rows(sums), np.arange(0, len(sums), self.sharing), axis=0)
        return shared


def _folded(rows: Float32Array | FloatArray, signs: Float32Array, buckets: int) -> Float32Array | FloatArray:
    """Return the signed sums of each row's entries whose places are the same modulo ``buckets``, (rows, buckets)."""
    n, length = rows.shape
    wide = buckets
    while 2 * wide <= min(length, _BUCKETS_AT_ONCE):
        wide *= 2
    times = length // wide
    whole = times * wide
    sums = np.zeros((n, wide), dtype=rows.dtype)
    if times:
        parts = [one[:, :whole].reshape(n, times, wide) for one in (rows, signs)]
        np.einsum("utw,utw->uw", *parts, out=sums)
    sums[:, : length - whole] += rows[:, whole:] * signs[:, whole:]
    while wide > buckets:
        wide //= 2
        sums = sums[:, :wide] + sums[:, wide:]
    return sums


def _affordable(parts: tuple[Units, ...], size: int) -> tuple[_UnitSketch, ...]:
    """Return sketches of at most ``size`` buckets in all, as wide as they can be; none: there are too few for that."""

    def sketches(buckets: int, sharing: int) -> tuple[_UnitSketch, ...]:
        most = _prime_up_to(buckets)
        return tuple(
            _UnitSketch(units, units.size if units.size <= buckets else most, min(sharing, units.count))
            for units in parts
        )

    def fits(buckets: int, sharing: int) -> bool:
        return sum(sketch.width for sketch in sketches(buckets, sharing)) <= size

    if fits(_FEWEST_BUCKETS, 1):
        too_many = bisect(range(size + 1), False, lo=_FEWEST_BUCKETS, key=lambda buckets: not fits(buckets, 1))
        return sketches(too_many - 1, 1)
    most = max(units.count for units in parts)
    for buckets in range(min(_FEWEST_BUCKETS, size), 0, -1):
        if fits(buckets, most):
            fewest = bisect_left(range(most + 1), True, lo=1, key=lambda sharing: fits(buckets, sharing))
            return sketches(buckets, fewest)
    return ()


def _scale_blocks(values: FloatArray, blocks: IntArray) -> FloatArray:
    """Return ``values`` with each block's part scaled to the same length, and the whole to one; zero blocks stay."""
    lengths = np.sqrt(np.bincount(blocks, values * values))
    used = int(np.count_nonzero(lengths))
    scales = np.divide(1.0, lengths * math.sqrt(max(used, 1)), out=np.zeros_like(lengths), where=lengths > 0)
    scaled: FloatArray = values * scales[blocks]
    return scaled


def _prime_up_to(number: int) -> int:
    """Return the largest prime that is not above ``number``; 1 where there is none."""
    for candidate in range(number, 1, -1):
        if all(candidate % divisor for divisor in range(2, math.isqrt(candidate) + 1)):
            return candidate
    return 1


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Return the rows scaled to length one; zero rows stay zero."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]  # a third of the time of numpy's norm
    return vectors / np.where(norms > 0, norms, 1.0)
