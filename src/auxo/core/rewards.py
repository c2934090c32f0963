"""The server half of cohort selection: how well this round's participants fit their cohort (section 4.3)."""

from dataclasses import dataclass

import numpy as np

from auxo.core.settings import AtLeastTwo, checked, setting
from auxo.core.types import BoolArray, Float32Array, FloatArray

_UNUSUAL = 2.0  # deviations above the mean from which an update is unusually long; measured, see docs/departures.md
_SQUARES_HOLD = 1e-20  # sums of squares of float32 above this, and below its inverse, lose nothing that counts
_ROUNDING = 1e-12  # distances of unit vectors that are no distances
_MAD_TO_STD = 1.4826  # of what is normal


@dataclass(frozen=True)
@checked
class RewardSettings:
    """How a cohort turns distances into instant rewards."""

    min_known: AtLeastTwo = setting(5, "With fewer known participants than this the centre is that of all; our choice.")
    leave_one_out: bool = setting(
        True,
        "Compare a participant with a centre that does not contain it; the paper's does.",
    )
    weigh_length: bool = setting(
        True,
        "Participants whose updates are unusually long are farther from the cohort; not in the paper.",
    )
    scale_by_known: bool = setting(
        True,
        "Scale rewards by the distances of known members alone: newcomers would move the zero, as in the paper.",
    )
    robust: bool = setting(
        False,
        "Medians of distances in place of avg and std, so that a few members that lie do not move the zero; always "
        "where claims are signed.",
    )


def instant_rewards(
    directions: FloatArray, known: BoolArray, settings: RewardSettings, lengths: FloatArray | None = None
) -> FloatArray:
    """Return ``1 - D / (avg(D) + std(D))`` of each participant, in [-1, 1].

    Args:
        directions: (participants, width) updates scaled to length one, the mean not subtracted.
        known: which participants' own records rank this cohort first with a positive reward.
        settings: see `RewardSettings`.
        lengths: (participants,) `relative_length` of the updates; None: directions alone decide.
    """
    n = len(directions)
    if n < 2:
        return np.zeros(n)
    members = known if known.sum() >= settings.min_known else np.ones(n, dtype=np.bool_)
    distance = distances_to_members(directions, members, settings, lengths)
    scale = distance[members] if settings.scale_by_known else distance
    zero = _usual(scale, settings)
    if zero <= _ROUNDING:  # identical updates
        return np.where(distance > _ROUNDING, -1.0, 1.0)
    rewards: FloatArray = np.clip(1.0 - distance / zero, -1.0, 1.0)
    return rewards


def distances_to_members(
    directions: FloatArray, members: BoolArray, settings: RewardSettings, lengths: FloatArray | None = None
) -> FloatArray:
    """Return D of section 4.3 for each participant: the distance to the centre of ``members``.

    Late in training the updates of members are mostly noise, every direction is about as far from the centre as any
    other, and what tells a stranger is that the model still has far to go for it. So a participant whose update is
    longer than avg + 2 std of the members' is moved away in proportion.
    """
    total, count = directions[members].sum(axis=0), int(members.sum())
    inside = (members & settings.leave_one_out & (count > 1))[:, None]
    centres = (total - np.where(inside, directions, 0.0)) / np.maximum(count - inside, 1)
    distance: FloatArray = np.linalg.norm(directions - centres, axis=1)
    if lengths is None or not settings.weigh_length:
        return distance
    usual = float(lengths[members].mean() + _UNUSUAL * lengths[members].std())
    return distance * np.maximum(1.0, lengths / usual) if usual > 0 else distance


def _usual(distances: FloatArray, settings: RewardSettings) -> float:
    """Return avg + std of distances, or what these are for most of them: a few far ones do not move it."""
    if not settings.robust:
        return float(distances.mean() + distances.std())
    middle = float(np.median(distances))
    return middle + _MAD_TO_STD * float(np.median(np.abs(distances - middle)))


@dataclass(frozen=True)
class MembersMeasure:
    """How far from a cohort's members a participant may be that is not one of them."""

    centre: FloatArray  # of the members' directions
    usual_length: float  # 0: lengths do not count
    usual_distance: float  # avg + std over the members, each to the others

    @staticmethod
    def of(directions: FloatArray, lengths: FloatArray, settings: RewardSettings) -> "MembersMeasure":
        """Measure at least one member."""
        everybody = np.ones(len(directions), dtype=np.bool_)
        distances = distances_to_members(directions, everybody, settings, lengths)
        usual = float(lengths.mean() + _UNUSUAL * lengths.std()) if settings.weigh_length else 0.0
        return MembersMeasure(directions.mean(axis=0), usual, _usual(distances, settings))

    def distance(self, direction: FloatArray, length: float) -> float:
        """Return D of section 4.3 for a participant that is not a member."""
        distance = float(np.linalg.norm(direction - self.centre))
        return distance * max(1.0, length / self.usual_length) if self.usual_length > 0 else distance


def relative_length(update: Float32Array, examples: int) -> float:
    """Return the length of an update over the root of its examples, so that data size alone does not make it long."""
    square = float(np.dot(update, update))
    if not _SQUARES_HOLD < square < 1 / _SQUARES_HOLD:  # squares may have been lost, or grown beyond all bounds
        square = float(np.square(update, dtype=np.float64).sum())
    return float(np.sqrt(square / examples))
