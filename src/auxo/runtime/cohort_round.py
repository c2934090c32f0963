"""One cohort's round from weights to outcome: what it needs is one value, so it can run wherever an engine likes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from auxo.algorithms.auxo import (
    AuxoSettings,
    CohortState,
    Folded,
    Participants,
    Returned,
    RoundOutcome,
    close_round,
    fold_updates,
    server_step,
)
from auxo.core.fingerprint import Fingerprint
from auxo.core.partition import Outlook
from auxo.core.rng import stream
from auxo.core.types import BoolArray, CohortId, IntArray
from auxo.training.trainer import Job, LocalUpdate


@dataclass(frozen=True)
class TrainFailure:
    """A participant that gave no update; a value, because a client's failure is nobody's exception."""

    reason: str


@dataclass(frozen=True)
class CohortRules:
    """What all cohorts of a federation have in common, from its start to its end."""

    settings: AuxoSettings
    n_params: int
    seed: int

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Return the sketch that belongs to this federation."""
        return Fingerprint(self.n_params, self.settings.sketch_size, self.seed)


@dataclass(frozen=True)
class Closing:
    """A cohort whose round closes: its state, who took part, and how things stand for the federation."""

    cohort: CohortId
    state: CohortState
    participants: Participants
    outlook: Outlook
    rate_scale: float  # of the server learning rate


@dataclass(frozen=True)
class Training:
    """What the participants of a round that answer have to do, in the order in which updates are folded."""

    rows: IntArray  # (jobs,) in Participants
    jobs: Sequence[Job]
    late: BoolArray  # (jobs,) finish after the round has closed


def close_cohort(rules: CohortRules, closing: Closing, returned: Iterator[Returned]) -> RoundOutcome | Folded:
    """Aggregate, move the model, cluster, reward and decide.

    Returns:
        The outcome; when no update could be used, what came instead, and nothing has changed.
    """
    alone = closing.outlook.cohorts == 1
    folded = fold_updates(returned, closing.participants, rules.fingerprint, rules.settings, alone)
    if folded.mean is None:
        return folded
    moved = server_step(closing.state, folded, rules.settings, closing.rate_scale)
    rng = stream(rules.seed, "cluster", closing.cohort, closing.state.round)
    return close_round(moved, closing.participants, folded, closing.outlook, rules.settings, rng)


def returned_by(training: Training, answers: Iterable[LocalUpdate | TrainFailure]) -> Iterator[Returned]:
    """Yield the answers to the jobs of ``training`` as they come; a failure is nothing."""
    for row, late, answer in zip(training.rows, training.late, answers, strict=True):
        if not isinstance(answer, TrainFailure):
            yield Returned(int(row), answer.delta, answer.examples, late=bool(late))
