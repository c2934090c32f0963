"""LEAF's data sets as its preprocessing writes them (Caldas et al., 2018): FEMNIST by writer, Shakespeare by role.

A JSON file of LEAF is ``{"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}``. Files
are large, so they are read user by user, and no more than one user is in memory. Three kinds of path will do:

- a file, or a folder of JSON files (``all_data_0.json``, ...), or a folder with such a folder ``all_data``;
- a folder with the folders ``train`` and ``test``, as LEAF's split by sample leaves it: then they give the split.
"""

import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np

from auxo.datasets.client_samples import ClientSamples, SampleSource, end_held_out
from auxo.datasets.text_features import BY_CHARACTER
from auxo.files.errors import FileError, file_error

_CHUNK = 1 << 20  # characters that are read at once at least; our choice
_SIDE = 28  # pixels of an image
_LEVELS = 255
_OFF_LEVEL = 0.02  # how far from a whole level a pixel may be: room for files rounded to four digits; our choice
_WINDOW = 80  # characters that the next one is told from
_CUT = 16  # characters at the end of what is read that an incomplete word or number may take
_REMEDY = "run LEAF's preprocessing again, or copy the file again from where it was made"
_CHARACTERS = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)


def leaf_femnist(path: Path) -> SampleSource:
    """Return FEMNIST: images of 62 characters by the person who wrote them; paper is 1 (white), as in LEAF.

    LEAF's pixels are levels of grey divided by 255, so they are stored as levels (uint8) and nothing is lost.
    """
    return _source("femnist", path, _CHARACTERS, _images)


def leaf_shakespeare(path: Path) -> SampleSource:
    """Return Shakespeare's plays by role: 80 characters, and the one that comes next.

    Where LEAF has not split the samples, the last ones of a role are held out: neighbours share 79 characters.
    """
    return _source("shakespeare", path, BY_CHARACTER.names, _next_characters)


@dataclass(frozen=True)
class _User:
    """What a file says about one user, not yet checked."""

    path: Path
    name: str
    x: list[object]
    y: list[object]

    def error(self, sample: int, expected: str, got: str) -> FileError:
        return file_error(self.path, f"user {self.name}, sample {sample}", expected, got, _REMEDY)


def _source(name: str, path: Path, classes: tuple[str, ...], convert: Callable[[_User], ClientSamples]) -> SampleSource:
    def clients() -> Iterator[ClientSamples]:
        seen: dict[bool | None, set[str]] = {}
        for file, is_test in _files(path):
            for user in _users(file):
                read = convert(user)
                seen.setdefault(is_test, set()).add(user.name)
                yield read if is_test is None else replace(read, is_test=np.full(len(read.y), is_test))
        once = seen.get(False, set()) ^ seen.get(True, set())
        if once:
            remedy = "split by sample (preprocess.sh -t sample), or give the folder all_data, which is not split"
            got = f"{len(once)} in one of them, as {min(once)!r}"
            raise file_error(path, "train and test", "every user in both", got, remedy)

    return SampleSource(name, path, classes, clients)


def _files(path: Path) -> list[tuple[Path, bool | None]]:
    """Return the JSON files, and whether their samples are for testing; None: LEAF has not split them."""
    if path.is_file():
        return [(path, None)]
    if (path / "train").is_dir() and (path / "test").is_dir():
        found: list[tuple[Path, bool | None]] = [(file, False) for file in sorted((path / "train").glob("*.json"))]
        found += [(file, True) for file in sorted((path / "test").glob("*.json"))]
    else:
        folder = path / "all_data" if (path / "all_data").is_dir() else path
        found = [(file, None) for file in sorted(folder.glob("*.json"))]
    if not found:
        got = "a folder without any" if path.is_dir() else "no such file or folder"
        remedy = "run LEAF's preprocessing and give its folder data, or one of the folders in it"
        raise file_error(path, "path", "LEAF's JSON files (all_data_0.json, ...)", got, remedy)
    return found


def _users(path: Path) -> Iterator[_User]:
    """Yield the users of a file that have samples, and check what it says about them."""
    users: object = None
    numbers: object = None
    counts: dict[str, int] = {}
    with path.open(encoding="utf-8-sig") as file:
        text = _JsonText(path, file)
        for key in text.members():
            if key == "user_data":
                for name in text.members():
                    user = _user(path, name, text.value())
                    counts[name] = counts.get(name, 0) + len(user.y)
                    if user.y:
                        yield user
            elif key == "users":
                users = text.value()
            elif key == "num_samples":
                numbers = text.value()
            else:
                text.value()
    _check_counts(path, users, numbers, counts)


def _user(path: Path, name: str, value: object) -> _User:
    x, y = (value.get("x"), value.get("y")) if isinstance(value, dict) else (None, None)
    if not isinstance(x, list) or not isinstance(y, list):
        raise file_error(path, f"user {name}", 'lists "x" and "y" of samples', "something else", _REMEDY)
    if len(x) != len(y):
        raise file_error(path, f"user {name}", f"{len(x)} labels, as samples", str(len(y)), _REMEDY)
    return _User(path, name, x, y)


