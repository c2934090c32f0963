"""The affinity protocol: every message between a client and the server, and which side fills it in (section 5.1).

The order is CheckIn -> Task -> TaskResult or TaskFailure -> AffinityFeedback. Nothing else is asked of a client.
docs/protocol.md tells it in prose, with the formula each side runs.
"""

from dataclasses import dataclass

from auxo.core.asking import Answer, Ask
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import ClientId, CohortId


@dataclass(frozen=True)
class AffinityRequest:
    """What a client asks for, made by the client from its own record; may be of any age."""

    cohort: CohortId
    reward: float  # claimed, for that cohort
    cluster: int  # cluster index held for that cohort; -1: none
    generation: int  # start of the cohort's clustering the index refers to; -1: none
    ranked_first: bool  # the client's first choice, not an exploration
    confirmed: int = 0  # how often a comparison of models has named that cohort; 0: the client wants to compare
    token: str = ""  # that the server has given to the client, as it was; nobody reads it yet


@dataclass(frozen=True)
class CheckIn:
    """Client to coordinator: here I am. Without a request the client has no preference."""

    client: ClientId
    request: AffinityRequest | None = None
    participations: int = 0  # that ended with feedback


@dataclass(frozen=True)
class Task:
    """Cohort to participant: what to do, with which models."""

    client: ClientId
    cohort: CohortId
    round: int
    models: tuple[CohortId, ...]  # names of those it needs, as the ask numbers them; the first if it can compare none
    ask: Ask


@dataclass(frozen=True)
class TaskResult:
    """Participant to cohort: what it has done."""

    client: ClientId
    cohort: CohortId
    round: int
    answer: Answer


@dataclass(frozen=True)
class TaskFailure:
    """Participant to cohort, or in its stead: there will be no update. A value, not an exception."""

    client: ClientId
    cohort: CohortId
    round: int
    reason: str


@dataclass(frozen=True)
class AffinityFeedback:
    """Cohort to participant: how it fitted; the server forgets it once it is sent, on Flower with the next message."""

    client: ClientId
    cohort: CohortId
    tree: CohortTree  # the cohorts that exist now and their place in the tree
    instant_reward: float | None  # delta R of section 4.3; None while there is only one cohort
    similarity: tuple[float | None, ...]  # to each cluster's centre of this round; None: it had none
    fold: int | None
    generation: int
    placed: CohortId | None = None  # whose model had the least loss for it; None: it has not compared, or all are alike
    round: int = 0  # the task's; a client counts the feedback to a round once, however often it is delivered
    federation: str = ""  # tells the server's federation from others
    token: str = ""  # for the client to keep and to bring along, whatever it says; "": it keeps the one that it has
