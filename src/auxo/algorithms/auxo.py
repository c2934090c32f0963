"""Auxo's server half: one cohort's round after the updates came back (Algorithm 1), as pure functions over one state.

A round goes aggregate -> cluster -> reward -> feedback -> verdict. Nothing about a client outlives it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from auxo.core.affinity import FOLDS, AffinitySettings, FeedbackColumns, Requests
from auxo.core.aggregators import Aggregator, FedYogi, ServerState, Weighting, update_weight, weighted_mean
from auxo.core.clustering import (
    ClusteringSettings,
    ClusteringState,
    cluster_round,
    compare,
    note_explained,
)
from auxo.core.cohort_tree import CohortTree
from auxo.core.fingerprint import Fingerprint
from auxo.core.grouping import alignments
from auxo.core.partition import CrossFittedGain, Keep, Outlook, PartitionCriterion, RoundEvidence, Verdict
from auxo.core.rewards import MembersMeasure, RewardSettings, instant_rewards, relative_length
from auxo.core.rng import random_bits
from auxo.core.types import BoolArray, CohortId, Float32Array, FloatArray, IntArray
from auxo.core.validation import Reason, check_update

_TAKES_OFF = 1.5  # growth of the mean update that shows it: where models learn from the start it shrinks; our choice
_FEWEST_JUDGED = 50  # participants in the criterion's window before a cohort says that there is nothing; our choice

RateScaling = Literal["none", "sqrt", "linear"]


@dataclass(frozen=True)
class AuxoSettings:
    """Everything that can be set about Auxo's server half."""

    affinity: AffinitySettings = field(default_factory=AffinitySettings)
    clustering: ClusteringSettings = field(default_factory=ClusteringSettings)
    rewards: RewardSettings = field(default_factory=RewardSettings)
    criterion: PartitionCriterion = field(default_factory=CrossFittedGain)
    start_round: int = 5  # first round that is clustered; measured, see docs/departures.md
    cross_fit: bool = True  # participants alternate between halves of their samples while partitions are possible
    cross_fit_share: float = 0.5  # of the clients do so; measured, see docs/departures.md
    late_feedback: bool = True  # participants that finish after the round has closed still learn how they fitted
    admit_misfits: bool = False  # aggregate newcomers that turn out not to fit the cohort
    sketch_size: int = 4096
    aggregator: Aggregator = field(default_factory=FedYogi)
    weighting: Weighting = "examples"
    rate_scaling: RateScaling = "none"  # server learning rate with the cohort's share of the participants

    def __post_init__(self) -> None:
        if not 0 <= self.cross_fit_share <= 1:
            raise ValueError(f"cross_fit_share: expected a share in [0, 1], got {self.cross_fit_share}")


@dataclass(frozen=True)
class StepLengths:
    """How long the mean updates were since clustering started: they grow as long as a model has yet to take off."""

    at_start: float = 0.0
    longest: float = 0.0

    def after(self, length: float, has_started: bool) -> "StepLengths":
        """Return the lengths after a round whose mean update has this one."""
        longest = length if has_started else max(self.longest, length)
        return StepLengths(length if has_started else self.at_start, longest)

    @property
    def has_grown(self) -> bool:
        """Return whether the model has taken off since: labels of the time before may well mean nothing."""
        return self.longest > _TAKES_OFF * self.at_start


@dataclass(frozen=True)
class CohortState:
    """All that one cohort must keep between rounds."""

    server: ServerState
    round: int = 0  # rounds closed along the lineage from the root
    clustering: ClusteringState = field(default_factory=ClusteringState)
    evidence: tuple[RoundEvidence, ...] = ()
    check_ins: float = 0.0  # running mean of clients on line for this cohort at the start of a round
    step_lengths: StepLengths = field(default_factory=StepLengths)
    settled: bool = False  # it no longer looks for groups: nobody is clustered, all train on all their samples


