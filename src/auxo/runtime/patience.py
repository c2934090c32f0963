"""When a process that works for this one is taken for lost: it gives no sign of life, or takes far longer than ever.

A stopped process (SIGSTOP) and one that hangs do not end, so nobody is told of them; a slow machine must not be taken
for a dead one. So there are two bounds. Signs of life come whatever is being done, and their lack is told soon.
Progress is held against the longest that such work has taken; a first piece of it may take as long as it likes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LOOK_S = 1.0  # how often whoever waits looks; our choice


@dataclass
class AtWork:
    """A process that has something to do, as whoever waits for it sees it."""

    since_s: float  # when it began what it is at
    heard_s: float  # when it last gave a sign of life
    sign: object = None  # the last one


@dataclass
class Patience:
    """What work has taken, and so how long to wait for more of it.

    Time is that in which this process was awake: one that was itself stopped for an hour, as by Ctrl-Z, has not waited
    for an hour. All bounds are our own choices.
    """

    silence_s: float = 20.0  # without a sign of life
    times: float = 20.0  # as long as the longest
    floor_s: float = 120.0  # but never less than this
    clock: Callable[[], float] = time.monotonic
    _longest_s: float | None = field(default=None, init=False)  # a unit of work
    _awake_s: float = field(default=0.0, init=False)
    _looked_s: float | None = field(default=None, init=False)

    def begin(self) -> AtWork:
        """Return a process that begins something now."""
        now = self._now()
        return AtWork(now, now)

    def hear(self, one: AtWork, sign: object) -> None:
        """Take note of the last sign of life; one that is known already is none."""
        now = self._now()
        if sign != one.sign:
            one.sign, one.heard_s = sign, now

    def finish(self, one: AtWork, units: int) -> None:
        """Learn how long so many units of work take."""
        took_s = (self._now() - one.since_s) / max(units, 1)
        self._longest_s = max(took_s, self._longest_s or 0.0)

    def silent_s(self, one: AtWork) -> float:
        """Return how long there has been no sign of life."""
        return self._now() - one.heard_s

    def why_lost(self, one: AtWork, units: int | None) -> str | None:
        """Return why one that has so many units of work before it is taken for lost; None where it is not.

        Args:
            one: the process.
            units: None for one that is not waited for, and may take as long as it likes.
        """
        if self.silent_s(one) > self.silence_s:
            return f"gave no sign of life for {self.silence_s:.0f} s"
        if self._longest_s is None or units is None:
            return None
        most_s = max(self.floor_s, self.times * self._longest_s * max(units, 1))
        return f"was not done after {most_s:.0f} s" if self._now() - one.since_s > most_s else None

    def _now(self) -> float:
        now = self.clock()
        if self._looked_s is not None:
            self._awake_s += min(now - self._looked_s, 2 * LOOK_S)
        self._looked_s = now
        return self._awake_s
