"""Files that appear when they are complete, so that nobody ever finds half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from auxo.files.errors import dataset_error


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Lend a file that takes the place of ``path`` if all goes well; otherwise what was there stays.

    Raises:
        DatasetError: the folder does not exist, or ``path`` is one.
    """
    if not path.parent.is_dir():
        raise dataset_error(path, "folder", "one that exists", "none", "make it, or choose another path")
    if path.is_dir():
        raise dataset_error(path, "file", "a path to write a file to", "a folder", "name a file in it")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".auxo-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