def _check_counts(path: Path, users: object, numbers: object, counts: dict[str, int]) -> None:
    if not isinstance(users, list) or not isinstance(numbers, list) or len(users) != len(numbers):
        expected = 'lists "users" and "num_samples" of one length, beside "user_data"'
        raise file_error(path, "file", expected, "other keys or lengths", _REMEDY)
    for user, number in zip(users, numbers, strict=True):
        have = counts.get(user, 0) if isinstance(user, str) else 0
        if have == 0:
            raise file_error(path, f"user {user}", "samples in user_data", "none", _REMEDY)
        if have != number:
            raise file_error(path, f"user {user}", f"{number} samples, as num_samples says", str(have), _REMEDY)
    # LEAF's split leaves users with a single sample in user_data, but empties them; those were not yielded.
    unlisted = {user for user, number in counts.items() if number} - set(users)
    if unlisted:
        raise file_error(path, f"user {min(unlisted)}", "to be listed in users", "no such entry", _REMEDY)


def _images(user: _User) -> ClientSamples:
    pixels = _SIDE * _SIDE
    for sample, image in enumerate(user.x):
        if not isinstance(image, list) or len(image) != pixels:
            got = str(len(image)) if isinstance(image, list) else repr(image)[:40]
            raise user.error(sample, f"{pixels} pixels", got)
    try:
        levels = np.array(user.x, dtype=np.float64) * _LEVELS
    except (ValueError, TypeError, OverflowError) as error:
        raise file_error(user.path, f"user {user.name}", "pixels that are numbers", str(error), _REMEDY) from error
    whole = np.rint(levels)
    # Written so that NaN is found, too.
    right = (np.abs(levels - whole) <= _OFF_LEVEL) & (whole >= 0) & (whole <= _LEVELS)
    if not right.all():
        sample, pixel = np.argwhere(~right)[0].tolist()
        got = f"{levels[sample, pixel] / _LEVELS:g} in pixel {pixel}"
        raise user.error(sample, f"levels of grey from 0 to {_LEVELS}, divided by {_LEVELS}", got)
    for sample, label in enumerate(user.y):
        if not isinstance(label, int) or not 0 <= label < len(_CHARACTERS):
            raise user.error(sample, f"a label from 0 to {len(_CHARACTERS) - 1}", repr(label)[:40])
    x = whole.astype(np.uint8).reshape(-1, _SIDE, _SIDE)
    return ClientSamples(user.name, x, np.array(user.y, dtype=np.int64))


def _next_characters(user: _User) -> ClientSamples:
    before: list[str] = []
    after: list[str] = []
    for sample, (window, character) in enumerate(zip(user.x, user.y, strict=True)):
        if not isinstance(window, str) or len(window) != _WINDOW:
            got = str(len(window)) if isinstance(window, str) else repr(window)[:40]
            raise user.error(sample, f"{_WINDOW} characters", got)
        if not isinstance(character, str) or len(character) != 1:
            raise user.error(sample, "one character as its label", repr(character)[:40])
        before.append(window)
        after.append(character)
    x = BY_CHARACTER.tokens("".join(before)).reshape(-1, _WINDOW).astype(np.int32)
    return ClientSamples(user.name, x, BY_CHARACTER.tokens("".join(after)), end_held_out(len(after)))


class _JsonText:
    """A JSON text that is read no further than needed, for files that do not fit into memory as objects."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._decoder = json.JSONDecoder()
        self._text, self._at = "", 0
        self._dropped = 0  # characters of the file before ``_text``
        self._has_ended = False

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; whoever asks reads each value before the next key."""
        self._take("{")
        if self._next() == "}":
            self._take("}")
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self._error(f"{key!r} as a key")
            self._take(":")
            yield key
            if self._next() == "}":
                self._take("}")
                return
            self._take(",")

    def value(self) -> object:
        """Return the value that comes next, of any kind."""
        self._next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated string") or error.pos + _CUT >= len(self._text)
                if self._has_ended or not is_cut:
                    self._at = error.pos
                    raise self._error(error.msg) from error
            except (RecursionError, ValueError) as error:  # lists within lists, numbers of thousands of digits
                raise self._error(type(error).__name__) from error
            else:
                # A number at the very end may go on.
                if end < len(self._text) or self._has_ended:
                    self._at = end
                    found: object = value
                    return found
            self._read()

    def _next(self) -> str:
        """Return the next character that is not blank without taking it, or "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at].isspace():
                self._at += 1
            if self._at < len(self._text) or self._has_ended:
                return self._text[self._at : self._at + 1]
            self._read()

    def _take(self, mark: str) -> None:
        if self._next() != mark:
            raise self._error(f"no {mark!r}")
        self._at += 1

    def _read(self) -> None:
        kept = self._text[self._at :]
        try:
            # As much again as there is: a long value is tried a few times only.
            more = self._file.read(max(_CHUNK, len(kept)))
        except UnicodeDecodeError as error:
            place = f"after character {self._dropped + len(self._text)}"
            got = f"the byte {error.object[error.start]:#04x}"
            raise file_error(self._path, place, "text in UTF-8", got, _REMEDY) from error
        self._dropped += self._at
        self._text, self._at, self._has_ended = kept + more, 0, not more

    def _error(self, got: str) -> FileError:
        is_at_end = self._has_ended and self._at + _CUT >= len(self._text)
        where = "the file ends too early" if is_at_end else "it is not JSON"
        return file_error(
            self._path, f"character {self._dropped + self._at}", "LEAF's JSON", f"{where} ({got})", _REMEDY
        )
