"""Clients' samples as people have them in Python, as a population.

A mapping or a list of clients, each with arrays or a torch data set; a data set of Hugging Face with a column that says
whose a row is; a partitioner of flwr-datasets; or a population that is one already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from auxo.core.settings import Bounds, checked
from auxo.core.types import BoolArray
from auxo.datasets.client_samples import TEST_SHARE, SampleSource, draw_held_out
from auxo.datasets.hugging_face import HubColumns, from_hugging_face
from auxo.datasets.open_dataset import arrow_needed
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_of
from auxo.population.preparation import LearningTask, Preparation, fit_columns

_FORMS = (
    "a mapping of clients' names to their samples, or a list of clients' samples (each (x, y), (x, y, x_test, y_test), "
    "a torch Dataset or two of them), a Hugging Face dataset with a client column, a flwr-datasets partitioner, the "
    "path of a file, or a FederatedData"
)


@dataclass(frozen=True)
@checked
class DataColumns:
    """How data are to be read that do not say it themselves."""

    client: str = "client"  # column of a Hugging Face data set that says whose a row is
    features: str = "features"  # its column of inputs
    label: str = "label"
    # Of a client's samples, where none are said to be for testing.
    test_share: Annotated[float, Bounds(gt=0, lt=1)] = TEST_SHARE
    tokens: bool = False  # whether whole numbers in arrays are tokens of a text
    # Of arrays and torch data sets: else y holds numbers, (n,) or (n, several), or flags.
    task: LearningTask = "classification"


def population_from(data: object, columns: DataColumns | None = None, name: str = "clients") -> FederatedData:
    """Return clients' samples as a population; nothing has been done to the inputs yet.

    Where nothing says which samples are for testing, a share of every client's is held out by chance.

    Args:
        data: clients and their samples, see this module.
        columns: how they are to be read; None: by the common names.
        name: of the population, in reports.

    Raises:
        ValueError: this is no form of data that is known, or samples do not fit together; the message names the client.
        FileError: the same of a data set of Hugging Face.
    """
    how = columns or DataColumns()
    if isinstance(data, FederatedData):
        return data
    if _is_partitioner(data):
        from auxo.flower.partitions import partitions_source  # noqa: PLC0415 - takes long to import

        return _of_source(partitions_source(data, name, how.features, how.label), how)
    if _is_hugging_face(data):
        return _of_source(from_hugging_face(data, name, HubColumns(how.client, how.features, how.label)), how)
    if isinstance(data, Mapping):
        return _of_clients(list(data), list(data.values()), how, name)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _of_clients(list(range(len(data))), data, how, name)
    raise ValueError(f"data: expected {_FORMS}; got {type(data).__name__}")


def _is_partitioner(data: object) -> TypeGuard[Any]:
    return hasattr(data, "load_partition") and hasattr(data, "num_partitions")


def _is_hugging_face(data: object) -> TypeGuard[Any]:
    return hasattr(data, "column_names") and hasattr(data, "features") and hasattr(data, "select_columns")


def _of_source(source: SampleSource, columns: DataColumns) -> FederatedData:
    with arrow_needed(source.path):
        from auxo.datasets.federated_file import as_population, collect  # noqa: PLC0415 - optional

        return as_population(collect(replace(source, test_share=columns.test_share)), source.path)


def _of_clients(names: Sequence[object], samples: Sequence[object], columns: DataColumns, name: str) -> FederatedData:
    """Return the population of clients that have their samples each for itself."""
    if not names:
        raise ValueError("data: expected at least one client, got none")
    called = _called(names)
    parts = [_samples(one, client, columns) for client, one in zip(called.tolist(), samples, strict=True)]
    shapes = {part.x.shape[1:]: str(client) for client, part in zip(called.tolist(), parts, strict=True)}
    if len(shapes) > 1:
        (one, first), (other, second), *_ = shapes.items()
        raise ValueError(f"data: expected inputs of one shape, got {one} of client {first!r} and {other} of {second!r}")
    x = np.concatenate([part.x for part in parts])
    labels: NDArray[Any] = np.zeros(len(x), dtype=np.int64)
    classes: tuple[str, ...] = ()
    if columns.task == "classification":
        labels, classes = _numbered(np.concatenate([part.y for part in parts]))
    is_test = np.concatenate([part.is_test for part in parts])
    data = population_of(
        x=x,
        y=labels,
        client=np.repeat(called, [len(part.y) for part in parts]),
        test=is_test,
        name=name,
    )
    if columns.tokens:
        data = replace(data, x=x.astype(np.int32))
    if columns.task != "classification":
        return _with_targets(data, [part.y for part in parts], is_test, columns.task)
    return replace(data, n_classes=max(data.n_classes, len(classes)), preparation=Preparation(classes=classes))


def _with_targets(
    data: FederatedData, y: Sequence[NDArray[Any]], is_test: BoolArray, task: LearningTask
) -> FederatedData:
    """Return a population with numbers or flags to learn, in the order of its inputs, in place of classes."""
    widths = {part.shape[1:] for part in y}
    if len(widths) > 1 or any(part.dtype.kind not in "biuf" for part in y):
        raise ValueError(f"data: expected as many numbers to learn of every client for {task}, got others")
    values = np.concatenate(y).astype(np.float64).reshape(len(is_test), -1)
    if not np.isfinite(values).all():
        raise ValueError(f"data: expected finite numbers to learn for {task}, got NaN or infinity; drop these samples")
    if task == "multi-label" and not np.isin(values, (0.0, 1.0)).all():
        raise ValueError("data: expected 0 or 1 for each label that a sample may have, got other numbers")
    number = values.shape[1]
    done = Preparation(
        classes=("target",) if number == 1 else tuple(f"target {place}" for place in range(number)), task=task
    )
    if task == "regression":
        means, deviations = fit_columns(values, ~is_test)
        done = replace(done, target_means=tuple(means.tolist()), target_scales=tuple(deviations.tolist()))
    return replace(
        data,
        train=replace(data.train, y=data.train.x_rows),  # every sample has its own answer
        test=replace(data.test, y=data.test.x_rows),
        n_classes=number,
        task=task,
        targets=done.learned(values),
        preparation=done,
    )


def _called(names: Sequence[object]) -> NDArray[np.generic]:
    """Return the clients' names: numbers, in their order, or texts."""
    if all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in names):
        found = np.array(names)
        if found.dtype.kind in "iu":
            return found
    called = np.array([str(one) for one in names])
    if len(np.unique(called)) < len(called):
        raise ValueError("data: expected clients of different names, got some twice")
    return called


