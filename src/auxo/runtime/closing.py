"""How a round closes: answers -> gather -> the algorithm's close, from one value, so that it can be done anywhere.

What becomes of the tree is the coordinator's; see `coordinator`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.aggregators import WeightedMean
from auxo.core.asking import LEAST_LOSS, Answer, Failure
from auxo.core.client_mod import ClientMod
from auxo.core.cohort_algorithm import Closing, Outcome, Participants, held_by, leaves_of_round
from auxo.core.cohort_state import CohortState, CoordinatorState, Credit
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Examined, Gathered, Returned, gather
from auxo.core.own_state import OwnState
from auxo.core.owners import Shelf
from auxo.core.partition import Outlook
from auxo.core.rng import stream
from auxo.core.thin_models import thinned
from auxo.core.turnout import Times, Turnout
from auxo.core.types import BoolArray, CohortId, Float32Array, FloatArray, IntArray
from auxo.core.usual_updates import UsualUpdates, most_times
from auxo.core.validation import Reason
from auxo.runtime.federation import Federation
from auxo.runtime.threads import one_thread
from auxo.training.trainer import Job


@dataclass(frozen=True)
class Training:
    """What the participants of a round that answer have to do, in the order in which updates are gathered."""

    rows: IntArray  # (jobs,) in Participants
    jobs: Sequence[Job]
    late: BoolArray  # (jobs,) finish after the round has closed
    models: tuple[Float32Array, ...]  # that take part in the round; each job trains one of them
    epochs: int = 1  # that participants do whose work is the usual
    mods: tuple[ClientMod, ...] = ()  # that the answers pass through, where the participants train


@dataclass(frozen=True)
class Closed:
    """What a round came to."""

    gathered: Gathered
    outcome: Outcome | None  # None: no update could be used, and nothing has changed


def closing_of(
    rules: Federation,
    state: CoordinatorState,
    cohort: CohortId,
    participants: Participants,
    times: Times | None = None,
    shelf: Shelf | None = None,
) -> Closing:
    """Return all that a cohort needs to close its round, wherever it does so.

    Leaves that were offered for comparison are as they stand now: one that was partitioned since the round opened is
    offered as the leaves it has become.

    Args:
        rules: of the federation.
        state: with the cohorts of the round; others need not be in it.
        cohort: that opened the round.
        participants: of it.
        times: of these, if somebody has looked at a clock.
        shelf: where the models of other leaves are; None: in the state.
    """
    participants = _offered_now(participants, state.tree)
    offered, leaves = participants.offered, leaves_of_round(cohort, participants.offered)
    shelf = state if shelf is None else shelf
    own = state.cohorts[leaves[0]].server.weights
    return Closing(
        cohort=cohort,
        states=tuple(state.cohorts[leaf] for leaf in leaves),
        participants=participants,
        outlook=Outlook(
            progress=rules.progress(state, cohort),
            total_participants=rules.total_participants,
            cohorts=len(state.tree.leaves),
            check_ins=rules.of(state, cohort).check_ins,
        ),
        share=rules.share(state, cohort),
        table=state.table,
        times=times,
        tree=state.tree,
        shelved={leaf: thinned(shelf.model(leaf), own) for leaf in offered if leaf not in leaves},
        secret=state.secret,
        credits={leaf: state.credits[leaf] for leaf in leaves if leaf in state.credits},
        most_unproved=rules.most_unproved,
    )


def models_of(closing: Closing) -> tuple[Float32Array, ...]:
    """Return the models that take part in a round, in the order in which participants' numbers name them."""
    return (*closing.models, *models_in(closing.states[0])[1:])


def models_in(state: CohortState) -> tuple[Float32Array, ...]:
    """Return a cohort's model, and then those that it holds besides."""
    trained, compared = held_by(state)
    return (*(server.weights for server in (state.server, *trained)), *compared)


def _offered_now(participants: Participants, tree: CohortTree) -> Participants:
    """Return the participants with what the leaves that they were offered have become, in the same order."""
    if set(participants.offered) <= set(tree.leaves):
        return participants
    became = [tree.leaves_of(leaf) for leaf in participants.offered]
    offered = tuple(leaf for leaves in became for leaf in leaves)
    # Who was to train a model that is gone compares those that there are.
    places = [offered.index(leaf) if leaf in offered else LEAST_LOSS for leaf in participants.offered]
    # Models that the cohort holds itself are numbered after those of the leaves.
    before, more = len(participants.offered), len(offered) - len(participants.offered)
    leaf_now = np.array([*places, LEAST_LOSS])
    asks = participants.asks
    held, unsure = asks.model >= before, asks.model < 0
    model = np.where(held, asks.model + more, leaf_now[np.where(held | unsure, LEAST_LOSS, asks.model)])
    judges = asks.judges
    if judges is not None:
        judges = np.where(judges >= before, judges + more, judges)
    first = asks.pre_training
    if first is not None:  # what a leaf has become is found by the leaf's reference
        firsts = [offered.index(leaves[0]) for leaves in became]
        place = [one + more if one >= before else firsts[one] for one in (first.model, *first.references)]
        references = [one for one, leaves in zip(place[1:], became, strict=True) for _ in leaves]
        first = replace(first, model=place[0], references=tuple(references))
    asks = replace(asks, model=np.where(unsure, asks.model, model), judges=judges, pre_training=first)
    return replace(participants, offered=offered, asks=asks)


