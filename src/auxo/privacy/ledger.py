"""A client's ledger: a file that is written before anything leaves the client, and so never says too little.

It stands beside the affinity record and not in it, for losing that is no harm. A mark elsewhere, beside the record,
says that the client has a ledger: one that is missing then, or cannot be read, is taken to be spent.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from auxo.files.atomic_write import whole_file
from auxo.files.errors import FileError
from auxo.privacy.accounting import PrivacyBudget, Releases, epsilon_of
from auxo.privacy.spent import LedgerError, PrivacySpent, Promise

_PRIVATE = 0o600
_within = Lock()  # the system's lock is between processes only


@dataclass(frozen=True)
class Ledger:
    """Where a client keeps account.

    Args:
        path: of the ledger; a file of its own for each set of samples.
        mark: of the file that says that there is one, elsewhere: what takes the one away should leave the other.
        promise: that it counts for.
    """

    path: Path
    mark: Path
    promise: Promise

    def __post_init__(self) -> None:
        if self.path == self.mark:
            raise ValueError(f"mark: expected another file than the ledger, got {self.mark} for both; name one beside "
                             "the affinity record")  # fmt: skip

    def spent(self) -> PrivacySpent:
        """Return what is spent; a client that was never here enrols.

        Raises:
            LedgerError: the ledger is missing although the client has enrolled, or cannot be relied on.
        """
        with self._held():
            return self._read()

    def charge(self, releases: Releases, budget: PrivacyBudget | None) -> str:
        """Write down what is about to leave, and return why it may not; nothing: it may.

        Args:
            releases: that it consists of.
            budget: that must hold them all; None: they are counted only.

        Raises:
            LedgerError: as above, or the ledger cannot be written. Nothing may leave.
        """
        with self._held():
            before = self._read()
            after = before.after(releases)
            if budget is not None and not budget.holds(after.releases):
                return spent_words(before.releases, budget)
            self._write(self.path, after.to_bytes())
            return ""

    def _read(self) -> PrivacySpent:
        marked = self._content(self.mark)
        content = self._content(self.path)
        if content is None:
            if marked is not None:
                raise LedgerError(
                    f"{self.path}: missing, but this client has enrolled ({self.mark}); bring the ledger back. Nobody "
                    "knows what is left without it, so nothing leaves this client"
                )
            found = PrivacySpent.nothing(self.promise)
            self._write(self.path, found.to_bytes())
        else:
            found = self._parsed(content)
        if marked is None:  # killed in between, or the record was lost with its mark: the ledger is what counts
            self._write(self.mark, found.name.encode())
        elif marked != found.name.encode():
            raise LedgerError(
                f"{self.path}: is another ledger than the one that this client has enrolled with ({self.mark}); bring "
                "that one back"
            )
        return found

    def _parsed(self, content: bytes) -> PrivacySpent:
        try:
            found = PrivacySpent.from_bytes(content)
        except LedgerError as error:
            raise LedgerError(
                f"{self.path}: cannot be relied on ({error}); bring the ledger back. Nothing leaves this client"
            ) from error
        if found.promise != self.promise:
            raise LedgerError(
                f"{self.path}: counts what was released at {found.promise} level, and {self.promise} level is promised "
                "now; the two do not add up: go on with the first promise, or with other samples and another ledger"
            )
        return found

    def _content(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"{path}: cannot be read ({error.strerror}); nothing leaves this client") from error

    def _write(self, path: Path, content: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as file:
                os.fchmod(file.fileno(), _PRIVATE)
                file.write(content)
        except (OSError, FileError) as error:
            raise LedgerError(f"{path}: cannot be written ({error}); nothing leaves this client") from error

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep others out from the reading of the ledger to its writing; the system lets go of what is killed."""
        with _within:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, _PRIVATE)
            except OSError as error:
                raise LedgerError(f"{self.path}: cannot be locked ({error}); nothing leaves this client") from error
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)


def spent_words(releases: Releases, budget: PrivacyBudget) -> str:
    """Return that a budget has no room for one more answer."""
    spent = epsilon_of(releases, budget.delta)
    return (
        f"the privacy budget is spent: epsilon {spent:.3g} of {budget.epsilon:g} at delta {budget.delta:g}, and one "
        "more answer would be too much; this client says nothing more"
    )
