"""What a method leaves to be used: a model for each cohort, a table of its clients, the tree, the coordinator's state.

All of it is in the method's folder of the run's directory:

- ``models/COHORT.safetensors``: the cohort's model, with the names and shapes of its own parameters;
- ``clients.csv``: one row a client that was evaluated, see `ClientRow`;
- ``tree.json``: every partition, in the order they were made;
- ``coordinator.safetensors``: all that the coordinator holds, optimisers and clusterings included.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import Branch, CohortTree
from auxo.core.types import BoolArray, CohortId, Float32Array, FloatArray
from auxo.experiments.losers import base_accuracy, find_losers
from auxo.experiments.run_directory import ClientScores, RunDirectory
from auxo.experiments.summary import BASE, Losers
from auxo.files.atomic_write import write_csv, write_whole
from auxo.files.errors import FileError, file_error
from auxo.files.typed_json import json_reader
from auxo.protocol.codec import CodecError, from_bytes, to_bytes
from auxo.training.stored_models import restored, stored

_REMEDY = "the file is damaged or of another version of Auxo: run the experiment again"
_MODELS = "models"
_TABLE = "clients.csv"
_TREE = "tree.json"
_COORDINATOR = "coordinator.safetensors"
_SUFFIX = ".safetensors"  # of models

_read_branches = cache(lambda: json_reader(_Tree))


@dataclass(frozen=True)
class _Tree:
    partitions: tuple[Branch, ...]
    leaves: tuple[str, ...]


@dataclass(frozen=True)
class ClientRow:
    """One row of clients.csv; None where it says nothing.

    ``accuracy`` and ``base_accuracy`` are on its test samples, with its cohort's model and with the base's. ``reward``
    is what its own record says for the cohort, ``visits`` how often it took part. One that is ``lost`` had no reason of
    its own to want the cohort and found it by comparing models.
    """

    name: str
    cohort: CohortId
    accuracy: float | None
    base_accuracy: float | None
    test_samples: int
    reward: float | None
    visits: int | None
    lost: bool


COLUMNS = tuple(one.name for one in fields(ClientRow))
"""What clients.csv says of each client; a cell is empty where there is nothing to say."""


class MethodFolders(Protocol):
    """Whoever knows where a method has left its files."""

    def method_folder(self, method: str) -> Path:
        """Return the folder of a method."""
        ...


def write_outcome(run: RunDirectory, method: str, state: CoordinatorState, trainer: object) -> None:
    """Write a method's models, tree and coordinator's state at the end of its run."""
    models = ((cohort, stored(trainer, kept.server.weights)) for cohort, kept in state.cohorts.items())
    write_models(run.method_folder(method), state.tree, models)
    write_whole(run.method_folder(method) / _COORDINATOR, to_bytes(state))


def write_models(folder: Path, tree: CohortTree, models: Iterable[tuple[CohortId, bytes]]) -> None:
    """Write the tree and the models of its leaves as safetensors files; those of other cohorts go."""
    (folder / _MODELS).mkdir(parents=True, exist_ok=True)
    for cohort, content in models:
        write_whole(folder / _MODELS / f"{cohort}{_SUFFIX}", content)
    for path in (folder / _MODELS).glob(f"*{_SUFFIX}"):
        if path.name.removesuffix(_SUFFIX) not in tree.leaves:
            path.unlink()
    written = _Tree(tree.branches, tree.leaves)
    write_whole(folder / _TREE, (json.dumps(asdict(written), indent=2) + "\n").encode())


def write_clients(folder: Path, rows: Iterable[ClientRow]) -> None:
    """Write clients.csv."""
    write_csv(folder / _TABLE, chain([COLUMNS], map(_cells, rows)))


def _cells(row: ClientRow) -> list[object]:
    said = [getattr(row, name) for name in COLUMNS]
    shown = {None: "", True: "yes", False: "no"}
    return [
        shown[one] if one is None or isinstance(one, bool) else f"{one:.6g}" if isinstance(one, float) else one
        for one in said
    ]


def write_client_tables(run: RunDirectory, names: Sequence[str]) -> None:
    """Write clients.csv of every method that has come to its end, with the base's accuracy as soon as it is known."""
    base = run.read_clients(BASE)
    for method in run.methods():
        scores = run.read_clients(method)
        if scores is not None:
            _write_table(run.method_folder(method) / _TABLE, scores, base, names)


def losers_of(run: RunDirectory, names: Sequence[str], are_hits: bool = True) -> dict[str, Losers]:
    """Return who is worse off than with the base, by method; methods that cannot be compared are left out."""
    base = run.read_clients(BASE)
    scores = {method: run.read_clients(method) for method in run.methods() if method != BASE}
    found = {method: find_losers(one, base, names, are_hits) for method, one in scores.items() if one is not None}
    return {method: losers for method, losers in found.items() if losers is not None}


