"""Whether a federated file still holds what was written to it, down to the last bit of every value."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from auxo.datasets.columns import Columns
from auxo.files.errors import FileError, file_error
from auxo.population.federated_data import StoredInputs

_AT_ONCE = 1 << 24  # numbers of inputs that are looked at at once; our choice
_ROWS_NAMED = 5  # rows that are named for inputs of one kind; our choice


def checksum(columns: Columns) -> str:
    """Return the SHA-256 of all that is in a data set, whatever the file around it looks like."""
    made = hashlib.sha256()
    said = {
        "name": columns.name,
        "kind": columns.x.dtype.name,
        "shape": columns.x.shape,
        "clients": columns.clients,
        "classes": columns.classes,
        "groups": columns.groups,
        "preparation": columns.preparation.to_json(),
    }
    made.update(json.dumps(said, sort_keys=True).encode())
    for column in (columns.y, columns.client, columns.is_test, columns.group, columns.targets):
        if column is not None:
            made.update(np.ascontiguousarray(column).data.cast("B"))
    for some in _in_parts(columns):
        made.update(np.ascontiguousarray(some).data.cast("B"))
    return made.hexdigest()


def problems_with_content(path: Path, columns: Columns, metadata: dict[str, str]) -> Iterator[FileError]:
    """Yield what is wrong with the values of a file.

    Where it has a checksum that decides, since nothing unusable is written. Files of older versions have none: of
    these the inputs are looked at, one by one.
    """
    expected = metadata.get("auxo.checksum")
    if expected is None:
        yield from problems_with_inputs(path, columns)
    elif checksum(columns) != expected:
        remedy = "the file is damaged: copy it again from its origin, or write it again with `auxo data convert`"
        yield file_error(path, "auxo.checksum", "the values that were written", "others", remedy)


def problems_with_inputs(path: Path, columns: Columns) -> Iterator[FileError]:
    """Yield which inputs no model can take."""
    x = columns.x
    if columns.targets is not None and not np.isfinite(columns.targets).all():
        row = int((~np.isfinite(columns.targets)).any(axis=1).argmax())
        yield file_error(path, f"row {row}, target", "finite numbers", "NaN or infinity", "drop the row, convert again")
    if x.dtype == np.uint8:  # every value is one
        return
    named, first = 0, 0
    for some in _in_parts(columns):
        part = some.reshape(len(some), -1)
        wrong = part < 0 if x.dtype == np.int32 else ~np.isfinite(part)
        for row in np.flatnonzero(wrong.any(axis=1))[: _ROWS_NAMED - named].tolist():
            expected = "tokens from 0" if x.dtype == np.int32 else "finite numbers"
            place, got = f"row {first + row}, features", f"{part[row][wrong[row]][0]}"
            yield file_error(path, place, expected, got, "fill it in or drop the row, and convert again")
            named += 1
        first += len(some)


def _in_parts(columns: Columns) -> Iterator[StoredInputs]:
    rows_at_once = max(1, _AT_ONCE // max(1, columns.x[0].size))
    for first in range(0, len(columns.x), rows_at_once):
        yield columns.x[first : first + rows_at_once]
