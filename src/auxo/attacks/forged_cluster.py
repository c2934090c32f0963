"""Forged cluster indices: attackers name a cohort that was partitioned, and an index that leads where they like."""

from dataclasses import dataclass, replace

import numpy as np

from auxo.attacks.attackers import Attackers, any_leaf
from auxo.attacks.forged_claims import ForgedClaims
from auxo.core.affinity import Requests
from auxo.core.client_mod import ClientMod
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import random_bits
from auxo.core.types import IntArray

_CLUSTERS = 8  # that an index may name where nothing has been partitioned; as many as Auxo makes by default


@dataclass(frozen=True)
class ForgedCluster:
    """Each claims the index that leads to its target; without one, to a leaf that is drawn, and never to its own."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return ForgedClaims(attackers, self)

    def claimed(self, attackers: Attackers, clients: IntArray, requests: Requests) -> Requests:
        """Return what these say; before the first partition any index in the root."""
        tree = requests.tree
        if not tree.branches:
            index = (random_bits(attackers.seed, "index", clients) % np.uint64(_CLUSTERS)).astype(np.int64)
            return replace(requests, cluster=index, ranked_first=requests.cohort >= 0)
        leaf = attackers.targets(tree, clients, any_leaf(tree, attackers.seed, "index", clients))
        if attackers.target != "smallest":  # who is led to its own cohort has told the truth
            leaves = np.flatnonzero(tree.is_leaf)
            leaf = np.where(leaf == requests.cohort, np.roll(leaves, -1)[np.searchsorted(leaves, leaf)], leaf)
        ways = np.array([_way_to(tree, position) for position in leaf.tolist()])
        cohort, cluster, generation = ways.T
        return replace(
            requests,
            cohort=cohort,
            cluster=cluster,
            generation=generation,
            ranked_first=np.ones(len(clients), dtype=np.bool_),
            supported=np.ones(len(clients), dtype=np.bool_),
        )


def _way_to(tree: CohortTree, position: int) -> tuple[int, int, int]:
    """Return the cohort above a leaf, an index there that leads to the leaf, and the clustering that it belongs to."""
    leaf = tree.cohorts[position]
    branch = next(one for one in tree.branches if leaf in one.children)
    return tree.index[branch.cohort], branch.routes.index(branch.children.index(leaf)), branch.generation
