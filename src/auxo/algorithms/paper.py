"""Auxo to the letter: the rules as Algorithm 1 and Lemma 1 print them.

A label is that of the last visit, centres are those of this round's labels and contain the participant that they are
compared with, predicted rewards pile up, and a partition makes a child of every cluster, judged by how much clustering
lessens the dispersion of the same updates. Everybody who is in time is aggregated, nobody else hears anything, and a
cohort's learning rate follows its share of the participants. What the paper leaves open is as in algorithms/auxo.py.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Aggregator, RateScaling, rate_scale
from auxo.core.claims import Claims, claims_of, plan_members_first, round_rewards
from auxo.core.clustering import ClusteringSettings, ClusteringState, cluster_round, note_explained
from auxo.core.cohort_algorithm import (
    Affinities,
    ClientHalf,
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
from auxo.core.cohort_tree import CohortTree
from auxo.core.evidence import round_evidence
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.matching import ByRequest, Matching
from auxo.core.own_state import own
from auxo.core.partition import Keep, Lemma, Partition, PartitionCriterion, PartitionLimits, RoundEvidence
from auxo.core.rewards import RewardSettings
from auxo.core.settings import PositiveInt, checked, setting
from auxo.core.shares import equal_shares
from auxo.core.types import CohortId, FloatArray

_AFFINITY = AffinitySettings(label_memory=0.0, label_trust=0.0, accumulate_predictions=True, confirmations=0)
_CLUSTERING = ClusteringSettings(clusters=2, leave_one_out=False, centre_memory=0.0)
_REWARDS = RewardSettings(leave_one_out=False, scale_by_known=False, weigh_length=False)
_CRITERION = Lemma(PartitionLimits(labelled=0.0))  # the paper does not wait for labels


@dataclass(frozen=True)
class PaperMemory:
    """What a cohort keeps between rounds besides its model."""

    clustering: ClusteringState = field(default_factory=ClusteringState)
    evidence: tuple[RoundEvidence, ...] = ()


@dataclass(frozen=True)
@checked
class Paper:
    """Algorithm 1 and Lemma 1 as the paper prints them."""

    affinity: AffinitySettings = _AFFINITY
    clustering: ClusteringSettings = _CLUSTERING
    rewards: RewardSettings = _REWARDS
    criterion: PartitionCriterion = _CRITERION
    start_round: PositiveInt = setting(
        5, "First round in which a cohort clusters its participants; the paper does not say."
    )
    rate_scaling: RateScaling = setting(
        "linear",
        "How the server's learning rate follows the share of participants a cohort has (section 4.4).",
    )

    own_states = (PaperMemory, Claims)

    @property
    def matching(self) -> Matching:
        """Return that clients choose."""
        return ByRequest()

    @property
    def client_half(self) -> ClientHalf:
        """Return how clients weigh cohorts."""
        return ClientHalf(self.affinity, self.clustering.clusters)

    def begin(self, initial: InitialModel) -> Start:
        """Return one model for everybody."""
        return Start((initial(0),))

    def memory(self, parent: CohortState | None) -> PaperMemory:
        """Return that nothing is known of a new cohort."""
        return PaperMemory()

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves: each cohort goes at its own pace."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return that all cohorts have the same (section 4.4)."""
        return equal_shares(tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return that all train on all their samples, members first."""
        return plan_members_first(opening)

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts."""
        return AdmitAll()

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, cluster and reward the participants, and decide."""
        if not gathered.used:
            return None
        scale = rate_scale(self.rate_scaling, closing.share, closing.outlook.total_participants)
        (state,) = stepped(closing, gathered, aggregator, scale)
        claims = claims_of(closing, gathered)
        memory, similarity, judged = self._cluster(closing, state, claims, gathered, rng)
        labelled = (claims.label >= 0) & (claims.generation == memory.clustering.generation)
        outlook = replace(closing.outlook, labelled=float(labelled.mean()))
        verdict = self.criterion.judge(memory.evidence, outlook)
        decision, restarted = verdict.decision, False
        if judged and verdict.gain is not None and isinstance(decision, Keep):
            clustering, restarted = note_explained(memory.clustering, verdict.explains, self.clustering)
            memory = PaperMemory(clustering, () if restarted else memory.evidence)
        if isinstance(decision, Partition):
            decision = replace(decision, generation=memory.clustering.generation)
        rewards = round_rewards(closing, gathered, self.rewards)
        return Outcome(
            states=(replace(state, memory=memory),),
            decision=decision,
            affinities=Affinities(rewards, similarity, memory.clustering.generation),
            notes=RoundNotes(
                known=int(claims.known.sum()),
                labelled=int(labelled.sum()),
                judged=judged,
                gain=verdict.gain,
                gain_needed=verdict.needed,
                children=verdict.children,
                restarted=restarted,
            ),
        )

    def _cluster(
        self, closing: Closing, state: CohortState, claims: Claims, gathered: Gathered, rng: np.random.Generator
    ) -> tuple[PaperMemory, FloatArray, int]:
        memory, n_clusters = own(PaperMemory, state.memory), self.clustering.clusters
        nothing = np.full((len(gathered.rows), n_clusters), np.nan)
        if state.round < self.start_round or closing.outlook.progress > self.criterion.limits.end:
            return memory, nothing, 0
        before = memory.clustering
        clustering, clusters = cluster_round(
            before, gathered.directions, claims.label, claims.generation, self.clustering, rng
        )
        if clusters is None:
            return replace(memory, clustering=clustering), nothing, 0
        judged = (claims.label >= 0) & (claims.label < n_clusters) & (claims.generation == before.generation)
        judged &= before.centres is not None
        evidence = round_evidence(gathered.directions, clusters, n_clusters, claims.label, judged)
        kept = (*memory.evidence, evidence)[-self.criterion.window :]
        return PaperMemory(clustering, kept), clusters.similarity, evidence.judged
