"""Return under a new name: attackers shed their record, and are newcomers at every visit.

What a server knows of a client is what it brings along. A guard sees all the same which row of a simulation it is: this
is an attacker that a ban still finds, and nothing else does. Without registered keys it would have another id, too, and
a ban would be worth one visit.
"""

from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.forged_claims import ForgedClaims
from auxo.core.affinity import Requests
from auxo.core.client_mod import ClientMod
from auxo.core.types import IntArray


@dataclass(frozen=True)
class NewName:
    """Each says nothing of any earlier visit."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedClaims(attackers, self)

    def claimed(self, attackers: Attackers, clients: IntArray, requests: Requests) -> Requests:
        """Return what newcomers say: nothing."""
        return Requests.silent(requests.tree, np.zeros(len(clients), dtype=np.int64))
