"""The server half of cohort selection: how well this round's participants fit their cohort (section 4.3)."""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import BoolArray, FloatArray


@dataclass(frozen=True)
class RewardSettings:
    """How a cohort turns distances into instant rewards."""

    min_known: int = 5  # fewer known participants than this: the centre is that of all (our choice)
    leave_one_out: bool = True  # compare a participant with a centre that does not contain it
    scale_by_known: bool = True  # take avg + std over the known; newcomers would otherwise move the zero

    def __post_init__(self) -> None:
        if self.min_known < 2:
            raise ValueError(f"min_known: expected at least 2, got {self.min_known}")


def instant_rewards(directions: FloatArray, known: BoolArray, settings: RewardSettings) -> FloatArray:
    """Return ``1 - D / (avg(D) + std(D))`` of each participant, in [-1, 1].

    Args:
        directions: (participants, width) updates scaled to length one, the mean not subtracted.
        known: which participants' own records rank this cohort first with a positive reward.
        settings: see `RewardSettings`.
    """
    n = len(directions)
    if n < 2:
        return np.zeros(n)
    members = known if known.sum() >= settings.min_known else np.ones(n, dtype=np.bool_)
    total, count = directions[members].sum(axis=0), int(members.sum())
    inside = (members & settings.leave_one_out)[:, None]
    centres = (total - np.where(inside, directions, 0.0)) / (count - inside)
    distance = np.linalg.norm(directions - centres, axis=1)
    scale = distance[members] if settings.scale_by_known else distance
    zero = float(scale.mean() + scale.std())
    if zero <= 1e-12:  # identical updates: what remains is rounding
        return np.where(distance > 1e-12, -1.0, 1.0)
    return np.clip(1.0 - distance / zero, -1.0, 1.0)