@one_thread()
def close_round(rules: Federation, closing: Closing, returned: Iterator[Returned]) -> Closed:
    """Gather the answers and let the algorithm learn from them; the selector learns, too.

    In one thread, wherever it is called: K-means of a few thousand points gains nothing by more, and where clients
    train on the same cores its threads wait for each other a hundred times as long as they work.
    """
    mine = {leaf: state.server for leaf, state in zip(closing.leaves, closing.states, strict=True)}
    # What is added to the sum of a leaf that the round is not for is credited to it, see `_credits`.
    servers = [mine.get(leaf, closing.states[0].server) for leaf in closing.participants.offered]
    held, _ = held_by(closing.states[0])  # what is only compared moves by nothing
    sums = [rules.aggregator.accumulate(server) for server in (*servers, *held)]
    closing = replace(closing, averages=isinstance(sums[0], WeightedMean))
    admission = rules.algorithm.admission(closing)
    most = most_times(rules.most_weight, len(closing.participants.clients))
    gathered = gather(returned, rules.fingerprint, admission, sums, closing.states[0].usual, most, closing.unproved)
    gathered = replace(gathered, usual=_usual_here(closing, gathered))
    rng = stream(rules.seed, "cluster", closing.cohort, closing.states[0].round)
    outcome = rules.algorithm.close(closing, gathered, rules.aggregator, rng)
    if outcome is None:
        return Closed(gathered, None)
    turnout, learnt = turnout_of(closing, gathered), list[tuple[OwnState, OwnState]]()

    def learn(before: OwnState) -> OwnState:
        # Leaves that share a round may share what they know, which can be a large table: it is made once.
        for known, after in learnt:
            if known is before:
                return after
        learnt.append((before, rules.selector.learn(before, turnout)))
        return learnt[-1][1]

    states = tuple(replace(state, selection=learn(state.selection), usual=gathered.usual) for state in outcome.states)
    return Closed(gathered, replace(outcome, states=states, credits=_credits(closing, gathered)))


def _usual_here(closing: Closing, gathered: Gathered) -> UsualUpdates:
    """Return what is usual after a round: what was credited to other leaves sets nothing here."""
    foreign = [place for place, leaf in enumerate(closing.participants.offered) if leaf not in closing.leaves]
    moves = np.isin(gathered.rows, gathered.aggregated)
    is_own = moves & ~np.isin(gathered.model, foreign)
    if (is_own == moves).all():
        return gathered.usual
    if closing.unproved is not None:
        is_own &= ~closing.unproved[gathered.rows]
    lengths = gathered.lengths * np.sqrt(gathered.examples)
    return closing.states[0].usual.after(lengths[is_own].tolist(), gathered.examples[is_own].tolist())


def _credits(closing: Closing, gathered: Gathered) -> dict[CohortId, Credit]:
    """Return what participants have learnt of other leaves' models, where updates are averaged."""
    trained = zip(closing.participants.offered, gathered.movements, gathered.weights, strict=False)
    return {
        leaf: Credit(movement, weight)
        for leaf, movement, weight in trained
        if leaf not in closing.leaves and movement is not None and weight > 0
    }


def turnout_of(closing: Closing, gathered: Gathered) -> Turnout:
    """Return what a selector hears of a round: all its participants, with what has come of those that answered."""
    clients, rows, squared = closing.participants.clients, gathered.rows, gathered.squared_losses

    def column(values: FloatArray) -> FloatArray:
        filled = np.full(len(clients), np.nan)
        filled[rows] = values
        return filled

    examples, answered = np.zeros(len(clients), dtype=np.int64), np.zeros(len(clients), dtype=np.bool_)
    examples[rows], answered[rows] = gathered.examples, True
    return Turnout(
        clients=clients,
        answered=answered,
        examples=examples,
        loss=column(gathered.losses),
        squared_loss=column(np.full(len(rows), np.nan) if squared is None else squared),
        length=column(gathered.lengths * np.sqrt(gathered.examples)),
        times=closing.times or Times.unknown(len(clients)),
    )


def returned_by(training: Training, answers: Iterable[Answer | Examined | Reason | Failure]) -> Iterator[Returned]:
    """Yield the answers to the jobs of ``training`` as they come; a failure is nothing."""
    for row, late, answer in zip(training.rows, training.late, answers, strict=True):
        if not isinstance(answer, Failure):
            yield Returned(int(row), answer, bool(late))
