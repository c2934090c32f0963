"""Checkpoints in a folder: named arrays and a text, committed at one point, checked when read, the last two kept.

Two slots take turns, and share no file: damage to any one file costs one checkpoint, and the other is there. A slot is

    manifest-0.json            names the files below with their sizes and checksums; its renaming is the commit
    0-000014-whole.safetensors the text, and the arrays that are written whole each time
    0-000012-rows.safetensors  long columns as they were when the slot was last written in full
    0-000014-rows.safetensors  their rows that have changed since

Nothing here knows what the text and the arrays mean; `auxo.protocol.codec` makes them of states. Nothing is pickled.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import safetensors
import safetensors.numpy

from auxo.files.atomic_write import sync_folder
from auxo.files.row_changes import AnyArray, changed_rows, resized

T = TypeVar("T")

_FORMAT = 1
"""Rises when the layout of the files changes."""

_ENTRY = "auxo"  # of a file's metadata
_ROWS = "#rows"  # after the name of a column: which of its rows there are
_SLOTS = (0, 1)
_LONGEST_CHAIN = 32  # files that a column is put together from, at most; our choice
_OURS = re.compile(r"[01]-(\d{6,})-(whole|rows)\.safetensors|manifest-[01]\.json\.part")
_DAMAGED = ".damaged"


class Unusable(ValueError):  # noqa: N818 - it says what is the case
    """A checkpoint that cannot be used; the message says why."""


class Disk:
    """What the store asks of the disk, step by step; a test takes its place to fail at each step."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder in one that exists; nothing happens if it is there."""
        folder.mkdir(exist_ok=True)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, all of its content on the disk when this returns."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, path: Path, target: Path) -> None:
        """Give a file another name; one that had it is gone."""
        path.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink(missing_ok=True)

    def sync(self, folder: Path) -> None:
        """Have the names of a folder on the disk."""
        sync_folder(folder)


@dataclass(frozen=True)
class Kept:
    """A checkpoint as it was read."""

    generation: int  # checkpoints are counted
    about: Mapping[str, object]  # what whoever wrote it said of it
    text: str
    arrays: Mapping[str, AnyArray]


@dataclass(frozen=True)
class Committed:
    """A checkpoint that was written."""

    generation: int
    bytes_written: int


@dataclass(frozen=True)
class _File:
    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class _Manifest:
    generation: int
    about: Mapping[str, object]
    whole: _File
    rows: tuple[_File, ...]

    @property
    def files(self) -> tuple[_File, ...]:
        return (self.whole, *self.rows)


@dataclass
class _Slot:
    """What this process knows of a slot."""

    names: set[str] = field(default_factory=set)  # of files that its manifest may name
    rows: tuple[_File, ...] = ()  # the chain that can be gone on with; none: it begins anew
    columns: dict[str, AnyArray] = field(default_factory=dict)  # as the chain has them


