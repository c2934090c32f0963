"""Auxo to the letter: the rules as Algorithm 1 and Lemma 1 print them.

A label is that of the last visit, centres are those of this round's labels and contain the participant that they are
compared with, predicted rewards pile up, and a partition makes a child of every cluster, judged by how much clustering
lessens the dispersion of the same updates. Everybody who is in time is aggregated, nobody else hears anything, and a
cohort's learning rate follows its share of the participants. What the paper leaves open is as in algorithms/auxo.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Aggregator, RateScaling, rate_scale
from auxo.core.claims import Claims, claims_of, plan_members_first, round_rewards
from auxo.core.clustering import ClusteringState, Clusters, cluster_round, cluster_space
from auxo.core.cohort_algorithm import Affinities, ClientHalf, Closing, Opening, Outcome, Plan, RoundNotes, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.fingerprint import unit_rows
from auxo.core.gathering import Gathered, dispersion
from auxo.core.matching import ByRequest, Matching
from auxo.core.own_state import own
from auxo.core.partition import Decision, Keep, Outlook, Partition
from auxo.core.plain_cohorts import PlainCohorts
from auxo.core.rewards import RewardSettings
from auxo.core.settings import AtLeastTwo, Bounds, PositiveFloat, PositiveInt, checked, setting
from auxo.core.types import FloatArray, IntArray

_AFFINITY = AffinitySettings(label_memory=0.0, label_trust=0.0, accumulate_predictions=True, confirmations=0)
_REWARDS = RewardSettings(leave_one_out=False, scale_by_known=False, weigh_length=False)


@dataclass(frozen=True)
@checked
class PaperClustering:
    """How participants are clustered."""

    clusters: Annotated[int, Bounds(ge=2, le=8)] = setting(
        2, "Clusters of a cohort (the paper's K), and children of a partition."
    )
    kmeans_starts: PositiveInt = setting(10, "Tries of K-means, of which the best counts.")
    restart_after: PositiveInt = setting(
        20, "Rounds in which cluster indices explain nothing before clustering starts anew."
    )

    def start(
        self, directions: FloatArray, generation: int, rng: np.random.Generator
    ) -> tuple[ClusteringState, Clusters] | None:
        """Return the clustering that K-means begins from one round's participants; None: there are too few."""
        points = cluster_space(directions)
        if len(points) < 2 * self.clusters or len(np.unique(points, axis=0)) < self.clusters:
            return None
        from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

        seed = int(rng.integers(2**31))
        found = KMeans(self.clusters, n_init=self.kmeans_starts, random_state=seed).fit(points)
        similarity = points @ unit_rows(found.cluster_centers_).T
        return ClusteringState(generation + 1, found.cluster_centers_), Clusters(similarity)


@dataclass(frozen=True)
class RoundEvidence:
    """What one round says about a partition; nothing about any client."""

    members: tuple[int, ...]  # participants in each cluster by this round's labels
    dispersion: float  # mean squared distance of normalised updates to their mean
    dispersion_within: float  # the same to the means of the clusters (Eq. 1, by participant)

    @staticmethod
    def of(directions: FloatArray, labels: IntArray, clusters: int) -> "RoundEvidence":
        """Return the evidence of a round's participants, by the clusters that they are in now."""
        within = 0.0
        for cluster in range(clusters):
            mine = directions[labels == cluster]
            within += dispersion(mine) * len(mine)
        members = tuple(np.bincount(labels, minlength=clusters).tolist())
        return RoundEvidence(members, dispersion(directions), within / max(len(directions), 1))


@dataclass(frozen=True)
class Verdict:
    """A decision with what led to it, for the record."""

    decision: Decision
    fall: float | None  # share of the dispersion that clustering takes away; None: nothing to judge yet
    needed: float  # that Lemma 1 asks for
    children: int  # that a partition would make; 1 when it would not pay

    @property
    def explains(self) -> bool:
        """Return whether labels explain something at all."""
        return self.fall is not None and self.fall > 0


@dataclass(frozen=True)
@checked
class PartitionLimits:
    """What any partition must respect."""

    begin: float = setting(
        0.25,
        "Part of the run before which no cohort is partitioned (section 4.4); measured, see docs/departures.md.",
    )
    end: float = setting(0.5, "Part of the run after which no cohort is partitioned (section 4.4); measured.")
    min_participants: AtLeastTwo = setting(10, "Fewest updates a round that a child may have; our choice.")

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end <= 1:
            raise ValueError(f"begin, end: expected 0 <= begin <= end <= 1, got {self.begin} and {self.end}")

    def allow(self, weights: FloatArray, outlook: Outlook) -> bool:
        """Return whether it is the time, and every child could fill its round from its own part of the check-ins."""
        after = outlook.cohorts - 1 + len(weights)
        least, most = outlook.total_participants // after, -(-outlook.total_participants // after)
        in_time = self.begin <= outlook.progress <= self.end
        return bool(in_time and least >= self.min_participants and (outlook.check_ins * weights >= most).all())


