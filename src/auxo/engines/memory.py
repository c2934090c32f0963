"""Memory that a training process keeps for its next step.

The C library gives a large block back to the system as soon as it is free, and a step of training frees what the next
one asks for again. The system hands memory out page by page and cleared: with LEAF's network that was a sixth of all
time. Instead blocks of up to 32 MiB stay with the process, which gives back only what exceeds a limit at the end of its
memory.
"""

import ctypes
import sys

# The numbers of glibc's mallopt.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_LARGEST_KEPT = 32 * 2**20  # bytes of a block; glibc allows no more
_MOST_KEPT = 512 * 2**20  # bytes at the end of its memory that a process keeps though they are free; our choice
_STEP = 16 * 2**20  # bytes asked of the system at a time; our choice


def keep_freed_memory() -> None:
    """Let this process keep what it frees; where the C library knows no such thing, nothing happens.

    For processes of our own alone: it holds for all that runs in them.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:  # not glibc
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
    mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
    mallopt(_TOP_PAD, _STEP)
