"""What participants are charged for: what they have to do, which models they are sent, and what a round has cost."""

from dataclasses import astuple, dataclass
from operator import add

import numpy as np

from auxo.core.asking import NEAREST
from auxo.core.cohort_algorithm import Participants
from auxo.core.folds import size_of
from auxo.core.thin_models import SHARE
from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.simulation.devices import Work, samples_of_steps


@dataclass(frozen=True)
class Spent:
    """Resources so far; wasted ones bought no aggregated update."""

    participations: int = 0
    wasted_participations: int = 0
    device_s: float = 0.0
    wasted_device_s: float = 0.0
    downloads: float = 0.0  # models sent to participants; thin ones count as much as they take to send

    def __add__(self, more: "Spent") -> "Spent":
        return Spent(*map(add, astuple(self), astuple(more)))


def work_of(
    participants: Participants, samples: IntArray, epochs: IntArray, asks_for_loss: bool, batch_size: int
) -> Work:
    """Return what participants have to do: those that compare models are sent all of them, and try each once.

    Others try the one that they are sent, if they are asked for their loss; so do all where there is only one. Who
    pre-trains is sent a model for that, and sends what came of it.
    """
    asks = participants.asks
    own = size_of(asks.fold, samples)
    trained = own * epochs if asks.steps is None else samples_of_steps(own, asks.steps, batch_size)
    first, uploads = asks.pre_training, None
    if first is not None:
        pre_trains = asks.model == NEAREST
        trained = trained + np.where(pre_trains, samples_of_steps(own, first.steps, batch_size), 0)
        uploads = 1 + pre_trains
    downloads = downloads_of(participants)
    compared = asks.compared(len(participants.offered))
    tries = np.where(compared > 1, compared, int(asks_for_loss))
    judged = np.where(samples > 1, samples, 0)  # by one part and chosen by the other, see `auxo.core.asking.Part`
    tried = (own * tries + judged * _judged(participants)).astype(np.int64)
    return Work(trained, tried, downloads, uploads)


def downloads_of(participants: Participants) -> FloatArray:
    """Return how many models each is sent: one of those that it trains or compares is among those that it judges.

    Other cohorts' models are sent thin to those who compare them (`auxo.core.thin_models`).
    """
    asks = participants.asks
    if asks.centres is not None:
        return np.zeros(len(participants.clients))
    compared = asks.compared(len(participants.offered))
    trained = compared - np.where(compared > 1, participants.thin * (1 - SHARE), 0.0)
    return np.asarray(trained + np.maximum(_judged(participants) - 1, 0) + (asks.model == NEAREST))


def cost_of(participants: Participants, device_s: FloatArray, used: BoolArray) -> Spent:
    """Return what a round has cost.

    Args:
        participants: of the round.
        device_s: (participants,) that each has spent on it.
        used: (participants,) whose updates were aggregated; what others spent is wasted.
    """
    return Spent(
        participations=int(used.sum()),
        wasted_participations=int((~used).sum()),
        device_s=float(device_s[used].sum()),
        wasted_device_s=float(device_s[~used].sum()),
        downloads=float(downloads_of(participants).sum()),
    )


def _judged(participants: Participants) -> IntArray:
    asked = participants.asks.judges
    return np.zeros(len(participants.clients), dtype=np.int64) if asked is None else (asked >= 0).sum(axis=1)
