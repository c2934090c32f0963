"""FL+HC: some rounds of one model, then one pass over everybody whose updates are clustered hierarchically, once.

Briggs, Fan and Andras, Federated Learning with Hierarchical Clustering of Local Updates to Improve Training on Non-IID
Data, IJCNN 2020 (arXiv 2004.11791), Algorithm 1. After ``after`` rounds every client, and not a sample of them, trains
the common model; nothing of that moves it. The dendrogram of these updates is cut where clusters are a distance apart,
so the number of cohorts falls out. From there on each cohort is a federation of its own.

The pass waits until the last client has shown up, and all of them are charged. Distances are those of fingerprints,
see `auxo.core.pairwise`. A client that failed in the pass compares the cohorts' models when it comes; the paper has no
such clients.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import pairwise_distances

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import (
    EVERYBODY,
    Circumstances,
    Closing,
    InitialModel,
    Opening,
    Outcome,
    Plan,
    RoundNotes,
    Start,
    stepped,
)
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_table import ByTable, CohortTable, newcomers_compare, with_newcomers
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, AdmitAll, AdmitNone, Gathered
from auxo.core.lost_clients import of_own_model
from auxo.core.matching import Matching
from auxo.core.own_state import NOTHING, OwnState, own
from auxo.core.pairwise import sketched_updates, too_many
from auxo.core.partition import Partition
from auxo.core.settings import NonNegativeInt, PositiveFloat, PositiveInt, checked, setting
from auxo.core.shares import member_shares
from auxo.core.types import CohortId, FloatArray, IntArray

Metric = Literal["cosine", "l2", "l1"]
"""How far apart two updates are: one minus their cosine, or the length of their difference."""

Linkage = Literal["average", "complete", "single", "ward"]
"""How far apart two clusters are."""

_METRICS = {"cosine": "cosine", "l2": "euclidean", "l1": "manhattan"}


@dataclass(frozen=True)
@checked
class FlHc:
    """Fixed cohorts by the dendrogram of everybody's updates after a few rounds."""

    after: NonNegativeInt = setting(
        10, "Rounds of one model before clients are clustered (n); the paper tries 1, 3, 5 and 10."
    )
    threshold: PositiveFloat = setting(
        1.0,
        "Distance up to which clusters are joined (T); the paper tunes it. The default joins those whose updates agree "
        "on average, and is our choice.",
    )
    groups: PositiveInt | None = setting(
        None, "Cohorts to make instead, if their number is told. Not set: what the threshold leads to."
    )
    metric: Metric = setting(
        "cosine",
        "How far apart updates are. The paper recommends l1, whose scale depends on the model, and which is exact only "
        "for models no larger than training.sketch_size.",
    )
    linkage: Linkage = setting("average", "How far apart clusters are; ward goes with l2 only.")

    def __post_init__(self) -> None:
        if self.linkage == "ward" and self.metric != "l2":
            raise ValueError(f'linkage: "ward" needs metric = "l2", got "{self.metric}"; change one of them')

    own_states = (CohortTable,)
    client_half = None

    @property
    def matching(self) -> Matching:
        """Return that the table decides."""
        return ByTable()

    def why_not(self, circumstances: Circumstances) -> str | None:
        """Return that there are too many clients, or too few rounds to come to the clustering."""
        if circumstances.rounds <= self.after:
            return (
                f"clusters clients after round {self.after}, but there are {circumstances.rounds} (training.rounds); "
                "raise it, or lower after of its section"
            )
        return too_many(circumstances.clients)

    def wants(self, state: CohortState, share: int) -> int:
        """Return that everybody takes part in the pass, and in other rounds as many as ever."""
        return EVERYBODY if state.round == self.after else share

    def begin(self, initial: InitialModel) -> Start:
        """Return one model, and a table of nobody."""
        return Start((initial(0),), table=CohortTable.empty())

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return that there is nothing to remember."""
        return NOTHING

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return each cohort's part of the clients: the same fraction of each takes part."""
        return member_shares(tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return that all train the cohort's model on all their samples; strangers look which cohort fits them."""
        return newcomers_compare(opening, Plan.plain(opening))

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts, but in the pass none does."""
        if closing.states[0].round == self.after:
            return AdmitNone()
        return of_own_model(closing, AdmitAll())

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, or after the pass make the cohorts."""
        if closing.states[0].round == self.after:
            return self._cluster(closing, gathered)
        if not gathered.used:
            return None
        return Outcome(stepped(closing, gathered, aggregator), table=with_newcomers(closing, gathered))

    def _cluster(self, closing: Closing, gathered: Gathered) -> Outcome | None:
        in_time = ~gathered.late
        if not in_time.any():
            return None
        states = tuple(replace(state, round=state.round + 1) for state in closing.states)
        found = self.cut(sketched_updates(gathered, in_time), closing.outlook.total_participants)
        shares = np.bincount(found) / len(found)
        if len(shares) == 1:
            return Outcome(states)
        children = len(closing.tree.cohorts) + found  # they are made now
        clients = closing.participants.clients[gathered.rows[in_time]]
        return Outcome(
            states,
            Partition(tuple(range(len(shares))), tuple(shares.tolist())),
            table=own(CohortTable, closing.table).assigned(clients, children),
            notes=RoundNotes(children=len(shares)),
        )

    def cut(self, updates: FloatArray, most: int) -> IntArray:
        """Return the cluster of each update, the largest first; at most ``most`` of them, or cohorts would starve.

        Of clusters as large as each other the one with the earlier update comes first.
        """
        wanted = min(self.groups or len(updates), most, len(updates))
        if len(updates) == 1 or wanted == 1:
            return np.zeros(len(updates), dtype=np.int64)
        is_ward = self.linkage == "ward"
        features = updates if is_ward else pairwise_distances(updates, metric=_METRICS[self.metric])
        kind = "euclidean" if is_ward else "precomputed"
        found: IntArray | None = None
        if self.groups is None:
            by_distance = AgglomerativeClustering(
                n_clusters=None, distance_threshold=self.threshold, metric=kind, linkage=self.linkage
            )
            found = by_distance.fit_predict(features)
        if found is None or found.max() >= wanted:
            found = AgglomerativeClustering(wanted, metric=kind, linkage=self.linkage).fit_predict(features)
        _, first = np.unique(found, return_index=True)
        order = np.lexsort((first, -np.bincount(found)))
        return np.asarray(np.argsort(order)[found])
