"""A run directory: the files a run leaves behind, and the only code that reads and writes them."""

import json
import re
import shutil
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.experiments.model_inputs import ModelInputs
from auxo.experiments.stamp import Stamp
from auxo.experiments.summary import Summary
from auxo.files.atomic_write import is_ours_for_now, new_file, remove_partial, whole_file, write_whole
from auxo.files.directory_lock import DirectoryInUse, locked_directory
from auxo.files.errors import FileError, file_error
from auxo.files.typed_json import json_reader
from auxo.population.preparation import Preparation, preparation_from_json
from auxo.protocol.event_log import RecordedEvents, read_events
from auxo.protocol.events import Event, to_json
from auxo.registry.registry import short_name

T = TypeVar("T")

_CONFIG = "config.toml"
_SUMMARY = "summary.json"
_REPORT = "report.html"
_EVENTS = "events.jsonl"
_CLIENTS = "clients.npz"
_STAMP = "stamp.json"
_PREPARATION = "preparation.json"
_MODEL = "model.json"
_CHECKPOINTS = "checkpoints"

_TAKEN = frozenset({_CONFIG, _SUMMARY, _REPORT, _STAMP, _PREPARATION, _MODEL, _CHECKPOINTS})

_COLUMNS = {  # of clients.npz; plain, because numpy would pickle a column of objects
    "accuracy": np.float64,
    "test_samples": np.int64,
    "cohort": np.str_,
    "lost": np.bool_,
    "reward": np.float64,
    "visits": np.int64,
    "group": np.int64,
    "client": np.int64,
}
_ALWAYS = ("accuracy", "test_samples", "cohort")

_METHOD_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._+-]*")  # safe as the name of a folder on every system
_REMEDY = "the file is damaged or of another version of Auxo: run the experiment again"

_read_summary = cache(lambda: json_reader(Summary))  # when it is asked for, because to build it takes a while
_read_stamp = cache(lambda: json_reader(Stamp))
_read_model_inputs = cache(lambda: json_reader(ModelInputs))


def is_federation(path: Path) -> bool:
    """Return whether a directory is that of a federation on Flower: events stand there themselves, below no method."""
    return (path / _EVENTS).is_file() and not RunDirectory.is_at(path)


def is_method_name(name: str) -> bool:
    """Return whether a method of this name can have a folder of its own in a run directory.

    >>> is_method_name("fedavg+mu-0.1"), is_method_name("../elsewhere")
    (True, False)
    """
    return _METHOD_NAME.fullmatch(name) is not None and name not in _TAKEN


