"""What a selector is: it picks those who take part in a cohort's round, and may say how much each does."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from auxo.core.matching import CheckIns
from auxo.core.own_state import OwnState
from auxo.core.turnout import Turnout
from auxo.core.types import FloatArray, IntArray


@runtime_checkable
class Selector(Protocol):
    """Selects participants; what it remembers of a cohort's clients is a value that it takes and returns.

    One that wants to know losses says so by `AsksForLoss`, one that sets how much each participant does by `SetsWork`.
    """

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the kinds of what it remembers, for the codec."""
        ...

    def begin(self, parent: OwnState | None = None) -> OwnState:
        """Return what it remembers before a cohort's first round; ``parent`` is what it knew of a partitioned cohort.

        None: the cohort is the root.
        """
        ...

    def select(
        self, memory: OwnState, candidates: CheckIns, rows: IntArray, wanted: int, rng: np.random.Generator
    ) -> IntArray:
        """Return at most ``wanted`` of ``rows``, all different.

        Args:
            memory: what it remembers of the cohort.
            candidates: all check-ins.
            rows: those of them that are there for the cohort, ascending.
            wanted: how many to invite.
            rng: of this attempt.
        """
        ...

    def learn(self, memory: OwnState, turnout: Turnout) -> OwnState:
        """Return what it remembers after a round with this turnout; one that came to nothing it does not hear of."""
        ...


@dataclass(frozen=True)
class UsualWork:
    """What a round asks of everybody unless its selector says otherwise."""

    share: int  # updates that complete the round; participants may be more
    epochs: int = 1  # passes over a participant's samples


@dataclass(frozen=True)
class Asked:
    """How much each participant of a round is asked to do, row aligned."""

    epochs: IntArray  # passes over its samples, at least 1
    upload: FloatArray  # in (0, 1]: the chance of each tensor of the model to be sent; others count as unchanged

    def check(self, participants: int, whose: str) -> None:
        """Raise a ValueError, which says ``whose`` decision it is, unless it can be carried out."""
        if len(self.epochs) != participants or len(self.upload) != participants:
            raise ValueError(
                f"{whose}.work: expected epochs and upload of each of {participants} participants, got "
                f"{len(self.epochs)} and {len(self.upload)}"
            )
        if participants and self.epochs.min() < 1:
            raise ValueError(f"{whose}.work: expected at least 1 epoch each, got {self.epochs.min()}")
        if not ((self.upload > 0) & (self.upload <= 1)).all():
            raise ValueError(f"{whose}.work: expected shares of the upload above 0 and up to 1, got {self.upload}")


@runtime_checkable
class SetsWork(Protocol):
    """A selector that also says how much each participant does; the clock charges what it says."""

    def work(self, memory: OwnState, clients: IntArray, usual: UsualWork) -> Asked:
        """Return what these participants, all of a round, are asked to do."""
        ...
