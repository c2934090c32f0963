"""Inner-product manipulation: a short step back, so that the mean points away from where all should go.

After Xie, Koyejo and Gupta (Fall of empires, 2020). There attackers know the mean of all honest updates; here each
takes its own honest one for it, which is what a client can know of its cohort.
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
class InnerProduct:
    """Each sends a part of its honest update, the other way: shorter than usual, hence not conspicuous."""

    part: PositiveFloat = setting(0.5, "Length in parts of the honest update's (epsilon in the paper of the attack).")

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedUpdates(attackers, self)

    def forged(self, update: Float32Array, visit: Occasion) -> FloatArray:
        """Return the short step back."""
        return -self.part * update.astype(np.float64)
