"""How a round opens: check-ins -> match -> select -> plan -> work, as one pure function over one state.

The simulation and `Server` open rounds by it, and so does whatever else runs cohorts.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.cohort_algorithm import EVERYBODY, Opening, Participants, held_by
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.matching import CheckIns, Matched
from auxo.core.partial_uploads import draw_skipped
from auxo.core.selectors import SetsWork, UsualWork
from auxo.core.types import CohortId, IntArray
from auxo.runtime.federation import Federation

_CHECK_IN_MEMORY = 0.7  # weight of the past in the running mean of check-ins; our choice


@dataclass(frozen=True)
class Opened:
    """A round between its opening and its closing."""

    state: CoordinatorState  # which has taken note of who was there
    participants: Participants
    hears_late: bool  # participants that finish too late are heard all the same


@dataclass(frozen=True)
class TooFew:
    """Fewer clients are there for the cohort than it would invite, and nothing has changed."""

    found: int


@dataclass(frozen=True)
class Arrived:
    """Clients that are there, and whose round each joins if it is selected."""

    check_ins: CheckIns
    matched: Matched


def match(rules: Federation, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Arrived:
    """Return the check-ins with the cohort that each has found."""
    return Arrived(check_ins, rules.algorithm.matching.match(state, check_ins, rng))


def open_round(
    rules: Federation,
    state: CoordinatorState,
    cohort: CohortId,
    arrived: Arrived,
    rng: np.random.Generator,
    at_least: int = 0,
) -> Opened | TooFew:
    """Select a round's participants among those who are there, and say what each is asked to do.

    Args:
        rules: of the federation.
        state: before the round.
        cohort: that opens it.
        arrived: everybody who is there, for this cohort or another.
        rng: of this attempt's selection.
        at_least: how many must be there for the cohort, or else nothing happens.
    """
    check_ins, matched = arrived.check_ins, arrived.matched
    rows = np.flatnonzero(matched.cohort == state.tree.index[cohort])
    if len(rows) < at_least:
        return TooFew(len(rows))
    state = _noted(rules, state, cohort, len(rows))
    mine = rules.of(state, cohort)
    invited = rules.invited(state, cohort)
    chosen = rows if invited == EVERYBODY else _selected(rules, mine, check_ins, rows, invited, rng)
    selected = check_ins.take(chosen)
    plan = rules.algorithm.plan(
        Opening(
            cohort=cohort,
            tree=state.tree,
            state=mine,
            selected=selected,
            vouched=matched.vouched[chosen],
            progress=rules.progress(state, cohort),
            share=rules.share(state, cohort),
            table=state.table,
        )
    )
    plan.check(len(chosen), state.tree, sum(map(len, held_by((mine,)))))
    asks = replace(plan.asks, reports_loss=rules.asks_for_loss)
    participants = Participants(selected.clients[plan.rows], plan.offered, asks, plan.notes)
    return Opened(state, _with_work(rules, mine, participants, rules.share(state, cohort), rng), plan.hears_late)


def _with_work(
    rules: Federation, state: CohortState, participants: Participants, share: int, rng: np.random.Generator
) -> Participants:
    """Return the participants with what the selector asks of each besides its plan, if it does.

    Without layers nobody knows the model's tensors, and all of an update is sent.
    """
    asks = participants.asks
    has_its_own = asks.steps is not None or asks.centres is not None  # and epochs would undo it
    if has_its_own or not isinstance(rules.selector, SetsWork):
        return participants
    count = len(participants.clients)
    asked = rules.selector.work(state.selection, participants.clients, UsualWork(share, rules.epochs))
    asked.check(count, type(rules.selector).__name__)
    parts = (asked.upload < 1).any() and rules.layers
    skipped = draw_skipped(asked.upload, len(rules.layers), rng) if parts else None
    return replace(participants, asks=replace(asks, epochs=asked.epochs, skipped=skipped))


def _selected(
    rules: Federation,
    state: CohortState,
    check_ins: CheckIns,
    rows: IntArray,
    wanted: int,
    rng: np.random.Generator,
) -> IntArray:
    """Return whom the selector takes; one that breaks its promise is named, for the round would not be what it says."""
    chosen = rules.selector.select(state.selection, check_ins, rows, wanted, rng)
    # Rows ascend and may be many, so they are not searched from end to end.
    places = np.searchsorted(rows, chosen).clip(max=max(len(rows) - 1, 0))
    are_there = len(chosen) == 0 or (len(rows) > 0 and bool((rows[places] == chosen).all()))
    if len(chosen) > wanted or len(np.unique(chosen)) < len(chosen) or not are_there:
        raise ValueError(
            f"{type(rules.selector).__name__}.select: expected at most {wanted} different ones of the {len(rows)} rows "
            f"that are there for the cohort, got {len(chosen)}, of which {len(np.unique(chosen))} different"
        )
    return chosen


def _noted(rules: Federation, state: CoordinatorState, cohort: CohortId, count: int) -> CoordinatorState:
    """Return the state after ``count`` clients were there for ``cohort`` at the start of a round."""

    def noted(mine: CohortState) -> CohortState:
        memory = _CHECK_IN_MEMORY if mine.check_ins > 0 else 0.0
        return replace(mine, check_ins=memory * mine.check_ins + (1 - memory) * count)

    for_whom = {leaf for leaf in state.tree.leaves if leaf == cohort or leaf.startswith(f"{cohort}.")}
    cohorts = {leaf: noted(mine) if leaf in for_whom else mine for leaf, mine in state.cohorts.items()}
    return replace(state, cohorts=cohorts)
