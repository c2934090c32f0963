"""Signs of life: every process writes its pulse to a file again and again, and others see whether it changes.

What the clock on the wall says plays no part: a watcher goes by its own, and by what it sees change.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from auxo.files.typed_json import json_reader
from auxo.service.desks import Pulse

COORDINATOR = "coordinator"
BEAT_S = 0.5
"""Seconds between two signs of life; our choice."""

_END = "end"
_read = json_reader(Pulse)


@dataclass(frozen=True)
class Seen:
    """A pulse, and a number that changes with every beat."""

    pulse: Pulse
    beat: int


@dataclass(frozen=True)
class Pulses:
    """A folder of them, one for each process."""

    folder: Path

    @staticmethod
    def of(directory: Path) -> "Pulses":
        """Return those of a service."""
        folder = directory / "pulses"
        folder.mkdir(exist_ok=True)
        return Pulses(folder)

    def tell(self, pulse: Pulse) -> None:
        """Write a pulse; on a disk without room it still beats, and tells of progress."""
        path, content = self._path(pulse.who), json.dumps(asdict(pulse)).encode()
        partial = path.with_suffix(f".{os.getpid()}.part")
        try:
            partial.write_bytes(content)
            partial.replace(path)
        except OSError:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
                os.utime(path)
                # In the place of the one before, which needs no room; who reads half of it looks again.
                with path.open("r+b", buffering=0) as file:
                    file.write(content)
                    file.truncate()

    def see(self, who: str) -> Seen | None:
        """Return a process's last pulse; None: it has had none."""
        path = self._path(who)
        try:
            beat = path.stat().st_mtime_ns
            return Seen(_read(path.read_text(encoding="utf-8")), beat)
        except (OSError, ValueError):
            return None

    def forget(self, who: str) -> None:
        """Remove the pulse of a process that has ended."""
        with suppress(OSError):
            self._path(who).unlink(missing_ok=True)

    def ask_to_end(self) -> None:
        """Have all processes of the service end, those that are just starting, too."""
        with suppress(OSError):
            self._path(_END).touch()

    def begin_again(self) -> None:
        """Forget the pulses of all processes, and that they were asked to end."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    @property
    def are_to_end(self) -> bool:
        """Return whether all processes were asked to end."""
        return self._path(_END).exists()

    def _path(self, who: str) -> Path:
        return self.folder / f"{who}.json"
