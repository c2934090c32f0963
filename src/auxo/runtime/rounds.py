"""Rounds over columns: how one opens and what it leaves behind, as pure functions over one state.

match -> there_for -> open_round, then participants train and `closing` learns from their answers, then end_round. The
simulation and `Server` run their rounds by these, and Flower by `Server`. Random streams are named by the cohort and
its attempt, so that it makes no difference which cohort opens first.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.affinity import FeedbackColumns
from auxo.core.claims import on_own_word, unproved_of
from auxo.core.cohort_algorithm import (
    EVERYBODY,
    Claimed,
    Closing,
    Opening,
    Outcome,
    Participants,
    held_by,
    leaves_of_round,
)
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.concentration import in_places, places_for
from auxo.core.folds import HALVES
from auxo.core.gathering import Gathered
from auxo.core.guard import NOBODY, Ban, Bans, Refusals, Unguarded
from auxo.core.matching import CheckIns, Matched
from auxo.core.owners import Change, commit_as_owner
from auxo.core.partial_uploads import draw_skipped
from auxo.core.proofs import FORGED, LED, UNPROVED
from auxo.core.rng import stream
from auxo.core.selectors import SetsWork, UsualWork
from auxo.core.types import BoolArray, CohortId, IntArray
from auxo.runtime.closing import Closed
from auxo.runtime.coordinator import act, struck
from auxo.runtime.federation import Federation

_CHECK_IN_MEMORY = 0.7  # weight of the past in the running mean of check-ins; our choice


@dataclass(frozen=True)
class Arrived:
    """Clients that are there, and whose round each joins if it is selected."""

    check_ins: CheckIns
    matched: Matched
    refused: Refusals = NOBODY  # by the guard, and matched nowhere


@dataclass(frozen=True)
class Candidates:
    """Who is there for a cohort, before anybody is chosen."""

    cohort: CohortId
    arrived: Arrived
    rows: IntArray  # of those who are there for this cohort, ascending
    invited: int  # how many are to take part; `EVERYBODY`: all of them


@dataclass(frozen=True)
class Opened:
    """A round between its opening and its closing."""

    state: CoordinatorState  # which has taken note of who was there
    participants: Participants
    hears_late: bool  # participants that finish too late are heard all the same


@dataclass(frozen=True)
class Ended:
    """What a round leaves behind."""

    state: CoordinatorState
    feedback: FeedbackColumns | None  # to those whose answers were gathered; None: they hear nothing
    banned: tuple[Ban, ...] = ()  # by the guard, for what the round has shown


def match(rules: Federation, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Arrived:
    """Return the check-ins with the cohort that each has found; whom the guard refuses finds none."""
    refused = rules.guard.admit(state.guard, check_ins)
    check_ins = _without_suspects(rules, state, check_ins)
    matched = rules.algorithm.matching.match(state, check_ins, rng)
    return Arrived(check_ins, matched.without(refused.rows), refused)


def _without_suspects(rules: Federation, state: CoordinatorState, check_ins: CheckIns) -> CheckIns:
    """Return the check-ins with no proof for those whom the guard suspects: nobody is held to them."""
    proof = check_ins.requests.proof
    if proof is None or not isinstance(rules.guard, Bans):
        return check_ins
    suspect = rules.guard.are_suspect(state.guard, check_ins.clients) & (proof >= LED)
    if not suspect.any():
        return check_ins
    return replace(check_ins, requests=replace(check_ins.requests, proof=np.where(suspect, UNPROVED, proof)))


def there_for(rules: Federation, state: CoordinatorState, cohort: CohortId, arrived: Arrived) -> Candidates:
    """Return who of those that have arrived is there for a cohort, and how many of them it invites."""
    rows = np.flatnonzero(arrived.matched.cohort == state.tree.index[cohort])
    return Candidates(cohort, arrived, rows, rules.invited(state, cohort))


def open_round(
    rules: Federation, state: CoordinatorState, there: Candidates, attempt: int, chosen: IntArray | None = None
) -> Opened:
    """Select a round's participants among those who are there, and say what each is asked to do.

    Args:
        rules: of the federation.
        state: before the round.
        there: for the cohort that opens it.
        attempt: how often the cohort has tried to open a round before; names the random stream.
        chosen: rows that somebody else has selected, in that order; those beyond the invited are left out. None: the
            selector selects.
    """
    cohort, check_ins, vouched = there.cohort, there.arrived.check_ins, there.arrived.matched.vouched
    rng = stream(rules.seed, "select", cohort, attempt)
    state = _noted(state, cohort, len(there.rows))
    mine = rules.of(state, cohort)
    if chosen is None:
        chosen = _selected(rules, state, mine, there, rng)
    elif there.invited != EVERYBODY:
        chosen = chosen[: there.invited]
    selected = check_ins.take(chosen)
    plan = rules.algorithm.plan(
        Opening(
            cohort=cohort,
            tree=state.tree,
            state=mine,
            selected=selected,
            vouched=vouched[chosen],
            progress=rules.progress(state, cohort),
            share=rules.share(state, cohort),
            table=state.table,
            secret=state.secret,
        )
    )
    plan.check(len(chosen), state.tree, sum(map(len, held_by(mine))))
    asks = replace(plan.asks, reports_loss=rules.asks_for_loss)
    claimed = _claimed(rules, selected.take(plan.rows), vouched[chosen][plan.rows], cohort)
    thin = len(plan.offered) - len(leaves_of_round(cohort, plan.offered))
    participants = Participants(selected.clients[plan.rows], plan.offered, asks, plan.notes, claimed, thin)
    return Opened(state, _with_work(rules, mine, participants, rules.share(state, cohort), rng), plan.hears_late)


def end_round(rules: Federation, state: CoordinatorState, closing: Closing, closed: Closed) -> Ended:
    """Carry out what a cohort has decided, and say what its participants are to hear; nothing of a round without use.

    The guard sees either. ``state`` is the one that ``closing`` was made of.
    """
    before = state
    state = struck(rules, state, closing, closed.gathered, closed.outcome)
    banned = new_bans(rules, before, state)
    if closed.outcome is None:
        return Ended(state, None, banned)
    after = act(rules, state, closing, closed.outcome)
    return Ended(after, _feedback(closing, closed.outcome, closed.gathered, after.tree), banned)


def new_bans(rules: Federation, before: CoordinatorState, after: CoordinatorState) -> tuple[Ban, ...]:
    """Return the bans that a round has brought."""
    if not isinstance(rules.guard, Bans):
        return ()
    known = set(rules.guard.bans(before.guard))
    return tuple(ban for ban in rules.guard.bans(after.guard) if ban not in known)


def _feedback(closing: Closing, outcome: Outcome, gathered: Gathered, tree: CohortTree) -> FeedbackColumns | None:
    """Return the affinity feedback to ``gathered.rows``, if they hear any; ``tree`` is the one after acting."""
    said = outcome.affinities
    if said is None:
        return None
    places = np.array([*(tree.index[leaf] for leaf in closing.participants.offered), -1])
    fold = closing.participants.asks.fold[gathered.rows]
    return FeedbackColumns(
        cohort=closing.cohort,
        tree=tree,
        instant_reward=said.instant_reward,
        similarity=said.similarity,
        fold=np.where(np.isin(fold, HALVES), fold, -1),
        generation=said.generation,
        placed=None if said.placed is None else places[said.placed],
    )


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


def _claimed(rules: Federation, selected: CheckIns, vouched: BoolArray, cohort: CohortId) -> Claimed | None:
    """Return what a round's participants claim of the cohort that opens it; None: nobody wants to know."""
    requests = selected.requests
    if requests.proof is None and isinstance(rules.guard, Unguarded):
        return None
    here = requests.cohort == requests.tree.index.get(cohort, len(requests.tree.cohorts))
    forged = None if requests.proof is None else requests.proof == FORGED
    return Claimed(np.where(here, requests.reward, np.nan), unproved_of(requests, vouched), forged)


