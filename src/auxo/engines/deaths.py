"""What becomes of participants whose training costs the process that it runs in, most often for want of memory.

They train again one by one, so that the others are found out, and bits stay as they are. Who costs its process its life
alone, too, has failed as a client may, and the round goes on without it.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from auxo.core.asking import Failure
from auxo.training.trainer import Job

ALONE = 2  # processes that one participant may cost when it trains alone; our choice
IN_A_ROW = 3  # participants that do, with nobody between them that trains: then it is not they; our choice

DIED_ALONE = Failure(f"its training has cost {ALONE} processes that it was alone in, most often for want of memory")
"""The answer of such a participant."""


@dataclass
class Deaths:
    """Deaths of processes, by what they were training."""

    _alone: Counter[Hashable] = field(default_factory=Counter)
    _in_a_row: int = 0

    def trained(self, piece: Hashable) -> None:
        """Take note of work that is done."""
        self._alone.pop(piece, None)
        self._in_a_row = 0

    def has_failed(self, piece: Hashable, jobs: Sequence[Job]) -> bool:
        """Take note of work that has cost its process; return whether its one participant has failed with that."""
        if len(jobs) > 1:
            return False
        self._alone[piece] += 1
        if self._alone[piece] < ALONE:
            return False
        del self._alone[piece]
        self._in_a_row += 1
        return True

    @property
    def are_too_many(self) -> bool:
        """Return whether training itself seems to be what processes die of."""
        return self._in_a_row >= IN_A_ROW


def words_of_failed(job: Job) -> str:
    """Return what is told of a participant that has failed so."""
    return (
        f"the client in row {job.client_row} has cost {ALONE} processes that trained it alone; it counts as failed, "
        "and the round goes on without it"
    )
