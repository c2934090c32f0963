"""Who owns a cohort: its owner alone changes its state, and others read its model from a shelf.

An owner may be in this process or elsewhere, and one that is taken for lost may only sleep. So every cohort has an
epoch, which a new owner raises, and a commit bears the epoch of whoever makes it: one that wakes up late is fenced.
Leaves whose rounds are one have one owner, and so have all cohorts of an algorithm that keeps a table of clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from auxo.core.cohort_state import CohortState, CoordinatorState, Credit
from auxo.core.cohort_tree import Branch, CohortTree
from auxo.core.own_state import OwnState
from auxo.core.types import CohortId, Float32Array


class Shelf(Protocol):
    """The leaves' models as they were last committed, to be read by those who do not own them.

    `CoordinatorState` is one.
    """

    def model(self, leaf: CohortId) -> Float32Array:
        """Return a leaf's model; nobody writes to it.

        Raises:
            KeyError: there is no such leaf.
        """
        ...


@dataclass(frozen=True)
class Change:
    """What the owner of some leaves makes of them: all of it happens, or nothing."""

    of: tuple[CohortId, ...]  # the leaves
    cohorts: Mapping[CohortId, CohortState]  # that take their place: themselves, or what a decision has made of them
    branches: tuple[Branch, ...] = ()  # that the tree gains
    table: OwnState | None = None  # of clients, if the algorithm has one; None: as it was
    spent: tuple[CohortId, ...] = ()  # leaves that have made use of what was credited to them
    credits: Mapping[CohortId, Credit] = field(default_factory=dict)  # to leaves of whatever owner, if they still are


@dataclass(frozen=True)
class Fenced:
    """A commit that was refused, because somebody else owns a cohort by now; nothing has changed."""

    cohort: CohortId
    epoch: int  # that the commit came with
    current: int | None  # None: the cohort is a leaf no more


class Commit(Protocol):
    """The only way in which a cohort's state changes; `commit` is one."""

    def __call__(self, state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState | Fenced:
        """Return the state after a change by the owner of this epoch.

        Raises:
            ValueError: the change leaves a leaf without a state, or has one of a cohort that is none.
        """
        ...


def commit(state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState | Fenced:
    """Return the state after a change by the owner of this epoch; see `Commit`."""
    for cohort in change.of:
        current = state.epoch(cohort) if cohort in state.cohorts else None
        if current != epoch:
            return Fenced(cohort, epoch, current)
    stay = {name: kept for name, kept in state.cohorts.items() if name not in change.of or name in change.cohorts}
    cohorts = {**stay, **change.cohorts}
    tree = CohortTree((*state.tree.branches, *change.branches)) if change.branches else state.tree
    if set(cohorts) != set(tree.leaves) or not set(change.cohorts).isdisjoint(set(state.cohorts) - set(change.of)):
        raise ValueError(
            f"change of {', '.join(change.of)}: expected a state for each leaf that takes their place and no other, "
            f"got those of {', '.join(change.cohorts) or 'none'}; the leaves would be {', '.join(tree.leaves)}"
        )
    owners = {name: kept for name, kept in state.owners.items() if name in cohorts}
    if epoch > 0:
        owners |= dict.fromkeys(change.cohorts, epoch)
    table = state.table if change.table is None else change.table
    credited = {leaf: one for leaf, one in state.credits.items() if leaf in cohorts and leaf not in change.spent}
    for leaf, more in change.credits.items():
        if leaf in cohorts:
            credited[leaf] = credited[leaf].and_of(more.movement, more.weight) if leaf in credited else more
    return replace(state, tree=tree, cohorts=cohorts, table=table, owners=owners, credits=credited)


def commit_as_owner(state: CoordinatorState, change: Change) -> CoordinatorState:
    """Return the state after a change by whoever owns these cohorts now: where all have one owner, that is everybody.

    Raises:
        ValueError: they have different owners.
    """
    after = commit(state, max(map(state.epoch, change.of)), change)
    if isinstance(after, Fenced):
        raise ValueError(f"change of {', '.join(change.of)}: expected cohorts of one owner, got {after}")
    return after


def take_over(state: CoordinatorState, cohorts: Sequence[CohortId]) -> tuple[CoordinatorState, int]:
    """Return the state with a new owner of these leaves, which owns them together, and its epoch.

    Raises:
        KeyError: one of them is no leaf.
    """
    for cohort in cohorts:
        if cohort not in state.cohorts:
            raise KeyError(f"{cohort}: not a leaf; these are: {', '.join(state.cohorts)}")
    epoch = 1 + max(map(state.epoch, cohorts))
    return replace(state, owners={**state.owners, **dict.fromkeys(cohorts, epoch)}), epoch
