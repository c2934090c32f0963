"""The federated file: a data set by client in one Arrow file that is mapped into memory, never read as a whole.

An Arrow IPC file (feather version 2, uncompressed) with one record batch and these columns, one row a sample:

- ``client``: dictionary of strings, whose sample it is;
- ``features``: fixed size list of float32, uint8 (levels from 0 to 255) or int32 (tokens), flat;
- ``label``: int32, from 0;
- ``split``: dictionary of strings, "train" or "test";
- ``target``: fixed size list of float32, in place of the label (which is 0) where no class is to be learned;
- ``group``: dictionary of strings, optional, the client's known group.

The schema's metadata say the rest: ``auxo.format`` (its version), ``auxo.name``, ``auxo.shape`` (of an input, a JSON
list), ``auxo.classes`` (names of the labels, a JSON list), and optionally ``auxo.preparation`` (what was done to the
inputs, JSON) and ``auxo.checksum`` (of all values, see `checksums`). Any Arrow reader opens the file.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.datasets.checksums import checksum, problems_with_content
from auxo.datasets.client_samples import ClientSamples, SampleSource, check_samples, draw_held_out
from auxo.datasets.columns import Columns, prepared, prepared_targets, train_rows
from auxo.datasets.federated_table import (
    FORMAT,
    FORMAT_WITH_TARGETS,
    INPUT_TYPES,
    REMEDY,
    SPLITS,
    coded,
    group_of_clients,
    open_table,
    problems_with_form,
    problems_with_values,
    shape_of,
)
from auxo.files.atomic_write import whole_file
from auxo.files.errors import FileError, file_error
from auxo.population.federated_data import FederatedData, StoredInputs, client_order, samples_by_client
from auxo.population.preparation import Preparation, preparation_from_json

OnClient = Callable[[int], None]
"""Told how many clients have been read so far."""


def write_federated_file(source: SampleSource, path: Path, on_client: OnClient = lambda clients: None) -> None:
    """Write a data set to a federated file, client after client; memory does not grow with its inputs.

    The file appears when it is complete; until then, and if anything goes wrong, what was at ``path`` stays.
    """
    with _raw_inputs(path.parent) as (raw, raw_path):
        gathered = _gather(source, lambda x: np.ascontiguousarray(x).tofile(raw), on_client)
        raw.flush()
        shape = (gathered.rows, *(gathered.features or ()))
        x = np.memmap(raw_path, dtype=gathered.dtype, mode="r", shape=shape)
        if source.columns is None:
            write_columns(gathered.columns(source, x), path)
            return
        with _raw_inputs(path.parent) as (_, kept_path):
            kept = np.memmap(kept_path, dtype=np.float32, mode="w+", shape=shape)
            write_columns(prepared(gathered.columns(source, kept), x, source, kept), path)


def collect(source: SampleSource) -> Columns:
    """Return a data set in memory, with the same checks."""
    parts: list[Any] = []
    gathered = _gather(source, parts.append, lambda clients: None)
    x = np.concatenate(parts)
    if source.columns is None:
        return gathered.columns(source, x)
    kept = np.empty(x.shape, dtype=np.float32)
    return prepared(gathered.columns(source, kept), x, source, kept)


def _gather(source: SampleSource, keep: Callable[[Any], None], on_client: OnClient) -> "_Gathered":
    """Return what a source's clients have, all but their inputs, which ``keep`` is given client by client."""
    gathered = _Gathered()
    for samples in source.clients():
        check_samples(source, samples, gathered.features)
        gathered.add(source, samples)
        keep(samples.x)
        on_client(len(gathered.clients))
    if gathered.rows == 0:
        raise file_error(source.path, "samples", "at least one", "none", "check that this is the right file")
    return gathered


