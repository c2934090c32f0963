"""Label flips: attackers whose samples bear wrong labels, and who are honest about all else (section 6.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.corruptible import corrupted
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import ClientMod, Do


@dataclass(frozen=True)
class LabelFlip:
    """Every training sample of an attacker has another class than its own, drawn at random."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return FlippedLabels(attackers)


@dataclass(frozen=True)
class FlippedLabels:
    """The mod of these attackers: they train, compare and judge by wrong labels."""

    attackers: Attackers

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield what each comes to."""
        rows = np.flatnonzero(self.attackers.among(device.clients)).tolist()
        return do(asks, corrupted(device).mislabelled(rows) if rows else device)
