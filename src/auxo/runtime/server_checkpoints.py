"""A live server on disk: checkpoints while a loop of one's own goes on, and where it goes on after a crash.

It is kept by the recorder of simulations (`auxo.runtime.recorder`): one commit point, checksums, the last two kept, a
damaged one put aside. Whatever else the loop remembers can be kept with the server.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from auxo.files.checkpoint_pace import CheckpointInterval
from auxo.files.checkpoint_store import Disk, Kept, Unusable
from auxo.files.row_changes import AnyArray
from auxo.protocol.event_log import Mark
from auxo.runtime.ban_files import BanFiles
from auxo.runtime.recorder import Parts, Recorder
from auxo.runtime.server import Server
from auxo.runtime.signing_keys import SigningKeys

_SERVER, _MORE = "server", "more/"


@dataclass(frozen=True)
class RestoredWith:
    """What was kept with a server."""

    about: Mapping[str, object]
    arrays: Mapping[str, AnyArray]


def _warn(problem: str) -> None:
    warnings.warn(problem, RuntimeWarning, stacklevel=5)


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
    signed: bool = True  # clients' claims count as far as the server has signed them, with a key in the folder
    on_problem: Callable[[str], None] = _warn  # told of a damaged checkpoint, and of one that could not be written
    disk: Disk = field(default_factory=Disk)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        interval = CheckpointInterval(seconds=self.every_s)
        self._bans, self._keys = BanFiles(self.folder), SigningKeys.of(self.folder)
        self._recorder = Recorder(self.folder, interval, self.on_problem, "", self.disk, self.clock)

    def __enter__(self) -> Self:
        """Take the folder for this process, and make it if it is not there.

        Raises:
            DirectoryInUse: another process has it.
        """
        self._recorder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Give the folder back; what is in it stays."""
        self._recorder.__exit__(*error)

    def restore(self, server: Server) -> RestoredWith | None:
        """Have a server, made with the same arguments as before, go on from the newest checkpoint; None: there is none.

        Returns:
            What was kept with it.

        Raises:
            ValueError: the checkpoint is of a server that was made with other arguments; nothing has changed.
            FileError: the file of keys, or of bans, is damaged.
        """

        def read(kept: Kept) -> RestoredWith:
            if _SERVER not in kept.arrays:
                raise Unusable("expected a checkpoint of a server, got one of something else")
            server.restore(kept.arrays[_SERVER].tobytes())
            more = {name.removeprefix(_MORE): array for name, array in kept.arrays.items() if name.startswith(_MORE)}
            return RestoredWith(kept.about, more)

        found = self._recorder.find(read)
        self._update(server)
        return found

    def save(
        self,
        server: Server,
        about: Mapping[str, object] | None = None,
        arrays: Mapping[str, AnyArray] | None = None,
    ) -> bool:
        """Write a checkpoint now; return whether it was written: a disk without room is told once, and stops nothing.

        After a partition, do so before the feedback goes out: clients that have heard of cohorts which a crash undoes
        would refuse what the server says then.

        Args:
            server: between rounds; rounds that are open are lost, and simply opened again.
            about: what else to keep, as JSON holds it.
            arrays: the same by name.
        """

        def parts(marks: tuple[Mark, ...]) -> Parts:
            kept = {_SERVER: np.frombuffer(server.to_bytes(), dtype=np.uint8)}
            more = {f"{_MORE}{name}": np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
            return Parts(about or {}, "", {**kept, **more})

        self._update(server)
        return self._recorder.commit(parts)

    def _update(self, server: Server) -> None:
        """Have the server know what was done to its directory meanwhile: keys rotated, bans lifted."""
        if self.signed:
            self._keys.update(server)
        self._bans.update(server)

    @property
    def is_due(self) -> bool:
        """Return whether it is time for another one: `every_s` of work have passed since the last."""
        return self._recorder.is_due
