"""The cohort coordinator: it holds the tree and the cohorts, and alone acts on decisions (section 5.1)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

import numpy as np

from auxo.core.cohort_algorithm import Closing, InitialModel, Outcome
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import Branch, CohortTree
from auxo.core.gathering import Gathered
from auxo.core.guard import Shown
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.owners import Change, commit_as_owner
from auxo.core.partition import Keep, Partition
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId
from auxo.runtime.federation import Federation

_SECRET_BYTES = 32


def begun(
    rules: Federation, tree: CohortTree, cohorts: Mapping[CohortId, CohortState], table: OwnState = NOTHING
) -> CoordinatorState:
    """Return these cohorts before their first round; the run's secret follows from the seed, and a server draws one."""
    secret = stream(rules.seed, "secret").bytes(_SECRET_BYTES).hex()
    return CoordinatorState(tree, cohorts, table, guard=rules.guard.begin(), secret=secret)


def start(rules: Federation, initial: InitialModel) -> CoordinatorState:
    """Return the state before the first round: one cohort, or those that the algorithm begins with."""
    begin = rules.algorithm.begin(initial)
    servers = [rules.aggregator.initial(weights) for weights in begin.models]
    root = CohortState(servers[0], memory=rules.algorithm.memory(None), selection=rules.selector.begin())
    state = begun(rules, CohortTree(), {ROOT: root}, begin.table)
    if begin.partition is None:
        return state
    state = commit_as_owner(state, _partitioned(rules, state.tree, {ROOT: root}, ROOT, begin.partition))
    if len(servers) == 1:
        return state
    named = zip(state.cohorts.items(), servers, strict=True)
    own = {leaf: replace(mine, server=server) for (leaf, mine), server in named}
    return commit_as_owner(state, Change(state.tree.leaves, own))


def act(rules: Federation, state: CoordinatorState, closing: Closing, outcome: Outcome) -> CoordinatorState:
    """Return the state after a cohort's round, its decision carried out by whoever owns the cohort now.

    An owner elsewhere commits what is `decided` with the epoch of its own.
    """
    return commit_as_owner(state, decided(rules, state.tree, closing, outcome))


def decided(rules: Federation, tree: CohortTree, closing: Closing, outcome: Outcome) -> Change:
    """Return what a round changes, with what its decision comes to in ``tree``.

    Raises:
        ValueError: the decision cannot be carried out.
    """
    closed = dict(zip(closing.leaves, outcome.states, strict=True))
    match outcome.decision:
        case Keep():
            change = Change(closing.leaves, closed)
        case Partition() as partition:
            change = _partitioned(rules, tree, closed, closing.cohort, partition)
        case other:
            assert_never(other)
    moved = zip(closing.leaves, closing.states, outcome.states, strict=True)
    spent = tuple(leaf for leaf, before, after in moved if after.server.steps != before.server.steps)
    return replace(change, table=outcome.table, spent=spent, credits=outcome.credits)


def struck(
    rules: Federation, state: CoordinatorState, closing: Closing, gathered: Gathered, outcome: Outcome | None
) -> CoordinatorState:
    """Return the state after the guard has seen a round, whatever came of it."""
    clients, claims = closing.participants.clients, closing.participants.claims
    answered, observed = np.zeros(len(clients), dtype=np.bool_), np.full(len(clients), np.nan)
    answered[gathered.rows] = True
    if outcome is not None and outcome.affinities is not None:
        said = outcome.affinities
        observed[gathered.rows] = said.instant_reward if said.observed is None else said.observed
    shown = Shown(
        cohort=closing.cohort,
        round=closing.states[0].round + 1,
        clients=clients,
        answered=answered,
        rejected=(*gathered.rejected, *gathered.unusual),
        claimed=None if claims is None else claims.reward,
        observed=observed,
        proved=None if claims is None or claims.unproved is None else ~claims.unproved,
        forged=None if claims is None else claims.forged,
    )
    return replace(state, guard=rules.guard.strike(state.guard, shown))


def _partitioned(
    rules: Federation,
    tree: CohortTree,
    closed: Mapping[CohortId, CohortState],
    cohort: CohortId,
    partition: Partition,
) -> Change:
    """Replace a cohort, one of those that have closed a round, by its children.

    Each starts from its own model, or from the parent's.

    Raises:
        ValueError: the cohort is no leaf, or the participants do not suffice for one each.
    """
    if cohort not in closed:
        raise ValueError(f"partition of {cohort}: expected a leaf, got a cohort that opens rounds for its descendants")
    parent = closed[cohort]
    branch = Branch(cohort, partition.routes, partition.weights, partition.generation)
    openers = rules.algorithm.openers(CohortTree((*tree.branches, branch)))
    if len(openers) > rules.total_participants:
        raise ValueError(
            f"partition of {cohort}: expected at most as many cohorts as participants a round "
            f"({rules.total_participants}), got {len(openers)}; make fewer, or raise training.participants"
        )
    servers = partition.servers or (parent.server,) * len(partition.weights)
    children = {
        child: replace(child_of(rules, parent), server=server, check_ins=parent.check_ins * weight)
        for child, weight, server in zip(branch.children, partition.weights, servers, strict=True)
    }
    others = {leaf: state for leaf, state in closed.items() if leaf != cohort}
    return Change(tuple(closed), {**others, **children}, (branch,))


def child_of(rules: Federation, parent: CohortState) -> CohortState:
    """Return what a cohort begins with that comes of another: its model, and what its parts make of their memories."""
    return CohortState(
        parent.server,
        parent.round,
        check_ins=parent.check_ins,
        memory=rules.algorithm.memory(parent),
        selection=rules.selector.begin(parent.selection),
        usual=parent.usual,
    )