@dataclass
class CheckpointStore:
    """Reads and writes the checkpoints of one folder, for one process at a time. Call `newest` first."""

    folder: Path
    disk: Disk = field(default_factory=Disk)
    _slots: dict[int, _Slot] = field(default_factory=lambda: {slot: _Slot() for slot in _SLOTS}, init=False)
    _next_slot: int = field(default=0, init=False)
    _generation: int = field(default=0, init=False)
    _has_looked: bool = field(default=False, init=False)

    def newest(self, read: Callable[[Kept], T], on_problem: Callable[[str], None]) -> T | None:
        """Return what ``read`` makes of the newest checkpoint that is whole; None if there is none.

        One that is damaged, or that ``read`` refuses with `Unusable`, is put aside under another name, and
        ``on_problem`` is told. Other errors of ``read`` come through, and nothing is put aside.
        """
        self._has_looked = True
        self._generation = self._last_number()
        manifests: list[tuple[int, _Manifest]] = []
        for slot in _SLOTS:
            path = self._manifest_path(slot)
            if not path.is_file():
                continue
            try:
                manifests.append((slot, _read_manifest(path)))
            except Unusable as problem:
                self._put_aside(path, (), problem, on_problem)
        for slot, manifest in manifests:
            self._slots[slot].names = {file.name for file in manifest.files}
            self._generation = max(self._generation, manifest.generation)
        for slot, manifest in sorted(manifests, key=lambda one: -one[1].generation):
            try:
                found = read(self._read(manifest))
            except Unusable as problem:
                self._slots[slot].names.clear()
                self._put_aside(self._manifest_path(slot), manifest.files, problem, on_problem)
                continue
            self._next_slot = 1 - slot
            return found
        return None

    def commit(
        self,
        about: Mapping[str, object],
        text: str,
        arrays: Mapping[str, AnyArray],
        by_rows: Callable[[str], bool] = lambda name: False,
    ) -> Committed:
        """Write a checkpoint in place of the older one of two; until its last moment that one stays.

        ``about`` is what to know before the rest is read, as JSON holds it. No array's name may end in "#rows".
        ``by_rows`` says of which arrays, of one dimension or more, only rows that have changed are to be written.

        Raises:
            OSError: the disk is full or fails; the two checkpoints there were are as good as before.
        """
        if not self._has_looked:
            self.newest(lambda kept: kept, lambda problem: None)
        number = self._next_slot
        slot = self._slots[number]
        generation = self._generation = self._generation + 1
        prefix = f"{number}-{generation:06d}"
        columns = {name: array for name, array in arrays.items() if by_rows(name)}
        others = {name: array for name, array in arrays.items() if name not in columns}
        contents = {f"{prefix}-whole.safetensors": safetensors.numpy.save(dict(others), {_ENTRY: text})}
        sizes = [one.size for one in slot.rows]
        goes_on = bool(sizes) and len(sizes) < _LONGEST_CHAIN and sum(sizes[1:]) <= sizes[0]
        before = slot.columns if goes_on else {}
        changes = {name: changed_rows(before.get(name), array) for name, array in columns.items()}
        if columns:
            contents[f"{prefix}-rows.safetensors"] = _rows_file(columns, changes)
        written = tuple(_File(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items())
        rows = (*(slot.rows if before and columns else ()), *written[1:])
        manifest = _manifest_bytes(_Manifest(generation, about, written[0], rows))
        # Should this fail, the chain cannot be gone on with, and either manifest may be there.
        slot.rows, slot.columns = (), {}
        slot.names |= {file.name for file in written}
        self._write(number, contents, manifest)
        slot.names = {written[0].name, *(file.name for file in rows)}
        slot.rows, slot.columns = rows, _now_in_chain(before, columns, changes)
        self._next_slot = 1 - number
        self._sweep()
        return Committed(generation, len(manifest) + sum(file.size for file in written))

    def clear(self) -> None:
        """Remove all checkpoints, those that were put aside too, and the folder if nothing else is in it."""
        if not self.folder.is_dir():
            return
        for path in self.folder.iterdir():
            if path.name.startswith("manifest-") or _OURS.fullmatch(path.name.removesuffix(_DAMAGED)):
                self.disk.remove(path)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        self._slots = {slot: _Slot() for slot in _SLOTS}

    def _write(self, number: int, contents: Mapping[str, bytes], manifest: bytes) -> None:
        path = self._manifest_path(number)
        partial = path.with_name(f"{path.name}.part")
        try:
            self.disk.make_folder(self.folder)
            self.disk.sync(self.folder.parent)
            for name, content in contents.items():
                self.disk.write(self.folder / name, content)
            self.disk.write(partial, manifest)
            self.disk.sync(self.folder)  # all that the manifest names is there before it is
            self.disk.rename(partial, path)  # the commit
            self.disk.sync(self.folder)
        except OSError:
            self._take_back(number, [*contents, partial.name])
            raise

    def _take_back(self, number: int, names: list[str]) -> None:
        """Make room on a full disk; a manifest that may name the files keeps them."""
        try:
            manifest = _read_manifest(self._manifest_path(number))
            named = {file.name for file in manifest.files}
        except (Unusable, OSError):
            named = set()
        for name in names:
            if name not in named:
                try:
                    self.disk.remove(self.folder / name)
                except OSError:
                    return

    def _sweep(self) -> None:
        """Remove what neither slot's manifest names, of this process or of one that was killed."""
        named = {name for slot in self._slots.values() for name in slot.names}
        for path in self.folder.iterdir():
            if _OURS.fullmatch(path.name) and path.name not in named:
                self.disk.remove(path)

    def _last_number(self) -> int:
        if not self.folder.is_dir():
            return 0
        matches = (_OURS.fullmatch(path.name.removesuffix(_DAMAGED)) for path in self.folder.iterdir())
        return max((int(match[1]) for match in matches if match and match[1]), default=0)

    def _manifest_path(self, slot: int) -> Path:
        return self.folder / f"manifest-{slot}.json"

    def _read(self, manifest: _Manifest) -> Kept:
        text, arrays = _opened(self._checked(manifest.whole), manifest.whole.name)
        columns: dict[str, AnyArray] = {}
        for file in manifest.rows:
            columns = _with_changes(columns, self._checked(file), file.name)
        return Kept(manifest.generation, manifest.about, text, {**arrays, **columns})

    def _checked(self, file: _File) -> bytes:
        path = self.folder / file.name
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise Unusable(f"{path}: expected a file of {file.size} bytes, found none") from None
        if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
            raise Unusable(f"{path}: expected the {file.size} bytes that were written, found {len(content)}, or others")
        return content

    def _put_aside(
        self, manifest: Path, files: tuple[_File, ...], problem: Unusable, on_problem: Callable[[str], None]
    ) -> None:
        for path in (manifest, *(self.folder / file.name for file in files)):
            if path.is_file():
                self.disk.rename(path, path.with_name(path.name + _DAMAGED))
        on_problem(f"a checkpoint cannot be used and was put aside as {manifest.name}{_DAMAGED}: {problem}")


def _now_in_chain(
    before: Mapping[str, AnyArray], columns: Mapping[str, AnyArray], changes: Mapping[str, AnyArray]
) -> dict[str, AnyArray]:
    """Return copies of the columns, which others may change in place; ``before`` is used up."""
    after = {}
    for name, array in columns.items():
        old = before.get(name)
        if old is None or old.shape != array.shape or old.dtype != array.dtype:
            after[name] = np.array(array)
        else:
            old[changes[name]] = array[changes[name]]
            after[name] = old
    return after


def _manifest_bytes(manifest: _Manifest) -> bytes:
    document = {"format": _FORMAT, **asdict(manifest)}
    digest = hashlib.sha256(_canonical(document)).hexdigest()
    return _canonical({**document, "sha256": digest}) + b"\n"


def _canonical(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _read_manifest(path: Path) -> _Manifest:
    try:
        document = json.loads(path.read_bytes())
        digest = document.pop("sha256")
        if hashlib.sha256(_canonical(document)).hexdigest() != digest:
            raise ValueError("its checksum is another one")
        if document["format"] != _FORMAT:
            raise ValueError(f"format {document['format']!r}, and this version reads {_FORMAT}")
        rows = tuple(_File(**one) for one in document["rows"])
        return _Manifest(document["generation"], document["about"], _File(**document["whole"]), rows)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unusable(f"{path}: expected a checkpoint's manifest, found something else ({error})") from error


def _opened(content: bytes, name: str) -> tuple[str, dict[str, AnyArray]]:
    try:
        arrays = safetensors.numpy.load(content)
        length = int.from_bytes(content[:8], "little")
        return json.loads(content[8 : 8 + length])["__metadata__"][_ENTRY], arrays
    except (safetensors.SafetensorError, ValueError, KeyError) as error:  # which the checksum has let pass
        raise Unusable(f"{name}: expected a safetensors file of a checkpoint: {error}") from error


def _rows_file(columns: Mapping[str, AnyArray], changes: Mapping[str, AnyArray]) -> bytes:
    tensors: dict[str, AnyArray] = {}
    for name, array in columns.items():
        rows = changes[name]
        if 2 * len(rows) > len(array):
            tensors[name] = np.ascontiguousarray(array)
        elif len(rows):
            tensors[name], tensors[f"{name}{_ROWS}"] = array[rows], rows
    shapes = {name: [array.dtype.name, list(array.shape)] for name, array in columns.items()}
    return safetensors.numpy.save(tensors, {_ENTRY: json.dumps(shapes)})


def _with_changes(before: Mapping[str, AnyArray], content: bytes, name: str) -> dict[str, AnyArray]:
    """Return the columns after the changes of one more file of the chain."""
    text, tensors = _opened(content, name)
    after: dict[str, AnyArray] = {}
    try:
        for column, (dtype, shape) in json.loads(text).items():
            rows, values = tensors.get(f"{column}{_ROWS}"), tensors.get(column)
            if values is not None and rows is None:
                after[column] = values
                continue
            after[column] = resized(before.get(column), tuple(shape), np.dtype(dtype))
            if rows is not None and values is not None:
                after[column][rows.astype(np.int64)] = values
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise Unusable(f"{name}: expected rows of columns: {error}") from error
    return after
