"""Mimicry: all attackers send what one honest client would, which then counts for many (Karimireddy et al., 2022)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.corruptible import corrupted
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import ClientMod, Do
from auxo.core.rng import stream


@dataclass(frozen=True)
class Mimic:
    """All pretend to be one and the same honest client, drawn at random."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return Disguised(attackers)


@dataclass(frozen=True)
class Disguised:
    """The mod of these attackers: they do all they are asked to with the samples of another."""

    attackers: Attackers

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield what each comes to."""
        rows = np.flatnonzero(self.attackers.among(device.clients)).tolist()
        honest = self.attackers.honest
        if not rows or len(honest) == 0:
            return do(asks, device)
        victim = honest[stream(self.attackers.seed, "mimicked").integers(len(honest))]
        return do(asks, corrupted(device).disguised(rows, int(victim)))
