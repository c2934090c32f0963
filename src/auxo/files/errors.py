"""What is wrong with a data set, said so that its owner can mend it."""

from pathlib import Path


class DatasetError(ValueError):
    """A data set cannot be used; the message names the file, the row or the place in it, and the remedy."""


def dataset_error(path: str | Path, place: str, expected: str, got: str, remedy: str) -> DatasetError:
    """Return the error that says what was expected in a place of a file, what is there, and what to do.

    >>> str(dataset_error("a.json", "user f1, sample 3", "784 pixels", "783", "take the file from its publisher again"))
    'a.json: user f1, sample 3: expected 784 pixels, got 783; take the file from its publisher again'
    """
    return DatasetError(f"{path}: {place}: expected {expected}, got {got}; {remedy}")