def _numbered(y: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return labels as numbers from 0, and what they are called if they were texts."""
    if y.dtype.kind == "f" and not np.equal(y, np.round(y)).all():
        raise ValueError(
            "data: expected classes as labels, whole numbers from 0 or texts, got other numbers; if these are to be "
            'learned, say so with columns=auxo.DataColumns(task="regression")'
        )
    if y.dtype.kind not in "US":
        return y, ()
    classes, numbers = np.unique(y, return_inverse=True)
    return numbers.astype(np.int64), tuple(str(one) for one in classes)


@dataclass(frozen=True)
class _ClientArrays:
    x: NDArray[Any]
    y: NDArray[Any]
    is_test: BoolArray


def _samples(samples: object, client: object, columns: DataColumns) -> _ClientArrays:
    """Return one client's samples, with what is for testing."""
    parts: tuple[tuple[NDArray[Any], NDArray[Any]], ...]
    if _is_torch_like(samples):
        parts = (_items(samples, client),)
    elif isinstance(samples, tuple) and samples and all(_is_torch_like(one) for one in samples):
        parts = tuple(_items(one, client) for one in samples)
    elif isinstance(samples, tuple) and len(samples) in (2, 4):
        arrays = [_array(one, client) for one in samples]
        parts = tuple((arrays[place], arrays[place + 1]) for place in range(0, len(arrays), 2))
    else:
        parts = ()
    if not 1 <= len(parts) <= 2:
        got = f"{len(samples)} things" if isinstance(samples, tuple) else type(samples).__name__
        raise ValueError(
            f"data: client {client!r}: expected (x, y), (x, y, x_test, y_test), a torch Dataset or two, got {got}"
        )
    for x, y in parts:
        if x.ndim == 0 or y.ndim not in ((1,) if columns.task == "classification" else (1, 2)) or len(x) != len(y):
            raise ValueError(
                f"data: client {client!r}: expected one label for each input, got inputs of shape {x.shape} and labels "
                f"of shape {y.shape}"
            )
    x, y = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    if len(parts) == 2:
        is_test = np.repeat([False, True], [len(parts[0][1]), len(parts[1][1])])
    else:
        is_test = draw_held_out(str(client), len(y), columns.test_share)
    return _ClientArrays(x[:, np.newaxis] if x.ndim == 1 else x, y, is_test)


def _is_torch_like(samples: object) -> TypeGuard[Any]:
    """Return whether this is a data set as torch has them, whose items are pairs; arrays and lists are not."""
    if isinstance(samples, np.ndarray | Sequence | Mapping) or hasattr(samples, "shape"):
        return False
    return hasattr(samples, "__getitem__") and hasattr(samples, "__len__")


def _items(samples: Any, client: object) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        pairs = [samples[number] for number in range(len(samples))]
        answers = np.stack([np.asarray(y) for _, y in pairs])
        single = answers[:, 0] if answers.ndim == 2 and answers.shape[1] == 1 else answers
        return np.stack([np.asarray(x) for x, _ in pairs]), single
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"data: client {client!r}: expected a Dataset of pairs (input, label), all inputs of one shape, got "
            f"{type(error).__name__} ({error})"
        ) from error


def _array(values: object, client: object) -> NDArray[Any]:
    found = np.asarray(values)
    if found.dtype == object:
        raise ValueError(f"data: client {client!r}: expected numbers or texts, got objects; give arrays of one shape")
    return found
