"""What the process of a cohort shares with the others of its service, on this machine or through another process."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from auxo.core.cohort_state import CohortState
from auxo.core.owners import Fenced
from auxo.core.types import CohortId
from auxo.files.key_file import Key
from auxo.protocol.events import Event
from auxo.runtime.server_record import ServerRecord
from auxo.service.client_tokens import ClientTokens
from auxo.service.desks import Pulse
from auxo.service.pulses import Seen
from auxo.service.store import Held, Step


class CommitPoint(Protocol):
    """The store, as owners of cohorts see it; see `Store` for each.

    All of it may raise an OSError: there is no room, or the way there is broken. A change may have happened then.
    """

    def read(self, whole: Collection[CohortId] | None = None, credited: int | None = None) -> Held:
        """Return what holds now."""
        ...

    def last(self, cohort: CohortId) -> CohortState | None:
        """Return the last state of a cohort that is a leaf, or was one."""
        ...

    def ancestor(self, cohort: CohortId) -> CohortState | None:
        """Return the last state of the nearest ancestor that can be used."""
        ...

    def change(
        self, cohort: CohortId, epoch: int, step: Step, whole: Collection[CohortId] = (), credited: int | None = None
    ) -> ServerRecord | Fenced:
        """Take what holds to what a step makes of it; the step may be called several times."""
        ...

    def tell(self, cohort: CohortId, epoch: int, events: Sequence[Event]) -> Fenced | None:
        """Keep events that go with no commit."""
        ...

    def arrived(self, cohort: CohortId, epoch: int, address: str, pid: int) -> bool:
        """Say where the owner of this epoch is."""
        ...

    def put_aside(self, cohort: CohortId, epoch: int) -> bool:
        """Put damaged versions aside."""
        ...

    def sweep(self) -> None:
        """Remove what a crash has left half written."""
        ...


class PulseBoard(Protocol):
    """Where processes give signs of life; see `Pulses`."""

    def tell(self, pulse: Pulse) -> None:
        """Give a sign of life."""
        ...

    def see(self, who: str) -> Seen | None:
        """Return a process's last one."""
        ...

    @property
    def are_to_end(self) -> bool:
        """Return whether all processes were asked to end."""
        ...


@dataclass(frozen=True)
class Common:
    """All of it."""

    store: CommitPoint
    pulses: PulseBoard
    tokens: ClientTokens
    keys: Callable[[int], tuple[Key, ...]]
    """Returns the keys that claims are signed with in a round."""
