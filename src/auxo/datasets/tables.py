"""A user's own table as a data set: which column says what, and what is wrong where it does not."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from auxo.core.rng import stream
from auxo.core.settings import Bounds, checked
from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.datasets.client_samples import TEST_SHARE, ClientSamples, ColumnPlan, SampleSource, end_held_out
from auxo.datasets.column_looks import ColumnLooks
from auxo.datasets.missing_values import MissingCount, finite_column, gaps, numbers_with_gaps
from auxo.datasets.table_categories import Categories, read_categories
from auxo.datasets.table_files import TableFile, TablePart, as_number, open_table_file
from auxo.datasets.table_labels import Labels, read_labels
from auxo.datasets.table_targets import Targets, read_targets
from auxo.datasets.text_features import BY_CHARACTER, hashed_words, windows
from auxo.files.errors import file_error
from auxo.population.federated_data import StoredInputs
from auxo.population.preparation import LearningTask, Missing

HASHED = 4096
"""Places for words and pairs of words; our choice."""

WINDOW = 20
"""Characters that the next one is told from; our choice."""

_PLACES = 300  # of one text that are asked about at most; our choice
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_SPLITS = {"train": False, "test": True}
_IN_USE = {"client": ("client",), "label": ("label", "y"), "split": ("split", "test"), "group": ("group",)}
_NAMED = 12  # columns that an error names; our choice
_NO_NUMBER = (
    "drop the row, or name the columns of numbers with --features; for categories give --categories {}, and for texts "
    "say how with --text"
)
_HAS_NO_TYPE = "OUS"  # kinds of arrays that hold text


@dataclass(frozen=True)
@checked
class TableColumns:
    """Which columns of a table say what, and how they are to be read.

    A name that is None stands for those in use: label or y, split or test, group; split and group may be missing.
    """

    client: str | None = None
    features: str | tuple[str, ...] | None = None  # None: features, x or text, or all other columns with numbers
    label: str | tuple[str, ...] | None = None  # several for other tasks than classification
    split: str | None = None  # "train" or "test"; or, in a column with test in its name, booleans
    group: str | None = None
    text: Literal["hashed", "characters"] | None = None  # how a column of texts becomes inputs
    tokens: bool = False  # whether inputs are tokens of a text
    shape: tuple[int, ...] | None = None  # of an input; None: as the lists are nested
    test_share: Annotated[float, Bounds(gt=0, lt=1)] = TEST_SHARE  # where no column says what is for testing
    standardise: bool = True  # columns of single numbers, each by its training mean and deviation
    categories: tuple[str, ...] = ()  # columns of which every value becomes an input, 1 where a row has it and else 0
    missing: Missing = "error"  # what becomes of rows with missing values
    task: LearningTask = "classification"  # regression: labels are numbers; multi-label: flags, or names with ; between

    def __post_init__(self) -> None:
        if self.task != "classification" and self.text == "characters":
            raise ValueError("text: the next character is a class, and nothing else can be learned of it")
        if self.task == "classification" and isinstance(self.label, tuple) and len(self.label) > 1:
            raise ValueError(
                f"label: expected one column of classes, got {', '.join(self.label)}; for several numbers or "
                "labels say so with --task regression or --task multi-label"
            )
        if self.categories and (self.text or self.tokens or self.shape):
            raise ValueError("categories: expected columns of single values beside them, got a text, tokens or a shape")
        if self.shape is not None and (not self.shape or min(self.shape) < 1):
            raise ValueError(f"shape: expected sizes of at least 1, got {self.shape}")


BY_COMMON_NAMES = TableColumns()
"""Columns with the names that are in use."""


@dataclass(frozen=True)
class _Roles:
    """The columns that a table really has for each use."""

    client: str
    features: tuple[str, ...]
    labels: tuple[str, ...]  # none for next characters; several for other tasks than classification
    split: str | None
    group: str | None
    left_out: tuple[str, ...] = ()  # a sentence for each column that is no input though nobody said so

    def names(self) -> list[str]:
        optional = (name for name in (self.split, self.group) if name is not None)
        return list(dict.fromkeys((self.client, *self.features, *self.labels, *optional)))


@dataclass(frozen=True)
class _Rows:
    """Samples of some rows of a table; a text may give many."""

    x: StoredInputs | FloatArray
    y: IntArray
    row: IntArray  # (samples,) of the part
    is_test: BoolArray | None
    targets: FloatArray | None = None


def table_source(path: Path, columns: TableColumns = BY_COMMON_NAMES) -> SampleSource:
    """Return the data set in a table with one row a sample, or, for next characters, one row a text.

    The labels are read at once, since they say which classes there are; all else when it is asked for, some rows at a
    time. A client's rows need not follow each other. Inputs of type uint8 stay levels from 0 to 255, tokens become
    int32, and all other numbers float32. Labels that are text are numbered in sorted order.

    Raises:
        FileError: the file cannot be read, a column is missing, or labels cannot be used; when its clients are asked
            for, also if inputs, clients, splits or groups cannot be used.
    """
    return source_of(open_table_file(path), columns)


def source_of(table: TableFile, columns: TableColumns = BY_COMMON_NAMES) -> SampleSource:
    """Return the same for a table that is open already."""
    path = table.path
    roles = _roles(table, columns)
    labels = _labels(table, roles, columns)
    are_columns = _are_columns(table, roles, columns)
    categories = {name: read_categories(table, name) for name in columns.categories}
    inputs = tuple(
        one for name in roles.features for one in (categories[name].names if name in categories else (name,))
    )
    looks = ColumnLooks(inputs if are_columns else ())
    counted = MissingCount()

    def clients() -> Iterator[ClientSamples]:
        nonlocal looks, counted
        looks, counted = ColumnLooks(looks.names), MissingCount()  # a source may be read more than once
        shape: tuple[int, ...] | None = None
        for whole in table.parts(roles.names()):
            part = _without_gaps(whole, roles, columns, labels, are_columns, counted)
            if len(part.numbers) == 0:
                continue
            names = _client_names(part, roles.client)
            rows = _samples(part, roles, columns, labels, names, categories if are_columns else None)
            if are_columns:
                looks.add(rows.x)
            if shape is not None and rows.x.shape[1:] != shape:
                expected, got = f"inputs of shape {shape}, as before", f"{rows.x.shape[1:]}"
                place = part.place(0, roles.features[0])
                raise file_error(part.path, place, expected, got, "bring all samples to one shape")
            shape = rows.x.shape[1:]
            yield from _by_client(part, roles.group, names, rows)
        if counted.rows_with_gaps and columns.missing == "error":
            is_named = columns.task == "multi-label" and len(roles.labels) == 1 and roles.labels[0] in counted.by_column
            raise counted.error(path, "; write ; for a sample that has none of the labels" if is_named else "")

    def notes() -> tuple[str, ...]:
        without = ", and those without a label left out" if counted.by_column.keys() & set(roles.labels) else ""
        became = "were left out" if columns.missing == "drop" else f"were filled with the columns' means{without}"
        told = (f"{counted.words()}; they {became}",) if counted.rows_with_gaps else ()
        return (*told, *roles.left_out, *looks.notes())

    plan = None
    if are_columns:
        kept = tuple((name, one.values) for name, one in categories.items())
        plan = ColumnPlan(inputs, columns.standardise, columns.missing, roles.client, roles.labels, kept)
    names = labels.names if isinstance(labels, Targets) else labels.classes
    return SampleSource(
        path.stem,
        path,
        names,
        clients,
        columns.test_share,
        columns.task,
        columns.standardise,
        plan,
        notes,
        by_column=plan is None and columns.text is None,
    )


def columns_in_use(table: TableFile) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the columns of client, inputs and label of a table with the names in use; a label may be missing.

    There are no columns of inputs where these are lists.
    """
    client = _required(table, "client", None)
    label = _optional(table, "label", None)
    taken = {client, label, *(_optional(table, use, None) for use in ("split", "group"))}
    features = _feature_columns(table, BY_COMMON_NAMES, taken)
    roles = _Roles(client, features, () if label is None else (label,), None, None)
    return client, features if _are_columns(table, roles, BY_COMMON_NAMES) else (), roles.labels


