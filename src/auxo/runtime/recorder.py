"""The recorder: what happens in a directory, on disk as it comes, and checkpoints to go on from when they are due.

Simulated runs, live servers and federations on Flower are recorded by it. Each says what its record is: how it becomes
the parts of a checkpoint, and how parts become a record again. Here is all the rest: the lock, files of events and
where a checkpoint has cut them, the two checkpoints, their pace, and a disk without room.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from auxo.files.atomic_write import remove_partial
from auxo.files.checkpoint_pace import CheckpointInterval, work_between
from auxo.files.checkpoint_store import CheckpointStore, Disk, Kept
from auxo.files.directory_lock import locked_directory
from auxo.files.row_changes import AnyArray
from auxo.protocol.event_log import EventLog, Mark
from auxo.protocol.events import Event

T = TypeVar("T")

EVENT, _CHECKPOINT = "an event", "a checkpoint"  # what a disk may have no room for


@dataclass(frozen=True)
class Parts:
    """What a checkpoint is made of; see `CheckpointStore.commit`."""

    about: Mapping[str, object]
    text: str
    arrays: Mapping[str, AnyArray]
    by_rows: Callable[[str], bool] = lambda name: False


@dataclass
class Recorder:
    """Records what goes on in a directory, for one process at a time; use as a context manager."""

    directory: Path
    interval: CheckpointInterval  # seconds are of work; more where a checkpoint takes more than 2 % of them
    on_problem: Callable[[str], None]  # told of a damaged checkpoint, and of a disk without room
    checkpoints: str = "checkpoints"  # the folder for them; "": the directory itself
    disk: Disk = field(default_factory=Disk)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._store = CheckpointStore(self.directory / self.checkpoints, self.disk)
        self._logs: list[EventLog] = []
        self._since_s, self._took_s = self.clock(), 0.0
        self._rounds = 0  # since the last checkpoint
        self._failing = set[str]()  # what could not be written, and has been told
        self._held = ExitStack()
        self.bytes_written = 0  # by the last checkpoint

    def __enter__(self) -> Self:
        """Take the directory for this process; what one who was killed left half written is taken away.

        Raises:
            DirectoryInUse: another process has it.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._held.enter_context(locked_directory(self.directory))
        remove_partial(self.directory)
        return self

    def __exit__(self, *error: object) -> None:
        """Close the files of events and give the directory back."""
        self.close_logs()
        self._held.close()

    def find(self, read: Callable[[Kept], T]) -> T | None:
        """Return the record of the newest checkpoint that can be used, as ``read`` has it; None: there is none.

        ``read`` refuses one with `Unusable`, which is then put aside; see `CheckpointStore.newest`.
        """
        return self._store.newest(read, self.on_problem)

    def open_log(self, path: Path, begin: Mark) -> None:
        """Have events go to a file from now on, after what was in it at ``begin``.

        Raises:
            ValueError: the file is not what it was then.
        """
        self._logs.append(EventLog(path, begin))

    def event(self, event: Event) -> None:
        """Record an event in the file that was opened last.

        Raises:
            OSError: there is no room; nothing of it is in the file.
        """
        self._logs[-1].write(event)
        self._failing.discard(EVENT)

    def sync(self) -> tuple[Mark, ...]:
        """Have all events on the disk; return where each file ends."""
        return tuple(log.synced() for log in self._logs)

    def close_logs(self) -> None:
        """Close the files of events."""
        while self._logs:
            self._logs.pop().close()

    def on_round(self) -> None:
        """Take note of a closed round."""
        self._rounds += 1

    @property
    def is_due(self) -> bool:
        """Return whether it is time for another checkpoint."""
        if self.interval.rounds is not None:
            return self._rounds >= self.interval.rounds
        if self.interval.seconds is None:
            return False
        return self.clock() - self._since_s >= work_between(self.interval.seconds, self._took_s)

    @property
    def has_unsaved(self) -> bool:
        """Return whether rounds have closed of which no checkpoint knows."""
        return self._rounds > 0 or _CHECKPOINT in self._failing

    def commit(self, parts: Callable[[tuple[Mark, ...]], Parts]) -> bool:
        """Write a checkpoint; return whether it was written. A disk without room stops nothing, and is told once.

        Args:
            parts: makes them, given where the files of events end.
        """
        begin_s, is_written = self.clock(), True
        try:
            made = parts(self.sync())
            self.bytes_written = self._store.commit(made.about, made.text, made.arrays, made.by_rows).bytes_written
            self._failing.discard(_CHECKPOINT)
        except OSError as error:
            is_written = False
            self.on_full_disk(_CHECKPOINT, error, "the last one stays, and the next is tried in due time")
        self._since_s, self._rounds = self.clock(), 0
        self._took_s = self._since_s - begin_s
        return is_written

    def on_full_disk(self, what: str, error: OSError, otherwise: str) -> None:
        """Tell what could not be written and what happens instead: the first time, until it could be again."""
        if what not in self._failing:
            self._failing.add(what)
            where = error.filename or self.directory
            self.on_problem(f"{what} could not be written ({error.strerror or error}: {where}); {otherwise}")

    def clear(self) -> None:
        """Remove all checkpoints, and files of events among them: what was recorded has come to its end."""
        for path in self._store.folder.glob("*.jsonl"):
            path.unlink()
        self._store.clear()
