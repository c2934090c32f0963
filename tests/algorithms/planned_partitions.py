"""Auxo whose cohorts are partitioned when a test wants them to be, whatever judges would say."""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import ClientHalf, Closing, InitialModel, Opening, Outcome, Plan, Start
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, Gathered
from auxo.core.matching import Matching
from auxo.core.own_state import OwnState
from auxo.core.partition import Partition
from auxo.core.rewards import RewardSettings
from auxo.core.types import CohortId

CLUSTERS = ClusteringSettings(clusters=2, pool_rounds=1, pool_per_cluster=1, min_structure=0.0, finds_number=False)
"""Two clusters from the first round on."""
FOLLOWS = Auxo(
    clustering=CLUSTERS,
    rewards=RewardSettings(min_known=3),
    trial=TrialSettings(looks_from=4, min_participants=2, waits_for=1.0, patience=10**6),
)
"""Follows clusters, and tries nothing as long as somebody has no label."""


@dataclass(frozen=True)
class PlannedPartitions:
    """Partitions a cohort once a share of its rounds is done: another for each number of cohorts that there are."""

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
        return self.auxo.memory(parent)

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
        cohorts = closing.outlook.cohorts
        if outcome is None or outcome.affinities is None or cohorts > len(self.at):
            return outcome
        if closing.outlook.progress < self.at[cohorts - 1]:
            return outcome
        return replace(outcome, decision=replace(self.partition, generation=outcome.affinities.generation))
