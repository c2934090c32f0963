"""Attackers that check in with what no cohort has told them."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from auxo.attacks.attackers import Attackers
from auxo.core.affinity import Requests
from auxo.core.columns import with_rows
from auxo.core.types import IntArray

MOST_REWARD, MOST_CONFIRMED = 1.0, 127  # that a record can hold


class ForgesClaims(Protocol):
    """Makes what attackers claim from what they would honestly ask for."""

    def claimed(self, attackers: Attackers, clients: IntArray, requests: Requests) -> Requests:
        """Return what these clients, attackers all, say."""
        ...


@dataclass(frozen=True)
class ForgedClaims:
    """The mod of these attackers; what they send and judge is honest."""

    attackers: Attackers
    by: ForgesClaims

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        """Return what each says."""
        rows = np.flatnonzero(self.attackers.among(clients))
        if len(rows) == 0:
            return requests
        return with_rows(requests, rows, self.by.claimed(self.attackers, clients[rows], requests.take(rows)))


def claim_membership(requests: Requests, cohort: IntArray) -> Requests:
    """Return that each claims to be a tried and trusted member of a cohort, a position in the tree's cohorts."""
    n = len(cohort)
    return replace(
        requests,
        cohort=cohort,
        reward=np.full(n, MOST_REWARD),
        ranked_first=np.ones(n, dtype=np.bool_),
        supported=np.ones(n, dtype=np.bool_),
        confirmed=np.full(n, MOST_CONFIRMED),
    )
