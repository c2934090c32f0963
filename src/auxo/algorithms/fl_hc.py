"""FL+HC: some rounds of one model, then one pass over everybody whose updates are clustered hierarchically, once.

Briggs, Fan and Andras, Federated Learning with Hierarchical Clustering of Local Updates to Improve Training on Non-IID
Data, IJCNN 2020 (arXiv 2004.11791), Algorithm 1. After ``after`` rounds every client, and not a sample of them, trains
the common model; nothing of that moves it. The dendrogram of these updates is cut where clusters are a distance apart,
so the number of cohorts falls out. From there on each cohort is a federation of its own.

The pass waits until the last client has shown up, and all of them are charged. Distances are those of fingerprints,
see `auxo.core.pairwise`. A client that failed in the pass compares the cohorts' models when it comes; the paper has no
such clients.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import pairwise_distances

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import EVERYBODY, Circumstances, Closing, Outcome
from auxo.core.cohort_state import CohortState
from auxo.core.gathering import Admission, AdmitNone, Gathered
from auxo.core.pairwise import sketched_updates, too_many
from auxo.core.settings import NonNegativeInt, PositiveFloat, PositiveInt, checked, setting
from auxo.core.table_cohorts import TableCohorts, parted
from auxo.core.types import FloatArray, IntArray

UpdateDistance = Literal["cosine", "l2", "l1"]
"""How far apart two updates are: one minus their cosine, or the length of their difference."""

Linkage = Literal["average", "complete", "single", "ward"]
"""How far apart two clusters are."""

_METRICS = {"cosine": "cosine", "l2": "euclidean", "l1": "manhattan"}


@dataclass(frozen=True)
@checked
class FlHc(TableCohorts):
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
    metric: UpdateDistance = setting(
        "cosine",
        "How far apart updates are. The paper recommends l1, whose scale depends on the model, and which is exact only "
        "for models no larger than training.sketch_size.",
    )
    linkage: Linkage = setting("average", "How far apart clusters are; ward goes with l2 only.")

    def __post_init__(self) -> None:
        if self.linkage == "ward" and self.metric != "l2":
            raise ValueError(f'linkage: "ward" needs metric = "l2", got "{self.metric}"; change one of them')

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

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts, but in the pass none does."""
        return AdmitNone() if closing.states[0].round == self.after else super().admission(closing)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, or after the pass make the cohorts."""
        if closing.states[0].round == self.after:
            return self._cluster(closing, gathered)
        return super().close(closing, gathered, aggregator, rng)

    def _cluster(self, closing: Closing, gathered: Gathered) -> Outcome | None:
        in_time = ~gathered.late
        if not in_time.any():
            return None
        found = self.cut(sketched_updates(gathered, in_time), closing.outlook.total_participants)
        return parted(closing, gathered, gathered.rows[in_time], found)

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
