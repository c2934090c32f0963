"""What lies beyond the communication boundary: an engine trains participants and gives back answers, in order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from auxo.core.types import Float32Array
from auxo.learning.trainer import Job, LocalUpdate


@dataclass(frozen=True)
class TrainFailure:
    """A participant that gave no update; a value, because a client's failure is nobody's exception."""

    reason: str


class Engine(Protocol):
    """Trains participants somewhere: in this process, in others, on a cluster."""

    def train(self, weights: Float32Array, jobs: Sequence[Job]) -> Iterator[LocalUpdate | TrainFailure]:
        """Yield one answer for each job, in the order of the jobs, whatever the order in which they finish."""
        ...
