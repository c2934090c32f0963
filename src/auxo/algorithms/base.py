"""The base algorithm: FedAvg and its kin, one model for everybody, as Auxo with a criterion that never partitions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from auxo.core.partition import Keep, Outlook, PartitionLimits, RoundEvidence, Verdict


@dataclass(frozen=True)
class Never:
    """The base algorithm's criterion: one cohort, for ever."""

    window: int = 1
    limits: PartitionLimits = field(default_factory=PartitionLimits.closed)

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return that the cohort stays as it is."""
        return Verdict(Keep(), None, 0.0, 1, explains=False)
