"""Files of JSON lines, plain or packed, and their records sorted by client without all of them in memory."""

import bz2
import gzip
import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from auxo.files.errors import file_error

DAMAGED = "download the file again"
"""The remedy for a line that is not what its publisher wrote."""

_ENDINGS = (".json", ".jsonl", ".ndjson", ".gz", ".bz2")
_PARTS = 256  # small files: a gigabyte of texts makes parts of four megabytes; our choice


def json_lines_files(path: Path) -> list[Path]:
    """Return a file of JSON lines, or those in a folder."""
    found = [path] if path.is_file() else []
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in (*_ENDINGS, ".zst") and file.is_file())
    if not found:
        got = "a folder without any" if path.is_dir() else "no such file or folder"
        raise file_error(path, "path", f"JSON lines ({', '.join(_ENDINGS)})", got, "check the path")
    packed = [file for file in found if file.suffix == ".zst"]
    if packed:
        raise file_error(packed[0], "file", "JSON lines", "Zstandard", "unpack it with `zstd -d --long=31`")
    return found


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the objects of a file of JSON lines and the numbers of their lines, from 1."""
    line = 0
    with _opened(path) as file:
        try:
            for line, text in enumerate(file, start=1):
                if text.strip():
                    yield line, _object(path, line, text)
        except (EOFError, OSError, zlib.error) as error:
            got = f"one that breaks off or is damaged ({error})"
            raise file_error(path, f"after line {line}", "a whole file", got, DAMAGED) from error


def _opened(path: Path) -> BinaryIO | gzip.GzipFile | bz2.BZ2File:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".bz2":
        return bz2.open(path, "rb")
    return path.open("rb")


def _object(path: Path, line: int, text: bytes) -> dict[str, object]:
    try:
        found = json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        got = f"the byte {text[error.start]:#04x}"
        raise file_error(path, f"line {line}", "text in UTF-8", got, "convert it with iconv") from error
    except (ValueError, RecursionError) as error:
        got = f"something else ({error})"
        raise file_error(path, f"line {line}", "one whole JSON object", got, DAMAGED) from error
    if not isinstance(found, dict):
        raise file_error(path, f"line {line}", "one whole JSON object", shown(found), DAMAGED)
    return found


def text_entry(path: Path, line: int, found: dict[str, object], key: str) -> str:
    """Return an entry of an object that must be text."""
    text = found.get(key)
    if not isinstance(text, str) or not text:
        got = shown(text) if key in found else f"only {', '.join(found) or 'an empty object'}"
        raise file_error(path, f"line {line}, {key}", "text", got, "check that this is the right file")
    try:
        text.encode()
    except UnicodeEncodeError:
        # JSON may name half of a character's two parts, which no file can hold.
        return text.encode("utf-8", "replace").decode()
    return text


def shown(value: object) -> str:
    """Return the beginning of a value, for a message."""
    return repr(value)[:40]


@contextmanager
def parted_by_client(
    records: Iterable[tuple[str, int, str]],
) -> Iterator[Iterator[tuple[str, list[tuple[int, str]]]]]:
    """Lend clients one after another, each with all its records in their order.

    All records are read on entering, into temporary files (where TMPDIR says); one of them at a time is in memory.

    A record is a client, a number and a text.
    """
    with tempfile.TemporaryDirectory(prefix="auxo-") as folder:
        parts = [Path(folder) / f"{number}.jsonl" for number in range(_PARTS)]
        with ExitStack() as stack:
            files = [stack.enter_context(part.open("w", encoding="ascii")) for part in parts]
            for record in records:
                files[zlib.crc32(record[0].encode()) % _PARTS].write(json.dumps(record) + "\n")
        yield _clients(parts)


def _clients(parts: list[Path]) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    for part in parts:
        found: dict[str, list[tuple[int, str]]] = {}
        with part.open(encoding="ascii") as file:
            for line in file:
                client, number, text = json.loads(line)
                found.setdefault(client, []).append((number, text))
        yield from found.items()
