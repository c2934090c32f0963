"""Gaussian noise in place of updates."""

from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.forged_updates import ForgedUpdates, Occasion
from auxo.core.client_mod import ClientMod
from auxo.core.settings import PositiveFloat, checked, setting
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
@checked
class Noise:
    """Each sends noise that has nothing to do with its samples, other noise at each visit."""

    times: PositiveFloat = setting(10.0, "How many times as long as the honest update it is.")

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedUpdates(attackers, self)

    def forged(self, update: Float32Array, visit: Occasion) -> FloatArray:
        """Return the noise."""
        noise = visit.normal(len(update))
        length, honest = float(np.linalg.norm(noise)), float(np.linalg.norm(update.astype(np.float64)))
        return noise if length == 0 else noise * (self.times * honest / length)
