from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest

from auxo.algorithms.ifca import Ifca
from auxo.core.cohort_state import CoordinatorState, Credit
from auxo.core.cohort_tree import Branch, CohortTree
from auxo.core.owners import Change, Commit, Fenced, commit, commit_as_owner, take_over
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.protocol.codec import to_bytes
from auxo.runtime.coordinator import start
from auxo.testing import ContractBroken, check_commit, check_shelf, owners
from auxo.testing.contract import Check
from auxo.testing.owners import LEFT, RIGHT, MakeShelf
from auxo.testing.small_federation import initial_model, rules_of
from tests.testing.promises import assert_all_can_fail, assert_caught, each_broken, every

TURNS = count()

# Commits.


def _carelessly(state: CoordinatorState, change: Change) -> CoordinatorState:
    stay = {name: kept for name, kept in state.cohorts.items() if name not in change.of}
    tree = CohortTree((*state.tree.branches, *change.branches))
    return replace(state, tree=tree, cohorts={**stay, **change.cohorts})


def _written(state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState | Fenced:
    assert isinstance(state.cohorts, dict)
    state.cohorts.update(change.cohorts)
    return commit(state, epoch, change)


def _unchecked(state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState | Fenced:
    try:
        return commit(state, epoch, change)
    except ValueError:
        return _carelessly(state, change)


def _then(after: CoordinatorState | Fenced, kept: CoordinatorState) -> CoordinatorState | Fenced:
    """Return another state where a commit has gone through."""
    return after if isinstance(after, Fenced) else kept


def _unless_gone(state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState | Fenced:
    after = commit(state, epoch, change)
    return state if isinstance(after, Fenced) and after.current is None else after


WRONG: Mapping[str, Commit] = {
    "idle": lambda state, epoch, change: _then(commit(state, epoch, change), state),
    "overwrites": lambda state, epoch, change: _then(
        commit(state, epoch, change), replace(_carelessly(state, change), table=change)
    ),
    "trusting": lambda state, epoch, change: commit(state, max(map(state.epoch, change.of)), change),
    "trusts the last": lambda state, epoch, change: commit(
        replace(state, owners={**state.owners, LEFT: state.epoch(RIGHT)}), epoch, change
    ),
    "silent": _unless_gone,
    "jealous": lambda state, epoch, change: (
        commit(state, epoch, change) if set(state.owners.values()) == {epoch} else Fenced(change.of[0], epoch, None)
    ),
    "careless": _unchecked,
    "writes": _written,
    "moody": lambda state, epoch, change: (
        Fenced(change.of[0], epoch, None) if next(TURNS) % 2 else commit(state, epoch, change)
    ),
}


@dataclass(frozen=True)
class Commits:
    """Commits as it should, but for one thing."""

    kind: str

    def __call__(self, state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState | Fenced:
        return WRONG[self.kind](state, epoch, change)


BROKEN: list[tuple[Check[Commit], Commit]] = [
    (owners.changes_what_it_is_told_and_nothing_else, Commits("idle")),
    (owners.changes_what_it_is_told_and_nothing_else, Commits("overwrites")),
    (owners.fences_whoever_was_the_owner_before, Commits("trusting")),
    (owners.fences_whoever_was_the_owner_before, Commits("trusts the last")),
    (owners.fences_the_owner_of_a_cohort_that_is_gone, Commits("silent")),
    (owners.leaves_other_owners_alone, Commits("jealous")),
    (owners.makes_all_children_or_none, Commits("careless")),
    (owners.leaves_arguments_alone, Commits("writes")),
    (owners.survives_a_crash, Commits("moody")),
]


@every(owners.COMMITS.checks)
def test_the_commit_that_comes_with_auxo_keeps_the_contract(check: Check[Commit]) -> None:
    check(commit)


@each_broken(BROKEN)
def test_a_commit_that_breaks_a_promise_is_told_which(check: Check[Commit], part: Commit) -> None:
    assert_caught(check, part)


def test_every_promise_of_a_commit_can_be_broken() -> None:
    assert_all_can_fail(owners.COMMITS.checks, BROKEN)
    with pytest.raises(ContractBroken, match="Commits breaks a promise of a commit"):
        check_commit(Commits("trusting"))


# A guest: an owner that wakes up late.


@dataclass(frozen=True)
class Owner:
    """Closes rounds of a cohort with the epoch that it has taken over by, for as long as nobody else has."""

    cohort: CohortId
    epoch: int

    def next_round(self, seen: CoordinatorState) -> Change:
        """Return what comes of the cohort as the owner has seen it last."""
        mine = seen.cohorts[self.cohort]
        return Change((self.cohort,), {self.cohort: replace(mine, round=mine.round + 1)})


@pytest.mark.fault(6, 7)
def test_an_owner_that_wakes_up_late_is_fenced_and_changes_nothing() -> None:
    asleep, epoch = take_over(start(rules_of(Ifca(cohorts=3)), initial_model), (LEFT,))
    sleeper = Owner(LEFT, epoch)
    state, epoch = take_over(asleep, (LEFT,))
    heir = Owner(LEFT, epoch)
    for _ in range(2):
        after = commit(state, heir.epoch, heir.next_round(state))
        assert isinstance(after, CoordinatorState)
        state = after
    before = to_bytes(state)

    assert commit(state, sleeper.epoch, sleeper.next_round(asleep)) == Fenced(LEFT, sleeper.epoch, heir.epoch)
    assert to_bytes(state) == before
    assert state.cohorts[LEFT].round == 2


def test_where_there_was_one_owner_only_a_state_names_none() -> None:
    state = start(rules_of(Ifca(cohorts=3)), initial_model)

    assert (state.owners, state.epoch(LEFT)) == ({}, 0)
    assert commit_as_owner(state, Change((LEFT,), {LEFT: state.cohorts[RIGHT]})).owners == {}


def test_cohorts_of_different_owners_do_not_change_together() -> None:
    state, _ = take_over(start(rules_of(Ifca(cohorts=3)), initial_model), (LEFT,))

    with pytest.raises(ValueError, match=r"change of 0\.1, 0\.0: expected cohorts of one owner"):
        commit_as_owner(state, Change((RIGHT, LEFT), {LEFT: state.cohorts[LEFT], RIGHT: state.cohorts[RIGHT]}))


def test_nobody_takes_over_what_is_no_leaf() -> None:
    with pytest.raises(KeyError, match=r"0: not a leaf; these are: 0\.0, 0\.1, 0\.2"):
        take_over(start(rules_of(Ifca(cohorts=3)), initial_model), (ROOT,))


# Shelves.


@dataclass(frozen=True)
class Copies:
    """A guest: models that were copied elsewhere; it may do one thing wrong."""

    models: Mapping[CohortId, Float32Array]
    kind: str = ""

    def model(self, leaf: CohortId) -> Float32Array:
        if self.kind == "obliging" and leaf not in self.models:
            return self.models[LEFT]
        if self.kind == "moody":
            return self.models[leaf] + np.float32(next(TURNS))
        return self.models[leaf]


def shelf(kind: str) -> MakeShelf:
    def make(state: CoordinatorState) -> Copies:
        copies = {leaf: state.model(leaf).copy() for leaf in state.tree.leaves}
        if kind == "half":
            copies = {leaf: model.astype(np.float16).astype(np.float32) for leaf, model in copies.items()}
        if kind == "lacks one":
            del copies[LEFT]
        return Copies(copies, kind)

    make.__name__ = f"shelf_{kind}"
    return make


SHELVES: list[tuple[Check[MakeShelf], MakeShelf]] = [
    (owners.has_the_model_of_every_leaf, shelf("half")),
    (owners.knows_no_others, shelf("obliging")),
    (owners.stays_as_it_is_when_it_is_read, shelf("moody")),
    (owners.is_all_that_a_round_needs_of_others, shelf("lacks one")),
]


@pytest.mark.parametrize("make", [lambda state: state, shelf("")], ids=["the state", "copies"])
@every(owners.SHELVES.checks)
def test_shelves_keep_the_contract(check: Check[MakeShelf], make: MakeShelf) -> None:
    check(make)


@each_broken(SHELVES)
def test_a_shelf_that_breaks_a_promise_is_told_which(check: Check[MakeShelf], part: MakeShelf) -> None:
    assert_caught(check, part)


def test_every_promise_of_a_shelf_can_be_broken() -> None:
    assert_all_can_fail(owners.SHELVES.checks, SHELVES)
    with pytest.raises(ContractBroken, match="shelf_half breaks a promise of a shelf"):
        check_shelf(shelf("half"))


# Credits.


def _two_leaves() -> CoordinatorState:
    state = start(rules_of(Ifca(cohorts=2)), initial_model)
    assert state.tree.leaves == (LEFT, RIGHT)
    return state


def test_credits_add_up_until_the_leaf_has_made_use_of_them() -> None:
    state, size = _two_leaves(), len(_two_leaves().model(LEFT))
    same = {RIGHT: state.cohorts[RIGHT]}
    once = commit_as_owner(state, Change((RIGHT,), same, credits={LEFT: Credit(np.full(size, 1.0), 10.0)}))
    twice = commit_as_owner(once, Change((RIGHT,), same, credits={LEFT: Credit(np.full(size, 4.0), 20.0)}))

    assert (twice.credits[LEFT].weight, set(twice.credits[LEFT].movement.tolist())) == (30.0, {3.0})
    assert twice.cohorts == state.cohorts  # nobody but its owner changes a cohort
    kept = commit_as_owner(twice, Change((LEFT,), {LEFT: state.cohorts[LEFT]}))
    assert kept.credits == twice.credits  # such as when check-ins are counted
    assert commit_as_owner(twice, Change((LEFT,), {LEFT: state.cohorts[LEFT]}, spent=(LEFT,))).credits == {}


def test_what_is_credited_to_a_cohort_that_is_parted_is_gone() -> None:
    state, size = _two_leaves(), len(_two_leaves().model(LEFT))
    given = {LEFT: Credit(np.ones(size), 1.0)}
    credited = commit_as_owner(state, Change((RIGHT,), {RIGHT: state.cohorts[RIGHT]}, credits=given))
    branch = Branch(LEFT, (0, 1), (0.5, 0.5))
    children = dict.fromkeys(branch.children, state.cohorts[LEFT])
    parted = commit_as_owner(credited, Change((LEFT,), children, (branch,)))

    assert parted.credits == {}
    late = Change((RIGHT,), {RIGHT: state.cohorts[RIGHT]}, credits=given)  # by a round that was opened before
    assert commit_as_owner(parted, late).credits == {}
