"""A client's affinity record in a file: written whole or not at all, and if it is lost the client explores again."""

import warnings
from collections.abc import Callable
from pathlib import Path

from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError
from auxo.protocol.codec import CodecError
from auxo.runtime.client import Client


class RecordFile:
    """Where a client keeps its record; None: it lasts as long as its process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def client(self, new: Callable[[], Client]) -> Client:
        """Return a client with the record in the file, or a new one: there is no file, or it is damaged."""
        client = new()
        if self._path is None or not self._path.exists():
            return client
        try:
            client.record_from_bytes(self._path.read_bytes())
        except (OSError, CodecError) as error:
            _warn(f"{self._path}: the affinity record cannot be used ({error}); this client starts exploring again")
            return new()
        return client

    def keep(self, client: Client) -> None:
        """Write the record; where that fails, it lasts as long as this process."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, client.record_to_bytes())
        except (OSError, FileError) as error:
            _warn(f"{self._path}: the affinity record cannot be kept ({error}); it lasts as long as this process")


def _warn(words: str) -> None:
    warnings.warn(words, RuntimeWarning, stacklevel=4)
