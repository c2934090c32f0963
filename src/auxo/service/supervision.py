"""Who is alive and who is not, and when a dead one is started again: pure rules, for whoever watches.

A process is dead when it has ended, when its pulse does not beat, as of one that was stopped, and when it beats and
makes no progress, as of one that hangs.
"""

from dataclasses import dataclass, replace

from auxo.core.settings import PositiveFloat, checked, setting
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


@dataclass(frozen=True)
class ProcessWatch:
    """What a watcher knows of one process, by its own clock."""

    epoch: int
    started_s: float
    seen: Seen | None = None
    beat_s: float = 0.0  # when it was last seen to beat
    progress_s: float = 0.0  # when it was last seen to make progress

    def after(self, seen: Seen | None, now: float) -> "ProcessWatch":
        """Return what is known after another look; the pulse of another epoch is another process's."""
        if seen is None or seen.pulse.epoch != self.epoch:
            return self
        before = self.seen
        if before is None:
            return replace(self, seen=seen, beat_s=now, progress_s=now)
        beats = seen.beat != before.beat
        progresses = seen.pulse.progress != before.pulse.progress
        return replace(
            self,
            seen=seen,
            beat_s=now if beats else self.beat_s,
            progress_s=now if progresses else self.progress_s,
        )

    def unseen(self, now: float) -> "ProcessWatch":
        """Return what is known where nothing could be seen until now: that it was silent means nothing."""
        return replace(self, started_s=now, beat_s=now, progress_s=now)

    def why_dead(self, now: float, patience: WatchLimits) -> str | None:
        """Return why a process is taken for dead; None: it is alive, or may still be starting."""
        if self.seen is None:
            late = now - self.started_s >= patience.start_s
            return f"no sign of life {patience.start_s:g} s after its start" if late else None
        if now - self.beat_s >= patience.silent_s:
            return f"no sign of life for {patience.silent_s:g} s"
        if now - self.progress_s >= patience.stuck_s:
            return f"no progress for {patience.stuck_s:g} s"
        return None


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
