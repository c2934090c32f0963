"""Who is alive and who is not, and when a dead one is started again: pure rules, for whoever watches.

A process is dead when it has ended, when its pulse does not beat, as of one that was stopped, and when it beats and
makes no progress, as of one that hangs: `auxo.runtime.patience`.
"""

from dataclasses import InitVar, dataclass, field

from auxo.core.settings import PositiveFloat, checked, setting
from auxo.runtime.patience import AtWork
from auxo.service.pulses import Seen


@dataclass(frozen=True)
@checked
class WatchLimits:
    """How long a watcher waits; all of it our choice."""

    silent_s: PositiveFloat = setting(6.0, "Seconds without a beat after which a process is taken for dead.")
    stuck_s: PositiveFloat = setting(300.0, "Seconds without progress after which it is.")
    start_s: PositiveFloat = setting(60.0, "Seconds that a process may take to give its first sign of life.")
    settled_s: PositiveFloat = setting(60.0, "Seconds after which what happened before is no reason to wait.")
    longest_s: PositiveFloat = setting(30.0, "Seconds between two starts, at most.")


@dataclass
class ProcessWatch:
    """What a watcher knows of one process, by its own clock."""

    epoch: int
    started_s: InitVar[float]
    at_work: AtWork = field(init=False)
    _progress: int | None = field(default=None, init=False)

    def __post_init__(self, started_s: float) -> None:
        self.at_work = AtWork(started_s, started_s)

    def look(self, seen: Seen | None, now: float) -> None:
        """Take note of a look; the pulse of another epoch is another process's."""
        if seen is None or seen.pulse.epoch != self.epoch:
            return
        self.at_work.hear(seen.beat, now)
        if seen.pulse.progress != self._progress:
            self.at_work.since_s, self._progress = now, seen.pulse.progress

    def why_dead(self, now: float, patience: WatchLimits) -> str | None:
        """Return why a process is taken for dead; None: it is alive, or may still be starting."""
        return self.at_work.why_lost(now, patience.silent_s, patience.stuck_s, patience.start_s)


@dataclass(frozen=True)
class Restarts:
    """How often a process was started again of late: each time after a longer pause, the first time at once."""

    count: int = 0
    last_s: float = float("-inf")

    def next_s(self, patience: WatchLimits) -> float:
        """Return the moment before which it is not started."""
        pause_s = 0.0 if self.count == 0 else min(0.5 * 2.0 ** (self.count - 1), patience.longest_s)
        return self.last_s + pause_s

    def after(self, now: float, patience: WatchLimits) -> "Restarts":
        """Return what is known after one more start."""
        is_settled = now - self.last_s >= patience.settled_s
        return Restarts(0 if is_settled else self.count + 1, now)
