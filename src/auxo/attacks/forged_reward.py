"""Forged rewards: attackers claim the highest reward for a cohort that they need never have seen."""

from dataclasses import dataclass

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.attacks.forged_claims import ForgedClaims, claim_membership
from auxo.core.affinity import Requests
from auxo.core.client_mod import ClientMod
from auxo.core.types import IntArray


@dataclass(frozen=True)
class ForgedReward:
    """Each claims reward 1, and that comparisons have confirmed it, for the cohort that is the target."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedClaims(attackers, self)

    def claimed(self, attackers: Attackers, clients: IntArray, requests: Requests) -> Requests:
        """Return what these say; a newcomer that goes for its own cohort has none to claim."""
        honest = np.flatnonzero((requests.cohort < 0) & (attackers.target == "own"))
        claims = claim_membership(requests, attackers.targets(requests.tree, clients, requests.cohort))
        if len(honest):
            for name in ("reward", "ranked_first", "supported", "confirmed"):
                getattr(claims, name)[honest] = getattr(requests, name)[honest]
        return claims
