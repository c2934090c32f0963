"""How a round's jobs are cut up for those who train them; no bit of a result depends on it."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from auxo.training.trainer import Job


def most_jobs(n_params: int, most_bytes: int, most: int) -> int:
    """Return how many jobs a chunk may have: ``most``, or as many as have updates of ``most_bytes``, but one at least.

    >>> most_jobs(n_params=1000, most_bytes=2**15, most=64), most_jobs(10**9, 2**15, 64)
    (8, 1)
    """
    return int(np.clip(most_bytes // (4 * n_params), 1, most))


def chunks_of(jobs: Sequence[Job], takers: int, most: int) -> list[Sequence[Job]]:
    """Return the jobs in order, in chunks of at most ``most``, all about as large, and as many for every taker.

    >>> jobs = [Job(row, visit=0) for row in range(10)]
    >>> [len(chunk) for chunk in chunks_of(jobs, takers=2, most=3)]
    [2, 3, 2, 3]
    """
    turns = -(-len(jobs) // (takers * most))
    edges = np.linspace(0, len(jobs), turns * takers + 1).astype(int)
    return [jobs[first:last] for first, last in pairwise(edges) if last > first]
