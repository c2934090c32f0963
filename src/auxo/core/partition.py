"""Partition criteria: when a cohort becomes several, and how many (section 4.4). A criterion decides; it never acts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from auxo.core.grouping import Grouping, groupings
from auxo.core.types import FloatArray, IntArray


@dataclass(frozen=True)
class Keep:
    """Leave the cohort as it is."""


@dataclass(frozen=True)
class Partition:
    """Replace the cohort by children; cluster ``k`` goes to child ``routes[k]``."""

    routes: tuple[int, ...]
    weights: tuple[float, ...]  # believed share of the cohort's members in each child


Decision = Keep | Partition


@dataclass(frozen=True)
class RoundEvidence:
    """What one round says about a partition; O(groupings), nothing about any client."""

    gains: tuple[float, ...]  # mean gain of each grouping, as in `grouping_gains`; empty when nobody was judged
    judged: int  # participants the gains were averaged over
    members: tuple[int, ...]  # participants in each cluster by this round's labels
    dispersion: float  # mean squared distance of normalised updates to their mean
    dispersion_within: float  # the same to the means of the clusters


@dataclass(frozen=True)
class Outlook:
    """What the cohort would be after a partition; the criterion's view of resources."""

    progress: float  # share of the cohort's rounds that are done
    total_participants: int  # the training resource: updates a round over all cohorts
    cohorts: int  # that share it now
    check_ins: float  # recent clients on line for this cohort at the start of a round
    labelled: float = 1.0  # share of this round's participants that brought a cluster index

    def shares(self, children: int) -> tuple[int, int]:
        """Return the smallest and the largest share of the resource after a partition into ``children``."""
        after = self.cohorts - 1 + children
        return self.total_participants // after, -(-self.total_participants // after)


@dataclass(frozen=True)
class Verdict:
    """A decision with what led to it, for the record."""

    decision: Decision
    gain: float | None  # of the best grouping that could be made; None while there is nothing to judge
    needed: float
    children: int  # that the best grouping would make; 1 when none pays


@dataclass(frozen=True)
class PartitionLimits:
    """What any partition must respect."""

    begin: float = 0.1  # not in the first part of the run ...
    end: float = 0.5  # ... nor in the last (section 4.4); measured, see docs/departures.md
    labelled: float = 0.97  # wait until this share of participants bring a label: the others would have to search ...
    labelled_until: float = 0.35  # ... but not beyond this part of the run, since most clients may never come back
    min_participants: int = 10  # updates a round for each child (our choice)

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end <= 1:
            raise ValueError(f"begin, end: expected 0 <= begin <= end <= 1, got {self.begin} and {self.end}")
        if self.min_participants < 2:
            raise ValueError(f"min_participants: expected at least 2, got {self.min_participants}")

    def is_open(self, outlook: Outlook) -> bool:
        """Return whether partitions are allowed at this time of the run."""
        waited = outlook.labelled >= self.labelled or outlook.progress >= self.labelled_until
        return waited and self.begin <= outlook.progress <= self.end

    @staticmethod
    def closed() -> "PartitionLimits":
        """Return limits that allow nothing: nobody clusters, nobody is judged."""
        return PartitionLimits(begin=0.0, end=0.0)

    def allow(self, weights: FloatArray, outlook: Outlook) -> bool:
        """Return whether every child could fill its round: equal shares of the resource, its own members to draw on."""
        smallest_share, largest_share = outlook.shares(len(weights))
        expected_check_ins = outlook.check_ins * weights.min()
        return bool(smallest_share >= self.min_participants and expected_check_ins >= largest_share)


