"""A dendrogram: clusters joined two by two, those first that lose least by having one model.

It is built from how alike participants' updates are, which is only a guess at what is worth a model of its own; a trial
prunes it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from auxo.core.types import FloatArray, IntArray


@dataclass(frozen=True)
class Alikeness:
    """How alike the updates of clusters are, summed over rounds: nothing in it belongs to a client."""

    products: FloatArray  # (clusters, clusters) inner products over pairs of different participants, summed
    pairs: FloatArray  # (clusters, clusters) how many pairs
    members: FloatArray  # (clusters,) participants nearest to each

    @staticmethod
    def none(clusters: int) -> "Alikeness":
        """Return that of no round."""
        return Alikeness(np.zeros((clusters, clusters)), np.zeros((clusters, clusters)), np.zeros(clusters))

    def after(self, directions: FloatArray, labels: IntArray, nearest: IntArray) -> "Alikeness":
        """Return the sums with one more round.

        Args:
            directions: (participants, width) updates scaled to length one.
            labels: (participants,) cluster index that each brought along; -1: none.
            nearest: (participants,) cluster that each is nearest to now.
        """
        clusters = len(self.members)
        member = (labels[:, None] == np.arange(clusters)[None, :]).astype(np.float64)
        sums, count = member.T @ directions, member.sum(axis=0)
        own = member.T @ (directions**2).sum(axis=1)
        return Alikeness(
            self.products + sums @ sums.T - np.diag(own),
            self.pairs + np.outer(count, count) - np.diag(count),
            self.members + np.bincount(nearest, minlength=clusters),
        )

    @property
    def weights(self) -> FloatArray:
        """Return the share of the participants in each cluster."""
        return self.members / max(float(self.members.sum()), 1.0)

    def worth(self, group: list[int], updates: float) -> float:
        """Return what a model of these clusters' own gives their members, as a share of what they need.

        With a signal of squared length b in each update a mean of n of them holds the share n b / (1 + n b) of it.
        """
        pairs = self.pairs[np.ix_(group, group)].sum()
        share = float(self.weights[group].sum())
        common = max(float(self.products[np.ix_(group, group)].sum() / pairs), 0.0) if pairs > 0 else 0.0
        signal = updates * share * common
        return share * common * signal / (1 + signal)


@dataclass(frozen=True)
class Dendrogram:
    """Branches (numbers 0 to ``branches`` - 1), and a node for every time that two of what there is are joined."""

    branch_of: tuple[int, ...]  # (clusters,)
    joins: tuple[tuple[int, int], ...]  # node number branches + i joins these two; the last is the root

    @cached_property
    def branches(self) -> int:
        """Return how many branches there are."""
        return len(self.joins) + 1

    @property
    def root(self) -> int:
        """Return the number of the node that holds everybody."""
        return self.branches + len(self.joins) - 1

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each branch, the nodes that it is in: itself first, the root last."""
        above = {part: self.branches + number for number, join in enumerate(self.joins) for part in join}
        paths = []
        for branch in range(self.branches):
            path = [branch]
            while path[-1] in above:
                path.append(above[path[-1]])
            paths.append(tuple(path))
        return tuple(paths)

    def below(self, node: int) -> tuple[int, ...]:
        """Return the branches that a node holds."""
        return tuple(branch for branch, path in enumerate(self.paths) if node in path)


def grow(alike: Alikeness, updates: float, smallest: float) -> Dendrogram:
    """Return the dendrogram of clusters.

    Args:
        alike: of the clusters.
        updates: that a model of everybody averages, over as many rounds as its steps' noise is averaged over.
        smallest: share of the participants that a branch must have; smaller clusters are joined to others for good.
    """

    def loss(one: list[int], other: list[int]) -> float:
        return alike.worth(one, updates) + alike.worth(other, updates) - alike.worth(one + other, updates)

    groups = [[cluster] for cluster in range(len(alike.members))]
    while len(groups) > 1:
        shares = [float(alike.weights[group].sum()) for group in groups]
        least = int(np.argmin(shares))
        if shares[least] >= smallest:
            break
        small = groups.pop(least)
        best = min(range(len(groups)), key=lambda other: loss(small, groups[other]))
        groups[best] = groups[best] + small
    branch_of = [0] * len(alike.members)
    for branch, group in enumerate(groups):
        for cluster in group:
            branch_of[cluster] = branch
    nodes = dict(enumerate(groups))
    joins: list[tuple[int, int]] = []
    while len(nodes) > 1:
        pairs = [(one, other) for one in nodes for other in nodes if one < other]
        one, other = min(pairs, key=lambda pair: loss(nodes[pair[0]], nodes[pair[1]]))
        nodes[len(groups) + len(joins)] = nodes.pop(one) + nodes.pop(other)
        joins.append((one, other))
    return Dendrogram(tuple(branch_of), tuple(joins))
