"""What a coordinator and a keeper ask of whatever the owners of cohorts run on: this machine, or a cluster."""

from typing import Protocol

from auxo.core.types import CohortId


class Started(Protocol):
    """A process that somebody has started, here or elsewhere."""

    def why_ended(self) -> str | None:
        """Return how it has ended; None: it has not, as far as one can see."""
        ...

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        ...

    def ask_to_end(self) -> None:
        """Have it end by itself, even if it was stopped."""
        ...


class Starter(Protocol):
    """Starts owners of cohorts."""

    def is_there(self) -> bool:
        """Return whether anything is known of owners now: signs of life may have no way to come by."""
        ...

    def start(self, cohort: CohortId, epoch: int) -> Started:
        """Start the owner of this epoch."""
        ...

    def adopt(self, cohort: CohortId, epoch: int, pid: int) -> Started:
        """Return one that somebody else has started."""
        ...
