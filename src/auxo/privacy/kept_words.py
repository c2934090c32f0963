"""Private words that were said, kept on the client: the same question is answered by the same word, and paid for once.

Unlike whole answers they are kept for good: a server may ask again long after, and there are few of them.
"""

import hashlib
import json
from pathlib import Path

from auxo.core.words import possible_gain, possible_label, possible_sketch
from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError

Word = tuple[float, ...] | int | float
"""A sketch, a label, or a gain."""

_CHECKSUM = 32  # bytes


def keep_word(path: Path, word: Word) -> None:
    """Write a word; a disk that fails keeps none, and it would be made, and paid for, anew."""
    content = json.dumps(word).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, hashlib.sha256(content).digest() + content)
    except (OSError, FileError):
        return


def read_word(path: Path, name: str) -> Word | None:
    """Return a word of that name which was kept; None: there is none, or it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    checksum, content = data[:_CHECKSUM], data[_CHECKSUM:]
    if hashlib.sha256(content).digest() != checksum:
        return None
    said = json.loads(content)
    if name == "sketch":
        return possible_sketch(said) or None
    return possible_label(said) if name == "label" else possible_gain(said)
