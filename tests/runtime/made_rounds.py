"""A federation without a loop, and rounds of made-up participants, for tests of how rounds open and close."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo import Auxo, Pooling
from auxo.core.affinity import FeedbackColumns
from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer, Asks
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import (
    Affinities,
    Closing,
    InitialModel,
    Outcome,
    Participants,
    RoundNotes,
)
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.gathering import Gathered, Returned
from auxo.core.own_state import own
from auxo.core.partition import Partition
from auxo.core.rng import stream
from auxo.core.types import ROOT, BoolArray, CohortId, Float32Array, FloatArray, IntArray
from auxo.runtime.closing import close_round, closing_of
from auxo.runtime.coordinator import act, start
from auxo.runtime.federation import Federation
from auxo.runtime.rounds import end_round
from tests.algorithms.planned_partitions import FOLLOWS, PlannedPartitions

N_PARAMS = 6
WEIGHTS = np.arange(N_PARAMS, dtype=np.float32)
HALVES = Partition((0, 1), (0.25, 0.75))
LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
SETTINGS = replace(FOLLOWS, sharing="equal")
SAME_SECRET = "of all servers in tests"  # noqa: S105 - or their bytes would not be the same
RULES = Federation(SETTINGS, FedAvg(), N_PARAMS, total_participants=10, total_rounds=4, seed=1, overcommit=0.25)


LABELS = replace(RULES, algorithm=PlannedPartitions((), HALVES, SETTINGS))
"""Rules by which labels are given out, and no cohort is partitioned."""


def initial(weights: Float32Array = WEIGHTS) -> InitialModel:
    return lambda number: weights


def begun(rules: Federation = RULES) -> CoordinatorState:
    """Return the state before the first round."""
    return start(rules, initial())


def partitioned(rules: Federation = RULES) -> CoordinatorState:
    """Return a state in which the root has been partitioned before anybody has trained."""
    state = begun(rules)
    nobody = Participants(np.arange(0), (ROOT,), Asks(np.arange(0), np.arange(0)))
    return act(rules, state, closing_of(rules, state, ROOT, nobody), Outcome((state.cohorts[ROOT],), HALVES))


def claims(n: int, *, known: bool | BoolArray = False, label: IntArray | None = None) -> Claims:
    is_known = np.broadcast_to(np.asarray(known), n).copy()
    labels = np.full(n, -1) if label is None else label
    return Claims(
        vouched=is_known,
        known=is_known,
        label=labels,
        generation=np.full(n, 1),
    )


def updates(n: int, seed: int = 0) -> Float32Array:
    """Return updates of two groups in turn, with a direction in common."""
    directions = np.eye(N_PARAMS)[0] + np.eye(N_PARAMS)[1 + np.arange(n) % 2]
    noise = 0.1 * stream(seed, "updates").standard_normal((n, N_PARAMS))
    deltas: Float32Array = (directions + noise).astype(np.float32)
    return deltas


def answers(deltas: Float32Array, late: Sequence[int] = ()) -> list[Returned]:
    return [Returned(row, Answer(delta, row + 1), late=row in late) for row, delta in enumerate(deltas)]


@dataclass(frozen=True)
class Round:
    """A cohort's round that has closed and been acted upon."""

    state: CoordinatorState
    closing: Closing
    gathered: Gathered
    outcome: Outcome
    told: FeedbackColumns

    @property
    def notes(self) -> RoundNotes:
        return self.outcome.notes

    @property
    def similarity(self) -> FloatArray:
        return self.affinities.similarity

    @property
    def affinities(self) -> Affinities:
        assert self.outcome.affinities is not None
        return self.outcome.affinities


def closing_for(
    rules: Federation, state: CoordinatorState, brought: Claims, cohort: CohortId = ROOT, fold: IntArray | None = None
) -> Closing:
    """Return a round that closes, of clients 100, 101 ..."""
    n = len(brought.known)
    folds = np.full(n, -1) if fold is None else fold
    participants = Participants(100 + np.arange(n), (cohort,), Asks(folds, np.zeros(n, dtype=np.int64)), notes=brought)
    return closing_of(rules, state, cohort, participants)


def close(
    rules: Federation,
    state: CoordinatorState,
    returned: list[Returned],
    cohort: CohortId = ROOT,
    brought: Claims | None = None,
    fold: IntArray | None = None,
) -> Round:
    """Close a round that comes to something."""
    closing = closing_for(rules, state, brought or claims(len(returned)), cohort, fold)
    closed = close_round(rules, closing, iter(returned))
    assert closed.outcome is not None
    ended = end_round(rules, state, closing, closed)
    assert ended.feedback is not None
    return Round(ended.state, closing, closed.gathered, closed.outcome, ended.feedback)


def weights_of(state: CoordinatorState, cohort: CohortId = ROOT) -> Float32Array:
    return state.cohorts[cohort].server.weights


def memory_of(state: CohortState) -> Pooling:
    return own(Pooling, state.memory)


def with_auxo(auxo: Auxo, rules: Federation = RULES) -> Federation:
    """Return the rules with other settings of the algorithm."""
    return replace(rules, algorithm=auxo)


def partitioned_at(progress: float) -> Federation:
    """Return rules by which the root is partitioned when a given share of its rounds is done."""
    return replace(RULES, algorithm=PlannedPartitions((progress,), HALVES, SETTINGS))
