"""Clients that a run has not seen, from a table: their samples as the run's own were read, with labels or without.

A row without a label is one to be predicted. Rows with labels say which cohort its client belongs to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.datasets.client_samples import draw_held_out
from auxo.datasets.missing_values import MissingCount, finite_column, gaps
from auxo.datasets.table_categories import categories_of, columns_read
from auxo.datasets.table_files import TableFile, TablePart, as_number
from auxo.datasets.table_targets import Targets
from auxo.datasets.tables import missing_column, test_rows
from auxo.files.errors import file_error
from auxo.population.federated_data import FederatedData, client_order, samples_by_client
from auxo.population.preparation import Preparation

_SPLIT = "split"


@dataclass(frozen=True)
class NewClients:
    """Clients made alike to those of a run."""

    data: FederatedData  # samples without a label are among those for testing, and the label that they have is none
    is_labelled: BoolArray  # (inputs,) of ``data.x``
    row: IntArray  # (inputs,) where each stands in what they came from, from 0
    notes: tuple[str, ...] = ()  # what was left out, filled in, or is unlike what the run was trained on, for people

    @staticmethod
    def all_labelled(data: FederatedData) -> "NewClients":
        """Return clients whose every sample has a label."""
        far = () if data.has_tokens else data.preparation.far_out(data.numbers(np.arange(len(data.x))))
        return NewClients(data, np.ones(len(data.x), dtype=np.bool_), np.arange(len(data.x)), far)


@dataclass(frozen=True)
class _Rows:
    """What some rows of the table say."""

    row: IntArray
    client: NDArray[Any]
    x: FloatArray  # (rows, columns), gaps are NaN
    is_labelled: BoolArray
    answer: FloatArray  # (rows, 1) classes, or (rows, targets); where there is no label, zeros
    is_test: BoolArray | None


def read_new_clients(table: TableFile, done: Preparation) -> NewClients:
    """Return the clients of a table with one row a sample, as the run's own table was read.

    It has the columns of clients and inputs; those of labels may be missing, or have gaps.

    Raises:
        FileError: the table cannot be read, lacks a column, or has values that the run does not know.
    """
    path, client = table.path, done.client or "client"
    for use, name in (("client", client), *(("features", name) for name in columns_read(done))):
        if name not in table.names:
            raise missing_column(table, use, name, f"the run was trained on a table with {name!r}; give it that name")
    labels = done.label if all(name in table.names for name in done.label) else ()
    split = (_SPLIT,) if _SPLIT in table.names else ()
    counted, found, before = MissingCount(), list[_Rows](), 0
    unknown: dict[str, set[str]] = {}
    for part in table.parts(tuple(dict.fromkeys((client, *columns_read(done), *labels, *split)))):
        numbers = before + np.arange(len(part.numbers))
        before += len(numbers)
        found.append(_read(part, numbers, client, labels, done, counted))
        for one in categories_of(done).values():
            unknown.setdefault(one.column, set()).update(one.unknown(part))
    if not any(len(part.row) for part in found):
        raise file_error(path, "rows", "at least one that can be used", "none", "check that this is the right file")
    notes = tuple(
        f"column {column!r} has {len(values)} categories that the run does not know, such as {min(values)!r}; "
        "they count as none of those that it does"
        for column, values in unknown.items()
        if values
    )
    if counted.rows_with_gaps:
        if done.missing == "error":
            raise file_error(
                path, counted.first or "rows", "a value in every row, as in the run", counted.words(), "fill them in"
            )
        became = "are not predicted" if done.missing == "drop" else "were filled with the means of the run's columns"
        notes = (f"{counted.words()}; they {became}", *notes)
    return _population(path, _joined(found), done, notes)


def _read(
    part: TablePart, numbers: IntArray, client: str, labels: tuple[str, ...], done: Preparation, counted: MissingCount
) -> _Rows:
    categories = categories_of(done)
    columns = {
        name: categories[name].of(part)
        if name in categories
        else finite_column(part, name, "a finite number", "mend the table")[:, np.newaxis]
        for name in columns_read(done)
    }
    missing = {client: gaps(part.columns[client])} | {name: np.isnan(one[:, 0]) for name, one in columns.items()}
    has_gap = counted.add(part, missing)
    usable = ~(missing[client] if done.missing == "mean" else has_gap)
    kept = part.only(usable)
    known, answer = _answers(kept, labels, done)
    return _Rows(
        row=numbers[usable],
        client=np.array([str(value).strip() for value in kept.columns[client].tolist()], dtype=np.object_),
        x=np.concatenate(list(columns.values()), axis=1)[usable],
        is_labelled=known,
        answer=answer,
        is_test=test_rows(kept, _SPLIT) if _SPLIT in part.columns else None,
    )


def _answers(part: TablePart, labels: tuple[str, ...], done: Preparation) -> tuple[BoolArray, FloatArray]:
    """Return which rows have a label, and what it is."""
    width = 1 if done.task == "classification" else len(done.classes)
    answer = np.zeros((len(part.numbers), width))
    if not labels:
        return np.zeros(len(part.numbers), dtype=np.bool_), answer
    targets = Targets(done.task, labels, done.classes)
    lacking = targets.gaps(part) if done.task != "classification" else {labels[0]: gaps(part.columns[labels[0]])}
    known = ~np.logical_or.reduce(list(lacking.values())) if lacking else np.ones(len(answer), dtype=np.bool_)
    some = part.only(known)
    answer[known] = _classes(some, labels[0], done) if done.task == "classification" else _targets(some, targets)
    return known, answer


def _classes(part: TablePart, column: str, done: Preparation) -> FloatArray:
    number_of = {name: number for number, name in enumerate(done.classes)}
    names = [_class_name(value, number_of) for value in part.columns[column].tolist()]
    for row, name in enumerate(names):
        if name not in number_of:
            raise _unknown(part, row, column, name, done.classes)
    return np.array([[number_of[name]] for name in names], dtype=np.float64).reshape(-1, 1)


def _class_name(value: object, known: dict[str, int]) -> str:
    """Return what the run calls a label: 3, 3.0 and "3.0" are one class where classes are numbered."""
    text = str(int(value)) if isinstance(value, bool) else str(value).strip()
    if text in known:
        return text
    number = as_number(text)
    return str(int(number)) if number is not None and number.is_integer() else text


def _targets(part: TablePart, targets: Targets) -> FloatArray:
    for row, name in targets.unknown_names(part):
        raise _unknown(part, row, targets.columns[0], name, targets.names)
    return targets.of(part)


def _unknown(part: TablePart, row: int, column: str, name: str, known: Sequence[str]) -> Exception:
    expected = f"a label that the run knows ({', '.join(known[:10])}{', ...' if len(known) > 10 else ''}), or none"
    return file_error(part.path, part.place(row, column), expected, repr(name), "leave it empty to have it predicted")


def _joined(parts: list[_Rows]) -> _Rows:
    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    has_split = parts[0].is_test is not None
    joined = {field.name: column(field.name) for field in fields(_Rows) if field.name != "is_test"}
    return _Rows(**joined, is_test=column("is_test") if has_split else None)


def _population(path: Path, rows: _Rows, done: Preparation, notes: tuple[str, ...]) -> NewClients:
    x: Float32Array = done.apply(rows.x)
    if not np.isfinite(x).all():
        name = done.columns[int(np.argwhere(~np.isfinite(x))[0, 1])]
        raise file_error(path, f"column {name!r}", "numbers that fit float32", "larger ones", "scale it down")
    found, client = np.unique(rows.client.astype(np.str_), return_inverse=True)
    order = client_order(found.tolist())
    names, client = found[order], np.argsort(order)[client]
    is_test = ~rows.is_labelled
    if rows.is_test is not None:
        is_test |= rows.is_test
    else:
        labelled = np.flatnonzero(rows.is_labelled)
        labelled = labelled[np.argsort(client[labelled], kind="stable")]
        for mine in np.split(labelled, np.flatnonzero(np.diff(client[labelled])) + 1):
            if len(mine):  # as for the run's own clients
                is_test[mine] = draw_held_out(str(names[client[mine[0]]]), len(mine))
    is_class = done.task == "classification"
    y = rows.answer[:, 0].astype(np.int64) if is_class else np.arange(len(client))
    train, test = samples_by_client(client, y, is_test, len(names))
    data = FederatedData(
        name=path.stem,
        x=x,
        train=train,
        test=test,
        n_classes=len(done.classes),
        client_names=tuple(str(name) for name in names),
        task=done.task,
        targets=None if is_class else done.learned(rows.answer),
        preparation=done,
    )
    return NewClients(data, rows.is_labelled, rows.row, (*notes, *done.far_out(x)))
