"""The contracts of owners: how a cohort's state is committed, and where other leaves' models are read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from auxo.algorithms.ifca import Ifca
from auxo.algorithms.random_groups import RandomGroups
from auxo.core.asking import LEAST_LOSS, Asks
from auxo.core.cohort_algorithm import Participants
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import Branch
from auxo.core.owners import Change, Commit, Fenced, Shelf, take_over
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.runtime.closing import closing_of
from auxo.runtime.coordinator import start
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect
from auxo.testing.locking import locked
from auxo.testing.small_federation import initial_model, rules_of

MakeShelf = Callable[[CoordinatorState], Shelf]
"""Returns a shelf with the models of a state."""

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
_HALVES = Branch(LEFT, (0, 1), (0.5, 0.5))

COMMITS = Contract[Commit]("a commit", "Commit in auxo.core.owners")
check_commit = COMMITS.check
"""Raises `ContractBroken` unless a way to commit cohorts' states keeps its contract."""

SHELVES = Contract[MakeShelf]("a shelf", "Shelf in auxo.core.owners")
check_shelf = SHELVES.check
"""Raises `ContractBroken` unless a shelf keeps its contract; ``make`` puts the models of a state on one."""


def _begun() -> CoordinatorState:
    """Return three leaves, each with a model of its own."""
    return start(rules_of(Ifca(cohorts=3)), initial_model)


def _trained(state: CoordinatorState, cohorts: Sequence[CohortId]) -> Change:
    """Return one more round of some leaves."""
    own = {name: replace(state.cohorts[name], round=state.cohorts[name].round + 1) for name in cohorts}
    return Change(tuple(cohorts), own)


def _parted(state: CoordinatorState) -> Change:
    """Return a partition of a leaf."""
    return Change((LEFT,), dict.fromkeys(_HALVES.children, state.cohorts[LEFT]), (_HALVES,))


def _changes(state: CoordinatorState) -> Iterator[Change]:
    """Yield a round of one leaf, one of several that are one, and a partition."""
    yield _trained(state, (LEFT,))
    yield _trained(state, (RIGHT, LEFT))
    yield _parted(state)


def _committed(commit: Commit, state: CoordinatorState, epoch: int, change: Change) -> CoordinatorState:
    after = commit(state, epoch, change)
    if isinstance(after, Fenced):
        expect(False, "that the owner may change its cohorts", after)
        return state
    return after


@COMMITS.promise
def changes_what_it_is_told_and_nothing_else(commit: Commit) -> None:
    """After a commit of its owner a cohort has the new state; all others, the tree and the table are as they were."""
    for change in _changes(_begun()):
        state, epoch = take_over(_begun(), change.of)
        after = _committed(commit, state, epoch, change)
        for name, mine in {**state.cohorts, **change.cohorts}.items():
            if name in after.tree.leaves:
                expect_same(after.cohorts.get(name), mine, f"the new state of {name}, or that it had")
        expect_same(after.tree.branches, (*state.tree.branches, *change.branches), "the tree with its new branches")
        expect_same(after.table, state.table, "the table as it was")
        again = _committed(commit, after, epoch, Change(tuple(change.cohorts), change.cohorts))
        expect_same(again.cohorts, after.cohorts, "that the owner may go on, also with children")


@COMMITS.promise
def fences_whoever_was_the_owner_before(commit: Commit) -> None:
    """A commit with the epoch of an earlier owner is refused as a value, whatever it changes."""
    for change in _changes(_begun()):
        first, early = take_over(_begun(), change.of)
        state, _ = take_over(first, (LEFT,))
        refused = commit(state, early, change)
        expect(isinstance(refused, Fenced), "Fenced", type(refused).__name__)
        if isinstance(refused, Fenced):
            found = refused.cohort, refused.epoch, refused.current
            expect(found == (LEFT, early, early + 1), f"that {LEFT} is another's, of epoch {early + 1}", found)


@COMMITS.promise
def fences_the_owner_of_a_cohort_that_is_gone(commit: Commit) -> None:
    """A commit to a cohort that its new owner has partitioned is refused, and so is one to the children."""
    first, early = take_over(_begun(), (LEFT,))
    late = _trained(first, (LEFT,))
    state, epoch = take_over(first, (LEFT,))
    state = _committed(commit, state, epoch, _parted(state))
    for change in (late, _trained(state, _HALVES.children)):
        refused = commit(state, early, change)
        expect(isinstance(refused, Fenced), "Fenced", type(refused).__name__)