def _labels(table: TableFile, roles: _Roles, columns: TableColumns) -> Labels | Targets:
    if columns.task != "classification":
        return read_targets(table, columns.task, roles.labels)
    return read_labels(table, roles.labels[0]) if roles.labels else Labels(BY_CHARACTER.names)


def _are_columns(table: TableFile, roles: _Roles, columns: TableColumns) -> bool:
    """Return whether inputs are columns of single numbers, each with a meaning of its own.

    Lists, inputs with a shape, levels from 0 to 255 and tokens are arrays, whose numbers are all of one kind.
    """
    if columns.text is not None or columns.tokens or columns.shape is not None:
        return False
    first = next(iter(table.parts(roles.features)), None)
    if first is None:
        return True
    arrays = [first.columns[name] for name in roles.features if name not in columns.categories]
    if columns.categories and any(array.ndim > 1 for array in arrays):
        expected, remedy = "columns of single values beside categories", "leave --categories out, or name others"
        raise file_error(table.path, ", ".join(roles.features[:3]), expected, "lists", remedy)
    if columns.categories:
        return True
    return all(array.ndim == 1 for array in arrays) and not all(array.dtype == np.uint8 for array in arrays)


def _without_gaps(
    part: TablePart,
    roles: _Roles,
    columns: TableColumns,
    labels: Labels | Targets,
    are_columns: bool,
    counted: MissingCount,
) -> TablePart:
    """Return the rows that can be used; which others there are is counted."""
    needed = {roles.client: gaps(part.columns[roles.client])}
    if isinstance(labels, Targets):
        needed |= labels.gaps(part)
    else:
        needed |= {name: gaps(part.columns[name]) for name in roles.labels}
    filled = {}
    for name in roles.features:
        values = part.columns[name]
        if name in columns.categories:
            filled[name] = gaps(values)
        elif are_columns:
            numbers = numbers_with_gaps(values)
            if numbers is not None:  # otherwise it is told where it is read
                filled[name] = np.isnan(numbers)
        elif values.ndim == 1 and values.dtype.kind == "O":
            needed[name] = np.array([value is None for value in values.tolist()], dtype=np.bool_)
    has_gap = counted.add(part, needed | filled)
    if columns.missing == "mean":
        has_gap = np.logical_or.reduce(list(needed.values()))
    return part.only(~has_gap) if has_gap.any() else part