@dataclass(frozen=True)
class Participants:
    """What a round's participants brought along, one row each, in the order in which their updates are folded."""

    vouched: BoolArray  # came by their own request, not by a draw
    known: BoolArray  # their own record ranks this cohort first with a positive reward
    label: IntArray  # cluster index in this cohort from all earlier visits; -1: none
    label_by_fold: IntArray  # (rows, FOLDS)
    generation: IntArray
    fold: IntArray  # half to train on; -1: all samples

    @staticmethod
    def of(requests: Requests, rows: IntArray, vouched: BoolArray, cohort: CohortId, fold: IntArray) -> "Participants":
        """Take from the requests in ``rows`` what concerns ``cohort``; a label for another cohort says nothing here."""
        position = requests.tree.index.get(cohort, -1)
        here = (requests.cohort[rows] == position) & (position >= 0)
        return Participants(
            vouched=vouched,
            known=vouched & requests.ranked_first[rows] & ((requests.reward[rows] > 0) | ~here),
            label=np.where(here, requests.cluster[rows], -1),
            label_by_fold=np.where(here[:, None], requests.cluster_by_fold[rows], -1),
            generation=np.where(here, requests.generation[rows], -1),
            fold=fold,
        )

    def take(self, rows: IntArray) -> "Participants":
        """Return the participants in ``rows``, in that order."""
        return Participants(
            vouched=self.vouched[rows],
            known=self.known[rows],
            label=self.label[rows],
            label_by_fold=self.label_by_fold[rows],
            generation=self.generation[rows],
            fold=self.fold[rows],
        )

    def held_out_label(self) -> IntArray:
        """Return the label that comes from samples the participant does not train on in this round; -1: none."""
        rows = np.arange(len(self.fold))
        other = self.label_by_fold[rows, np.where(self.fold >= 0, FOLDS - 1 - self.fold, 0)]
        return np.where(self.fold >= 0, other, -1)


@dataclass(frozen=True)
class Examined:
    """A valid update with all that a round wants to know about it; only the update itself is not kept."""

    update: Float32Array
    examples: int
    direction: FloatArray  # the fingerprint
    length: float  # relative to the root of the examples


@dataclass(frozen=True)
class Returned:
    """One participant's answer as it arrives; ``update`` and ``examples`` are whatever came over the wire.

    An update need only last until the next answer is asked for.
    """

    row: int  # in Participants
    update: object
    examples: object
    late: bool = False  # finished after the round had closed: clustered, not aggregated
    examined: Examined | Reason | None = None  # by an engine that has already done so; None: to be examined here


@dataclass(frozen=True)
class Folded:
    """A round's updates after folding: the mean for the server step, the fingerprints for everything else."""

    mean: FloatArray | None
    rows: IntArray  # participants with a valid update, late ones included
    late: BoolArray
    directions: FloatArray  # (len(rows), width)
    lengths: FloatArray  # (len(rows),) relative to the root of the examples
    aggregated: IntArray  # participants whose update is in the mean
    misfits: int  # valid and in time, but kept out of the mean
    rejected: tuple[tuple[int, Reason], ...]  # (row, reason)

    @property
    def used(self) -> int:
        """Return the number of updates in the mean."""
        return len(self.aggregated)


@dataclass(frozen=True)
class RoundOutcome:
    """What a closed round leaves behind."""

    state: CohortState
    verdict: Verdict
    folded: Folded
    instant_reward: FloatArray  # for folded.rows; NaN while there is only one cohort
    similarity: FloatArray  # (len(folded.rows), clusters); NaN without clustering
    labelled: int
    judged: int
    heterogeneity: float
    restarted: bool
    gives_up: bool = False  # from now on the cohort no longer looks for groups

    def feedback(self, cohort: CohortId, tree: CohortTree, participants: Participants) -> FeedbackColumns:
        """Return the affinity feedback to ``folded.rows``; ``tree`` is the one after acting upon the verdict."""
        return FeedbackColumns(
            cohort=cohort,
            tree=tree,
            instant_reward=self.instant_reward,
            similarity=self.similarity,
            fold=participants.fold[self.folded.rows],
            generation=self.state.clustering.generation,
        )


def rate_scale(scaling: RateScaling, share: int, total: int) -> float:
    """Return the factor for the server learning rate of a cohort with ``share`` of ``total`` participants."""
    return {"none": 1.0, "sqrt": float(np.sqrt(share / total)), "linear": share / total}[scaling]


def folds_for(
    settings: AuxoSettings, state: CohortState, progress: float, clients: IntArray, participations: IntArray
) -> IntArray:
    """Return the half each participant trains on: alternating from visit to visit while partitions are possible.

    Only some clients do so, always the same ones: they are those that are judged. The others train on everything.
    """
    deciding = progress <= settings.criterion.limits.end and state.round + 1 >= settings.start_round
    if not settings.cross_fit or state.settled or not deciding:
        return np.full(len(participations), -1, dtype=np.int64)
    bits = random_bits(0, "cross-fit", clients) >> np.uint64(11)
    is_judge = bits < np.uint64(round(settings.cross_fit_share * 2**53))
    return np.where(is_judge, participations % FOLDS, -1)


