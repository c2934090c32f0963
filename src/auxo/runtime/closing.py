"""How a round closes: answers -> gather -> the algorithm's close, from one value, so that it can be done anywhere.

What becomes of the tree is the coordinator's; see `coordinator`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from auxo.core.cohort_algorithm import Closing, Outcome, Participants, held_by
from auxo.core.cohort_state import CoordinatorState
from auxo.core.gathering import Gathered, Returned, gather
from auxo.core.partition import Outlook
from auxo.core.rng import stream
from auxo.core.types import BoolArray, CohortId, Float32Array, IntArray
from auxo.runtime.federation import Federation
from auxo.training.trainer import Job, LocalUpdate


@dataclass(frozen=True)
class TrainFailure:
    """A participant that gave no update; a value, because a client's failure is nobody's exception."""

    reason: str


@dataclass(frozen=True)
class Training:
    """What the participants of a round that answer have to do, in the order in which updates are gathered."""

    rows: IntArray  # (jobs,) in Participants
    jobs: Sequence[Job]
    late: BoolArray  # (jobs,) finish after the round has closed
    models: tuple[Float32Array, ...]  # that take part in the round; each job trains one of them


@dataclass(frozen=True)
class Closed:
    """What a round came to."""

    gathered: Gathered
    outcome: Outcome | None  # None: no update could be used, and nothing has changed


def closing_of(rules: Federation, state: CoordinatorState, cohort: CohortId, participants: Participants) -> Closing:
    """Return all that a cohort needs to close its round, wherever it does so."""
    states = tuple(state.cohorts[leaf] for leaf in participants.offered)
    return Closing(
        cohort=cohort,
        states=states,
        participants=participants,
        outlook=Outlook(
            progress=rules.progress(state, cohort),
            total_participants=rules.total_participants,
            cohorts=len(state.tree.leaves),
            check_ins=rules.of(state, cohort).check_ins,
        ),
        share=rules.share(state, cohort),
        table=state.table,
    )


def models_of(closing: Closing) -> tuple[Float32Array, ...]:
    """Return the models that take part in a round, in the order in which participants' numbers name them."""
    trained, compared = held_by(closing.states)
    servers = (*(state.server for state in closing.states), *trained)
    return (*(server.weights for server in servers), *compared)


def close_round(rules: Federation, closing: Closing, returned: Iterator[Returned]) -> Closed:
    """Gather the answers and let the algorithm learn from them; the selector learns, too."""
    trained, _ = held_by(closing.states)
    servers = (*(state.server for state in closing.states), *trained)
    sums = [rules.aggregator.accumulate(server) for server in servers]
    gathered = gather(returned, rules.fingerprint, rules.algorithm.admission(closing), sums)
    rng = stream(rules.seed, "cluster", closing.cohort, closing.states[0].round)
    outcome = rules.algorithm.close(closing, gathered, rules.aggregator, rng)
    if outcome is None:
        return Closed(gathered, None)
    clients = closing.participants.clients[gathered.rows]
    states = tuple(
        replace(state, selection=rules.selector.learn(state.selection, clients, gathered)) for state in outcome.states
    )
    return Closed(gathered, replace(outcome, states=states))


def returned_by(training: Training, answers: Iterable[LocalUpdate | TrainFailure]) -> Iterator[Returned]:
    """Yield the answers to the jobs of ``training`` as they come; a failure is nothing."""
    for row, late, answer in zip(training.rows, training.late, answers, strict=True):
        if not isinstance(answer, TrainFailure):
            yield Returned(
                int(row), answer.delta, answer.examples, bool(late), answer.model, answer.loss, answer.held_out
            )