@COMMITS.promise
def leaves_other_owners_alone(commit: Commit) -> None:
    """That a cohort has a new owner, or that one commits, does not fence the owners of others."""
    state, left = take_over(_begun(), (LEFT,))
    state, right = take_over(take_over(state, (RIGHT,))[0], (RIGHT,))  # a later epoch than the other's
    state = _committed(commit, state, left, _parted(state))
    state = _committed(commit, state, right, _trained(state, (RIGHT,)))
    state = _committed(commit, state, left, _trained(state, _HALVES.children))
    expect(state.cohorts[RIGHT].round == 1, f"the round 1 of {RIGHT}", state.cohorts[RIGHT].round)


@COMMITS.promise
def makes_all_children_or_none(commit: Commit) -> None:
    """A partition that lacks a child, keeps the parent or brings a stranger is a ValueError."""
    state = _begun()
    whole, mine = _parted(state), state.cohorts[LEFT]
    wrong = {
        "a child is missing": dict(list(whole.cohorts.items())[1:]),
        "the parent stays": {**whole.cohorts, LEFT: mine},
        "a stranger comes": {**whole.cohorts, CohortId("0.9"): mine},
        "another's leaf changes": {**whole.cohorts, RIGHT: mine},
    }
    for what, cohorts in wrong.items():
        try:
            commit(state, state.epoch(LEFT), replace(whole, cohorts=cohorts))
        except ValueError:
            continue
        expect(False, f"a ValueError where {what}", "none")


@COMMITS.promise
def leaves_arguments_alone(commit: Commit) -> None:
    """It takes a state and returns the next: neither it nor the change is written to."""
    for change in _changes(_begun()):
        state, epoch = take_over(_begun(), change.of)
        before = to_bytes(state)
        with locked(state, change):
            commit(state, epoch, change)
            commit(state, epoch - 1, change)
        expect(to_bytes(state) == before, "the state as it was", "another")


@COMMITS.promise
def survives_a_crash(commit: Commit) -> None:
    """Who owns what goes through the codec: after reading the state back the same commits are refused."""
    state, epoch = take_over(_begun(), (LEFT,))
    state = _committed(commit, state, epoch, _parted(state))
    state, _ = take_over(state, (RIGHT,))
    again = from_bytes(CoordinatorState, to_bytes(state), rules_of(Ifca(cohorts=3)).own_states)
    for leaf in state.tree.leaves:
        for number in (0, epoch, epoch + 1):
            one, other = (commit(kept, number, _trained(state, (leaf,))) for kept in (state, again))
            expect(isinstance(one, Fenced) == isinstance(other, Fenced), "the same verdict", (one, other))


@SHELVES.promise
def has_the_model_of_every_leaf(make: MakeShelf) -> None:
    """It has each leaf's model to the bit, as float32."""
    state = _begun()
    shelf = make(state)
    for leaf in state.tree.leaves:
        expect_same(np.asarray(shelf.model(leaf)), state.model(leaf), f"the model of {leaf}")


@SHELVES.promise
def knows_no_others(make: MakeShelf) -> None:
    """A cohort that is no leaf has no model there: to ask for it is a KeyError."""
    shelf = make(_begun())
    for name in (ROOT, CohortId("0.9"), CohortId("")):
        try:
            found = shelf.model(name)
        except KeyError:
            continue
        expect(False, f"a KeyError for {name!r}", f"an array of shape {found.shape}")


@SHELVES.promise
def stays_as_it_is_when_it_is_read(make: MakeShelf) -> None:
    """To read it changes nothing: a model is the same however often it is asked for, and so is the state."""
    state = _begun()
    before, shelf = to_bytes(state), make(state)
    with locked(state):
        first = {leaf: np.array(shelf.model(leaf)) for leaf in state.tree.leaves}
        for leaf in (*state.tree.leaves, *reversed(state.tree.leaves)):
            expect_same(np.asarray(shelf.model(leaf)), first[leaf], f"the same model of {leaf} again")
    expect(to_bytes(state) == before, "the state as it was", "another")


@SHELVES.promise
def is_all_that_a_round_needs_of_others(make: MakeShelf) -> None:
    """A cohort that has its own state and the shelf closes its round as one that has everybody's state."""
    rules, state = rules_of(RandomGroups(cohorts=3)), _begun()
    asked = Participants(np.arange(3), (RIGHT, LEFT), Asks(np.full(3, -1), np.full(3, LEAST_LOSS)))
    alone = replace(state, cohorts={RIGHT: state.cohorts[RIGHT]})
    whole = closing_of(rules, state, RIGHT, asked)
    expect_same(closing_of(rules, alone, RIGHT, asked, shelf=make(state)), whole, "the same closing")
