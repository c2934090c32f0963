"""Every value of a data set checked, and everything that is wrong with it said at once."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auxo.datasets.checksums import problems_with_content, problems_with_inputs
from auxo.datasets.columns import Columns
from auxo.datasets.federated_file import clients_without_a_split, collect, columns_of
from auxo.datasets.federated_table import open_table, problems_with_form, problems_with_values
from auxo.datasets.open_dataset import FEDERATED, NPZ, check_kind, open_dataset, options_of_convert
from auxo.datasets.tables import table_source
from auxo.files.errors import FileError
from auxo.population.preparation import LearningTask

MOST_PROBLEMS = 20
"""Problems that are listed at most; our choice."""

_ROWS_NAMED = 5  # rows that are named for inputs of one kind; our choice


@dataclass(frozen=True)
class Validation:
    """What was found in a data set; it can be used if there are no problems."""

    problems: tuple[str, ...]
    has_more: bool = False  # whether there were more problems than are listed
    warnings: tuple[str, ...] = ()
    clients: int = 0
    train_samples: int = 0
    test_samples: int = 0
    classes: int = 0  # or numbers to learn, or labels of several
    task: LearningTask = "classification"


def validate(path: Path) -> Validation:
    """Read all of a data set and return what is wrong with it.

    Of a federated file, everything is found at once; a table or an npz file is read up to the first problem.
    """
    try:
        check_kind(path)
        if path.suffix.lower() == NPZ:
            data = open_dataset(path)
            counts = (data.n_clients, len(data.train.y), len(data.test.y), data.n_classes)
            return Validation((), False, (), *counts)
        if path.suffix.lower() not in FEDERATED:
            with options_of_convert(path):
                return _of_columns(path, collect(table_source(path)), [])
        table, metadata = open_table(path)
        of_form = problems_with_form(path, table, metadata)
        if of_form:
            return _listed(of_form)
        found = list(problems_with_values(path, table, metadata))
        columns = columns_of(path, table, metadata)
        checked = _of_columns(path, columns, found)
        # What is wrong with single values says more than that some have changed.
        changed = [] if checked.problems else list(problems_with_content(path, columns, metadata))
        return _listed(changed) if changed else checked
    except FileError as error:
        return Validation((str(error),))


def _of_columns(path: Path, columns: Columns, found: list[FileError]) -> Validation:
    found = [*found, *clients_without_a_split(columns, path), *problems_with_inputs(path, columns)]
    if found:
        return _listed(found)
    unused = np.flatnonzero(np.bincount(columns.y, minlength=len(columns.classes)) == 0)
    warnings = []
    if len(unused) and columns.targets is None:
        names = ", ".join(repr(columns.classes[number]) for number in unused[:_ROWS_NAMED])
        more = ", ..." if len(unused) > _ROWS_NAMED else ""
        warnings.append(f"{len(unused)} of {len(columns.classes)} classes have no sample: {names}{more}")
    test = int(np.count_nonzero(columns.is_test))
    counts = (len(columns.clients), len(columns.y) - test, test, len(columns.classes))
    return Validation((), False, tuple(warnings), *counts, task=columns.task)


def _listed(found: list[FileError]) -> Validation:
    return Validation(tuple(str(problem) for problem in found[:MOST_PROBLEMS]), len(found) > MOST_PROBLEMS)
