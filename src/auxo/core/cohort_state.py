"""What the server keeps: a model and soft state for each cohort, and the tree that they stand in (section 5.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from auxo.core.aggregators import ServerState
from auxo.core.cohort_tree import CohortTree
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.types import CohortId, Float32Array, FloatArray
from auxo.core.usual_updates import UsualUpdates


@dataclass(frozen=True)
class CohortState:
    """All that one cohort must keep between rounds; a table of clients only where its selector has one."""

    server: ServerState
    round: int = 0  # rounds closed along the lineage from the root
    check_ins: float = 0.0  # running mean of clients on line for this cohort at the start of a round
    memory: OwnState = NOTHING  # the cohort algorithm's
    selection: OwnState = NOTHING  # the selector's; Oort keeps a table of clients here
    usual: UsualUpdates = field(default_factory=UsualUpdates)  # what its participants send


@dataclass(frozen=True)
class Credit:
    """What clients have learnt of a cohort's model in rounds of other cohorts, which they were sent to by chance."""

    movement: FloatArray  # (parameters,) mean of their updates
    weight: float  # of all of these together, as the aggregator has it

    def and_of(self, movement: FloatArray, weight: float) -> "Credit":
        """Return the mean of this and of others' updates."""
        both = self.weight + weight
        return Credit((self.weight * self.movement + weight * movement) / both, both)

    def no_longer_than_usual(self, usual: UsualUpdates) -> "Credit":
        """Return the same, no longer than an update that is usual where it is used: elsewhere longer ones may be.

        A mean of honest updates is shorter than most of them. A cohort of attackers has them of any length.
        """
        length = float(np.linalg.norm(self.movement))
        longest = float(np.median(usual.lengths)) if usual.lengths else length
        return self if length <= longest else Credit(self.movement * (longest / length), self.weight)


@dataclass(frozen=True)
class CoordinatorState:
    """The server's whole state; its cohorts change by `auxo.core.owners.commit` alone."""

    tree: CohortTree
    cohorts: Mapping[CohortId, CohortState]  # the leaves
    table: OwnState = NOTHING  # of clients, for algorithms that need one; it grows with the population, so they say so
    owners: Mapping[CohortId, int] = field(default_factory=dict)  # epochs of owners, of leaves that were taken over
    guard: OwnState = NOTHING  # the guard's; one that bans has a table of clients here
    secret: str = field(default="", repr=False)  # of the run, up to 64 characters; no client ever hears it
    credits: Mapping[CohortId, Credit] = field(
        default_factory=dict
    )  # that leaves have until they close their next round

    def epoch(self, leaf: CohortId) -> int:
        """Return the epoch of a leaf's owner; another owner has a larger one."""
        return self.owners.get(leaf, 0)

    def model(self, leaf: CohortId) -> Float32Array:
        """Return a leaf's model; see `auxo.core.owners.Shelf`."""
        return self.cohorts[leaf].server.weights
