"""ICFL-style incremental clustering: any sample of clients, no number of cohorts to be told; they split and merge.

In the manner of Yan, Tong and Wang, Clustered Federated Learning in Heterogeneous Environment, TNNLS 2023 (doi
10.1109/TNNLS.2023.3264740). Its abstract was available to us and its rules were not, so the rules here are our own, and
its figures must not be held against this. What is theirs: in every round an incremental step attaches new and returning
participants to the clusters there are by the similarity of their updates, and a clustering step splits and merges
clusters by how well they are connected on average.

Incremental: a participant whose update from its cluster's model points to another cluster's model (the cosine of the
update and the difference of the two models) belongs to that one, and moves none this time. Newcomers begin with the
largest. Split: average linkage makes two sides of a cluster's participants; it is split where the mean cosine within
the sides exceeds that across by ``gap``. The smaller side goes on with a copy of the model. Members who were not there
follow when they take part. Merge: of two clusters whose models have moved the same way since the later was made, the
smaller joins the larger.

Clusters are leaves that are there from the beginning, ``most`` of them, and idle until they are needed.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import Closing, InitialModel, Opening, Outcome, Plan, RoundNotes, Start, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_table import UNKNOWN, ByTable, CohortTable, with_members
from auxo.core.gathering import Admission, AdmitAll, Belongs, Examined, Gathered
from auxo.core.matching import Matching
from auxo.core.own_state import OwnState, own
from auxo.core.plain_cohorts import OneRoundForAll
from auxo.core.settings import AtLeastTwo, Bounds, PositiveInt, checked, setting
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

_UpToTwo = Annotated[float, Bounds(ge=0, le=2)]  # as far as cosines can be apart


@dataclass(frozen=True)
class LeavesInUse:
    """Which leaves are in use, and what they began with; the first leaf remembers it for all. Empty: only that one."""

    births: tuple[Float32Array, ...] = ()  # (parameters,) of each leaf; an idle one has none
    rounds: tuple[int, ...] = ()  # in which each was made

    @property
    def used(self) -> tuple[int, ...]:
        """Return the numbers of the leaves in use."""
        return tuple(number for number, birth in enumerate(self.births) if len(birth)) or (0,)

    def after(self, number: int, birth: Float32Array, made: int) -> "LeavesInUse":
        """Return these with one leaf that begins, or with an empty birth ends."""
        births = tuple(birth if place == number else old for place, old in enumerate(self.births))
        return LeavesInUse(births, tuple(made if place == number else old for place, old in enumerate(self.rounds)))


@dataclass(frozen=True)
@checked
class Icfl(OneRoundForAll):
    """Clusters that clients are attached to one by one, and that split and merge, with one round for all of them."""

    most: AtLeastTwo = setting(10, "Clusters at most.")
    attach: _UpToTwo = setting(
        0.2, "Cosine of an update and the way to another cluster from which a client moves there."
    )
    gap: _UpToTwo = setting(0.3, "How far the mean cosine within two sides exceeds that across for a cluster to split.")
    smallest: PositiveInt = setting(5, "Fewest participants of a side.")
    merge: _UpToTwo = setting(0.9, "Cosine of two clusters' ways since the later was made, from which they are one.")
    wait: PositiveInt = setting(5, "Rounds before a cluster can split or merge.")

    own_states = (CohortTable, LeavesInUse)

    @property
    def matching(self) -> Matching:
        """Return that everybody joins the one round that is for all clusters, and uses the model of its own."""
        return ByTable(at_the_root=True)

    def begin(self, initial: InitialModel) -> Start:
        """Return leaves that are all alike; only the first is in use."""
        return Start.in_equal_parts((initial(0),), self.most, CohortTable.empty())

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return that there is one cluster."""
        return LeavesInUse()

    def plan(self, opening: Opening) -> Plan:
        """Return that each trains the model of its cluster, a newcomer that of the largest."""
        leaves, table = opening.tree.leaves, own(CohortTable, opening.table)
        plan = Plan.plain(opening, leaves)
        first = opening.tree.index[leaves[0]]  # the leaves were made together, and follow each other
        used = own(LeavesInUse, opening.state.memory).used
        members = np.bincount(table.cohort - first, minlength=self.most)
        largest = max(used, key=lambda number: int(members[number]))
        known = table.of(opening.selected.clients)
        model = np.where(known == UNKNOWN, largest, known - first)
        return replace(plan, asks=replace(plan.asks, model=model))

    def admission(self, closing: Closing) -> Admission:
        """Return that updates which point to another cluster belong there."""
        used = own(LeavesInUse, closing.states[0].memory).used
        if len(used) == 1:
            return AdmitAll()
        return PointsTo(tuple(state.server.weights for state in closing.states), used, self.attach)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move each cluster's model by the mean of its members, then split clusters, then merge them."""
        if not gathered.used or gathered.placed is None:
            return None
        states = stepped(closing, gathered, aggregator)
        clusters = own(LeavesInUse, states[0].memory)
        if not clusters.births:
            idle = np.zeros(0, dtype=np.float32)
            clusters = LeavesInUse((closing.states[0].server.weights, *(idle,) * (self.most - 1)), (0,) * self.most)
        said = gathered.placed >= 0
        number_of = gathered.placed.copy()
        states, clusters = self._split(states, clusters, gathered, number_of)
        first = closing.tree.index[closing.participants.offered[0]]
        table = with_members(closing, gathered.rows[said], number_of[said])
        states, clusters, table = self._merge(states, clusters, table, first)
        states = (replace(states[0], memory=clusters), *states[1:])
        return Outcome(states, table=table, notes=RoundNotes(children=len(clusters.used)))

    def _split(
        self, states: tuple[CohortState, ...], clusters: LeavesInUse, gathered: Gathered, number_of: IntArray
    ) -> tuple[tuple[CohortState, ...], LeavesInUse]:
        """Return the clusters after those that fall apart have; ``number_of`` is each participant's, and follows."""
        now = states[0].round
        for number in clusters.used:
            idle = sorted(set(range(self.most)) - set(clusters.used))
            members = np.flatnonzero((number_of == number) & (gathered.model == number))
            if not idle or now - clusters.rounds[number] < self.wait or len(members) < 2 * self.smallest:
                continue
            side, gap = two_sides(gathered.directions[members])
            if gap < self.gap or min(side.sum(), (~side).sum()) < self.smallest:
                continue
            number_of[members[side]] = idle[0]
            server = states[number].server
            states = tuple(replace(one, server=server) if place == idle[0] else one for place, one in enumerate(states))
            clusters = clusters.after(idle[0], server.weights, now).after(number, clusters.births[number], now)
        return states, clusters

    def _merge(
        self, states: tuple[CohortState, ...], clusters: LeavesInUse, table: CohortTable, first: int
    ) -> tuple[tuple[CohortState, ...], LeavesInUse, CohortTable]:
        """Return the clusters after those that have gone the same way have become one."""
        now = states[0].round
        for one, other in combinations(clusters.used, 2):
            if not {one, other} <= set(clusters.used):
                continue  # it has been merged just now
            later = max(one, other, key=lambda number: clusters.rounds[number])
            if now - clusters.rounds[later] < self.wait:
                continue
            ways = [states[number].server.weights - clusters.births[later] for number in (one, other)]
            if _cosine(*ways) < self.merge:
                continue
            members = np.bincount(table.cohort - first, minlength=self.most)
            smaller, larger = sorted((one, other), key=lambda number: int(members[number]))
            moves = table.clients[table.cohort == first + smaller]
            table = table.assigned(moves, np.full(len(moves), first + larger))
            clusters = clusters.after(smaller, np.zeros(0, dtype=np.float32), 0)
            server = states[larger].server
            states = tuple(replace(one, server=server) if place == smaller else one for place, one in enumerate(states))
        return states, clusters, table


