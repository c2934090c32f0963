"""Updates that are not numbers: one of them in a mean, and the model is gone."""

from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.forged_updates import ForgedUpdates, Occasion
from auxo.core.client_mod import ClientMod
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
class NotNumbers:
    """Each sends NaN in every place."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedUpdates(attackers, self)

    def forged(self, update: Float32Array, visit: Occasion) -> FloatArray:
        """Return none at all."""
        return np.full(len(update), np.nan)
