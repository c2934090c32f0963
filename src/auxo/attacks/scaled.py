"""Scaled replacement: updates so long that few of them decide (Bagdasaryan et al., How to backdoor federated learning).

With wrong labels besides, the model is replaced by one that has learnt these.
"""

from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.forged_updates import ForgedUpdates, Occasion
from auxo.core.client_mod import ClientMod
from auxo.core.settings import PositiveFloat, checked, setting
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
@checked
class Scaled:
    """Each sends its update many times as long as it is."""

    times: PositiveFloat = setting(10.0, "How many times as long; from 30 times the usual on an update is refused.")

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedUpdates(attackers, self)

    def forged(self, update: Float32Array, visit: Occasion) -> FloatArray:
        """Return the longer one."""
        return self.times * update.astype(np.float64)
