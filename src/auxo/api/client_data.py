"""Clients' samples as people have them in Python, as a population.

A mapping or a list of clients, each with arrays or a torch data set; a data set of Hugging Face with a column that says
whose a row is; a partitioner of flwr-datasets; or a population that is one already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from auxo.api.plain_arrays import is_frame, plain_array
from auxo.core.settings import Bounds, checked
from auxo.core.types import BoolArray
from auxo.datasets.client_samples import TEST_SHARE, SampleSource, draw_held_out
from auxo.datasets.hugging_face import HubColumns, from_hugging_face
from auxo.datasets.open_dataset import FEDERATED, NPZ, arrow_needed, open_dataset
from auxo.datasets.table_files import frame_table
from auxo.datasets.tables import TableColumns, source_of
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_from_arrays
from auxo.population.preparation import LearningTask, Preparation, fit_columns

_FORMS = (
    "a mapping of clients' names to their samples, or a list of clients' samples (each (x, y), (x, y, x_test, y_test), "
    "a torch Dataset or two of them), a pandas frame or a Hugging Face dataset with a client column, a flwr-datasets "
    "partitioner, the path of a file, or a FederatedData"
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


def population_from(
    data: object,
    columns: DataColumns | TableColumns | None = None,
    name: str = "clients",
    *,
    standardise: bool = False,
    like: Preparation | None = None,
) -> FederatedData:
    """Return clients' samples as a population, with inputs as they are, or standardised as those of a file would be.

    ``like`` is what was done to the columns of others, to be done to these; a `FederatedData` stays as it is.

    Where nothing says which samples are for testing, a share of every client's is held out by chance.

    Raises:
        ValueError: this is no form of data that is known, or samples do not fit together; the message names the client.
        FileError: the same of a data set of Hugging Face.
    """
    if isinstance(data, FederatedData):
        return data
    if isinstance(data, str | Path) or is_frame(data):
        return _of_table(data, columns, name, standardise)
    if isinstance(columns, TableColumns):
        raise ValueError("columns: expected auxo.DataColumns for these data, got TableColumns, which are for tables")
    how = columns or DataColumns()
    if _has(data, "load_partition", "num_partitions"):
        from auxo.flower.partitions import partitions_source  # noqa: PLC0415 - takes long to import

        return _of_source(partitions_source(data, name, how.features, how.label), how, standardise)
    if _has(data, "column_names", "features", "select_columns"):
        source = from_hugging_face(data, name, HubColumns(how.client, how.features, how.label))
        return _of_source(source, how, standardise)
    if isinstance(data, Mapping):
        made = _of_clients(list(data), list(data.values()), how, name, standardise, like)
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        made = _of_clients(list(range(len(data))), data, how, name, standardise, like)
    else:
        raise ValueError(f"data: expected {_FORMS}; got {type(data).__name__}")
    return made.standardised() if standardise else made


def _has(thing: object, *names: str) -> TypeGuard[Any]:
    """Return whether something is of a library's kind, by its attributes: the library need not be installed."""
    return all(hasattr(thing, name) for name in names)


def _of_table(data: Any, columns: DataColumns | TableColumns | None, name: str, standardise: bool) -> FederatedData:
    """Return the population in a file or in a data frame, which is read as a table."""
    how = _as_table(columns) if isinstance(columns, DataColumns) else columns or TableColumns()
    how = replace(how, standardise=standardise)
    if not isinstance(data, str | Path):
        with arrow_needed(name):
            from auxo.datasets.federated_file import as_population, collect  # noqa: PLC0415 - optional

            made = as_population(collect(source_of(frame_table(data, name), how)), Path(name))
    elif columns is not None and Path(data).suffix.lower() in (*FEDERATED, NPZ):
        raise ValueError(
            f"columns: expected them for tables (.csv, .parquet), got {data}, which says itself what it has"
        )
    else:
        made = open_dataset(Path(data), how)
    return made.standardised() if standardise else made


def _as_table(columns: DataColumns) -> TableColumns:
    """Return how a table is read; what is called as usual is found by the names in use."""
    usual = DataColumns()
    named = {use: getattr(columns, use) for use in ("client", "features", "label")}
    return TableColumns(
        **{use: name for use, name in named.items() if name != getattr(usual, use)},
        test_share=columns.test_share,
        tokens=columns.tokens,
        task=columns.task,
    )


def _of_source(source: SampleSource, columns: DataColumns, standardise: bool) -> FederatedData:
    with arrow_needed(source.path):
        from auxo.datasets.federated_file import as_population, collect  # noqa: PLC0415 - optional

        data = as_population(collect(replace(source, test_share=columns.test_share)), source.path)
        return data.standardised() if standardise else data