class _Gathered:
    """What is kept of the clients seen so far: all but their inputs."""

    def __init__(self) -> None:
        self.features: tuple[int, ...] | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self.rows = 0
        self.clients: dict[str, int] = {}
        self._groups: dict[int, str] = {}
        self._y: list[IntArray] = []
        self._targets: list[FloatArray] = []
        self._client: list[IntArray] = []
        self._is_test: list[BoolArray] = []
        self._is_undecided: list[BoolArray] = []

    def add(self, source: SampleSource, samples: ClientSamples) -> None:
        client, x, y, group = samples.client, samples.x, samples.y, samples.group
        place = f"client {client!r}"
        if self.features is None:
            self.features, self.dtype = x.shape[1:], x.dtype
            is_known = x.dtype.name in INPUT_TYPES if source.columns is None else x.dtype == np.float64
            if not is_known or not prod(self.features):
                expected, got = f"inputs of type {', '.join(INPUT_TYPES)}", f"{x.dtype} of shape {self.features}"
                raise file_error(source.path, place, expected, got, "convert them")
        if x.dtype != self.dtype:
            raise file_error(source.path, place, f"inputs of type {self.dtype}", f"{x.dtype}", "use one for all")
        number = self.clients.setdefault(client, len(self.clients))
        if group is not None and self._groups.setdefault(number, group) != group:
            got = f"{self._groups[number]!r} and {group!r}"
            raise file_error(source.path, place, "one group", got, "make a client for each group")
        self.rows += len(y)
        self._y.append(y.astype(np.int64, copy=False))
        if samples.targets is not None:
            self._targets.append(samples.targets)
        self._client.append(np.full(len(y), number))
        self._is_test.append(np.zeros(len(y), np.bool_) if samples.is_test is None else samples.is_test)
        self._is_undecided.append(np.full(len(y), samples.is_test is None))

    def _decided(self, client: IntArray, share: float) -> BoolArray:
        """Return what is for testing. What no part says is decided over all parts of a client, however it was cut."""
        is_test, names = np.concatenate(self._is_test), tuple(self.clients)
        undecided = np.flatnonzero(np.concatenate(self._is_undecided))
        by_client = undecided[np.argsort(client[undecided], kind="stable")]
        for rows in np.split(by_client, np.flatnonzero(np.diff(client[by_client])) + 1):
            if len(rows):
                is_test[rows] = draw_held_out(names[client[rows[0]]], len(rows), share)
        return is_test

    def columns(self, source: SampleSource, x: StoredInputs) -> Columns:
        names = tuple(self.clients)
        group, groups = None, tuple(sorted(set(self._groups.values())))
        if groups:
            without = [name for name, number in self.clients.items() if number not in self._groups]
            if without:
                raise file_error(
                    source.path, f"client {without[0]!r}", "a group, as other clients have", "none", "give all or none"
                )
            index = {name: number for number, name in enumerate(groups)}
            group = np.array([index[self._groups[number]] for number in range(len(names))])
        client = np.concatenate(self._client)
        is_test = self._decided(client, source.test_share)
        is_table = source.by_column and len(self.features or ()) == 1 and self.dtype == np.float32
        targets, done = None, Preparation(classes=source.classes)
        if source.task != "classification":
            targets, done = prepared_targets(np.concatenate(self._targets), train_rows(names, client, is_test), source)
        return Columns(
            name=source.name,
            x=x,
            y=np.concatenate(self._y),
            client=client,
            is_test=is_test,
            clients=names,
            classes=source.classes,
            group=group,
            groups=groups,
            preparation=replace(done, by_column=is_table, notes=source.notes()),
            task=source.task,
            targets=targets,
        )


@contextmanager
def _raw_inputs(folder: Path) -> Iterator[tuple[Any, str]]:
    """Lend a file for inputs beside the one to be written, where there is room if anywhere."""
    if not folder.is_dir():
        raise file_error(folder, "folder", "one that exists", "none", "make it, or choose another path")
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".auxo-", suffix=".raw") as file:
        yield file, file.name


def write_columns(columns: Columns, path: Path) -> None:
    """Write columns to a federated file, which appears when it is complete."""
    x, samples = columns.x, len(columns.y)
    values = pa.Array.from_buffers(INPUT_TYPES[x.dtype.name], x.size, [None, pa.py_buffer(np.ascontiguousarray(x))])
    arrays = {
        "client": _dictionary(columns.client, columns.clients),
        "features": pa.FixedSizeListArray.from_arrays(values, prod(x.shape[1:])),
        "label": pa.array(columns.y.astype(np.int32)),
        "split": _dictionary(columns.is_test.astype(np.int64), SPLITS),
    }
    if columns.targets is not None:
        flat = pa.array(columns.targets.ravel())
        arrays["target"] = pa.FixedSizeListArray.from_arrays(flat, columns.targets.shape[1])
    if columns.group is not None:
        arrays["group"] = _dictionary(columns.group[columns.client], columns.groups)
    metadata = {
        # Older versions would take targets for classes, so these are of another format.
        "auxo.format": FORMAT if columns.targets is None else FORMAT_WITH_TARGETS,
        "auxo.name": columns.name,
        "auxo.shape": json.dumps(list(x.shape[1:])),
        "auxo.classes": json.dumps(list(columns.classes)),
        "auxo.preparation": columns.preparation.to_json(),
        "auxo.checksum": checksum(columns),
    }
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)).replace_schema_metadata(metadata)
    assert batch.num_rows == samples  # noqa: S101 - all columns are ours
    with whole_file(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def _dictionary(indices: IntArray, names: tuple[str, ...]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), pa.array(list(names), pa.string()))


