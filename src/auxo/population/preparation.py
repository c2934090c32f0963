"""How a data set's stored values became a model's inputs: recorded, so that the same can be done to other samples."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.files.typed_json import json_reader

Missing = Literal["error", "drop", "mean"]
"""What becomes of a row with a missing value: an error, left out, or each gap filled with its column's mean."""

LearningTask = Literal["classification", "regression", "multi-label"]
"""What is to be learned: one of several classes, numbers, or which of several labels a sample has."""

_EACH = "each standardised by its training mean and deviation"
_LATER = ("by_column", "categories", "lows", "highs")  # fields that files of older versions lack
_NAMED = 8  # columns that are named; our choice
_FEWEST_ROWS = 10  # before it says something that half of them are outside; our choice
_LEVELS = np.float32(255)
_ROWS_AT_ONCE = 1 << 16  # that are worked on at a time; our choice

_read = cache(lambda: json_reader(Preparation))  # when it is asked for, because to build it takes a while


@dataclass(frozen=True)
class Preparation:
    """What was done to the inputs: ``(x - means) / scales``, gaps filled with ``fills`` before.

    ``means`` and ``scales`` have an entry for each column of a table, be it an array or not, or one for all numbers of
    images and the like; none: inputs are as they were stored. Levels from 0 to 255 (uint8) are divided by 255 first.
    """

    columns: tuple[str, ...] = ()  # of the table that became inputs, in their order; none for arrays and images
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()  # names of the labels, by number, or of the numbers to be learned
    missing: Missing = "error"
    fills: tuple[float, ...] = ()  # what a gap in each column becomes; none unless ``missing`` is "mean"
    client: str | None = None  # the columns that said whose a sample is, and what is to be learned
    label: tuple[str, ...] = ()
    task: LearningTask = "classification"
    target_means: tuple[float, ...] = ()  # of numbers to be learned, as for inputs; none: they are as they were
    target_scales: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()  # what is doubtful about the columns, for people
    # What follows is left out of its words, by which runs know their data again, also those of older versions:
    # columns of a table with the values that became inputs,
    categories: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), repr=False)
    # the least and the greatest value of each column among training samples, where they are recorded,
    lows: tuple[float, ...] = field(default=(), repr=False)
    highs: tuple[float, ...] = field(default=(), repr=False)
    # and whether inputs are an array whose columns have no names, but each a meaning of its own.
    by_column: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.means) != len(self.scales):
            raise ValueError(f"scales: expected {len(self.means)} entries, as means has, got {len(self.scales)}")
        if self.columns and len(self.means) not in {0, 1, len(self.columns)}:
            raise ValueError(f"means: expected {len(self.columns)} entries, one a column, got {len(self.means)}")
        if self.fills and len(self.fills) != len(self.columns):
            raise ValueError(f"fills: expected {len(self.columns)} entries, one a column, got {len(self.fills)}")
        if not all(scale > 0 for scale in self.scales):
            raise ValueError(f"scales: expected positive numbers, got {min(self.scales)}")

    @property
    def is_standardised(self) -> bool:
        """Return whether inputs have been shifted and scaled."""
        return bool(self.means)

    def apply(self, x: NDArray[Any]) -> Float32Array:
        """Return what a model is given for values as they were stored, (samples, *features).

        Gaps are NaN. They stay where nothing says how to fill them.
        """
        if not self.columns and not self.by_column:  # in single precision, as images are read
            numbers = x.astype(np.float32) / (_LEVELS if x.dtype == np.uint8 else np.float32(1))
            if not self.means:
                return numbers
            return (numbers - np.float32(self.means[0])) / np.float32(self.scales[0])
        wide = x.astype(np.float64)
        if self.fills:
            wide = np.where(np.isnan(wide), np.array(self.fills), wide)
        if self.means:
            wide = (wide - np.array(self.means)) / np.array(self.scales)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
            return wide.astype(np.float32)

    def far_out(self, x: NDArray[Any]) -> tuple[str, ...]:
        """Return a sentence for each column of inputs, as models take them, that is far from what was trained on.

        That is one with a value further out than all training samples are wide, or with most values outside of them.
        """
        if not self.lows or not len(x):
            return ()
        means, scales = (np.array(one or (other,)) for one, other in ((self.means, 0.0), (self.scales, 1.0)))
        low, high = ((np.array(one) - means) / scales for one in (self.lows, self.highs))
        out = np.maximum(low - x, x - high)  # how far each value is outside
        is_out = out > 1e-5 * np.maximum(1.0, np.abs(x))  # but for rounding
        many = (is_out.mean(axis=0) > 0.5) & (len(x) >= _FEWEST_ROWS)
        far = np.flatnonzero((is_out & (out > high - low)).any(axis=0) | many)
        told = []
        for place in far[:_NAMED].tolist():
            worst = float(x[out[:, place].argmax(), place])
            if self.means:
                worst = worst * self.scales[place] + self.means[place]
            name = self.columns[place] if self.columns else str(place)
            told.append(
                f"column {name!r}: {np.count_nonzero(is_out[:, place]):,} of {len(x):,} values are outside of what the "
                f"run was trained on ({self.lows[place]:.6g} to {self.highs[place]:.6g}), such as {worst:.6g}; check "
                "its units, and whether it should be an input"
            )
        return (*told, f"and {len(far) - _NAMED} more columns") if len(far) > _NAMED else tuple(told)

    def learned(self, targets: FloatArray) -> Float32Array:
        """Return what a model learns for numbers in the units of the table, (samples, targets); flags stay."""
        if self.target_means:
            targets = (targets - np.array(self.target_means)) / np.array(self.target_scales)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
            return targets.astype(np.float32)

    def predicted(self, outputs: NDArray[Any]) -> FloatArray:
        """Return a model's outputs for numbers to be learned, (samples, outputs), in the units of the table."""
        numbers = outputs.astype(np.float64)
        if self.target_means:
            numbers = numbers * np.array(self.target_scales) + np.array(self.target_means)
        return numbers

    def to_json(self) -> str:
        """Return it as text that `preparation_from_json` reads."""
        told = asdict(self)
        # Older versions did not know these; without them the checksums of their files stay what they were.
        later = {name for name in _LATER if told[name] == getattr(Preparation, name)}
        kept = {name: value for name, value in told.items() if name not in later}
        return json.dumps(kept, ensure_ascii=False, allow_nan=False)

    def sentences(self) -> tuple[str, ...]:
        """Return all there is to say about it, for people."""
        words = self.words()
        return self.notes if words is None else (*self.notes, words)

    def words(self) -> str | None:
        """Return in words what became of the inputs; None: nothing."""
        if self.columns:
            listed = ", ".join(self.columns[:_NAMED])
            more = f", and {len(self.columns) - _NAMED} more" if len(self.columns) > _NAMED else ""
            what = f"{len(self.columns)} column{'s' if len(self.columns) > 1 else ''} ({listed}{more})"
            return f"inputs: {what}, {_EACH if self.means else 'as they are'}"
        if not self.means:
            return None
        if self.by_column:
            return f"inputs: {len(self.means)} column{'s' if len(self.means) > 1 else ''}, {_EACH}"
        return "inputs: all numbers standardised by one training mean and one deviation, as those of images are"