def _of_clients(
    names: Sequence[object],
    samples: Sequence[object],
    columns: DataColumns,
    name: str,
    standardise: bool,
    like: Preparation | None,
) -> FederatedData:
    """Return the population of clients that have their samples each for itself."""
    if not names:
        raise ValueError("data: expected at least one client, got none")
    called = _called(names)
    parts = [_samples(one, client, columns) for client, one in zip(called.tolist(), samples, strict=True)]
    shapes = {part.x.shape[1:]: str(client) for client, part in zip(called.tolist(), parts, strict=True)}
    if len(shapes) > 1:
        (one, first), (other, second), *_ = shapes.items()
        raise ValueError(f"data: expected inputs of one shape, got {one} of client {first!r} and {other} of {second!r}")
    kinds = {
        "texts" if part.y.dtype.kind in "US" else "numbers": client
        for client, part in zip(called.tolist(), parts, strict=True)
    }
    if len(kinds) > 1:
        got = " and ".join(f"{kind} of client {client!r}" for kind, client in kinds.items())
        raise ValueError(
            f"data: expected labels of one kind, got {got}; make all of them numbers, or all of them texts"
        )
    x = np.concatenate([part.x for part in parts])
    labels: NDArray[Any] = np.zeros(len(x), dtype=np.int64)
    classes: tuple[str, ...] = ()
    if columns.task == "classification":
        labels, classes = _numbered(np.concatenate([part.y for part in parts]))
    is_test = np.concatenate([part.is_test for part in parts])
    arrays = {"x": x, "y": labels, "client": np.repeat(called, [len(part.y) for part in parts]), "test": is_test}
    like = None if columns.tokens else like
    data = population_from_arrays(arrays, name, Path(name), standardise=standardise and not columns.tokens, like=like)
    if columns.tokens:
        data = replace(data, x=x.astype(np.int32), preparation=Preparation())
    if columns.task != "classification":
        return _with_targets(data, _with_names(data.preparation, samples), [part.y for part in parts], columns.task)
    done = replace(_with_names(data.preparation, samples), classes=classes)
    return replace(data, n_classes=max(data.n_classes, len(classes)), preparation=done)


def _with_names(done: Preparation, samples: Sequence[object]) -> Preparation:
    """Return the record with the names of the columns, where clients' inputs are data frames."""
    inputs = [one[place] for one in samples if isinstance(one, tuple) for place in range(0, len(one), 2)]
    names = {tuple(map(str, one.columns)) if is_frame(one) else () for one in inputs}
    if len(names) > 1:
        first, second, *_ = sorted(names)
        raise ValueError(f"data: expected inputs with the same columns in the same order, got {first} and {second}")
    return replace(done, columns=names.pop(), by_column=False) if names - {()} else done


def _with_targets(
    data: FederatedData, done: Preparation, y: Sequence[NDArray[Any]], task: LearningTask
) -> FederatedData:
    """Return a population with numbers or flags to learn, in the order of its inputs, in place of classes."""
    widths = {part.shape[1:] for part in y}
    if len(widths) > 1 or any(part.dtype.kind not in "biuf" for part in y):
        raise ValueError(f"data: expected as many numbers to learn of every client for {task}, got others")
    values = np.concatenate(y).astype(np.float64).reshape(len(data.x), -1)
    if not np.isfinite(values).all():
        raise ValueError(f"data: expected finite numbers to learn for {task}, got NaN or infinity; drop these samples")
    if task == "multi-label" and not np.isin(values, (0.0, 1.0)).all():
        raise ValueError("data: expected 0 or 1 for each label that a sample may have, got other numbers")
    number = values.shape[1]
    names = ("target",) if number == 1 else tuple(f"target {place}" for place in range(number))
    done = replace(done, classes=names, task=task)
    if task == "regression":
        owner, rows = np.repeat(np.arange(data.n_clients), data.train.counts()), data.train.x_rows
        means, deviations = fit_columns(values, rows[np.lexsort((rows, owner))])
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
    called = np.array([str(one).strip() for one in names])
    found, counts = np.unique(called, return_counts=True)
    if len(found) < len(called):
        twice = str(found[counts.argmax()])
        raise ValueError(f"data: expected clients of different names, spaces around them left out, got {twice!r} twice")
    return called


def _numbered(y: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return labels as numbers from 0, and what they are called if they were texts."""
    if y.dtype.kind == "f" and not np.equal(y, np.round(y)).all():
        raise ValueError(
            "data: expected classes as labels, whole numbers from 0 or texts, got other numbers; if these are to be "
            'learned, say so with columns=auxo.DataColumns(task="regression")'
        )
    if y.dtype.kind not in "US":
        return (y.astype(np.int64) if y.dtype.kind == "b" else y), ()
    classes, numbers = np.unique(np.char.strip(y.astype(np.str_)), return_inverse=True)
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
    if not len(y):
        raise ValueError(f"data: client {client!r}: expected samples, got none; leave this client out")
    if len({"text" if part[1].dtype.kind in "US" else "number" for part in parts}) > 1:
        raise ValueError(f"data: client {client!r}: expected labels of one kind, got texts and numbers")
    if len(parts) == 2:
        is_test = np.repeat([False, True], [len(parts[0][1]), len(parts[1][1])])
    else:
        is_test = draw_held_out(str(client), len(y), columns.test_share)
    return _ClientArrays(x[:, np.newaxis] if x.ndim == 1 else x, y, is_test)


def _is_torch_like(samples: object) -> TypeGuard[Any]:
    """Return whether this is a data set as torch has them, whose items are pairs; arrays and lists are not."""
    if isinstance(samples, np.ndarray | Sequence | Mapping) or hasattr(samples, "shape"):
        return False
    return _has(samples, "__getitem__", "__len__")


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
    found = plain_array(values)
    if found.dtype == object:
        kinds = ", ".join(sorted({type(one).__name__ for one in found.ravel().tolist()})[:4])
        raise ValueError(
            f"data: client {client!r}: expected numbers or texts of one kind without gaps, got objects ({kinds}); give "
            "arrays of one shape, or the table as a whole: auxo.simulate(frame, columns=auxo.TableColumns(...))"
        )
    return found