def model_file(run: MethodFolders, method: str, cohort: str) -> Path:
    """Return where the model of a cohort is."""
    return run.method_folder(method) / _MODELS / f"{cohort}{_SUFFIX}"


def read_model(run: MethodFolders, method: str, cohort: str, trainer: object) -> Float32Array:
    """Return the flat weights of a cohort's model."""
    path = model_file(run, method, cohort)
    try:
        return restored(trainer, path.read_bytes())
    except FileNotFoundError:
        expected = "the model of a cohort"
        raise file_error(path, "file", expected, "no such file", "name a cohort that is a leaf of the tree") from None
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error


def read_tree(run: MethodFolders, method: str) -> CohortTree:
    """Return the tree that a method's cohorts stand in."""
    path, content = _left(run, method, _TREE, "the tree of a method that has finished")
    try:
        return CohortTree(_read_branches()(content).partitions)
    except ValueError as error:
        raise FileError(f"{path}: expected a cohort tree as JSON: {error}; {_REMEDY}") from error


def read_coordinator(run: MethodFolders, method: str, own_states: tuple[type, ...]) -> CoordinatorState:
    """Return the coordinator's state at a method's end; ``own_states`` are those of the method's parts."""
    path, content = _left(run, method, _COORDINATOR, "a coordinator's state")
    try:
        return from_bytes(CoordinatorState, content, own_states)
    except CodecError as error:
        raise FileError(f"{path}: {error}") from error


def read_client_table(run: MethodFolders, method: str) -> tuple[ClientRow, ...]:
    """Return the rows of clients.csv."""
    path, content = _left(run, method, _TABLE, "a table of clients")
    try:
        return tuple(_rows(path, csv.reader(io.StringIO(content.decode(), newline=""), strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise file_error(path, "file", "a table of clients", f"none ({error})", _REMEDY) from error


def _left(run: MethodFolders, method: str, name: str, what: str) -> tuple[Path, bytes]:
    """Return a file that a method leaves at its end."""
    path = run.method_folder(method) / name
    try:
        return path, path.read_bytes()
    except FileNotFoundError:
        remedy = "let the run come to its end, or name a method that has"
        raise file_error(path, "file", what, "no such file", remedy) from None


def _rows(path: Path, lines: Iterator[list[str]]) -> Iterator[ClientRow]:
    header = next(lines, [])
    if tuple(header) != COLUMNS:
        raise file_error(path, "columns", ", ".join(COLUMNS), ", ".join(header) or "none", _REMEDY)
    for number, cells in enumerate(lines, start=2):
        try:
            name, cohort, accuracy, base, tests, reward, visits, lost = cells
            yield ClientRow(
                name=name,
                cohort=CohortId(cohort),
                accuracy=float(accuracy) if accuracy else None,
                base_accuracy=float(base) if base else None,
                test_samples=int(tests),
                reward=float(reward) if reward else None,
                visits=int(visits) if visits else None,
                lost={"yes": True, "no": False}[lost],
            )
        except (ValueError, KeyError) as error:
            expected = f"{len(COLUMNS)} cells of their kinds"
            raise file_error(path, f"line {number}", expected, f"others ({error})", _REMEDY) from error


def _write_table(path: Path, scores: ClientScores, base: ClientScores | None, names: Sequence[str]) -> None:
    before = base_accuracy(scores, base)
    rows = range(len(scores.accuracy)) if scores.client is None else scores.client.tolist()
    has_tests = scores.test_samples > 0
    columns = (
        (names[row] for row in rows),
        scores.cohort.tolist(),
        _numbers(scores.accuracy, has_tests),
        _numbers(before, has_tests, len(scores.accuracy)),
        scores.test_samples.tolist(),
        _numbers(scores.reward, None if scores.reward is None else ~np.isnan(scores.reward), len(scores.accuracy)),
        [""] * len(scores.accuracy) if scores.visits is None else scores.visits.tolist(),
        ["no"] * len(scores.accuracy) if scores.lost is None else ["yes" if one else "no" for one in scores.lost],
    )
    write_csv(path, chain([COLUMNS], zip(*columns, strict=True)))


def _numbers(values: FloatArray | None, known: BoolArray | None, rows: int = 0) -> list[str]:
    """Return numbers as text with six digits; empty where they are not known."""
    if values is None or known is None:
        return [""] * rows
    return [f"{value:.6g}" if is_known else "" for value, is_known in zip(values.tolist(), known.tolist(), strict=True)]
