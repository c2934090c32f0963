"""Federated data as columns: every client's training and test samples, without a copy per client."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from auxo.core.rng import stream
from auxo.core.types import BoolArray, Float32Array, InputArray, IntArray
from auxo.population.preparation import LearningTask, Preparation, column_ranges, fit_columns

StoredInputs = NDArray[np.float32 | np.uint8 | np.int32]
"""Inputs as they are kept: numbers, levels of grey or colour from 0 to 255, or tokens."""

_LEVELS = np.float32(255)
_SCALED_AT_ONCE = 1 << 28  # bytes of inputs scaled in advance at most; more are scaled as they are read; our choice


@dataclass(frozen=True)
class Scaling:
    """What is done to stored numbers when they are read: ``(x - shift) / scale``."""

    shift: float
    scale: float


@dataclass(frozen=True)
class Samples:
    """Samples sorted by client; client ``c`` owns the slice ``offsets[c]:offsets[c + 1]``."""

    x_rows: IntArray  # (samples,) rows of FederatedData.x
    y: IntArray  # (samples,) class labels, or rows of FederatedData.targets
    offsets: IntArray  # (clients + 1,)

    def counts(self, clients: IntArray | None = None) -> IntArray:
        """Return the number of samples of each of these clients; None: of all."""
        if clients is None:
            return np.diff(self.offsets)
        counts: IntArray = self.offsets[clients + 1] - self.offsets[clients]
        return counts

    def positions(self, clients: IntArray) -> IntArray:
        """Return where in the columns the samples of these clients are, client by client."""
        counts = self.counts(clients)
        before = np.cumsum(counts) - counts  # samples of the clients before each
        positions: IntArray = np.arange(counts.sum()) + np.repeat(self.offsets[clients] - before, counts)
        return positions

    def of(self, client_row: int) -> slice:
        """Return the slice of the columns that belongs to one client."""
        return slice(int(self.offsets[client_row]), int(self.offsets[client_row + 1]))


def samples_by_client(client: IntArray, y: IntArray, is_test: BoolArray, clients: int) -> tuple[Samples, Samples]:
    """Return training and test samples of rows in any order, given whose each is (``client``, from 0).

    Each client's samples are put into a random order, always the same: local training takes alternate samples for its
    folds, and files are often sorted by label.
    """
    # By client first: how the rows of different clients follow each other is to make no difference.
    shuffled = np.argsort(client, kind="stable")[stream(0, "population-file", "order").permutation(len(client))]
    order = shuffled[np.argsort(client[shuffled], kind="stable")]

    def split(is_in_split: BoolArray) -> Samples:
        rows = order[is_in_split[order]]
        counts = np.bincount(client[rows], minlength=clients)
        return Samples(rows, y[rows], np.concatenate([[0], np.cumsum(counts)]))

    return split(~is_test), split(is_test)


def client_order(names: Sequence[str]) -> IntArray:
    """Return the places of clients in their order: whole numbers by size, other names by their letters.

    >>> client_order(["10", "2", "1"]).tolist(), client_order(["10", "2", "b"]).tolist()
    ([2, 1, 0], [0, 1, 2])
    """
    are_numbers = all(re.fullmatch(r"0|-?[1-9][0-9]*", name, re.ASCII) for name in names)
    by_size = sorted(range(len(names)), key=lambda one: (int(names[one]) if are_numbers else 0, names[one]))
    return np.array(by_size, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NumberedNames(Sequence[str]):
    """The names of numbered clients, which sort in their order; none is kept, so a million of them take no memory.

    >>> NumberedNames(11)[-2:]
    ('client-09', 'client-10')
    """

    clients: int

    def __len__(self) -> int:
        return self.clients

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...

    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        found = range(self.clients)[place]
        return self._name(found) if isinstance(found, int) else tuple(self._name(number) for number in found)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNames):
            return self.clients == other.clients
        return isinstance(other, tuple) and len(other) == self.clients and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))  # that of the tuple it equals

    def _name(self, number: int) -> str:
        width = len(str(self.clients - 1))
        return f"client-{number:0{width}d}"


@dataclass(frozen=True)
class FederatedData:
    """A federated population's data. Columns may be maps of files (``np.memmap``): nothing here is written to.

    ``x`` holds each distinct input once; samples of several clients may point to the same row. Models see what
    `inputs` returns: levels from 0 to 255 (uint8) become numbers from 0 to 1, then ``scaling`` is applied; tokens
    (int32) stay what they are.
    Where not one class is to be learned but numbers or several labels, ``targets`` has a row for each answer, ``y``
    says which, and ``n_classes`` is how many numbers an answer has; `answers` returns what a loss is given.
    ``preparation`` says how what a user has becomes such inputs.
    ``groups`` is the planted or natural group of each client. Only the evaluation and the oracle may read it.
    """

    name: str
    x: StoredInputs  # (rows, *features)
    train: Samples
    test: Samples
    n_classes: int
    client_names: Sequence[str]
    groups: IntArray | None = None  # (clients,); None when no groups are known
    scaling: Scaling | None = None
    task: LearningTask = "classification"
    targets: Float32Array | None = None  # (answers, n_classes); None exactly for classification
    preparation: Preparation = field(default_factory=Preparation)  # done to inputs already

    def __post_init__(self) -> None:
        clients = len(self.client_names)
        if clients == 0:
            raise ValueError("population is empty: expected at least one client, got 0")
        if (self.targets is None) != (self.task == "classification"):
            raise ValueError(f"targets: expected them exactly for other tasks than classification, got {self.task}")
        if self.targets is not None and self.targets.shape[1:] != (self.n_classes,):
            raise ValueError(f"targets: expected {self.n_classes} columns, got shape {self.targets.shape}")
        labels = self.n_classes if self.targets is None else len(self.targets)
        for name, samples in (("train", self.train), ("test", self.test)):
            if len(samples.offsets) != clients + 1:
                raise ValueError(
                    f"{name}.offsets: expected {clients + 1} entries for {clients} clients, got {len(samples.offsets)}"
                )
            if len(samples.y) and not 0 <= samples.y.min() <= samples.y.max() < labels:
                raise ValueError(
                    f"{name}.y: expected labels in 0..{labels - 1}, got {samples.y.min()}..{samples.y.max()}"
                )
        if self.groups is not None and len(self.groups) != clients:
            raise ValueError(f"groups: expected {clients} entries, got {len(self.groups)}")

    @property
    def features(self) -> tuple[int, ...]:
        """Return the shape of an input."""
        return self.x.shape[1:]

    @property
    def has_tokens(self) -> bool:
        """Return whether inputs are tokens of a text, which no arithmetic makes sense of."""
        return self.x.dtype == np.int32

    def inputs(self, rows: IntArray) -> InputArray:
        """Return what a model is given for rows of ``x``, (*rows, *features)."""
        if self.has_tokens:
            return np.take(self.x, rows, axis=0).astype(np.int32, copy=False)
        return self.numbers(rows)

    def answers(self, y: IntArray) -> NDArray[Any]:
        """Return what a loss is given for labels ``y``: these, or the rows of the targets, (*y, n_classes)."""
        return y if self.targets is None else np.take(self.targets, y, axis=0)

    def numbers(self, rows: IntArray) -> Float32Array:
        """Return the same for a model that takes numbers only.

        Raises:
            ValueError: the inputs are tokens.
        """
        if self.has_tokens:
            raise ValueError("x: expected numbers, got tokens of a text (int32); choose a model that takes tokens")
        return self._scaled(np.take(self.x, rows, axis=0))

    def standardised(self, wide: NDArray[Any] | None = None, like: Preparation | None = None) -> "FederatedData":
        """Return the population with all inputs shifted and scaled by mean and deviation of training inputs.

        The columns of a table (``preparation`` says that it is one) each by its own, or a wide one would drown the
        others; ``wide`` are the same inputs before they became single precision, and ``like`` what was done to others,
        which is then done to these. All other inputs by one mean and one deviation: what is small stays small, as among
        the pixels of an image. Tokens stay, and so does a table that has been standardised.
        """
        is_table = bool(self.preparation.columns) or self.preparation.by_column
        if self.has_tokens or (is_table and self.preparation.is_standardised):
            return self
        if is_table:
            return self._standardised_by_column(self.x if wide is None else wide, like)
        parts = self._parts()
        counts = np.array([part.size for part in parts], dtype=np.float64)
        means = np.array([self.numbers(part).mean(dtype=np.float64) for part in parts])
        mean = float(np.average(means, weights=counts))
        if not np.isfinite(mean):  # or a single sample would make all inputs of all clients what it is
            raise ValueError(self._not_finite())
        squares = [np.square(self.numbers(part) - mean, dtype=np.float64).mean() for part in parts]
        deviation = float(np.sqrt(np.average(squares, weights=counts)))
        before = self.scaling or Scaling(0.0, 1.0)
        after = Scaling(before.shift + before.scale * mean, before.scale * (deviation or 1.0))
        lazy = replace(self, scaling=after, preparation=self._prepared_by(after))
        if self.x.size * 4 > _SCALED_AT_ONCE:
            return lazy
        return replace(lazy, x=lazy._scaled(self.x), scaling=None)

    def _standardised_by_column(self, x: NDArray[Any], like: Preparation | None) -> "FederatedData":
        owner, rows = np.repeat(np.arange(self.n_clients), self.train.counts()), self.train.x_rows
        rows = rows[np.lexsort((rows, owner))]  # the same order wherever they stand
        means, deviations = fit_columns(x, rows) if like is None else (np.array(like.means), np.array(like.scales))
        if not (np.isfinite(means) & np.isfinite(deviations)).all():
            raise ValueError(self._not_finite())
        lows, highs = column_ranges(x, rows) if like is None else (like.lows, like.highs)
        done = replace(
            self.preparation, means=tuple(means.tolist()), scales=tuple(deviations.tolist()), lows=lows, highs=highs
        )
        if like is not None:
            done = replace(done, columns=like.columns, by_column=like.by_column)
        made = np.empty(x.shape, dtype=np.float32)
        for part in np.array_split(np.arange(len(x)), max(1, x.size * 8 // _SCALED_AT_ONCE)):
            made[part] = done.apply(x[part])
        return replace(self, x=made, preparation=done)

    def _prepared_by(self, scaling: Scaling) -> Preparation:
        """Return the record with this scaling, after that which inputs may have gone through in advance."""
        shift, scale = scaling.shift, scaling.scale
        if self.scaling is None and self.preparation.is_standardised:
            before = self.preparation
            shift, scale = before.means[0] + before.scales[0] * shift, before.scales[0] * scale
        return replace(self.preparation, means=(shift,), scales=(scale,))

    def _not_finite(self) -> str:
        """Return in words whose training samples hold numbers that are not finite."""
        shares = [np.isfinite(self.numbers(part)).reshape(len(part), -1).all(axis=1) for part in self._parts()]
        bad = np.flatnonzero(~np.concatenate(shares))
        owners = np.unique(np.searchsorted(self.train.offsets, bad, side="right") - 1)
        first = self.client_names[int(owners[0])] if len(owners) else "?"
        return (
            f"x: expected finite numbers, got NaN or infinite ones in {len(bad)} training samples of {len(owners)} "
            f"clients, the first of them {first}; mend or drop these samples (`auxo data validate` lists them)"
        )

    def _parts(self) -> list[IntArray]:
        """Return the rows of all training inputs, few enough at a time."""
        rows = self.train.x_rows
        return np.array_split(rows, max(1, rows.size * int(np.prod(self.features)) * 4 // _SCALED_AT_ONCE))

    def _scaled(self, stored: StoredInputs) -> Float32Array:
        numbers = stored.astype(np.float32, copy=False)
        if stored.dtype == np.uint8:
            numbers /= _LEVELS  # a copy: the type is another one
        if self.scaling is not None:
            numbers = (numbers - np.float32(self.scaling.shift)) / np.float32(self.scaling.scale)
        return numbers

    @property
    def n_clients(self) -> int:
        """Return the number of clients."""
        return len(self.client_names)