@dataclass(frozen=True)
class ClientScores:
    """Every evaluated client's part of a method's last evaluation, row aligned."""

    accuracy: FloatArray  # (clients,) fractions
    test_samples: IntArray  # (clients,)
    cohort: NDArray[np.str_]  # (clients,)
    group: IntArray | None = None  # (clients,); None when no groups are known
    client: IntArray | None = None  # (clients,) rows of the population; None: all of it, in order
    lost: BoolArray | None = None  # (clients,) had no reason to want the cohort, see `place_clients`
    reward: FloatArray | None = None  # (clients,) in its own record, for the cohort; NaN without a record
    visits: IntArray | None = None  # (clients,) how often it took part

    def __post_init__(self) -> None:
        for name, column in vars(self).items():
            if column is not None and len(column) != len(self.accuracy):
                raise ValueError(
                    f"{name}: expected {len(self.accuracy)} entries, one for each client, got {len(column)}"
                )


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run. Make one with `create` or `open`."""

    path: Path

    @classmethod
    def create(cls, path: Path, config_text: str) -> "RunDirectory":
        """Start a run in a new or empty directory; of two that try at the same time one does.

        Raises:
            FileExistsError: something is already there.
        """
        if path.exists() and not path.is_dir():
            raise FileExistsError(f"{path}: expected a directory for the run, found a file; choose another path")
        entries = path.iterdir() if path.is_dir() else ()
        if found := sorted(entry.name for entry in entries if not is_ours_for_now(entry)):
            raise FileExistsError(
                f"{path}: expected a new or empty directory for the run, found {', '.join(found[:3])}"
                f"{' and more' if len(found) > 3 else ''}; choose another path or remove it"
            )
        path.mkdir(parents=True, exist_ok=True)
        try:
            new_file(path / _CONFIG, config_text.encode())
        except FileExistsError:
            raise FileExistsError(
                f"{path}: expected a new or empty directory for the run, but another run has just begun there; "
                "choose another path"
            ) from None
        return cls(path)

    @staticmethod
    def is_at(path: Path) -> bool:
        """Return whether a run has begun in a directory."""
        return (path / _CONFIG).is_file()

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Open what `create` started.

        Raises:
            FileNotFoundError: the path is not a run directory.
        """
        if not path.is_dir():
            raise FileNotFoundError(f"{path}: expected a run directory, but there is no such directory")
        if not cls.is_at(path):
            raise FileNotFoundError(
                f"{path}: not a run directory, {_CONFIG} is missing; give the directory that a run was written to"
            )
        return cls(path)

    def discard(self) -> None:
        """Take back `create`: remove the run unless a method has begun."""
        if not self.methods():
            for name in (_STAMP, _PREPARATION, _MODEL, _SUMMARY):
                (self.path / name).unlink(missing_ok=True)
            (self.path / _CONFIG).unlink()
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            for entry in [one for one in self.path.iterdir() if is_ours_for_now(one)]:
                entry.unlink(missing_ok=True)  # of a process that was ended while it held or wrote something here
            self.path.rmdir()

    def tidy(self) -> None:
        """Remove what a finished run may have left that was killed as it ended: checkpoints, its lock, half a file."""
        with suppress(DirectoryInUse), locked_directory(self.path):  # or else it is just ending by itself
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            remove_partial(self.path)

    @property
    def checkpoints(self) -> Path:
        """Return the folder for what an interrupted run goes on from."""
        return self.path / _CHECKPOINTS

    def events_file(self, method: str, number: int = 0) -> Path:
        """Return where the events of a method's runs are written; those of later ones count if they prove better."""
        return self.checkpoints / f"{method}-{number + 1}.jsonl" if number else self._method_file(method, _EVENTS)

    def first_events_file(self, method: str) -> Path:
        """Return where the events of a method's first run are kept while a run goes on, once a better one's count."""
        return self.checkpoints / f"{method}-1.jsonl"

    def forget_methods(self, but: Collection[str]) -> None:
        """Remove what was written of other methods than these, to have them begin anew."""
        for method in self.methods():
            if method not in but:
                shutil.rmtree(self.path / method)

    def config_text(self) -> str:
        """Return the complete resolved configuration."""
        return (self.path / _CONFIG).read_text(encoding="utf-8")

    def replace_config(self, text: str) -> None:
        """Write another configuration in place of the run's own: one that names more methods."""
        write_whole(self.path / _CONFIG, text.encode())

    def methods(self) -> tuple[str, ...]:
        """Return the methods that have begun, each a folder with events, in the order of the configuration.

        That is the order they ran in. Those it does not name come last, by name.
        """
        begun = {path.parent.name for path in self.path.glob(f"*/{_EVENTS}") if is_method_name(path.parent.name)}
        named = [method for method in self._configured_methods() if method in begun]
        return (*named, *sorted(begun.difference(named)))

    def _configured_methods(self) -> tuple[str, ...]:
        try:
            methods = tomllib.loads(self.config_text()).get("methods", [])
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise file_error(self.path / _CONFIG, "configuration", "TOML", f"none ({error})", _REMEDY) from error
        if not isinstance(methods, list) or not all(isinstance(method, str) for method in methods):
            raise file_error(self.path / _CONFIG, "methods", "a list of names", f"{methods!r:.80}", _REMEDY)
        return tuple(short_name(method) for method in methods)

    def replace_events(self, method: str, events: Iterable[Event]) -> None:
        """Write these events in place of all that were written before, which checkpoints still need."""
        path = self._method_file(method, _EVENTS)
        path.parent.mkdir(exist_ok=True)
        if path.is_file() and self.checkpoints.is_dir():
            write_whole(self.first_events_file(method), path.read_bytes())
        write_whole(path, b"".join(to_json(event).encode() + b"\n" for event in events))

    def events(self, method: str) -> RecordedEvents:
        """Return the events of a method; none when it has not begun."""
        return read_events(self._method_file(method, _EVENTS))

    def write_clients(self, method: str, clients: ClientScores) -> None:
        """Write every evaluated client's final score."""
        path = self._method_file(method, _CLIENTS)
        path.parent.mkdir(exist_ok=True)
        columns: dict[str, NDArray[np.generic]] = {
            name: np.asarray(column, dtype)
            for name, dtype in _COLUMNS.items()
            if (column := getattr(clients, name)) is not None
        }
        with whole_file(path) as file:
            np.savez_compressed(file, **columns)  # type: ignore[arg-type]  # the stub takes **columns for allow_pickle

    def read_clients(self, method: str) -> ClientScores | None:
        """Return what `write_clients` wrote; None when the method did not come that far."""
        path = self._method_file(method, _CLIENTS)
        if not path.is_file():
            return None
        try:
            # numpy would leave a damaged file open if it were given the path.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as columns:
                there = [name for name in _COLUMNS if name in _ALWAYS or name in columns.files]
                return ClientScores(**{name: columns[name] for name in there})
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
            columns_named = "accuracy, test_samples, cohort and perhaps group, client, lost, reward and visits"
            raise file_error(path, "columns", columns_named, f"others ({error})", _REMEDY) from error

    def write_summary(self, summary: Summary) -> None:
        """Write the run's result; whoever reads it sees all of it or nothing.

        Raises:
            ValueError: a number is not finite; JSON has no word for it, so write None instead.
        """
        text = json.dumps(asdict(summary), indent=2, allow_nan=False)
        write_whole(self.path / _SUMMARY, (text + "\n").encode())

    def read_summary(self) -> Summary | None:
        """Return the run's result; None while the run has not ended."""
        return self._read(_SUMMARY, _read_summary, "the summary of a run")

    def write_inputs(self, stamp: Stamp, preparation: Preparation, inputs: ModelInputs) -> None:
        """Write with what and on what the run is made, what was done to inputs, and what models take."""
        write_whole(self.path / _STAMP, (json.dumps(asdict(stamp), indent=2) + "\n").encode())
        write_whole(self.path / _PREPARATION, (preparation.to_json() + "\n").encode())
        write_whole(self.path / _MODEL, (json.dumps(asdict(inputs), indent=2) + "\n").encode())

    def read_stamp(self) -> Stamp | None:
        """Return the run's stamp; None before the first method has begun."""
        return self._read(_STAMP, _read_stamp, "the stamp of a run")

    def read_model_inputs(self) -> ModelInputs | None:
        """Return what the run's models take; None before the first method has begun."""
        return self._read(_MODEL, _read_model_inputs, "what models take")

    def read_preparation(self) -> Preparation | None:
        """Return what was done to the inputs; None before the first method has begun."""
        return self._read(_PREPARATION, lambda: preparation_from_json, "what was done to inputs")

    def _read(self, name: str, reader: Callable[[], Callable[[str], T]], what: str) -> T | None:
        path = self.path / name
        try:
            return reader()(path.read_text(encoding="utf-8")) if path.is_file() else None
        except ValueError as error:
            raise FileError(f"{path}: expected {what} as JSON: {error}; {_REMEDY}") from error

    def method_folder(self, method: str) -> Path:
        """Return the folder of a method."""
        return self._method_file(method, _EVENTS).parent

    def write_report(self, html: str) -> Path:
        """Write the report and return where it is."""
        path = self.path / _REPORT
        write_whole(path, html.encode())
        return path

    def _method_file(self, method: str, name: str) -> Path:
        if not is_method_name(method):
            expected = "letters, digits and . _ + -, with a letter or a digit first, as in auxo or fedavg-2"
            raise ValueError(f"method: expected a name of {expected}, got {method!r}; call it otherwise")
        return self.path / method / name
