"""Auxo whose cohorts are partitioned when a test wants them to be, whatever judges would say."""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.algorithms.auxo import Auxo, ClusteringSettings, Pooling, TrialSettings
from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import ClientHalf, Closing, InitialModel, Opening, Outcome, Plan, Start
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.fingerprint import unit_rows
from auxo.core.gathering import Admission, Gathered
from auxo.core.lost_clients import own_answers
from auxo.core.matching import Matching
from auxo.core.own_state import OwnState
from auxo.core.partition import Partition
from auxo.core.rewards import RewardSettings
from auxo.core.types import CohortId, FloatArray

CLUSTERS = ClusteringSettings(clusters=2, pool_rounds=10**6, pool_most=10**9)
"""Two clusters, for which nobody ever looks."""
FOLLOWS = Auxo(
    clustering=CLUSTERS,
    rewards=RewardSettings(min_known=3),
    trial=TrialSettings(judges=1),  # all train on all their samples
)
"""Gathers updates, and tries nothing."""
GENERATION = 1
"""Of the labels that are given out."""


@dataclass(frozen=True)
class PlannedPartitions:
    """Partitions a cohort once a share of its rounds is done: another for each number of cohorts that there are.

    Labels say on which side of the others an update lies, along the line that they are spread along most.
    """

    at: tuple[float, ...]  # with one cohort, with two ...; with more there are no partitions
    partition: Partition = field(default_factory=lambda: Partition((0, 1), (0.5, 0.5)))
    auxo: Auxo = FOLLOWS

    @property
    def own_states(self) -> tuple[type, ...]:
        return self.auxo.own_states

    @property
    def by_unit(self) -> bool:
        return self.auxo.by_unit

    @property
    def matching(self) -> Matching:
        return self.auxo.matching

    @property
    def client_half(self) -> ClientHalf:
        return self.auxo.client_half

    def begin(self, initial: InitialModel) -> Start:
        return self.auxo.begin(initial)

    def memory(self, parent: CohortState | None) -> OwnState:
        return Pooling(rests_until=10**9)  # whose updates it gathers depends on clients' names

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        return self.auxo.openers(tree)

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        return self.auxo.shares(tree, openers)

    def plan(self, opening: Opening) -> Plan:
        return self.auxo.plan(opening)

    def admission(self, closing: Closing) -> Admission:
        return self.auxo.admission(closing)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        outcome = self.auxo.close(closing, gathered, aggregator, rng)
        if outcome is None or outcome.affinities is None:
            return outcome
        told, cohorts = outcome.affinities, closing.outlook.cohorts
        mine = np.isin(gathered.rows, own_answers(closing, gathered).rows)
        sides = np.where(mine[:, None], two_sides(gathered.directions), np.nan)
        outcome = replace(outcome, affinities=replace(told, similarity=sides, generation=GENERATION))
        if cohorts > len(self.at) or closing.outlook.progress < self.at[cohorts - 1]:
            return outcome
        return replace(outcome, decision=replace(self.partition, generation=GENERATION))


def two_sides(directions: FloatArray) -> FloatArray:
    """Return (updates, 2) cosines to both ends of the line along which updates are spread most."""
    if len(directions) < 2:
        return np.full((len(directions), 2), np.nan)
    centred = unit_rows(directions - directions.mean(axis=0))
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    end = axis if axis @ np.arange(len(axis)) > 0 else -axis  # the same one in every round
    along = np.clip(centred @ end, -1.0, 1.0)
    return np.stack([along, -along], axis=1)
