"""The cohort coordinator: it holds the tree and the cohorts, and alone acts on decisions (section 5.1)."""

from dataclasses import replace

from auxo.core.cohort_algorithm import Closing, InitialModel, Outcome
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.partition import Partition
from auxo.core.types import ROOT, CohortId
from auxo.runtime.federation import Federation


def start(rules: Federation, initial: InitialModel) -> CoordinatorState:
    """Return the state before the first round: one cohort, or those that the algorithm begins with."""
    begin = rules.algorithm.begin(initial)
    servers = [rules.aggregator.initial(weights) for weights in begin.models]
    root = CohortState(servers[0], memory=rules.algorithm.memory(None), selection=rules.selector.begin())
    state = CoordinatorState(CohortTree(), {ROOT: root}, begin.table)
    if begin.partition is None:
        return state
    state = _partitioned(rules, state, ROOT, begin.partition)
    if len(servers) == 1:
        return state
    named = zip(state.cohorts.items(), servers, strict=True)
    return replace(state, cohorts={leaf: replace(mine, server=server) for (leaf, mine), server in named})


def act(rules: Federation, state: CoordinatorState, closing: Closing, outcome: Outcome) -> CoordinatorState:
    """Return the state after a cohort's round, its decision carried out."""
    closed = dict(zip(closing.participants.offered, outcome.states, strict=True))
    table = state.table if outcome.table is None else outcome.table
    after = replace(state, cohorts={**state.cohorts, **closed}, table=table)
    if isinstance(outcome.decision, Partition):
        return _partitioned(rules, after, closing.cohort, outcome.decision)
    return after


def _partitioned(
    rules: Federation, state: CoordinatorState, cohort: CohortId, partition: Partition
) -> CoordinatorState:
    """Replace a cohort by its children; each starts from its own model, or from the parent's.

    Raises:
        ValueError: the cohort is no leaf, or the participants do not suffice for one each.
    """
    if cohort not in state.cohorts:
        raise ValueError(f"partition of {cohort}: expected a leaf, got a cohort that opens rounds for its descendants")
    parent = state.cohorts[cohort]
    tree = state.tree.partition(cohort, partition.routes, partition.weights, partition.generation)
    cohorts = {name: kept for name, kept in state.cohorts.items() if name != cohort}
    servers = partition.servers or (parent.server,) * len(partition.weights)
    for child, weight, server in zip(tree.branches[-1].children, partition.weights, servers, strict=True):
        cohorts[child] = CohortState(
            server,
            parent.round,
            check_ins=parent.check_ins * weight,
            memory=rules.algorithm.memory(parent),
            selection=rules.selector.begin(parent.selection),
            usual=parent.usual,
        )
    after = replace(state, tree=tree, cohorts=cohorts)
    if len(rules.openers(after)) > rules.total_participants:
        raise ValueError(
            f"partition of {cohort}: expected at most as many cohorts as participants a round "
            f"({rules.total_participants}), got {len(rules.openers(after))}; make fewer, or raise training.participants"
        )
    return after
