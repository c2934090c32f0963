"""What judges say, made up, and trials that hear it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from auxo.algorithms.auxo import OnTrial, Pooling
from auxo.algorithms.auxo.evidence import Evidence, Said
from auxo.algorithms.auxo.trial import Shadow
from auxo.algorithms.auxo.views import Prints, View, ViewName
from auxo.core.aggregators import FedAvg, ServerState
from auxo.core.types import BoolArray, FloatArray
from tests.core.made_updates import FINGERPRINT, N_PARAMS

VIEWS: tuple[ViewName, ...] = ("plain", "without frequencies")
"""Of candidates on trial side by side."""


def said_of(  # noqa: PLR0913 - one for each thing that judges say
    losses: FloatArray,
    other_losses: FloatArray | None = None,
    *,
    first: int = 0,
    round_: int = 2,
    samples: float = 40.0,
    scores: FloatArray | None = None,
    both: bool | BoolArray = False,
    errors: FloatArray | None = None,
    kept_out: bool = True,
    far: bool | BoolArray = False,
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
        errors=np.full(losses.shape, np.nan) if errors is None else errors,
        both=np.broadcast_to(np.asarray(both), judges).copy(),
        kept_out=np.full(judges, kept_out),
        far=np.broadcast_to(np.asarray(far), judges).copy(),
    )


def two_groups(judges: int, gain: float, models: int = 3) -> FloatArray:
    """Return losses of judges for whom in turn the first and the second branch is better than the own model.

    The other one is twice as much worse, so that no branch would serve all of them better than the own model does.
    """
    losses, mine = np.ones((judges, models)), np.arange(judges) % 2
    losses[np.arange(judges), 1 + mine] = 1 - gain
    losses[np.arange(judges), 2 - mine] = 1 + 2 * gain
    return losses


def two_groups_and_a_doubtful_third(judges: int) -> Said:
    """Return what judges say of three branches, the last of which one in five would choose, for better or for worse."""
    losses, takes_third = two_groups(judges, 0.2, models=4), np.arange(judges) % 5 == 0
    losses[:, 3] = np.where(takes_third, np.where(np.arange(judges) // 5 % 2 == 0, 0.1, 1.5), 2.0)
    others = two_groups(judges, 0.2, models=4)
    others[:, 3] = np.where(takes_third, 0.1, 2.0)
    return said_of(losses, others, round_=3)


def begun(models: int, *, everybody: bool = False) -> Evidence:
    """Return the evidence of a trial of a single candidate with so many models, the own one among them."""
    return Evidence.begin([models - 1], everybody=everybody)


def heard(said: Said, branches: Sequence[int] = (), *, everybody: bool = False) -> Evidence:
    """Return the evidence of judges who are heard in one round, after which it is looked.

    ``branches`` are those of each candidate; none: all are of a single one.
    """
    candidates = branches or [said.losses.shape[1] - 1]
    return Evidence.begin(candidates, everybody=everybody).after(said, is_look=True)


def settled(evidence: Evidence, steepness: float = 0.0) -> Evidence:
    """Return it where the own model's loss has fallen with this power of the rounds, all of which were heard."""
    rounds = np.arange(16.0)
    usual = (1 + rounds) ** -steepness
    return replace(evidence, course=np.stack([rounds, usual, 0.001 * usual, np.full(16, 60.0)], axis=1))


def server_at(value: float) -> ServerState:
    """Return a model all of whose parameters are this."""
    return FedAvg().initial(np.full(N_PARAMS, value, dtype=np.float32))


def trial_of(
    rounds: int = 0,
    *,
    branches: Sequence[int] = (2,),
    everybody: bool = False,
    evidence: Evidence | None = None,
    trials: int = 1,
    others: bool = False,
) -> OnTrial:
    """Return a trial of candidates with so many branches each, whose models are 1, 2 ... one after another.

    Clusters of the first point along the axes of an update, those of the second along the same ones backwards.
    """
    nothing, shadows = np.zeros((1, 0)), []
    for candidate, count in enumerate(branches):
        first = 1 + sum(branches[:candidate])
        axes = np.eye(N_PARAMS)[:: -1 if candidate else 1]
        servers = tuple(server_at(float(first + branch)) for branch in range(count))
        shadows.append(Shadow(View(VIEWS[candidate]), axes[:count], servers))
    return OnTrial(
        resumes=Pooling(trials=trials, everybody=everybody, bets=trials * everybody),
        generation=trials,
        common=Prints(np.zeros((1, N_PARAMS)), nothing, nothing),
        blocks=FINGERPRINT.blocks,
        others=others,
        shadows=tuple(shadows),
        evidence=evidence or Evidence.begin(branches, everybody=everybody),
        seen=np.zeros(0, dtype=np.int64),
        rounds=rounds,
    )
