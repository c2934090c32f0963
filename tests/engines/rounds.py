"""A round to give to any engine, and what must be the same whichever runs it."""

from dataclasses import dataclass

import numpy as np
from auxo.runtime.cohort_round import Closing, CohortRules, Training

from auxo.algorithms.auxo import AuxoSettings, CohortState, Folded, Participants, RoundOutcome
from auxo.core.partition import Outlook
from auxo.core.types import ROOT, Float32Array
from auxo.protocol.codec import to_bytes
from auxo.training.trainer import Job


@dataclass(frozen=True)
class Round:
    """The three arguments of `Engine.run_round`."""

    rules: CohortRules
    closing: Closing
    training: Training


def round_of(weights: Float32Array, jobs: list[Job], number: int = 6) -> Round:
    """Return a round of a cohort among others, in which some are known and every fifth answer is late."""
    settings, n = AuxoSettings(), len(jobs)
    participants = Participants(
        vouched=np.ones(n, dtype=np.bool_),
        known=np.arange(n) < n // 2,
        label=np.full(n, -1),
        label_by_fold=np.full((n, 2), -1),
        generation=np.full(n, -1),
        fold=np.array([-1 if job.fold is None else job.fold for job in jobs], dtype=np.int64),
    )
    state = CohortState(server=settings.aggregator.initial(weights), round=number - 1)
    outlook = Outlook(progress=0.3, total_participants=2 * n, cohorts=2, check_ins=10.0 * n)
    rows = np.arange(n)
    return Round(
        CohortRules(settings, len(weights), seed=5),
        Closing(ROOT, state, participants, outlook, 1.0),
        Training(rows, jobs, rows % 5 == 4),
    )


def bits(outcome: RoundOutcome | Folded) -> tuple[bytes, ...]:
    """Return all that a round leaves behind, bit by bit."""
    assert isinstance(outcome, RoundOutcome)
    folded = outcome.folded
    assert folded.mean is not None
    columns = (folded.mean, folded.rows, folded.late, folded.directions, folded.lengths, folded.aggregated)
    return (
        to_bytes(outcome.state),
        *(column.tobytes() for column in (*columns, outcome.instant_reward, outcome.similarity)),
        repr((folded.misfits, folded.rejected, outcome.verdict)).encode(),
    )
