"""Attackers that train as honest clients do, and send something else in place of what came of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import Do
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
class Occasion:
    """Which attacker has come for which time: what is random about it is named by that."""

    seed: int
    client: int
    number: int

    def normal(self, size: int) -> FloatArray:
        """Return so many standard normal numbers."""
        return stream(self.seed, "forged", self.client, self.number).standard_normal(size)


class Forges(Protocol):
    """Makes what is sent from what an honest client would send."""

    def forged(self, update: Float32Array, visit: Occasion) -> FloatArray:
        """Return the update that is sent; the honest one is not changed in place."""
        ...


@dataclass(frozen=True)
class ForgedUpdates:
    """The mod of these attackers; all else that they say is honest."""

    attackers: Attackers
    by: Forges

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield what each sends."""
        clients, visits = device.clients, device.visits
        lies = self.attackers.among(clients)
        for row, answer in enumerate(do(asks, device)):
            if isinstance(answer, Failure) or not lies[row]:
                yield answer
                continue
            forged = self.by.forged(answer.update, Occasion(self.attackers.seed, int(clients[row]), int(visits[row])))
            yield replace(answer, update=forged.astype(np.float32))
