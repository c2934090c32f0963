"""Answers that arrive in pieces: each in its order, bounded, and whole at the end, or nothing of it counts.

Pieces of an answer are kept in a file without a name, which is gone when its process is. A client has two at a time,
so that of two processes with one token neither undoes what the other sends.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from auxo.core.types import ClientId
from auxo.service.http_limits import HttpLimits
from auxo.service.problems import Problem, ProblemFound, busy

_OF_ONE = 2  # answers of one client that are on their way at a time; our choice
_Whose = tuple[ClientId, str]
"""A client, and the nonce of its task."""


@dataclass(frozen=True)
class Piece:
    """Which part of an answer has come."""

    nonce: str  # of the task
    offset: int  # of its first byte in the answer
    total: int  # bytes of the answer
    sha256: str  # of the answer, hexadecimal


@dataclass(frozen=True)
class PartArrived:
    """How much of an answer has arrived; the next piece begins there."""

    received: int


@dataclass
class _Upload:
    piece: Piece  # the first
    used_s: float  # when the last piece came
    file: IO[bytes]
    received: int = 0


class Uploads:
    """All answers of which a part has arrived."""

    def __init__(self, limits: HttpLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._open: dict[_Whose, _Upload] = {}  # those that were last used at the end

    def received(self, client: ClientId, nonce: str) -> PartArrived:
        """Return how much of a client's answer to a task has arrived."""
        held = self._open.get((client, nonce))
        return PartArrived(0 if held is None else held.received)

    def add(self, client: ClientId, piece: Piece, data: bytes) -> bytes | PartArrived:
        """Return the whole answer with its last piece, and before that how much has arrived.

        Raises:
            ProblemFound: it is too long, out of order or damaged, or there is no room.
        """
        if piece.total > self._limits.answer_bytes:
            most, got = f"an answer of at most {self._limits.answer_bytes} bytes", f"{piece.total}"
            raise ProblemFound(Problem("TOO_LARGE", most, got, "is it the update of this model?"))
        if piece.offset + len(data) > piece.total or (not data and piece.total):
            got = f"{len(data)} bytes at {piece.offset} of {piece.total}"
            raise ProblemFound(
                Problem("WRONG_OFFSET", "a piece within the answer", got, "send the bytes that are left")
            )
        if len(data) == piece.total:  # as nearly all are
            self._forget((client, piece.nonce))
            return _checked(data, piece)
        upload = self._upload((client, piece.nonce), piece)
        if piece.offset + len(data) <= upload.received:  # it has come before
            return PartArrived(upload.received)
        if piece.offset != upload.received:
            got = f"one at {piece.offset}"
            remedy = "ask how much has arrived, and go on there"
            raise ProblemFound(Problem("WRONG_OFFSET", f"a piece at {upload.received}", got, remedy))
        return self._append((client, piece.nonce), upload, data)

    def _append(self, whose: _Whose, upload: _Upload, data: bytes) -> bytes | PartArrived:
        if sum(one.received for one in self._open.values()) + len(data) > self._limits.uploads_bytes:
            most = f"at most {self._limits.uploads_bytes} bytes of answers in parts"
            raise ProblemFound(busy(most, "more", self._limits.again_s))
        upload.file.seek(upload.received)
        upload.file.truncate()  # a part of this piece may be there, of a try for which there was no room
        left = memoryview(data)
        while left:
            left = left[upload.file.write(left) :]
        upload.received += len(data)
        upload.used_s = self._clock()
        if upload.received < upload.piece.total:
            return PartArrived(upload.received)
        upload.file.seek(0)
        whole = upload.file.read()
        self._forget(whose)
        return _checked(whole, upload.piece)

    def _upload(self, whose: _Whose, piece: Piece) -> _Upload:
        """Return what has arrived of an answer; another one to the same task is forgotten, and others' old ones."""
        held = self._open.pop(whose, None)
        if held is not None and _names(held.piece) == _names(piece):
            self._open[whose] = held
            return held
        if held is not None:
            held.file.close()
        now = self._clock()
        old = [one for one, upload in self._open.items() if now - upload.used_s > self._limits.upload_s]
        mine = [one for one in self._open if one[0] == whose[0] and one not in old]
        for one in (*old, *mine[: 1 - _OF_ONE]):
            self._forget(one)
        if len(self._open) >= self._limits.uploads:
            raise ProblemFound(busy(f"at most {self._limits.uploads} answers in parts", "more", self._limits.again_s))
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it is open until the last piece
        self._open[whose] = upload = _Upload(piece, now, file)
        return upload

    def _forget(self, whose: _Whose) -> None:
        held = self._open.pop(whose, None)
        if held is not None:
            held.file.close()

    def close(self) -> None:
        """Forget all of them."""
        for one in list(self._open):
            self._forget(one)


def _names(piece: Piece) -> tuple[str, int, str]:
    return piece.nonce, piece.total, piece.sha256


def _checked(whole: bytes, piece: Piece) -> bytes:
    digest = hashlib.sha256(whole).hexdigest()
    if digest != piece.sha256:
        raise ProblemFound(Problem("DAMAGED", f"bytes of SHA-256 {piece.sha256}", digest, "send the answer again"))
    return whole