def _roles(table: TableFile, columns: TableColumns) -> _Roles:
    client = _required(table, "client", columns.client)
    split = _optional(table, "split", columns.split)
    group = _optional(table, "group", columns.group)
    asked = (columns.label,) if isinstance(columns.label, str) or columns.label is None else columns.label
    labels = () if columns.text == "characters" else tuple(_required(table, "label", name) for name in asked)
    taken = {client, split, group, *labels}
    features = _feature_columns(table, columns, taken)
    is_asked = columns.features is not None or columns.text is not None  # then what is left out was meant to be
    left_out = () if is_asked else _left_out(table, features, {*taken, *features})
    return _Roles(client, features, labels, split, group, left_out)


def _left_out(table: TableFile, features: tuple[str, ...], taken: set[str | None]) -> tuple[str, ...]:
    """Return a sentence for each column that did not become an input, with the reason and what can be done."""
    found = []
    for name in table.names:
        kind = table.others.get(name, "numbers")
        if name in taken:
            continue
        if kind == "numbers with commas":
            expected, remedy = "numbers with a decimal point", "write them with a point, or put ; between values"
            raise file_error(table.path, f"column {name!r}", expected, "commas, which may stand for thousands", remedy)
        if kind == "text":
            told = f"it holds text; --categories {name} makes an input of each of its values"
        elif kind == "times":
            told = "it holds times; make numbers of them first, such as hours or weekdays"
        elif kind == "numbers":
            told = f"{features[0]!r} is; name the columns of inputs with --features to have others"
        else:
            told = f"it holds {kind}; make numbers of them first"
        found.append(f"column {name!r} is no input: {told}")
    return tuple(found)


def _required(table: TableFile, use: str, asked: str | None) -> str:
    names = _IN_USE[use] if asked is None else (asked,)
    found = next((name for name in names if name in table.names), None)
    if found is None:
        raise missing_column(table, use, names[0])
    return found


def _optional(table: TableFile, use: str, asked: str | None) -> str | None:
    """Return the column for a use; None: it was not asked for, and there is none with a name in use."""
    if asked is None and not set(_IN_USE[use]) & set(table.names):
        return None
    return _required(table, use, asked)


def missing_column(table: TableFile, use: str, name: str, remedy: str | None = None) -> Exception:
    """Return the error that says that a table lacks a column, and which it has; a remedy in place of an option's."""
    close = difflib.get_close_matches(name.lower(), [there.lower() for there in table.names], n=1)
    meant = [there for there in table.names if close and there.lower() == close[0]]
    hint = f"did you mean {meant[0]!r}? " if meant else ""
    there = ", ".join(table.names[:_NAMED])
    more = f" and {len(table.names) - _NAMED} more" if len(table.names) > _NAMED else ""
    do = remedy or f"name the right one with --{use}"
    return file_error(table.path, f"column {name!r}", f"it, for {use}", f"the columns {there}{more}", f"{hint}{do}")


