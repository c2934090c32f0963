"""The oracle: a cohort for each true group, which no method may know; what there is to be gained."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from auxo.core.partition import Keep, Outlook, Partition, PartitionLimits, RoundEvidence, Verdict
from auxo.core.types import IntArray


def by_group(groups: IntArray) -> Partition:
    """Return the partition into one child for each group, in the order of their numbers."""
    counts = np.bincount(groups)
    shares = counts / counts.sum()
    return Partition(tuple(range(len(counts))), tuple(float(share) for share in shares))


@dataclass(frozen=True)
class Scheduled:
    """Partition once, when the cohort has done a given share of its rounds."""

    partition: Partition
    at: float
    window: int = 1
    limits: PartitionLimits = field(default_factory=PartitionLimits.closed)

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return the partition when its time has come."""
        due = outlook.progress >= self.at and outlook.cohorts == 1
        children = len(self.partition.weights) if due else 1
        return Verdict(self.partition if due else Keep(), None, 0.0, children, explains=False)
