"""What lies beyond the communication boundary: an engine runs a cohort's round and gives back what came of it."""

from typing import Protocol

from auxo.core.cohort_algorithm import Closing
from auxo.runtime.closing import Closed, Training
from auxo.runtime.federation import Federation


class Engine(Protocol):
    """Trains participants and closes rounds somewhere: in this process, in others, on a cluster."""

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the participants' updates, taken in the order of ``training.jobs``.

        Where and in which order participants train must not show in a single bit of the result.
        """
        ...