def _feature_columns(table: TableFile, columns: TableColumns, taken: set[str | None]) -> tuple[str, ...]:
    for name in columns.categories:
        if name not in table.names or name in taken:
            raise missing_column(table, "categories", name)
    if columns.features is not None:
        asked = (columns.features,) if isinstance(columns.features, str) else columns.features
        for name in asked:
            if name not in table.names:
                raise missing_column(table, "features", name)
        return tuple(dict.fromkeys((*asked, *columns.categories)))
    usual = ("text",) if columns.text else ("features", "x")
    for name in usual:
        if name in table.names:
            return (name,)
    inputs = {*table.numeric, *columns.categories} - taken
    numeric = () if columns.text else tuple(name for name in table.names if name in inputs)
    if not numeric:
        raise missing_column(table, "features", usual[0])
    return numeric


def _client_names(part: TablePart, column: str) -> NDArray[Any]:
    values = part.columns[column]
    if values.ndim != 1 or values.dtype.kind not in "OUSiu":
        expected, got = "names or whole numbers", f"{values.dtype} of shape {values.shape[1:]}"
        raise file_error(part.path, part.place(0, column), expected, got, "name the column of clients with --client")
    names = np.array([str(value).strip() for value in values.tolist()], dtype=np.object_)
    empty = np.flatnonzero(names == "")
    if len(empty):
        remedy = "fill it in or drop the row"
        raise file_error(part.path, part.place(int(empty[0]), column), "whose sample it is", "nothing", remedy)
    return names


def _samples(
    part: TablePart,
    roles: _Roles,
    columns: TableColumns,
    labels: Labels | Targets,
    names: NDArray[Any],
    categories: dict[str, Categories] | None,
) -> _Rows:
    """Return the samples of some rows; categories, be there any, where inputs are columns of single values."""
    is_test = None if roles.split is None else test_rows(part, roles.split)
    if columns.text == "characters":
        return _next_characters(part, roles.features[0], columns.test_share, names, is_test)
    if columns.text == "hashed":
        texts = _texts(part, roles.features[0])
        x: StoredInputs | FloatArray = np.stack([hashed_words(text, HASHED) for text in texts])
    elif categories is not None:
        made = [categories[one].of(part) if one in categories else _column(part, one) for one in roles.features]
        x = np.column_stack(made)
    else:
        x = _inputs(part, roles.features, columns)
    rows = np.arange(len(x))
    if isinstance(labels, Targets):
        return _Rows(x, np.zeros(len(x), dtype=np.int64), rows, is_test, labels.of(part))
    return _Rows(x, labels.of(part, roles.labels[0]), rows, is_test)


def test_rows(part: TablePart, column: str) -> BoolArray:
    """Return which rows are for testing, by a column that says so."""
    meanings = {**_SPLITS, **_FLAGS} if "test" in column.lower() else _SPLITS
    values = [str(value).strip().lower() for value in part.columns[column].tolist()]
    wrong = next((row for row, value in enumerate(values) if value not in meanings), None)
    if wrong is not None:
        expected = '"train" or "test"' + (", or true or false" if meanings is not _SPLITS else "")
        remedy = "rename it, or leave --split out to have samples held out by chance"
        raise file_error(part.path, part.place(wrong, column), expected, repr(values[wrong]), remedy)
    return np.array([meanings[value] for value in values], dtype=np.bool_)


def _texts(part: TablePart, column: str) -> list[str]:
    values = part.columns[column]
    if values.ndim != 1 or values.dtype.kind not in _HAS_NO_TYPE:
        raise file_error(part.path, part.place(0, column), "text", f"{values.dtype}", "leave --text out")
    return [str(value) for value in values.tolist()]


def _next_characters(
    part: TablePart, column: str, test_share: float, names: NDArray[Any], is_test_row: BoolArray | None
) -> _Rows:
    """Return windows of every text. Where no column says otherwise its end is held out: neighbours overlap."""
    xs, ys, rows, flags = [], [], [], []
    for row, text in enumerate(_texts(part, column)):
        tokens = BY_CHARACTER.tokens(text)
        rng = stream(0, "places", str(names[row]), str(part.path.name), int(part.numbers[row]))
        places = np.arange(len(tokens)) if len(tokens) <= _PLACES else np.sort(rng.permutation(len(tokens))[:_PLACES])
        x, y = windows(tokens, WINDOW, places)
        xs.append(x)
        ys.append(y)
        rows.append(np.full(len(y), row))
        flags.append(end_held_out(len(y), test_share) if is_test_row is None else np.full(len(y), is_test_row[row]))
    return _Rows(np.concatenate(xs), np.concatenate(ys), np.concatenate(rows), np.concatenate(flags))


