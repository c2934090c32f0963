"""A live server on disk: checkpoints while a loop of one's own goes on, and where it goes on after a crash.

It is the store of simulations' checkpoints (`auxo.files.checkpoint_store`): one commit point, checksums, the last two
kept, a damaged one put aside. Whatever else the loop remembers can be kept with the server.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from auxo.files.checkpoint_pace import work_between
from auxo.files.checkpoint_store import CheckpointStore, Disk, Kept, Unusable
from auxo.files.directory_lock import locked_directory
from auxo.files.row_changes import AnyArray

_SERVER, _MORE = "server", "more/"


class Restorable(Protocol):
    """What goes into bytes and back, such as `Server`."""

    def to_bytes(self) -> bytes:
        """Return all that must survive a crash."""
        ...

    def restore(self, data: bytes) -> None:
        """Take up what `to_bytes` gave.

        Raises:
            ValueError: it cannot; nothing has changed.
        """
        ...


@dataclass(frozen=True)
class RestoredWith:
    """What was kept with a server."""

    about: Mapping[str, object]
    arrays: Mapping[str, AnyArray]


def _warn(problem: str) -> None:
    warnings.warn(problem, RuntimeWarning, stacklevel=4)


@dataclass
class ServerCheckpoints:
    """Keeps a server in a folder of its own, for one process at a time; use as a context manager.

    >>> import tempfile
    >>> from auxo import Auxo, Server
    >>> folder = Path(tempfile.mkdtemp()) / "federation"
    >>> for attempt in range(2):
    ...     server = Server([0.0] * 4, participants=10, rounds=5, method=Auxo())
    ...     with ServerCheckpoints(folder) as kept:
    ...         found = kept.restore(server)
    ...         print("begins" if found is None else f"goes on after {found.about['rounds']} rounds")
    ...         _ = kept.save(server, {"rounds": 3})
    begins
    goes on after 3 rounds
    """

    folder: Path
    every_s: float = 30.0  # of work between two, or more where one takes more than 2 % of that
    on_problem: Callable[[str], None] = _warn  # told of a damaged checkpoint, and of one that could not be written
    disk: Disk = field(default_factory=Disk)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        self._store = CheckpointStore(self.folder, self.disk)
        self._since_s, self._took_s = self.clock(), 0.0
        self._held = ExitStack()

    def __enter__(self) -> Self:
        """Take the folder for this process, and make it if it is not there.

        Raises:
            DirectoryInUse: another process has it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._held.enter_context(locked_directory(self.folder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the folder back; what is in it stays."""
        self._held.close()

    def restore(self, server: Restorable) -> RestoredWith | None:
        """Have a server, made with the same arguments as before, go on from the newest checkpoint; None: there is none.

        Returns:
            What was kept with it.

        Raises:
            ValueError: the checkpoint is of a server that was made with other arguments; nothing has changed.
        """

        def check(kept: Kept) -> None:
            if _SERVER not in kept.arrays:
                raise Unusable("expected a checkpoint of a server, got one of something else")
            server.restore(kept.arrays[_SERVER].tobytes())

        kept = self._store.newest(check, self.on_problem)
        if kept is None:
            return None
        more = {name.removeprefix(_MORE): array for name, array in kept.arrays.items() if name.startswith(_MORE)}
        return RestoredWith(kept.about, more)

    def save(
        self,
        server: Restorable,
        about: Mapping[str, object] | None = None,
        arrays: Mapping[str, AnyArray] | None = None,
    ) -> bool:
        """Write a checkpoint now; return whether it was written: a disk without room is told, and the loop goes on.

        After a partition, do so before the feedback goes out: clients that have heard of cohorts which a crash undoes
        would refuse what the server says then.

        Args:
            server: between rounds; rounds that are open are lost, and simply opened again.
            about: what else to keep, as JSON holds it.
            arrays: the same by name.
        """
        begin_s, is_written = self.clock(), True
        kept = {_SERVER: np.frombuffer(server.to_bytes(), dtype=np.uint8)}
        more = {f"{_MORE}{name}": np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
        try:
            self._store.commit(about or {}, "", {**kept, **more})
        except OSError as error:
            where = error.filename or self.folder
            self.on_problem(
                f"a checkpoint could not be written ({error.strerror or error}: {where}); the last one stays"
            )
            is_written = False
        self._since_s = self.clock()
        self._took_s = self._since_s - begin_s
        return is_written

    @property
    def is_due(self) -> bool:
        """Return whether it is time for another one: `every_s` of work have passed since the last."""
        return self.clock() - self._since_s >= work_between(self.every_s, self._took_s)
