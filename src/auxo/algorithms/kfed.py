"""k-FED: every client clusters its own samples once, and the server clusters the centres that they send.

Dennis, Li and Smith, Heterogeneity for the Win: One-Shot Federated Clustering, ICML 2021, Algorithms 1 and 2. The
server starts from the first client's centres, adds the centre that is farthest from those it has until there are K, and
takes steps of K-means from there: one in the paper, as many as change anything in the authors' code and here. It is a
clustering of data: the model plays no part, and clients whose inputs look alike are alike, whatever their labels are.

A client belongs to the cluster of the centre of most of its samples. From there on each cluster is a federation of its
own. The one shot is a round over everybody, which waits until the last client has shown up. A client that failed then
compares the cohorts' models when it comes; in the paper it would send its centres later.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import EVERYBODY, Closing, Opening, Outcome, Plan
from auxo.core.cohort_state import CohortState
from auxo.core.gathering import Admission, AdmitNone, Gathered
from auxo.core.settings import PositiveInt, checked, setting
from auxo.core.table_cohorts import TableCohorts, parted
from auxo.core.types import FloatArray, IntArray


@dataclass(frozen=True)
@checked
class KFed(TableCohorts):
    """Fixed cohorts by one-shot clustering of clients' inputs."""

    cohorts: PositiveInt = setting(4, "Clusters (k); the method has to be told.")
    centres: PositiveInt = setting(1, "Centres that each client sends (k'); with 1, its samples' mean.")
    steps: PositiveInt = setting(
        300,
        "Most steps of K-means on the server, which ends when nothing changes; the default is the authors', paper: 1.",
    )

    def wants(self, state: CohortState, share: int) -> int:
        """Return that everybody sends centres in the first round, and later as many train as ever."""
        return EVERYBODY if self._is_one_shot(state) else share

    def _is_one_shot(self, state: CohortState) -> bool:
        return state.round == 0 and self.cohorts > 1

    def plan(self, opening: Opening) -> Plan:
        """Return that all send centres, or that all train the cohort's model; strangers look which fits them."""
        plan = super().plan(opening)
        centres = self.centres if self._is_one_shot(opening.state) else None
        return replace(plan, asks=replace(plan.asks, centres=centres))

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts; in the one shot there is none."""
        return AdmitNone() if self._is_one_shot(closing.states[0]) else super().admission(closing)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Make the cohorts, or move the model."""
        if self._is_one_shot(closing.states[0]):
            return self._one_shot(closing, gathered)
        return super().close(closing, gathered, aggregator, rng)

    def _one_shot(self, closing: Closing, gathered: Gathered) -> Outcome | None:
        answers = zip(gathered.rows, gathered.centres, gathered.late, strict=True)
        sent = [(row, one) for row, one, late in answers if one is not None and len(one) and not late]
        if not sent:
            return None
        wanted = min(self.cohorts, closing.outlook.total_participants)
        found = cluster([one for _, one in sent], wanted, self.steps)
        _, found = np.unique(found, return_inverse=True)  # a cluster that nobody belongs to is none
        return parted(closing, gathered, np.array([row for row, _ in sent]), found)


def cluster(sent: list[FloatArray], clusters: int, steps: int = 1) -> IntArray:
    """Return the cluster of each client's first centre.

    >>> cluster([np.array([[0.0]]), np.array([[9.0]]), np.array([[1.0]])], 2).tolist()
    [0, 1, 0]
    """
    centres = server_centres(sent, clusters, steps)
    return np.array([int(_distances(one[:1], centres).argmin()) for one in sent], dtype=np.int64)


def server_centres(sent: list[FloatArray], clusters: int, steps: int = 1) -> FloatArray:
    """Return the server's centres, (clusters, width): those farthest from each other, then steps of K-means."""
    everything = np.concatenate(sent)
    chosen = list(sent[0][:clusters])
    while len(chosen) < min(clusters, len(everything)):
        chosen.append(everything[_distances(everything, np.array(chosen)).min(axis=1).argmax()])
    centres = np.array(chosen)
    for _ in range(steps):
        before, centres = centres, _means_around(centres, everything)
        if np.array_equal(before, centres):
            break
    return centres


def _means_around(centres: FloatArray, points: FloatArray) -> FloatArray:
    """Return the mean of the points nearest to each centre; a centre that has none stays."""
    nearest = _distances(points, centres).argmin(axis=1)
    around = [points[nearest == number] for number in range(len(centres))]
    return np.array([some.mean(axis=0) if len(some) else one for some, one in zip(around, centres, strict=True)])


def _distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(points[:, None] - centres[None], axis=2))