def _selected(
    rules: Federation, state: CoordinatorState, mine: CohortState, there: Candidates, rng: np.random.Generator
) -> IntArray:
    """Return whom the selector takes; to one of several cohorts, at most their share of those without a proof."""
    rows, wanted = there.rows, there.invited
    if wanted == EVERYBODY:
        return rows
    arrived = there.arrived
    unproved = on_own_word(arrived.check_ins.requests, arrived.matched.vouched)
    if unproved is not None and len(state.tree.leaves) > 1:
        places = places_for(unproved[rows], wanted, rules.most_unproved)
        if places is not None:
            parts = ((rows[unproved[rows]], places), (rows[~unproved[rows]], wanted - places))
            return in_places(*(_taken(rules, mine, there, some, many, rng) for some, many in parts))
    return _taken(rules, mine, there, rows, wanted, rng)


def _taken(
    rules: Federation, state: CohortState, there: Candidates, rows: IntArray, wanted: int, rng: np.random.Generator
) -> IntArray:
    """Return whom the selector takes; one that breaks its promise is named, for the round would not be what it says."""
    chosen = rules.selector.select(state.selection, there.arrived.check_ins, rows, wanted, rng)
    # Rows ascend and may be many, so they are not searched from end to end.
    places = np.searchsorted(rows, chosen).clip(max=max(len(rows) - 1, 0))
    are_there = len(chosen) == 0 or (len(rows) > 0 and bool((rows[places] == chosen).all()))
    if len(chosen) > wanted or len(np.unique(chosen)) < len(chosen) or not are_there:
        raise ValueError(
            f"{type(rules.selector).__name__}.select: expected at most {wanted} different ones of the {len(rows)} rows "
            f"that are there for the cohort, got {len(chosen)}, of which {len(np.unique(chosen))} different"
        )
    return chosen


def _noted(state: CoordinatorState, cohort: CohortId, count: int) -> CoordinatorState:
    """Return the state after ``count`` clients were there for ``cohort`` at the start of a round."""

    def noted(mine: CohortState) -> CohortState:
        memory = _CHECK_IN_MEMORY if mine.check_ins > 0 else 0.0
        return replace(mine, check_ins=memory * mine.check_ins + (1 - memory) * count)

    leaves = state.tree.leaves_of(cohort)
    return commit_as_owner(state, Change(leaves, {leaf: noted(state.cohorts[leaf]) for leaf in leaves}))
