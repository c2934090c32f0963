"""What is wrong with a file, said so that its owner can mend it."""

from pathlib import Path


class FileError(ValueError):
    """A file cannot be used or written; the message names it, the row or the place in it, and the remedy.

    Whatever reads or writes files raises it; functions say so only where there is more to know.
    """


def file_error(path: str | Path, place: str, expected: str, got: str, remedy: str) -> FileError:
    """Return the error that says what was expected in a place of a file, what is there, and what to do.

    >>> str(file_error("a.json", "user f1, sample 3", "784 pixels", "783", "take the file from its publisher again"))
    'a.json: user f1, sample 3: expected 784 pixels, got 783; take the file from its publisher again'
    """
    return FileError(f"{path}: {place}: expected {expected}, got {got}; {remedy}")
