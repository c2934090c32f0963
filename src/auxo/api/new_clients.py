"""Clients that a run has not seen, from a table: their samples as the run's own were read, with labels or without.

A row without a label is one to be predicted. Rows with labels say which cohort its client belongs to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.rng import stream
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.datasets.client_samples import draw_held_out
from auxo.datasets.missing_values import MissingCount, gaps, numbers_with_gaps
from auxo.datasets.table_files import TablePart, open_table_file
from auxo.datasets.table_targets import Targets
from auxo.datasets.tables import missing_column, test_rows
from auxo.files.errors import file_error
from auxo.population.federated_data import FederatedData, Samples
from auxo.population.preparation import Preparation

_SPLIT = "split"


@dataclass(frozen=True)
class NewClients:
    """Clients made alike to those of a run."""

    data: FederatedData  # samples without a label are among those for testing, and the label that they have is none
    is_labelled: BoolArray  # (inputs,) of ``data.x``
    row: IntArray  # (inputs,) where each stands in what they came from, from 0
    notes: tuple[str, ...] = ()  # what was left out or filled in, for people

    @staticmethod
    def all_labelled(data: FederatedData) -> "NewClients":
        """Return clients whose every sample has a label."""
        return NewClients(data, np.ones(len(data.x), dtype=np.bool_), np.arange(len(data.x)))


@dataclass(frozen=True)
class _Rows:
    """What some rows of the table say."""

    row: IntArray
    client: NDArray[Any]
    x: FloatArray  # (rows, columns), gaps are NaN
    is_labelled: BoolArray
    answer: FloatArray  # (rows, 1) classes, or (rows, targets); where there is no label, zeros
    is_test: BoolArray | None


def read_new_clients(path: Path, done: Preparation) -> NewClients:
    """Return the clients of a table with one row a sample, as the run's own table was read.

    Args:
        path: of the table, which has the columns of clients and inputs; those of labels may be missing, or have gaps.
        done: to the run's own samples.

    Raises:
        FileError: the table cannot be read, lacks a column, or has values that the run does not know.
    """
    table = open_table_file(path)
    client = done.client or "client"
    for use, name in (("client", client), *(("features", name) for name in done.columns)):
        if name not in table.names:
            raise missing_column(table, use, name, f"the run was trained on a table with {name!r}; give it that name")
    labels = done.label if all(name in table.names for name in done.label) else ()
    split = (_SPLIT,) if _SPLIT in table.names else ()
    counted, found, before = MissingCount(), list[_Rows](), 0
    for part in table.parts(tuple(dict.fromkeys((client, *done.columns, *labels, *split)))):
        numbers = before + np.arange(len(part.numbers))
        before += len(numbers)
        found.append(_read(part, numbers, client, labels, done, counted))
    rows = _joined(found, len(done.columns), 1 if done.task == "classification" else len(done.classes))
    if len(rows.row) == 0:
        raise file_error(path, "rows", "at least one that can be used", "none", "check that this is the right file")
    notes: tuple[str, ...] = ()
    if counted.rows_with_gaps:
        if done.missing == "error":
            raise file_error(
                path, counted.first or "rows", "a value in every row, as in the run", counted.words(), "fill them in"
            )
        became = "are not predicted" if done.missing == "drop" else "were filled with the means of the run's columns"
        notes = (f"{counted.words()}; they {became}",)
    return _population(path, rows, done, notes)


def _read(
    part: TablePart, numbers: IntArray, client: str, labels: tuple[str, ...], done: Preparation, counted: MissingCount
) -> _Rows:
    columns = {name: _column(part, name) for name in done.columns}
    missing = {client: gaps(part.columns[client])} | {name: np.isnan(values) for name, values in columns.items()}
    has_gap = counted.add(part, missing)
    usable = ~(missing[client] if done.missing == "mean" else has_gap)
    kept = part.only(usable)
    known, answer = _answers(kept, labels, done)
    return _Rows(
        row=numbers[usable],
        client=np.array([str(value) for value in kept.columns[client].tolist()], dtype=np.object_),
        x=np.stack(list(columns.values()), axis=1)[usable],
        is_labelled=known,
        answer=answer,
        is_test=test_rows(kept, _SPLIT) if _SPLIT in part.columns else None,
    )


def _column(part: TablePart, name: str) -> FloatArray:
    values = part.columns[name]
    numbers = numbers_with_gaps(values) if values.ndim == 1 else None
    if numbers is None or np.isinf(numbers).any():
        wrong = (
            row
            for row in range(len(values))
            if (one := numbers_with_gaps(values[row : row + 1])) is None or np.isinf(one)
        )
        row = next(wrong, 0) if values.ndim == 1 else 0
        raise file_error(part.path, part.place(row, name), "a finite number", f"{values[row]!r:.80}", "mend the table")
    return numbers


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
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if text in known:
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


def _targets(part: TablePart, targets: Targets) -> FloatArray:
    for row, name in targets.unknown_names(part):
        raise _unknown(part, row, targets.columns[0], name, targets.names)
    return targets.of(part)


def _unknown(part: TablePart, row: int, column: str, name: str, known: Sequence[str]) -> Exception:
    expected = f"a label that the run knows ({', '.join(known[:10])}{', ...' if len(known) > 10 else ''}), or none"
    return file_error(part.path, part.place(row, column), expected, repr(name), "leave it empty to have it predicted")


def _joined(parts: list[_Rows], columns: int, answers: int) -> _Rows:
    empty = _Rows(
        np.zeros(0, np.int64),
        np.zeros(0, np.object_),
        np.zeros((0, columns)),
        np.zeros(0, np.bool_),
        np.zeros((0, answers)),
        None,
    )
    some = parts or [empty]
    tests = [part.is_test for part in some if part.is_test is not None]
    return _Rows(
        np.concatenate([part.row for part in some]),
        np.concatenate([part.client for part in some]),
        np.concatenate([part.x for part in some]),
        np.concatenate([part.is_labelled for part in some]),
        np.concatenate([part.answer for part in some]),
        np.concatenate(tests) if tests else None,
    )


def _population(path: Path, rows: _Rows, done: Preparation, notes: tuple[str, ...]) -> NewClients:
    x: Float32Array = done.apply(rows.x)
    if not np.isfinite(x).all():
        name = done.columns[int(np.argwhere(~np.isfinite(x))[0, 1])]
        raise file_error(path, f"column {name!r}", "numbers that fit float32", "larger ones", "scale it down")
    names, client = np.unique(rows.client.astype(np.str_), return_inverse=True)
    is_test = ~rows.is_labelled
    if rows.is_test is not None:
        is_test |= rows.is_test
    else:
        labelled = np.flatnonzero(rows.is_labelled)
        labelled = labelled[np.argsort(client[labelled], kind="stable")]
        for mine in np.split(labelled, np.flatnonzero(np.diff(client[labelled])) + 1):
            if len(mine):  # as for the run's own clients
                is_test[mine] = draw_held_out(str(names[client[mine[0]]]), len(mine))
    shuffled = stream(0, "population-file", "order").permutation(len(client))
    order = shuffled[np.argsort(client[shuffled], kind="stable")]
    is_class = done.task == "classification"
    y = rows.answer[:, 0].astype(np.int64) if is_class else np.arange(len(client))

    def split(is_in: BoolArray) -> Samples:
        mine = order[is_in[order]]
        return Samples(mine, y[mine], np.concatenate([[0], np.cumsum(np.bincount(client[mine], minlength=len(names)))]))

    data = FederatedData(
        name=path.stem,
        x=x,
        train=split(~is_test),
        test=split(is_test),
        n_classes=len(done.classes),
        client_names=tuple(str(name) for name in names),
        task=done.task,
        targets=None if is_class else done.learned(rows.answer),
        preparation=done,
    )
    return NewClients(data, rows.is_labelled, rows.row, notes)
