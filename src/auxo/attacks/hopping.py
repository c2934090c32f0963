"""Cohort hopping: attackers claim to belong to another cohort at every visit, so that none gets to know them."""

from dataclasses import dataclass

from auxo.attacks.attackers import Attackers, any_leaf
from auxo.attacks.forged_claims import ForgedClaims, claim_membership
from auxo.core.affinity import Requests
from auxo.core.client_mod import ClientMod
from auxo.core.types import IntArray


@dataclass(frozen=True)
class Hopping:
    """Each claims a cohort that is drawn anew for every visit, whatever the target."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedClaims(attackers, self)

    def claimed(self, attackers: Attackers, clients: IntArray, requests: Requests) -> Requests:
        """Return what these say."""
        cohort = any_leaf(requests.tree, attackers.seed, "hop", clients, requests.participations)
        return claim_membership(requests, cohort)
