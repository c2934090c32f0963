"""A ServerApp that is told to stop lets its nodes finish first.

When a run ends while a SuperNode takes a message of it, Flower 1.41 leaves that node out of step: it runs the task all
the same, and from then on answers each message only when the next one comes. So whoever is told to stop opens no more
rounds, waits a moment for what is under way, and only then does what it would have done at once.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from auxo.flower.logs import LOG

_GRACE_S = 20.0  # for nodes to answer; our choice: supervisors kill after 30 s and more
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass
class Stopping:
    """Whether this process was told to stop, and until when it may still wait for answers."""

    told: signal.Signals | None = None
    until_s: float = field(default=float("inf"))

    @property
    def is_told(self) -> bool:
        """Return whether it was."""
        return self.told is not None

    @property
    def is_over(self) -> bool:
        """Return whether there is no more time, either."""
        return time.monotonic() >= self.until_s


@contextmanager
def polite_stopping() -> Iterator[Stopping]:
    """Lend a flag that SIGTERM and Ctrl-C set; at the end the signal does what it does without us.

    A second signal does so at once. Signals belong to a process's main thread: elsewhere nothing changes. What is
    ignored, as Ctrl-C is by a process in a script's background, stays ignored.
    """
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def tell(number: int, frame: FrameType | None) -> None:
        if stopping.is_told:
            restore()
            signal.raise_signal(number)
            return
        stopping.told, stopping.until_s = signal.Signals(number), time.monotonic() + _GRACE_S
        LOG.info("told to stop: no more rounds are opened; up to %.0f s for nodes to answer", _GRACE_S)

    for number in before:
        signal.signal(number, tell)
    try:
        yield stopping
    finally:
        restore()
        if stopping.told is not None:
            signal.raise_signal(stopping.told)
