"""Stores with a small federation in them."""

from dataclasses import replace

from auxo.algorithms.base import OneCohort
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import Branch
from auxo.core.owners import Change
from auxo.core.types import CohortId
from auxo.runtime.coordinator import start
from auxo.runtime.server_record import ServerRecord
from auxo.service.store import Store
from auxo.testing.small_federation import initial_model, rules_of

RULES = rules_of(OneCohort())
KINDS = RULES.own_states


def record_of(state: CoordinatorState) -> ServerRecord:
    """Return the record of a server with this state."""
    return ServerRecord(state, {}, "federation", {})


def begun_in(store: Store) -> None:
    """Have a federation of one cohort in a store."""
    store.begin(record_of(start(RULES, initial_model)))


def trained(state: CoordinatorState, cohort: CohortId) -> Change:
    """Return one more round of a leaf."""
    mine = state.cohorts[cohort]
    return Change((cohort,), {cohort: replace(mine, round=mine.round + 1)})


def parted(state: CoordinatorState, cohort: CohortId) -> Change:
    """Return a partition of a leaf, its children with states of their own."""
    mine, branch = state.cohorts[cohort], Branch(cohort, (0, 1), (0.5, 0.5))
    cohorts = {child: replace(mine, check_ins=place + 1.0) for place, child in enumerate(branch.children)}
    return Change((cohort,), cohorts, (branch,))
