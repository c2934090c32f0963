"""Who attacks, and what all of them have agreed upon."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from auxo.core.client_mod import ClientMod
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import random_bits, stream
from auxo.core.types import BoolArray, CohortId, IntArray

Target = Literal["own", "smallest", "random"]
"""Cohorts that attackers go for: each where it would be if it were honest; all the smallest; or each any."""


@dataclass(frozen=True)
class Attackers:
    """A group of clients that collude."""

    clients: IntArray  # rows of the population, ascending
    population: int  # clients that there are, the honest ones included
    seed: int
    target: Target = "own"

    @staticmethod
    def drawn(population: int, share: float, seed: int, target: Target = "own") -> "Attackers":
        """Return a share of the clients, drawn at random; those of a smaller share are among those of a larger one."""
        order = stream(seed, "attackers").permutation(population)
        return Attackers(np.sort(order[: round(share * population)]), population, seed, target)

    def among(self, clients: IntArray) -> BoolArray:
        """Return who of these clients is one of them."""
        return np.isin(clients, self.clients)

    @property
    def honest(self) -> IntArray:
        """Return everybody else."""
        return np.setdiff1d(np.arange(self.population), self.clients)

    def targets(self, tree: CohortTree, clients: IntArray, own: IntArray) -> IntArray:
        """Return the position in ``tree.cohorts`` that each of these attackers goes for, ``own`` if it is that.

        The tree is what feedback tells everybody; how large cohorts are believed to be is in it.
        """
        if self.target == "own":
            return own
        if self.target == "smallest":
            return np.full(len(clients), tree.index[tree.leaves[int(np.argmin(_sizes(tree)))]])
        return any_leaf(tree, self.seed, "target", clients)


@runtime_checkable
class Attack(Protocol):
    """A kind of attack: its settings, and the mod by which attackers carry it out."""

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return what is done to all that clients say; what honest clients say stays as it is."""
        ...


def any_leaf(tree: CohortTree, seed: int, purpose: str, *columns: IntArray) -> IntArray:
    """Return a leaf (position in ``tree.cohorts``) drawn for each row of some columns of numbers."""
    leaves = np.array([tree.index[leaf] for leaf in tree.leaves])
    return np.asarray(leaves[(random_bits(seed, purpose, *columns) % np.uint64(len(leaves))).astype(np.int64)])


def _sizes(tree: CohortTree) -> list[float]:
    """Return the share of all clients that each leaf is believed to have."""
    shares: dict[CohortId, float] = {}
    for branch in tree.branches:
        whole = shares.get(branch.cohort, 1.0) / sum(branch.weights)
        shares |= {child: whole * weight for child, weight in zip(branch.children, branch.weights, strict=True)}
    return [shares.get(leaf, 1.0) for leaf in tree.leaves]
