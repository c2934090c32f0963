"""The cohort tree: which cohorts there were, which are leaves, where a request of any age leads (section 5.1)."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from auxo.core.types import ROOT, BoolArray, CohortId, FloatArray, IntArray

_CHUNK_ROWS = 32_768  # requests worked on at a time, so that intermediate columns stay in the processor's cache


@dataclass(frozen=True)
class Branch:
    """A partition that has happened: cluster ``k`` of ``cohort`` lives on in child number ``routes[k]``."""

    cohort: CohortId
    routes: tuple[int, ...]  # (clusters,) child number of each cluster
    weights: tuple[float, ...]  # (children,) share of the cohort's members believed to belong to each child
    generation: int = 1  # start of the cohort's clustering that the clusters are numbered in

    def __post_init__(self) -> None:
        children = len(self.weights)
        if children < 2:
            raise ValueError(f"weights: a partition makes at least 2 children, got {children}")
        if sorted(set(self.routes)) != list(range(children)):
            raise ValueError(f"routes: expected every child of 0..{children - 1} to be reached, got {self.routes}")
        if not all(weight > 0 for weight in self.weights):
            raise ValueError(f"weights: expected positive shares, got {self.weights}")

    @property
    def children(self) -> tuple[CohortId, ...]:
        """Return the ids of the children."""
        return tuple(CohortId(f"{self.cohort}.{number}") for number in range(len(self.weights)))


@dataclass(frozen=True)
class CohortTree:
    """An immutable tree of cohorts; only leaves train.

    >>> tree = CohortTree().partition(ROOT, (0, 1, 1), (0.5, 0.5))
    >>> tree.leaves
    ('0.0', '0.1')
    >>> tree.distance(CohortId("0.0"), CohortId("0.1"))
    1
    """

    branches: tuple[Branch, ...] = field(default=())

    def __post_init__(self) -> None:
        alive = {ROOT}
        for branch in self.branches:
            if branch.cohort not in alive:
                raise ValueError(f"branches: {branch.cohort!r} is not a leaf at the time of its partition")
            alive.remove(branch.cohort)
            alive.update(branch.children)

    @cached_property
    def cohorts(self) -> tuple[CohortId, ...]:
        """Return every cohort that ever was, in the order of creation."""
        return (ROOT, *(child for branch in self.branches for child in branch.children))

    @cached_property
    def leaves(self) -> tuple[CohortId, ...]:
        """Return the cohorts that train now, in the order of creation."""
        inner = {branch.cohort for branch in self.branches}
        return tuple(cohort for cohort in self.cohorts if cohort not in inner)

    @cached_property
    def _lineages(self) -> dict[CohortId, tuple[CohortId, ...]]:
        """Return the way from the root down to each cohort, both included."""
        lineages: dict[CohortId, tuple[CohortId, ...]] = {ROOT: (ROOT,)}
        for branch in self.branches:
            lineages |= {child: (*lineages[branch.cohort], child) for child in branch.children}
        return lineages

    def is_below(self, cohort: CohortId, above: CohortId) -> bool:
        """Return whether a cohort came of another by partitions, or is that one; no other is below one that never was.

        Raises:
            KeyError: there never was such a cohort.
        """
        return above in self._lineages[cohort]

    def leaves_of(self, cohort: CohortId) -> tuple[CohortId, ...]:
        """Return what a cohort has become: itself, or the leaves below it; nothing of a cohort that never was."""
        return tuple(leaf for leaf in self.leaves if self.is_below(leaf, cohort))

    @cached_property
    def index(self) -> dict[CohortId, int]:
        """Return each cohort's position in `cohorts`."""
        return {cohort: position for position, cohort in enumerate(self.cohorts)}

    def partition(
        self, cohort: CohortId, routes: tuple[int, ...], weights: tuple[float, ...], generation: int = 1
    ) -> "CohortTree":
        """Return the tree in which ``cohort`` has been replaced by one child for each entry of ``weights``."""
        return CohortTree((*self.branches, Branch(cohort, routes, weights, generation)))

    def distance(self, one: CohortId, other: CohortId) -> int:
        """Return the larger of the two depths below the lowest common ancestor (symmetric in unbalanced trees)."""
        left, right = self._lineages[one], self._lineages[other]
        shared = sum(a == b for a, b in zip(left, right, strict=False))
        return max(len(left), len(right)) - shared

    @cached_property
    def distances(self) -> IntArray:
        """Return the (cohorts, cohorts) matrix of `distance`."""
        return np.array([[self.distance(a, b) for b in self.cohorts] for a in self.cohorts], dtype=np.int64)

    @cached_property
    def descends(self) -> BoolArray:
        """Return the (cohorts, cohorts) matrix of whether the second is the first, or came of it."""
        return np.array([[self.is_below(below, cohort) for below in self.cohorts] for cohort in self.cohorts])

    @cached_property
    def is_leaf(self) -> BoolArray:
        """Return, for each of `cohorts`, whether it trains now."""
        return np.isin(np.array(self.cohorts), np.array(self.leaves))

    @cached_property
    def leaves_by_age(self) -> BoolArray:
        """Return whether each of `cohorts` was a leaf after 0, 1, 2 ... partitions: (partitions + 1, cohorts)."""
        leaves = np.zeros((len(self.branches) + 1, len(self.cohorts)), dtype=np.bool_)
        leaves[:, 0] = True
        for age, branch in enumerate(self.branches, start=1):
            leaves[age:, self.index[branch.cohort]] = False
            leaves[age:, [self.index[child] for child in branch.children]] = True
        return leaves

    @cached_property
    def _first_child(self) -> IntArray:
        first = np.full(len(self.cohorts), -1, dtype=np.int64)
        for branch in self.branches:
            first[self.index[branch.cohort]] = self.index[branch.children[0]]
        return first

    @cached_property
    def _steps(self) -> IntArray:
        """Return where a cluster index leads from each cohort, (cohorts, clusters + 2): -1 where it says nothing.

        The first and the last column stand for indices out of range. A leaf leads to itself, whatever the index.
        """
        width = max((len(branch.routes) for branch in self.branches), default=1)
        table = np.full((len(self.cohorts), width + 2), -1, dtype=np.int64)
        table[self.is_leaf] = np.flatnonzero(self.is_leaf)[:, None]
        for branch in self.branches:
            at = self.index[branch.cohort]
            table[at, 1 : 1 + len(branch.routes)] = self._first_child[at] + np.array(branch.routes)
        return table

    @cached_property
    def _bounds(self) -> FloatArray:
        """Return from which draw on each cohort's next child is taken, (most children - 1, cohorts)."""
        width = max((len(branch.weights) for branch in self.branches), default=1)
        table = np.ones((width - 1, len(self.cohorts)))  # no draw reaches 1
        for branch in self.branches:
            weights = np.cumsum(branch.weights) / sum(branch.weights)
            table[: len(weights) - 1, self.index[branch.cohort]] = weights[:-1]
        return table

    @cached_property
    def _generations(self) -> IntArray:
        numbers = np.zeros(len(self.cohorts), dtype=np.int64)
        for branch in self.branches:
            numbers[self.index[branch.cohort]] = branch.generation
        return numbers

    def resolve(
        self, cohorts: IntArray, clusters: IntArray, generations: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Return the leaf (position in `cohorts`) that each request leads to, whatever its age.

        A request names a cohort (position in `cohorts`; anything else means no preference) and the cluster index the
        client holds there. The first step down follows the cluster index; below that, and where there is no usable
        index, the client is new to the choice and a child is drawn in proportion to its believed members.

        Returns:
            The leaves, and whether the request itself led there without a draw.
        """
        n = len(cohorts)
        leaf, vouched = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        draws = rng.random((self.depth, n))
        for first in range(0, n, _CHUNK_ROWS):
            some = slice(first, first + _CHUNK_ROWS)
            leaf[some], vouched[some] = self._resolve(cohorts[some], clusters[some], generations[some], draws[:, some])
        return leaf, vouched

    def _resolve(
        self, cohorts: IntArray, clusters: IntArray, generations: IntArray, draws: FloatArray
    ) -> tuple[IntArray, BoolArray]:
        known = (cohorts >= 0) & (cohorts < len(self.cohorts))
        at = np.where(known, cohorts, 0)
        width = self._steps.shape[1]
        column = np.clip(clusters, -1, width - 2) + 1
        column *= known & (generations == self._generations[at])
        here = self._steps.ravel()[at * width + column]
        vouched = known
        undecided = np.flatnonzero(here < 0)
        for draw in draws:
            if len(undecided):
                vouched[undecided] = False
                here[undecided] = self._drawn(at[undecided], draw[undecided])
            at, undecided = here, np.flatnonzero(~self.is_leaf[here])
        return here, vouched

    def _drawn(self, at: IntArray, draw: FloatArray) -> IntArray:
        """Return the child of each of these cohorts that the draw falls upon."""
        child = self._first_child[at]
        for bound in self._bounds:
            child += draw >= bound[at]
        return child

    @cached_property
    def depth(self) -> int:
        """Return how many partitions lie between the root and the deepest leaf."""
        return max(map(len, self._lineages.values())) - 1