class PartitionCriterion(Protocol):
    """Decides from the evidence of recent rounds."""

    @property
    def limits(self) -> PartitionLimits:
        """Return when a partition is possible at all; cohorts cluster and cross-fit only until then."""
        ...

    @property
    def window(self) -> int:
        """Return how many rounds of evidence the cohort has to keep."""
        ...

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return the verdict after a round; pure."""
        ...


@dataclass(frozen=True)
class CrossFittedGain:
    """Partition when the company of one's own group alone pays, judged on data the labels have not seen."""

    limits: PartitionLimits = field(default_factory=PartitionLimits)
    rounds: int = 15  # evidence is averaged over this many rounds
    min_judged: int = 300  # participants judged in that window before anything is decided (our choice)
    min_gain: float = 0.045  # for each child beyond the first; measured, see docs/departures.md

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds: expected at least 1, got {self.rounds}")
        if self.min_judged < 1:
            raise ValueError(f"min_judged: expected at least 1, got {self.min_judged}")

    @property
    def window(self) -> int:
        """Return the rounds of evidence wanted."""
        return self.rounds

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return a partition into the grouping whose gain exceeds ``min_gain`` for each further child by most."""
        recent = [seen for seen in evidence[-self.rounds :] if seen.judged > 0]
        judged = sum(seen.judged for seen in recent)
        if judged == 0:
            return Verdict(Keep(), None, self.min_gain, 1)
        weights_of_rounds = np.array([seen.judged for seen in recent], dtype=np.float64)
        gains: FloatArray = weights_of_rounds @ np.array([seen.gains for seen in recent]) / judged
        members: IntArray = np.array([seen.members for seen in recent]).sum(axis=0)
        # Only this cohort's members gain, about one in `cohorts` of all, but a further cohort thins out every share.
        price = self.min_gain * outlook.cohorts
        best = best_grouping(gains, members, outlook, self.limits, price)
        if best is None:
            return Verdict(Keep(), float(gains.max()), price, 1)
        number, weights = best
        gain, children = float(gains[number]), len(weights)
        needed = price * (children - 1)
        pays = gain >= needed
        enough = judged >= self.min_judged and self.limits.is_open(outlook)
        decision = Partition(_route(len(members), number), weights) if pays and enough else Keep()
        return Verdict(decision, gain, needed, children if pays else 1)


def best_grouping(
    gains: FloatArray, members: IntArray, outlook: Outlook, limits: PartitionLimits, price: float
) -> tuple[int, tuple[float, ...]] | None:
    """Return the grouping with the largest gain after ``price`` for each further child, of those ``limits`` allow.

    Returns:
        Its number and its children's believed shares of the members; None when no grouping is allowed.
    """
    best: tuple[float, int, tuple[float, ...]] | None = None
    for number, grouping in enumerate(groupings(len(members))):
        weights = np.bincount(grouping, weights=members.astype(np.float64))
        if weights.min() <= 0 or not limits.allow(weights / weights.sum(), outlook):
            continue
        net = float(gains[number]) - price * (len(weights) - 1)
        if best is None or net > best[0]:
            best = (net, number, tuple(float(weight) for weight in weights / weights.sum()))
    return None if best is None else best[1:]


def _route(clusters: int, number: int) -> Grouping:
    return groupings(clusters)[number]


@dataclass(frozen=True)
class Lemma:
    """The paper's criterion to the letter (Lemma 1): heterogeneity falls by sqrt(K), and resources suffice.

    ``alpha`` has no operational definition in the paper; it scales the floor ``alpha * sqrt(P_0 / J_0 ** 2)``.
    """

    limits: PartitionLimits = field(default_factory=PartitionLimits)
    alpha: float = 1.0
    rounds: int = 1
    reduction: float | None = None  # heterogeneity must fall to this share; None: 1 / sqrt(K)

    @property
    def window(self) -> int:
        """Return the rounds of evidence wanted."""
        return self.rounds

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return a partition into all clusters once the printed condition holds."""
        recent = evidence[-self.rounds :]
        if not recent or not recent[-1].members:
            return Verdict(Keep(), None, 0.0, 1)
        members = np.array(recent[-1].members)
        children = len(members)
        before = float(np.mean([seen.dispersion for seen in recent]))
        within = float(np.mean([seen.dispersion_within for seen in recent]))
        needed = 1 - (self.reduction if self.reduction is not None else 1 / np.sqrt(children))
        fall = 1 - within / before if before > 0 else 0.0
        floor = self.alpha * np.sqrt(outlook.total_participants / outlook.cohorts) / before if before > 0 else np.inf
        if members.min() == 0:
            return Verdict(Keep(), fall, needed, 1)
        weights = members / members.sum()
        pays = bool(fall >= needed and outlook.shares(children)[0] >= floor)
        allowed = self.limits.is_open(outlook) and self.limits.allow(weights, outlook)
        decision = (
            Partition(tuple(range(children)), tuple(float(weight) for weight in weights))
            if pays and allowed
            else Keep()
        )
        return Verdict(decision, fall, needed, children if pays else 1)
