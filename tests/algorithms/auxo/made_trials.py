"""What judges say, made up, and trials that hear it."""

import numpy as np

from auxo.algorithms.auxo import OnTrial, Pooling
from auxo.algorithms.auxo.evidence import Evidence, Said
from auxo.algorithms.auxo.views import Prints, View
from auxo.core.aggregators import FedAvg, ServerState
from auxo.core.types import BoolArray, FloatArray
from tests.core.made_updates import FINGERPRINT, N_PARAMS

JUDGE_SHARE = 0.25
"""Of the clients, in trials of those that are many."""


def said_of(  # noqa: PLR0913 - one for each thing that judges say
    losses: FloatArray,
    other_losses: FloatArray | None = None,
    *,
    first: int = 0,
    round_: int = 2,
    samples: float = 40.0,
    scores: FloatArray | None = None,
    both: bool | BoolArray = False,
) -> Said:
    """Return what judges say who choose as they are judged, unless they are given other losses; number by number."""
    judges = len(losses)
    told = np.full(losses.shape, np.nan) if scores is None else scores
    return Said(
        seals=first + np.arange(judges),
        rounds=np.full(judges, round_),
        samples=np.full(judges, samples),
        losses=losses,
        scores=told,
        other_losses=losses if other_losses is None else other_losses,
        other_scores=told,
        both=np.broadcast_to(np.asarray(both), judges).copy(),
    )


def two_groups(judges: int, gain: float, models: int = 3) -> FloatArray:
    """Return losses of judges for whom in turn the first and the second branch is better than the own model."""
    losses = np.ones((judges, models))
    losses[np.arange(judges), 1 + np.arange(judges) % 2] = 1 - gain
    return losses


def heard(said: Said, *, everybody: bool = False) -> Evidence:
    """Return the evidence of judges who are heard in one round, after which it is looked."""
    return Evidence.begin(said.losses.shape[1], everybody=everybody).after(said, is_look=True)


def server_at(value: float) -> ServerState:
    """Return a model all of whose parameters are this."""
    return FedAvg().initial(np.full(N_PARAMS, value, dtype=np.float32))


def trial_of(  # noqa: PLR0913 - one for each thing that trials differ in
    rounds: int = 0,
    *,
    branches: int = 2,
    clusters: int = 3,
    everybody: bool = False,
    evidence: Evidence | None = None,
    trials: int = 1,
    others: bool = False,
) -> OnTrial:
    """Return a trial of branches with models 1, 2 ..., whose clusters point along the axes of an update."""
    centres = np.zeros((clusters, N_PARAMS))
    centres[:branches] = np.eye(N_PARAMS)[:branches]
    nothing = np.zeros((1, 0))
    return OnTrial(
        resumes=Pooling(trials=trials, share=1.0 if everybody else JUDGE_SHARE),
        generation=trials,
        view=View(),
        centres=centres,
        common=Prints(np.zeros((1, N_PARAMS)), nothing, nothing),
        blocks=FINGERPRINT.blocks,
        others=others,
        servers=tuple(server_at(1.0 + branch) for branch in range(branches)),
        evidence=evidence or Evidence.begin(1 + branches, everybody=everybody),
        settlers=np.zeros(branches),
        rounds=rounds,
    )
