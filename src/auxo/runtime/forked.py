"""Processes that are forked to work for this one, and end with it; a pipe leads to each, and a pulse comes back."""

import ctypes
import itertools
import mmap
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess

from threadpoolctl import threadpool_limits

_HEARTBEAT_S = 0.5  # how often a worker says that it lives, and looks whether its parent still does; our choice
_BEAT_BYTES = 8
_PARENT_DEATH_SIGNAL = 1  # the number of Linux's prctl


@dataclass
class Forked:
    """A worker, as its parent sees it."""

    process: ForkProcess
    connection: Connection
    pulse: mmap.mmap  # of both

    def beats(self) -> bytes:
        """Return what changes as long as the worker is neither dead nor stopped."""
        return self.pulse[:]


def fork(work: Callable[..., None], *given: object) -> Forked:
    """Have a process of its own, with one thread, do ``work(connection, *given)``."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    pulse = mmap.mmap(-1, _BEAT_BYTES)
    process = context.Process(target=_begin, args=(os.getpid(), pulse, work, theirs, *given), daemon=True)
    process.start()
    theirs.close()
    return Forked(process, ours, pulse)


def end(workers: Sequence[Forked]) -> None:
    """End workers; what they are doing is lost."""
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.connection.close()


def _begin(parent: int, pulse: mmap.mmap, work: Callable[..., None], *given: object) -> None:
    _end_with_parent()
    threading.Thread(target=_watch, args=(parent, pulse), daemon=True).start()
    # Ctrl-C is for the process that waits for the workers; one that died of it would be waited for in vain.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later
    threadpool_limits(1)
    work(*given)


def _end_with_parent() -> None:
    """Have the system end this process with its parent: one that is stopped then could not do so itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _watch(parent: int, pulse: mmap.mmap) -> None:
    """Say that this process lives, and end it soon after its parent, whatever it is doing then: nobody waits for it."""
    for beat in itertools.count(1):
        if os.getppid() != parent:
            break
        pulse[:] = beat.to_bytes(_BEAT_BYTES, "little")
        time.sleep(_HEARTBEAT_S)
    os._exit(1)
