"""The two desks of a service, as whoever carries messages sees them: the coordinator's, and that of a cohort.

A client checks in at the coordinator's, which says whose round it joins and where that cohort is. All the rest it has
from the cohort: its task, models, and the feedback to its answer. So a round ends without the coordinator, which keeps
only which session of each client is the newest. Every call may be made again, and is then answered as before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from auxo.core.types import ClientId, CohortId, Float32Array
from auxo.core.validation import Reason
from auxo.protocol.messages import AffinityFeedback, CheckIn, Task, TaskFailure, TaskResult
from auxo.service.wire import Joining

Why = Literal["BUSY", "CLOSED", "BANNED", "STALE_EPOCH", "STALE_ROUND", "NOT_SELECTED", "LATE", "SUPERSEDED", "OVER"]
"""Why nobody can be served, in a word that a client can act on."""


@dataclass(frozen=True)
class Found:
    """A check-in's cohort, and where it is."""

    cohort: CohortId
    address: str  # as in a URL: scheme, host and port
    epoch: int  # of its owner


@dataclass(frozen=True)
class ComeAgain:
    """Nothing now; each client is told another time, so that they do not come all at once."""

    after_s: float
    why: Why = "BUSY"


@dataclass(frozen=True)
class Refusal:
    """No, and asking again does not help."""

    why: Why | Reason
    words: str  # what was expected, what came, what to do


@dataclass(frozen=True)
class Assigned:
    """A task, and all that its answer has to name."""

    task: Task
    epoch: int  # of the cohort's owner: an answer to another's task is not counted
    nonce: str  # of this task: the same answer may be sent again, another may not
    deadline_s: float  # seconds from now until the round closes


@dataclass(frozen=True)
class Received:
    """An answer has arrived; the same answer that comes again is received again, and counted once."""

    feedback_after_s: float  # when the feedback may be there


@dataclass(frozen=True)
class NoFeedback:
    """The round is over and has nothing to say to this client: its answer was refused, or nothing came of the round."""

    why: str


@dataclass(frozen=True)
class Pulse:
    """How a process is doing, to whoever watches it: one that answers and makes no progress is not alive either."""

    who: str  # "coordinator", or the cohort
    epoch: int
    pid: int
    progress: int  # rises with every turn of its work, whether or not there is anything to do
    round: int
    state: Literal["idle", "training", "starved", "waiting for coordinator", "over"]
    health: tuple[str, ...] = ()  # what is wrong, such as a full disk; empty: nothing


class CoordinatorDesk(Protocol):
    """Where clients check in."""

    def check_in(self, joining: Sequence[Joining]) -> list[Found | ComeAgain | Refusal]:
        """Answer each check-in, in their order; many at once cost little more than one.

        The newest session of a client counts, whichever cohort each was sent to; older ones are superseded.
        """
        ...

    def pulse(self) -> Pulse:
        """Return how it is doing."""
        ...


class CohortDesk(Protocol):
    """Where clients of a cohort have their tasks from and bring their answers."""

    def join(self, check_in: CheckIn, session: str) -> Assigned | ComeAgain | Refusal:
        """Wait for a round, or take one's task; the newest session of a client counts, older ones are superseded."""
        ...

    def model(self, name: CohortId, round_number: int, client: ClientId) -> Float32Array | Refusal:
        """Return a model that the client's task names, as it was when the round opened."""
        ...

    def answer(self, result: TaskResult | TaskFailure, epoch: int, nonce: str) -> Received | Refusal:
        """Take an answer; the update is checked when the round closes, and a flaw is told by the feedback."""
        ...

    def feedback(self, client: ClientId, round_number: int) -> AffinityFeedback | NoFeedback | ComeAgain | Refusal:
        """Return what a round says to a client, once it has closed."""
        ...

    def pulse(self) -> Pulse:
        """Return how it is doing."""
        ...