@dataclass(frozen=True)
@checked
class Lemma:
    """The paper's criterion to the letter (Lemma 1): heterogeneity falls by sqrt(K), and resources suffice.

    ``alpha`` has no operational definition in the paper; it scales the floor ``alpha * sqrt(P_0 / J_0 ** 2)``.
    """

    limits: PartitionLimits = field(default_factory=PartitionLimits)
    alpha: PositiveFloat = setting(
        1.0, "Scale of the participants that Lemma 1 asks for; the paper does not define it."
    )
    rounds: PositiveInt = setting(1, "Rounds over which dispersions are averaged.")

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return a partition into all clusters once the printed condition holds; it does not act."""
        recent = evidence[-self.rounds :]
        if not recent:
            return Verdict(Keep(), None, 0.0, 1)
        members = np.array(recent[-1].members)
        children = len(members)
        before = float(np.mean([seen.dispersion for seen in recent]))
        within = float(np.mean([seen.dispersion_within for seen in recent]))
        needed = float(1 - 1 / np.sqrt(children))
        fall = 1 - within / before if before > 0 else 0.0
        if members.min() == 0 or fall < needed:
            return Verdict(Keep(), fall, needed, 1)
        floor = self.alpha * np.sqrt(outlook.total_participants / outlook.cohorts) / before
        if outlook.total_participants // (outlook.cohorts - 1 + children) < floor:
            return Verdict(Keep(), fall, needed, 1)
        weights = members / members.sum()
        if not self.limits.allow(weights, outlook):
            return Verdict(Keep(), fall, needed, children)
        partition = Partition(tuple(range(children)), tuple(float(weight) for weight in weights))
        return Verdict(partition, fall, needed, children)


@dataclass(frozen=True)
class PaperMemory:
    """What a cohort keeps between rounds besides its model."""

    clustering: ClusteringState = field(default_factory=ClusteringState)
    evidence: tuple[RoundEvidence, ...] = ()
    idle_rounds: int = 0  # judged rounds in a row in which labels explained nothing

    def after(self, explained: bool, settings: PaperClustering) -> "PaperMemory":
        """Return the memory after a judged round; clustering starts anew when labels explain nothing for too long.

        The first K-means can be wrong for ever: every later centre is made of its labels.
        """
        idle = 0 if explained else self.idle_rounds + 1
        if idle >= settings.restart_after:
            return PaperMemory(ClusteringState(self.clustering.generation))
        return replace(self, idle_rounds=idle)


@dataclass(frozen=True)
@checked
class Paper(PlainCohorts):
    """Algorithm 1 and Lemma 1 as the paper prints them."""

    affinity: AffinitySettings = _AFFINITY
    clustering: PaperClustering = field(default_factory=PaperClustering)
    rewards: RewardSettings = _REWARDS
    criterion: Lemma = field(default_factory=Lemma)
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

    def memory(self, parent: CohortState | None) -> PaperMemory:
        """Return that nothing is known of a new cohort."""
        return PaperMemory()

    def plan(self, opening: Opening) -> Plan:
        """Return that all train on all their samples, members first."""
        return plan_members_first(opening)

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
        verdict = self.criterion.judge(memory.evidence, closing.outlook)
        decision, restarted = verdict.decision, False
        if judged and verdict.fall is not None and isinstance(decision, Keep):
            memory = memory.after(verdict.explains, self.clustering)
            restarted = memory.clustering.centres is None
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
                gain=verdict.fall,
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
        before, judged = memory.clustering, 0
        if len(gathered.directions) < 2:  # without the mean of others there is nothing left of an update
            return memory, nothing, 0
        if before.centres is None:
            begun = self.clustering.start(gathered.directions, before.generation, rng)
            if begun is None:
                return memory, nothing, 0
            clustering, clusters = begun
        else:
            clustering, clusters = cluster_round(
                before, gathered.directions, claims.label, claims.generation, leave_one_out=False, centre_memory=0.0
            )
            usable = (claims.label >= 0) & (claims.label < n_clusters) & (claims.generation == before.generation)
            judged = int(usable.sum()) if usable.sum() > 1 else 0
        evidence = RoundEvidence.of(gathered.directions, clusters.labels, n_clusters)
        kept = (*memory.evidence, evidence)[-self.criterion.rounds :]
        return replace(memory, clustering=clustering, evidence=kept), clusters.similarity, judged
