"""Clients' samples as every loader gives them: one client after another, with what is held out for testing."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.files.errors import file_error
from auxo.population.federated_data import StoredInputs
from auxo.population.preparation import LearningTask, Missing

TEST_SHARE = 0.2
"""Share of a client's samples that are held out where a source does not say which; our choice, as in LEAF."""


@dataclass(frozen=True)
class ClientSamples:
    """One client's samples, in any order."""

    client: str
    x: StoredInputs | FloatArray  # (samples, *features); uint8: levels from 0 to 255, int32: tokens
    y: IntArray  # (samples,) from 0
    is_test: BoolArray | None = None  # (samples,); None: some of all the client's samples are held out by chance
    group: str | None = None  # known group, read by the evaluation and the oracle only
    targets: FloatArray | None = None  # (samples, targets); None where ``y`` says it all


@dataclass(frozen=True)
class ColumnPlan:
    """What is to be done to the columns of a table that become inputs, once all rows are known."""

    names: tuple[str, ...]
    standardise: bool = True  # each by its training mean and deviation
    missing: Missing = "error"
    client: str | None = None
    label: tuple[str, ...] = ()
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()  # columns whose values became inputs, and these values


@dataclass(frozen=True)
class SampleSource:
    """A data set as its loader reads it. Nothing is read before ``clients`` is called.

    ``clients`` may be called more than once, and may give a client in several parts.
    """

    name: str
    path: Path  # what an error is about
    classes: tuple[str, ...]  # names of the labels
    clients: Callable[[], Iterator[ClientSamples]]
    test_share: float = TEST_SHARE  # of all samples of a client that are held out where ``is_test`` is None
    task: LearningTask = "classification"  # of others ``classes`` are the names of targets, and ``y`` is without use
    standardises_targets: bool = True  # numbers to be learned, by their training mean and deviation
    columns: "ColumnPlan | None" = None  # how inputs (float64, gaps are NaN) become what is kept; None: as they are
    notes: Callable[[], tuple[str, ...]] = tuple  # what is doubtful about it, when all rows have been read
    by_column: bool = False  # inputs are lists of numbers, each with a meaning of its own, unless they have a shape


def without_small_clients(source: SampleSource, fewest: int) -> SampleSource:
    """Return the data set without the clients that have fewer samples, all their parts together. It is read twice.

    Raises:
        FileError: when its clients are asked for, and none has as many.
    """

    def clients() -> Iterator[ClientSamples]:
        counts: Counter[str] = Counter()
        for samples in source.clients():
            counts[samples.client] += len(samples.y)
        most = max(counts.values(), default=0)
        if most < fewest:
            expected = f"a client with {fewest} samples or more"
            raise file_error(source.path, "clients", expected, f"{most} at most", "ask for fewer samples")
        for samples in source.clients():
            if counts[samples.client] >= fewest:
                yield samples

    return replace(source, clients=clients)


def draw_held_out(client: str, samples: int, share: float = TEST_SHARE) -> BoolArray:
    """Return which of a client's samples are for testing, by chance but always the same.

    As near to the share as whole samples allow, but at least one for testing and one to train on if there are two.
    """
    is_test = np.zeros(samples, dtype=np.bool_)
    is_test[stream(0, "held-out", client).permutation(samples)[: _number_held_out(samples, share)]] = True
    return is_test


def end_held_out(samples: int, share: float = TEST_SHARE) -> BoolArray:
    """Return which of a text's samples are for testing: the last ones, where neighbours overlap."""
    return np.arange(samples) >= samples - _number_held_out(samples, share)


def _number_held_out(samples: int, share: float) -> int:
    return min(max(1, round(share * samples)), samples - 1) if samples >= 2 else 0


def check_samples(source: SampleSource, samples: ClientSamples, features: tuple[int, ...] | None) -> None:
    """Check what a loader gave for one client; ``features`` is the shape of the inputs of the clients before it."""
    place, path = f"client {samples.client!r}", source.path
    if len(samples.x) != len(samples.y):
        raise file_error(path, place, f"{len(samples.x)} labels", f"{len(samples.y)}", "one for each input")
    if samples.is_test is not None and len(samples.is_test) != len(samples.y):
        got = f"{len(samples.is_test)}"
        raise file_error(path, place, f"{len(samples.y)} marks of train or test", got, "one for each input")
    if features is not None and samples.x.shape[1:] != features:
        got = f"inputs of shape {samples.x.shape[1:]}"
        raise file_error(path, place, f"inputs of shape {features}, as before", got, "bring all to one shape")
    wrong = (samples.y < 0) | (samples.y >= len(source.classes))
    if wrong.any():
        row = int(wrong.argmax())
        expected = f"labels from 0 to {len(source.classes) - 1}"
        raise file_error(
            path, f"{place}, sample {row}", expected, f"{samples.y[row]}", "number the classes from 0 without gaps"
        )
    if samples.x.dtype == np.float32 and not np.isfinite(samples.x).all():
        row = int((~np.isfinite(samples.x.reshape(len(samples.x), -1)).all(axis=1)).argmax())
        raise file_error(
            path, f"{place}, sample {row}", "finite numbers", "NaN or infinity", "fill in or drop this sample"
        )
