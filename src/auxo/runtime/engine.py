"""What lies beyond the communication boundary: an engine runs a cohort's round and gives back what came of it."""

from typing import Protocol

from auxo.algorithms.auxo import Folded, RoundOutcome
from auxo.runtime.cohort_round import Closing, CohortRules, Training


class Engine(Protocol):
    """Trains participants and closes rounds somewhere: in this process, in others, on a cluster."""

    def run_round(self, rules: CohortRules, closing: Closing, training: Training) -> RoundOutcome | Folded:
        """Return what `close_cohort` makes of the participants' updates, taken in the order of ``training.jobs``.

        Where and in which order participants train must not show in a single bit of the result.
        """
        ...
