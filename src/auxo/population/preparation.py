"""How a data set's stored values became a model's inputs: recorded, so that the same can be done to other samples."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, Float32Array, FloatArray
from auxo.files.typed_json import json_reader

Missing = Literal["error", "drop", "mean"]
"""What becomes of a row with a missing value: an error, left out, or each gap filled with its column's mean."""

LearningTask = Literal["classification", "regression", "multi-label"]
"""What is to be learned: one of several classes, numbers, or which of several labels a sample has."""

_LEVELS = np.float32(255)
_ROWS_AT_ONCE = 1 << 16  # that are worked on at a time; our choice

_read = cache(lambda: json_reader(Preparation))  # when it is asked for, because to build it takes a while


@dataclass(frozen=True)
class Preparation:
    """What was done to the inputs: ``(x - means) / scales``, gaps filled with ``fills`` before.

    ``means`` and ``scales`` have an entry for each column of a table, or one for all inputs of an array; none: inputs
    are as they were stored. Levels from 0 to 255 (uint8) are divided by 255 first.
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
        if not self.columns:  # in single precision, as arrays and images are read
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
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


def preparation_from_json(text: str) -> Preparation:
    """Return what `Preparation.to_json` wrote.

    Raises:
        ValueError: it is none.
    """
    return _read()(text)


def fit_columns(x: NDArray[np.float64], is_train: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation of each column over the training rows, gaps (NaN) left out.

    A column that does not vary has deviation 1. One without any value has the mean NaN.
    """
    columns = x.shape[1]
    counts, sums = np.zeros(columns), np.zeros(columns)
    for rows in _parts(x, is_train):
        counts += np.count_nonzero(~np.isnan(rows), axis=0)
        sums += np.nansum(rows, axis=0)
    with np.errstate(invalid="ignore"):
        means = sums / counts
    squares = np.zeros(columns)
    for rows in _parts(x, is_train):
        squares += np.nansum(np.square(rows - means), axis=0)
    deviations = np.sqrt(squares / np.maximum(counts, 1))
    # Of equal values rounding may leave a trace, which would be blown up.
    is_constant = deviations <= np.abs(np.nan_to_num(means)) * 1e-12
    return means, np.where(is_constant, 1.0, deviations)


def _parts(x: NDArray[np.float64], is_train: BoolArray) -> Iterator[FloatArray]:
    for first in range(0, len(x), _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        yield x[some][is_train[some]]
