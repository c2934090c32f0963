"""Ctrl-C, SIGTERM and SIGHUP end a command the same way: what was done is kept, and nothing else is left behind."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # SIGHUP is unknown to some systems


class Stopped(KeyboardInterrupt):
    """Somebody asked the process to end; all that handles Ctrl-C handles it, too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return what shells report for a process that this signal ended.

    >>> exit_code(KeyboardInterrupt()), exit_code(Stopped(signal.SIGTERM))
    (130, 143)
    """
    return 128 + (stop.number if isinstance(stop, Stopped) else int(signal.SIGINT))


def words_for_stop(stop: KeyboardInterrupt) -> str:
    """Return what happened, for a message."""
    return f"ended by {signal.Signals(stop.number).name}" if isinstance(stop, Stopped) else "interrupted"


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Turn the signals into an exception while the block runs, and one that gets out of it into an exit code.

    A process that was forked from this one ends at once by such a signal, as it would have without.
    """
    own = os.getpid()

    def stop(number: int, _: FrameType | None) -> None:
        if os.getpid() != own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        for one in _SIGNALS:  # a second one must not cut short what the first has set off
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(number)

    before = {}
    for number in _SIGNALS:
        # What runs under nohup is told to ignore SIGHUP, and keeps to it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt as found:
        print(f"auxo: {words_for_stop(found)}", file=sys.stderr)  # noqa: T201 - nothing else may have been imported yet
        raise SystemExit(exit_code(found)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