def examine(update: object, examples: object, fingerprint: Fingerprint) -> Examined | Reason:
    """Return an update with all that a round wants to know about it, or the reason why it is refused."""
    checked = check_update(update, examples, fingerprint.n_params)
    if not isinstance(checked, tuple):
        return checked
    values, count = checked
    return Examined(values, count, fingerprint.of(values), relative_length(values, count))


def fold_updates(
    returned: Iterator[Returned],
    participants: Participants,
    fingerprint: Fingerprint,
    settings: AuxoSettings,
    alone: bool,
) -> Folded:
    """Fold a stream of answers into a mean and fingerprints; no update is kept.

    Those who came by their own request must come first in the stream: a newcomer that was sent here at random is
    compared with them before its update may move the model. Otherwise, where most participants are newcomers,
    every cohort's model would be trained by everybody.
    """
    rows: list[int] = []
    late: list[bool] = []
    directions: list[FloatArray] = []
    lengths: list[float] = []
    aggregated: list[int] = []
    misfits: list[int] = []
    rejected: list[tuple[int, Reason]] = []
    gate = _Gate(settings, alone)

    def admitted() -> Iterator[tuple[Float32Array, float]]:
        for answer in returned:
            examined = answer.examined or examine(answer.update, answer.examples, fingerprint)
            if not isinstance(examined, Examined):
                rejected.append((answer.row, examined))
                continue
            rows.append(answer.row)
            late.append(answer.late)
            directions.append(examined.direction)
            lengths.append(examined.length)
            if answer.late:
                continue
            if gate.admits(examined, bool(participants.known[answer.row])):
                aggregated.append(answer.row)
                yield examined.update, update_weight(settings.weighting, examined.examples)
            else:
                misfits.append(answer.row)

    mean = weighted_mean(admitted(), fingerprint.n_params)
    return Folded(
        mean=mean,
        rows=np.array(rows, dtype=np.int64),
        late=np.array(late, dtype=np.bool_),
        directions=np.array(directions).reshape(len(rows), fingerprint.width),
        lengths=np.array(lengths),
        aggregated=np.array(aggregated, dtype=np.int64),
        misfits=len(misfits),
        rejected=tuple(rejected),
    )


class _Gate:
    """Who may move the model: members, and newcomers no farther from them than avg + std of their own distances."""

    def __init__(self, settings: AuxoSettings, alone: bool) -> None:
        self._open = settings.admit_misfits or alone
        self._settings = settings.rewards
        self._directions: list[FloatArray] = []  # of the members so far
        self._lengths: list[float] = []
        self._measure: MembersMeasure | None = None  # of all members so far

    def admits(self, newcomer: Examined, known: bool) -> bool:
        if self._open:
            return True
        if known:
            self._directions.append(newcomer.direction)
            self._lengths.append(newcomer.length)
            self._measure = None
            return True
        if len(self._directions) < self._settings.min_known:
            return True
        if self._measure is None:
            self._measure = MembersMeasure.of(np.array(self._directions), np.array(self._lengths), self._settings)
        return self._measure.distance(newcomer.direction, newcomer.length) <= self._measure.usual_distance


def server_step(state: CohortState, folded: Folded, settings: AuxoSettings, scale: float) -> CohortState:
    """Return the cohort after its model has moved by the mean update; ``scale`` multiplies the server learning rate.

    Raises:
        ValueError: there is no mean; an empty round is an outcome of its own and moves nothing.
    """
    if folded.mean is None:
        raise ValueError("folded.mean: expected at least one usable update; an empty round is not closed")
    return replace(state, server=settings.aggregator.step(state.server, folded.mean, scale), round=state.round + 1)