@dataclass(frozen=True, eq=False)
class PointsTo:
    """An update that leads from its model to another one belongs there, and moves none."""

    models: tuple[Float32Array, ...]
    used: tuple[int, ...]
    attach: float

    def place(self, row: int, examined: Examined, model: int) -> int | Belongs | None:
        """Return the model that was trained, or the one that the update points to."""
        ways = {other: self.models[other] - self.models[model] for other in self.used if other != model}
        cosines = {other: _cosine(examined.answer.update, way) for other, way in ways.items()}
        best = max(cosines, key=lambda other: cosines[other])
        return Belongs(best) if cosines[best] > self.attach else model


def _cosine(one: Float32Array, other: Float32Array) -> float:
    """Return the cosine of two vectors; 0 where one of them is none."""
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.dot(one, other)) / lengths if lengths > 0 else 0.0


def two_sides(directions: FloatArray) -> tuple[BoolArray, float]:
    """Return who is on the smaller of two sides, and by how much the mean cosine within them exceeds that across.

    >>> side, gap = two_sides(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    >>> side.tolist(), gap
    ([False, False, False, True, True], 1.0)
    """
    cosines = directions @ directions.T
    found = AgglomerativeClustering(2, metric="precomputed", linkage="average").fit_predict(1 - cosines)
    side: BoolArray = found == np.bincount(found, minlength=2).argmin()
    same = side[:, None] == side[None, :]
    pairs = ~np.eye(len(side), dtype=np.bool_)
    within = cosines[same & pairs]
    return side, float(within.mean() - cosines[~same].mean()) if len(within) else 0.0
