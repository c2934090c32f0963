"""An SQLite file that several processes write to, one transaction after another, with errors said as those of files."""

import errno
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auxo.service.blobs import Steps

_WAIT_S = 30.0  # for another's transaction, which takes milliseconds

Values = Sequence[str | int | float | bytes]


class Database:
    """One file, for one process among several; its threads take turns."""

    def __init__(self, path: Path, schema: str, disk: Steps) -> None:
        """Open a file, or make it.

        Args:
            path: of the file.
            schema: statements that make its tables, unless they are there.
            disk: what runs statements that write.
        """
        self._path, self._disk, self._lock = path, disk, threading.RLock()
        path.touch(mode=0o600)  # it holds a secret; SQLite gives the files beside it the same mode
        self.connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        with self._told():
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.executescript(f"BEGIN IMMEDIATE; {schema} COMMIT;")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self.connection.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Have all that is read in the block as it was at one moment."""
        with self._lock, self._told():
            self._disk.execute(self.connection, "BEGIN")
            try:
                yield
            finally:
                self.connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Have all that is run in the block happen, or nothing, and nobody else write meanwhile.

        Raises:
            OSError: there is no room, or the file is damaged.
        """
        with self._lock, self._told():
            self._disk.execute(self.connection, "BEGIN IMMEDIATE")
            try:
                yield
                self._disk.execute(self.connection, "COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def run(self, statement: str, values: Values = ()) -> int:
        """Run a statement that writes; return how many rows it has changed."""
        return self._disk.execute(self.connection, statement, values).rowcount

    def rows(self, statement: str, values: Values = ()) -> list[Any]:
        """Return what a question is answered with, a tuple for each row."""
        with self._lock, self._told():
            return self.connection.execute(statement, values).fetchall()

    def number(self, statement: str, values: Values = ()) -> int:
        """Return the number that a question is answered with."""
        ((found,),) = self.rows(statement, values)
        return int(found)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Have SQLite's errors said as those of files are: whoever goes on without room looks for these."""
        try:
            yield
        except sqlite3.OperationalError as error:
            is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise OSError(errno.ENOSPC if is_full else errno.EIO, str(error), str(self._path)) from error
        except sqlite3.DatabaseError as error:
            words = f"expected the service's own file, got one that is damaged ({error})"
            remedy = "restore it from a copy, or begin in another directory"
            raise OSError(errno.EIO, f"{words}; {remedy}", str(self._path)) from error