def close_round(
    state: CohortState,
    participants: Participants,
    folded: Folded,
    outlook: Outlook,
    settings: AuxoSettings,
    rng: np.random.Generator,
) -> RoundOutcome:
    """Return what the cohort is after clustering, rewards and the criterion; ``state`` has taken its `server_step`."""
    alone = outlook.cohorts == 1
    brought = participants.take(folded.rows)
    reward = np.full(len(folded.rows), np.nan)
    if not alone:
        known = brought.known & ~folded.late
        reward = instant_rewards(folded.directions, known, settings.rewards, folded.lengths)
    clustering, similarity, evidence = _cluster(state, brought, folded, outlook, settings, rng)
    labelled = (brought.label >= 0) & (brought.generation == clustering.generation)
    outlook = replace(outlook, labelled=float(labelled.mean()))
    kept = (*state.evidence, *((evidence,) if evidence else ()))[-settings.criterion.window :]
    verdict = settings.criterion.judge(kept, outlook)
    restarted = False
    if evidence and evidence.judged and verdict.gain is not None and isinstance(verdict.decision, Keep):
        clustering, restarted = note_explained(clustering, verdict.explains, settings.clustering)
    has_started = clustering.centres is not None and state.clustering.centres is None
    step_lengths = state.step_lengths.after(_length(folded.mean), has_started)
    is_hopeless = evidence is not None and verdict.is_hopeless
    has_tried = restarted and _has_tried(clustering, kept, settings.clustering)
    gives_up = (is_hopeless or has_tried) and not state.settled
    if gives_up and step_lengths.has_grown:  # not before labels of the present model have had their chance
        gives_up, restarted = False, True
        clustering = ClusteringState(clustering.generation)
    state = replace(
        state,
        clustering=clustering,
        evidence=() if restarted else kept,
        step_lengths=step_lengths,
        settled=state.settled or gives_up,
    )
    n_clusters = settings.clustering.clusters
    if similarity is None:
        similarity = np.full((len(folded.rows), n_clusters), np.nan)
    return RoundOutcome(
        state=state,
        verdict=verdict,
        folded=folded,
        instant_reward=reward,
        similarity=similarity,
        labelled=int(labelled.sum()),
        judged=evidence.judged if evidence else 0,
        heterogeneity=_dispersion(folded.directions),
        restarted=restarted,
        gives_up=gives_up,
    )


def _has_tried(clustering: ClusteringState, evidence: Sequence[RoundEvidence], settings: ClusteringSettings) -> bool:
    """Return whether clustering has started often enough to say that there is nothing to find."""
    judged = sum(seen.judged for seen in evidence)
    return 0 < settings.most_starts <= clustering.generation and judged >= _FEWEST_JUDGED


def _cluster(
    state: CohortState,
    brought: Participants,
    folded: Folded,
    outlook: Outlook,
    settings: AuxoSettings,
    rng: np.random.Generator,
) -> tuple[ClusteringState, FloatArray | None, RoundEvidence | None]:
    if state.settled or state.round < settings.start_round or outlook.progress > settings.criterion.limits.end:
        return state.clustering, None, None
    n_clusters, before = settings.clustering.clusters, state.clustering
    in_time = np.flatnonzero(~folded.late)
    present, directions = brought.take(in_time), folded.directions[in_time]
    held_out = present.held_out_label()
    labels = np.where(held_out >= 0, held_out, present.label)
    clustering, clusters = cluster_round(before, directions, labels, present.generation, settings.clustering, rng)
    if clusters is None:
        return clustering, None, None
    judged_by = held_out if settings.cross_fit else present.label
    judged = (judged_by >= 0) & (judged_by < n_clusters) & (present.generation == before.generation)
    judged &= before.centres is not None
    within, overall = np.zeros(0), 0.0
    if judged.sum() >= 2:
        within, overall = alignments(directions[judged], judged_by[judged], n_clusters)
    evidence = RoundEvidence(
        alignments=tuple(within.tolist()),
        alignment=overall,
        judged=int(judged.sum()) if len(within) else 0,
        members=tuple(np.bincount(clusters.labels, minlength=n_clusters).tolist()),
        dispersion=_dispersion(directions),
        dispersion_within=_dispersion_within(directions, clusters.labels, n_clusters),
    )
    similarity = np.empty((len(folded.rows), n_clusters))
    similarity[in_time] = clusters.similarity
    if folded.late.any():
        similarity[folded.late] = compare(clustering, directions, folded.directions[folded.late])
    return clustering, similarity, evidence


def _length(mean: FloatArray | None) -> float:
    return 0.0 if mean is None else float(np.linalg.norm(mean))


def _dispersion(directions: FloatArray) -> float:
    if len(directions) == 0:
        return 0.0
    return float(((directions - directions.mean(axis=0)) ** 2).sum(axis=1).mean())


def _dispersion_within(directions: FloatArray, labels: IntArray, clusters: int) -> float:
    """Return Eq. 1 per participant: squared distances to the mean of one's own cluster."""
    total = 0.0
    for cluster in range(clusters):
        mine = directions[labels == cluster]
        total += _dispersion(mine) * len(mine)
    return total / max(len(directions), 1)
