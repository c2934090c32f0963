"""An attack that changes nothing, and counts how often each attacker has taken part since the attack began."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auxo.attacks.attackers import Attackers
from auxo.core.asking import Answer, Ask, Device, Failure
from auxo.core.client_mod import ClientMod, Do

VISITS: Counter[int] = Counter()
"""By attacker, of this process; cleared before a run."""


@dataclass(frozen=True)
class Counted:
    """To be named beside other kinds of attack."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return Counting(attackers)


@dataclass(frozen=True)
class Counting:
    """The mod of these attackers."""

    attackers: Attackers

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield what is inside."""
        VISITS.update(device.clients[self.attackers.among(device.clients)].tolist())
        return do(asks, device)