def _inputs(part: TablePart, names: tuple[str, ...], columns: TableColumns) -> StoredInputs:
    arrays = [_numbers(part, name) for name in names]
    if len(arrays) > 1 and any(array.ndim > 1 for array in arrays):
        expected, remedy = "one column of lists, or columns of single numbers", "name one column with --features"
        raise file_error(part.path, ", ".join(names[:3]), expected, "several with lists", remedy)
    x = np.stack(arrays, axis=1) if len(arrays) > 1 or arrays[0].ndim == 1 else arrays[0]
    if columns.shape is not None:
        if prod(x.shape[1:]) != prod(columns.shape):
            expected = f"{prod(columns.shape)} numbers, for the shape {'x'.join(map(str, columns.shape))}"
            place, got = part.place(0, names[0]), f"{prod(x.shape[1:])}"
            raise file_error(part.path, place, expected, got, "give the shape that the inputs have")
        x = x.reshape(len(x), *columns.shape)
    return _tokens(part, names, x) if columns.tokens else _stored(part, names, x)


def _numbers(part: TablePart, name: str) -> NDArray[Any]:
    values = part.columns[name]
    if values.dtype.kind in "biuf":
        return values
    try:
        return values.astype(np.float64)
    except (ValueError, TypeError):
        flat = values.reshape(len(values), -1)[:, 0].tolist()
        row = next((row for row, value in enumerate(flat) if as_number(value) is None), 0)
        raise file_error(
            part.path, part.place(row, name), "a number", repr(flat[row]), _NO_NUMBER.format(name)
        ) from None


def _column(part: TablePart, name: str) -> FloatArray:
    """Return a column of single numbers, with NaN for gaps."""
    return finite_column(part, name, "a finite number", _NO_NUMBER.format(name))


def _stored(part: TablePart, names: tuple[str, ...], x: NDArray[Any]) -> StoredInputs:
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is reported as such
        numbers: StoredInputs = x.astype(np.float32)
    is_finite = np.isfinite(numbers).reshape(len(x), -1)
    if not is_finite.all():
        row, column = (int(place) for place in np.argwhere(~is_finite)[0])
        place = part.place(row, names[column] if len(names) > 1 else names[0])
        got = f"{x.reshape(len(x), -1)[row, column]}"
        raise file_error(part.path, place, "finite numbers that fit float32", got, "fill it in or drop the row")
    return numbers


def _tokens(part: TablePart, names: tuple[str, ...], x: NDArray[Any]) -> StoredInputs:
    wrong = (x < 0) | (x > np.iinfo(np.int32).max) | (x != np.floor(x))
    if wrong.any():
        row = int(np.argwhere(wrong.reshape(len(x), -1))[0, 0])
        got = f"{x[row][wrong[row]].ravel()[0]}"
        raise file_error(part.path, part.place(row, names[0]), "tokens: whole numbers from 0", got, "number them")
    tokens: StoredInputs = x.astype(np.int32)
    return tokens


def _groups(part: TablePart, column: str) -> list[str]:
    values = part.columns[column].tolist()
    missing = next((row for row, value in enumerate(values) if value is None), None)
    if missing is not None:
        raise file_error(part.path, part.place(missing, column), "a group", "nothing", "fill it in or drop the row")
    return [str(value).strip() for value in values]


def _by_client(part: TablePart, group: str | None, names: NDArray[Any], rows: _Rows) -> Iterator[ClientSamples]:
    distinct, number = np.unique(names, return_inverse=True)
    groups = None if group is None else _groups(part, group)
    of_client: dict[int, str] = {}
    for row, client in enumerate(number.tolist() if groups else ()):
        if groups and of_client.setdefault(client, groups[row]) != groups[row]:
            got = f"{of_client[client]!r} and {groups[row]!r}"
            expected = f"one group for client {distinct[client]!r}"
            raise file_error(part.path, part.place(row, group or ""), expected, got, "make a client for each group")
    owner = number[rows.row]
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
    for client, name in enumerate(distinct.tolist()):
        mine = order[starts[client] : starts[client + 1]]
        is_test = None if rows.is_test is None else rows.is_test[mine]
        if len(mine):
            targets = None if rows.targets is None else rows.targets[mine]
            yield ClientSamples(name, rows.x[mine], rows.y[mine], is_test, of_client.get(client), targets)
