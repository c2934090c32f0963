"""When a process that works for this one is taken for lost: it gives no sign of life, or makes no progress.

A stopped process (SIGSTOP) and one that hangs do not end, so nobody is told of them; a slow machine must not be taken
for a dead one. So there are two bounds. Signs of life come whatever is being done, and their lack is told soon.
Progress is held against the longest that such work has taken; a first piece of it may take as long as it likes.
The processes of a service go by the same rule, with bounds of their own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LOOK_S = 1.0  # how often whoever waits looks; our choice


@dataclass
class AtWork:
    """A process that has something to do, as whoever waits for it sees it."""

    since_s: float  # when it began what it is at, or last made progress
    heard_s: float  # when it last gave a sign of life
    sign: object = None  # the last one
    has_started: bool = False  # there was one

    def hear(self, sign: object, now: float) -> None:
        """Take note of the last sign of life; one that is known already is none."""
        if sign != self.sign:
            self.sign, self.heard_s, self.has_started = sign, now, True

    def go_on(self, now: float) -> None:
        """Take note that something has been begun, or gone on with, just now."""
        self.since_s = self.heard_s = now

    def why_lost(self, now: float, silence_s: float, most_s: float | None, start_s: float | None = None) -> str | None:
        """Return why it is taken for lost; None where it is not.

        Args:
            now: by the clock of whoever waits.
            silence_s: seconds without a sign of life.
            most_s: seconds without progress; None: it may take as long as it likes.
            start_s: seconds in which it starts, without a sign of life; None: it is there at once.
        """
        if not self.has_started and start_s is not None:
            silence_s, most_s = start_s, None
        if now - self.heard_s >= silence_s:
            return f"gave no sign of life for {silence_s:g} s"
        if most_s is not None and now - self.since_s >= most_s:
            return f"made no progress for {most_s:g} s"
        return None


@dataclass
class Patience:
    """What work has taken, and so how long to wait for more of it.

    Time is that in which this process was awake: one that was itself stopped for an hour, as by Ctrl-Z, has not waited
    for an hour. All bounds are our own choices.
    """

    silence_s: float = 20.0  # without a sign of life
    times: float = 20.0  # as long as the longest
    floor_s: float = 120.0  # but never less than this
    start_s: float | None = None  # in which a process starts; None: it is there at once
    clock: Callable[[], float] = time.monotonic
    _longest_s: float | None = field(default=None, init=False)  # a unit of work
    _awake_s: float = field(default=0.0, init=False)
    _looked_s: float | None = field(default=None, init=False)

    def begin(self) -> AtWork:
        """Return a process that begins something now."""
        now = self._now()
        return AtWork(now, now)

    def go_on(self, one: AtWork) -> None:
        """Take note that a process has begun something, or gone on with it, just now."""
        one.go_on(self._now())

    def hear(self, one: AtWork, sign: object) -> None:
        """Take note of the last sign of life; one that is known already is none."""
        one.hear(sign, self._now())

    def finish(self, one: AtWork, units: int) -> None:
        """Learn how long so many units of work take, from one that is done with them."""
        one.has_started = True
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
        most_s = None
        if self._longest_s is not None and units is not None:
            most_s = max(self.floor_s, self.times * self._longest_s * max(units, 1))
        return one.why_lost(self._now(), self.silence_s, most_s, self.start_s)

    def _now(self) -> float:
        now = self.clock()
        if self._looked_s is not None:
            self._awake_s += min(now - self._looked_s, 2 * LOOK_S)
        self._looked_s = now
        return self._awake_s