def read_columns(path: Path) -> Columns:
    """Return the columns of a federated file; the inputs stay on disk until they are used."""
    table, metadata = open_table(path)
    for problem in problems_with_form(path, table, metadata) or problems_with_values(path, table, metadata):
        raise problem
    columns = columns_of(path, table, metadata)
    for problem in problems_with_content(path, columns, metadata):
        raise problem
    return columns


def columns_of(path: Path, table: Any, metadata: dict[str, str]) -> Columns:
    """Return the columns of a table with which nothing is wrong; the inputs are not copied."""
    column = {name: table.column(name).chunk(0) for name in table.column_names}
    client, clients = coded(column["client"])
    split, splits = coded(column["split"])
    group: IntArray | None = None
    groups: tuple[str, ...] = ()
    if "group" in column:
        of_sample, groups = coded(column["group"])
        group = group_of_clients(of_sample, client, len(clients))
    return Columns(
        name=metadata.get("auxo.name") or path.stem,
        x=column["features"].flatten().to_numpy(zero_copy_only=True).reshape(-1, *shape_of(metadata)),
        y=column["label"].to_numpy(zero_copy_only=False).astype(np.int64),
        client=client,
        is_test=np.array([name == "test" for name in splits], dtype=np.bool_)[split],
        clients=clients,
        classes=tuple(json.loads(metadata["auxo.classes"])),
        group=group,
        groups=groups,
        preparation=(done := _recorded(path, metadata)),
        task=done.task,
        targets=None if "target" not in column else _targets(column["target"]),
    )


def _targets(column: Any) -> Float32Array:
    numbers: Float32Array = column.flatten().to_numpy(zero_copy_only=True).reshape(len(column), -1)
    return numbers


def _recorded(path: Path, metadata: dict[str, str]) -> Preparation:
    """Return how the inputs were made; of a file that does not say, the names of its classes."""
    text = metadata.get("auxo.preparation")
    if text is None:
        return Preparation(classes=tuple(json.loads(metadata["auxo.classes"])))
    try:
        return preparation_from_json(text)
    except ValueError as error:
        raise file_error(path, "auxo.preparation", "how its inputs were made, as JSON", str(error), REMEDY) from error


def clients_without_a_split(columns: Columns, path: Path) -> Iterator[FileError]:
    """Yield the problem that clients have nothing to train on, and that they have nothing to be scored with."""
    for kind, use, rows in (("training", "take part", ~columns.is_test), ("test", "be scored", columns.is_test)):
        counts = np.bincount(columns.client[rows], minlength=len(columns.clients))
        without = sorted(columns.clients[number] for number in np.flatnonzero(counts == 0))
        if without:
            listed = ", ".join(map(repr, without[:3])) + (", ..." if len(without) > 3 else "")
            yield file_error(
                path,
                "split",
                f"at least one {kind} sample of every client",
                f"none of {len(without)} of {len(columns.clients)} clients ({listed})",
                f"such clients cannot {use}: leave them out with `auxo data convert --min-samples 2`, "
                "or mark some of their samples otherwise",
            )


def as_population(columns: Columns, path: Path | None = None) -> FederatedData:
    """Return the data set as clients' columns; clients come in the order of their names, whole numbers by size.

    A client needs samples to train on and samples to be scored with.
    """
    for problem in clients_without_a_split(columns, path or Path(columns.name)):
        raise problem
    by_name = client_order(columns.clients)
    place = np.argsort(by_name)
    # Every sample has its own answer where it is no class.
    y = columns.y if columns.targets is None else np.arange(len(columns.y))
    train, test = samples_by_client(place[columns.client], y, columns.is_test, len(by_name))
    return FederatedData(
        name=columns.name,
        x=columns.x,
        train=train,
        test=test,
        n_classes=len(columns.classes),
        client_names=tuple(columns.clients[number] for number in by_name),
        groups=None if columns.group is None else columns.group[by_name],
        task=columns.task,
        targets=columns.targets,
        preparation=columns.preparation,
    )
