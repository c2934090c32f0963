"""Sign flip: attackers climb where honest clients descend."""

from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.forged_updates import ForgedUpdates, Occasion
from auxo.core.client_mod import ClientMod
from auxo.core.settings import PositiveFloat, checked, setting
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
@checked
class SignFlip:
    """Each sends its honest update with its sign flipped."""

    times: PositiveFloat = setting(1.0, "How many times as long as the honest update it is.")

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedUpdates(attackers, self)

    def forged(self, update: Float32Array, visit: Occasion) -> FloatArray:
        """Return the way back."""
        return -self.times * update.astype(np.float64)
