"""Open Images as FedScale distributes it: photographs by the person who took them.

The folder holds the images in ``train`` and ``test`` (or ``val``), and whose they are in
``client_data_mapping/train.csv`` and so on, with the columns client_id, sample_path, label_name and label_id.

FedScale tests with other clients than it trains with. Here every client is scored on samples of its own: unless the
second file has the very clients of the first, it is not used, and some of each training client's images are held out.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import IntArray
from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.files.errors import file_error

SIDE = 64  # pixels; our choice: FedScale's 256 take sixteen times the room
EASY_CLASSES = 60  # of OpenImage-Easy in the paper's evaluation
_MOST_CLASSES = 20_000  # Open Images has fewer; a larger label is not one
_COLUMNS = ("client_id", "sample_path", "label_id")
_MAPPINGS = "client_data_mapping"
_AT_ONCE = 512  # images in memory; our choice
_REMEDY = "unpack FedScale's openImage.tar.gz again"


def open_image(path: Path, classes: int | None = None, side: int = SIDE) -> SampleSource:
    """Return photographs by client as RGB levels (uint8), (side, side, 3); the sides' proportion is not kept.

    The lists of samples are read at once, the images when they are asked for. ``classes`` is how many of the most
    frequent ones are kept, of equally frequent ones the first (None: all); they are numbered from 0 in the order of
    their labels, and clients left without samples to train on or to be scored with are dropped.
    """
    listing = _listing(path)
    kept = _most_frequent(listing, classes)

    def clients() -> Iterator[ClientSamples]:
        with _Images(listing.files, side) as images:
            yield from _samples(listing, kept, images)

    names = tuple(listing.names.get(label, f"class {label}") for label in kept.tolist())
    return SampleSource("open-image" if classes is None else f"open-image-{classes}", path, names, clients)


def open_image_easy(path: Path, side: int = SIDE) -> SampleSource:
    """Return OpenImage-Easy: the images of the 60 most frequent classes."""
    return open_image(path, EASY_CLASSES, side)


@dataclass(frozen=True)
class _File:
    """One of FedScale's lists, and the folder of its images."""

    path: Path
    images: Path


@dataclass(frozen=True)
class _Listing:
    """Whose sample each row of the lists is; what else stands in it is read again when it is needed."""

    files: tuple[_File, ...]  # one, or one to train with and one to test with
    clients: tuple[str, ...]
    client: IntArray  # (samples,) place in ``clients``
    label: IntArray  # (samples,)
    file: IntArray  # (samples,) place in ``files``
    line: IntArray  # (samples,) from 1
    offset: IntArray  # (samples,) byte at which the line begins
    names: dict[int, str]  # of labels


@dataclass
class _Rows:
    """Rows of lists as they are gathered."""

    clients: dict[str, int] = field(default_factory=dict)
    client: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)


def _listing(path: Path) -> _Listing:
    train = _File(path / _MAPPINGS / "train.csv", path / "train")
    if not train.path.is_file():
        raise file_error(train.path, "file", "FedScale's list of samples", "no such file", _REMEDY)
    rows = _read_rows(train.path)
    others = (_File(path / _MAPPINGS / f"{name}.csv", path / name) for name in ("test", "val"))
    second = next((file for file in others if file.path.is_file()), None)
    test = _Rows() if second is None else _read_rows(second.path)
    has_split = second is not None and test.clients.keys() == rows.clients.keys()
    parts = [rows, test] if has_split else [rows]
    return _Listing(
        files=(train, second) if has_split and second is not None else (train,),
        clients=tuple(rows.clients),
        client=np.concatenate([np.array([rows.clients[name] for name in part.clients])[part.client] for part in parts]),
        label=np.array([label for part in parts for label in part.label], dtype=np.int64),
        file=np.repeat(np.arange(len(parts)), [len(part.line) for part in parts]),
        line=np.array([line for part in parts for line in part.line], dtype=np.int64),
        offset=np.array([offset for part in parts for offset in part.offset], dtype=np.int64),
        names={**test.names, **rows.names} if has_split else rows.names,
    )


def _read_rows(path: Path) -> _Rows:
    rows = _Rows()
    with path.open("rb") as file:
        header = _fields(path, 1, file.readline())
        header = [name.strip().removeprefix("\ufeff") for name in header]
        missing = [name for name in _COLUMNS if name not in header]
        if missing:
            got = ", ".join(header) or "nothing"
            raise file_error(path, "line 1", f"the columns {', '.join(_COLUMNS)}", got, _REMEDY)
        client, sample, label = (header.index(name) for name in _COLUMNS)
        name = header.index("label_name") if "label_name" in header else label
        offset, number = file.tell(), 1
        for number, line in enumerate(file, start=2):
            if line.strip():
                found = _fields(path, number, line)
                if len(found) != len(header) or not found[client] or not found[sample]:
                    got = repr(line[:60].decode("utf-8", "replace").strip())
                    raise file_error(path, f"line {number}", f"{len(header)} entries", got, _REMEDY)
                rows.label.append(_label(path, number, found[label]))
                rows.client.append(rows.clients.setdefault(found[client], len(rows.clients)))
                rows.line.append(number)
                rows.offset.append(offset)
                rows.names.setdefault(rows.label[-1], found[name])
            offset += len(line)
    if not rows.line:
        raise file_error(path, f"line {number}", "at least one sample", "the end of the file", _REMEDY)
    return rows