def preparation_from_json(text: str) -> Preparation:
    """Return what `Preparation.to_json` wrote."""
    return _read()(text)


def fit_columns(x: NDArray[Any], rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation of each column over these rows, those to train on, gaps (NaN) left out.

    Sums are made in the order of the rows, so that the same samples in the same order give the same bits.
    A column that does not vary has deviation 1. One without any value has the mean NaN.
    """
    columns = x.shape[1]
    counts, sums = np.zeros(columns), np.zeros(columns)
    for some in _parts(x, rows):
        counts += np.count_nonzero(~np.isnan(some), axis=0)
        sums += np.nansum(some, axis=0)
    with np.errstate(invalid="ignore"):
        means = sums / counts
    squares = np.zeros(columns)
    for some in _parts(x, rows):
        squares += np.nansum(np.square(some - means), axis=0)
    deviations = np.sqrt(squares / np.maximum(counts, 1))
    # Of equal values rounding may leave a trace, which would be blown up.
    is_constant = deviations <= np.abs(np.nan_to_num(means)) * 1e-12
    return means, np.where(is_constant, 1.0, deviations)


def column_ranges(x: NDArray[Any], rows: IntArray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the least and the greatest value of each column over these rows, gaps (NaN) left out."""
    parts = [(np.fmin.reduce(some, axis=0), np.fmax.reduce(some, axis=0)) for some in _parts(x, rows)]
    lows, highs = (np.stack(one) for one in zip(*parts, strict=True))
    return tuple(np.fmin.reduce(lows, axis=0).tolist()), tuple(np.fmax.reduce(highs, axis=0).tolist())


def _parts(x: NDArray[Any], rows: IntArray) -> Iterator[FloatArray]:
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        yield np.ascontiguousarray(x[rows[first : first + _ROWS_AT_ONCE]], dtype=np.float64)
