"""A little is enough: a shift by as much as honest updates differ (Baruch, Baruch and Goldberg, 2019).

There attackers know the mean and the deviation of each parameter over the honest updates that they hold between them.
Here a client knows its own samples alone, and answers the same whoever else is in its batch. So each takes its honest
update for the mean, which suits the cohort that it is in, and tells deviations from what its two halves give. All shift
the same way, down, and that is what they have agreed upon.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import ClientMod, Do
from auxo.core.settings import PositiveFloat, checked, setting
from auxo.core.types import FloatArray


@dataclass(frozen=True)
@checked
class Alie:
    """Each sends its update, less by some deviations in every parameter."""

    deviations: PositiveFloat = setting(
        1.5, "How many deviations: more harm the model more, and are easier to tell (z in the paper of the attack)."
    )

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ShiftedUpdates(attackers, self.deviations)


@dataclass(frozen=True)
class ShiftedUpdates:
    """The mod of these attackers."""

    attackers: Attackers
    deviations: float

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield what each sends; attackers train twice more."""
        lies = self.attackers.among(device.clients)
        for row, answer in enumerate(list(do(asks, device))):  # all first: training again takes the memory of updates
            if isinstance(answer, Failure) or not lies[row]:
                yield answer
                continue
            honest = answer.update.astype(np.float64)
            shifted = honest - self.deviations * _deviations(asks[row], answer, row, device)
            yield replace(answer, update=shifted.astype(np.float32))


def _deviations(ask: Ask, answer: Answer, row: int, device: Device) -> FloatArray:
    """Return the deviation of each parameter between what the halves of a client's samples give; 0: nobody can tell."""
    halves = []
    for fold in (0, 1):
        (half,) = device.train(answer.model or 0, [row], [replace(ask, fold=fold)])
        if isinstance(half, Failure):
            return np.zeros(len(answer.update))
        halves.append(half.update.astype(np.float64))
    return np.asarray(np.abs(halves[0] - halves[1]) / np.sqrt(2))