def _fields(path: Path, number: int, line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8").rstrip("\r\n")], strict=True), [])
    except UnicodeDecodeError as error:
        got = f"the byte {line[error.start]:#04x}"
        raise file_error(path, f"line {number}", "text in UTF-8", got, "save it as UTF-8") from error
    except csv.Error as error:
        raise file_error(path, f"line {number}", "values with commas between them", str(error), _REMEDY) from error


def _label(path: Path, number: int, text: str) -> int:
    label = int(text) if text.strip().isdecimal() and len(text.strip()) < 10 else -1
    if not 0 <= label < _MOST_CLASSES:
        expected = f"a label_id from 0 to {_MOST_CLASSES - 1}"
        raise file_error(path, f"line {number}", expected, repr(text[:40]), "number the classes from 0")
    return label


def _most_frequent(listing: _Listing, classes: int | None) -> IntArray:
    """Return the labels to keep, in order; without a cut all from 0 to the highest, so that labels stay."""
    if classes is None:
        return np.arange(listing.label.max() + 1)
    if classes < 1:
        raise ValueError(f"classes: expected at least 1, got {classes}")
    counts = Counter(listing.label.tolist())
    ranked = sorted(counts, key=lambda label: (-counts[label], label))
    return np.array(sorted(ranked[:classes]), dtype=np.int64)


def _samples(listing: _Listing, kept: IntArray, images: "_Images") -> Iterator[ClientSamples]:
    rows = np.flatnonzero(np.isin(listing.label, kept))
    rows = rows[np.argsort(listing.client[rows], kind="stable")]
    label = np.searchsorted(kept, listing.label)
    for mine in np.split(rows, np.flatnonzero(np.diff(listing.client[rows])) + 1):
        name = listing.clients[listing.client[mine[0]]]
        is_test = listing.file[mine] == 1 if len(listing.files) == 2 else None
        if is_test is not None and (is_test.all() or not is_test.any()):
            continue  # a cut has left it nothing to train on, or nothing to be scored with
        for start in range(0, len(mine), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            x = np.stack([images.read(listing, row) for row in mine[part].tolist()])
            yield ClientSamples(name, x, label[mine[part]], None if is_test is None else is_test[part])


class _Images:
    """Reads images whose names stand in lists; keeps the lists open."""

    def __init__(self, files: tuple[_File, ...], side: int) -> None:
        self._files, self._side = files, side
        self._open: list[BinaryIO] = []
        self._columns: list[int] = []

    def __enter__(self) -> "_Images":
        for file in self._files:
            self._open.append(file.path.open("rb"))
            header = _fields(file.path, 1, self._open[-1].readline())
            self._columns.append([name.strip().removeprefix("\ufeff") for name in header].index("sample_path"))
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._open:
            file.close()

    def read(self, listing: _Listing, row: int) -> NDArray[np.uint8]:
        number, line = int(listing.file[row]), int(listing.line[row])
        file = self._files[number]
        self._open[number].seek(int(listing.offset[row]))
        sample = _fields(file.path, line, self._open[number].readline())[self._columns[number]]
        place = f"line {line}, {sample}"
        if Path(sample).is_absolute() or ".." in Path(sample).parts:
            raise file_error(file.path, place, "a path inside the images' folder", "one outside", _REMEDY)
        return self._image(file, place, file.images / sample)

    def _image(self, file: _File, place: str, path: Path) -> NDArray[np.uint8]:
        try:
            from PIL import Image  # noqa: PLC0415 - only images need it
        except ImportError as error:
            remedy = 'run pip install "auxo[data]"'
            raise file_error(file.path, "images", "Pillow, to read them", "no such package", remedy) from error
        try:
            with Image.open(path) as image:
                image.draft("RGB", (2 * self._side, 2 * self._side))  # JPEG is decoded at the size that is needed
                resized = image.convert("RGB").resize((self._side, self._side), Image.Resampling.BILINEAR)
                return np.asarray(resized, dtype=np.uint8)
        except FileNotFoundError as error:
            raise file_error(file.path, place, f"an image at {path}", "no such file", _REMEDY) from error
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            got = f"one that cannot be read ({error})"
            raise file_error(file.path, place, "an image", got, _REMEDY) from error
