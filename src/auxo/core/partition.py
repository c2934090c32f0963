"""Partition criteria: when a cohort becomes several, and how many (section 4.4). A criterion decides; it never acts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from auxo.core.aggregators import ServerState
from auxo.core.grouping import groupings
from auxo.core.settings import AtLeastTwo, Fraction, NonNegativeFloat, PositiveFloat, PositiveInt, checked, setting
from auxo.core.types import BoolArray, FloatArray, IntArray

_FEWEST_ROUNDS = 3  # of evidence before there is anything to say
_ROUNDING = 1e-9  # of a share, by the arithmetic
_NO_SIGNAL = 1e-9  # squared length below which participants have nothing in common


@dataclass(frozen=True)
class Keep:
    """Leave the cohort as it is."""


@dataclass(frozen=True)
class Partition:
    """Replace the cohort by children; cluster ``k`` goes to child ``routes[k]``."""

    routes: tuple[int, ...]
    weights: tuple[float, ...]  # believed share of the cohort's members in each child
    generation: int = 1  # start of the cohort's clustering that the clusters are numbered in
    servers: tuple[ServerState, ...] = ()  # that the children start from; none: all from the cohort's


Decision = Keep | Partition


@dataclass(frozen=True)
class RoundEvidence:
    """What one round says about a partition; O(groupings), nothing about any client."""

    alignments: tuple[float, ...]  # within the groups of each grouping, see `alignments`; empty: nobody was judged
    alignment: float  # of all that were judged
    judged: int  # participants that brought a label from samples they did not train on now
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
    share: int | None = None  # participants of this cohort, which its children divide by members; None: all have equal

    @property
    def participants(self) -> float:
        """Return the cohort's part of the resource."""
        return self.total_participants / self.cohorts if self.share is None else self.share

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most that each child would have of the resource, by its part of the members."""
        if self.share is not None:
            parts = self.share * weights
            return parts, parts
        after = self.cohorts - 1 + len(weights)
        least, most = self.total_participants // after, -(-self.total_participants // after)
        return np.full(len(weights), float(least)), np.full(len(weights), float(most))


@dataclass(frozen=True)
class Verdict:
    """A decision with what led to it, for the record."""

    decision: Decision
    gain: float | None  # of the best grouping that could be made, 0 within chance; None: nothing to judge yet
    needed: float
    children: int  # that the best grouping would make; 1 when none pays
    explains: bool  # labels explain something at all, beyond chance
    is_hopeless: bool = False  # so far from paying that the cohort had better stop looking


@dataclass(frozen=True)
@checked
class PartitionLimits:
    """What any partition must respect."""

    begin: float = setting(
        0.25,
        "Part of the run before which no cohort is partitioned (section 4.4); measured, see docs/departures.md.",
    )
    end: float = setting(0.5, "Part of the run after which no cohort is partitioned (section 4.4); measured.")
    labelled: Fraction = setting(
        0.97,
        "Share of participants that must bring a cluster index before a partition: the others would have to search.",
    )
    labelled_until: Fraction = setting(
        0.35,
        "Part of the run after which partitions no longer wait for labels, since most clients may never come back.",
    )
    min_participants: AtLeastTwo = setting(10, "Fewest updates a round that a child may have; our choice.")

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end <= 1:
            raise ValueError(f"begin, end: expected 0 <= begin <= end <= 1, got {self.begin} and {self.end}")

    def is_open(self, outlook: Outlook) -> bool:
        """Return whether partitions are allowed at this time of the run."""
        waited = outlook.labelled >= self.labelled or outlook.progress >= self.labelled_until
        return waited and self.begin <= outlook.progress <= self.end

    @staticmethod
    def closed() -> "PartitionLimits":
        """Return limits that allow nothing: nobody clusters, nobody is judged."""
        return PartitionLimits(begin=0.0, end=0.0)

    def allow(self, weights: FloatArray, outlook: Outlook) -> bool:
        """Return whether every child could fill its round: a share of the resource, and its own members to draw on."""
        least, most = outlook.shares(weights)
        suffices = least.min() >= self.min_participants - _ROUNDING
        return bool(suffices and (outlook.check_ins * weights >= most).all())


@runtime_checkable
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
@checked
class CrossFittedGain:
    """Partition when the company of one's own group alone pays, judged on samples the labels have not seen.

    Of an update (squared length 1) let the share a be common to all, b to the group under a grouping, and c to the
    cluster. A mean of n updates holds the share F(n b) of what its senders have in common, F(x) = x / (1 + x), and the
    rest is noise. So of what a client's cluster needs, c, a step made by its group alone, with 1 / K of the updates,
    gives b F(n b / K), and a step made by everybody a F(n a). The difference, over c, is the gain: 0 where groups mean
    nothing, 1 where all is to be gained. Both sides of Lemma 1, less heterogeneity and fewer participants, are in it,
    and neither the size of the model nor the noise of small clients shrinks it.
    """

    limits: PartitionLimits = field(default_factory=PartitionLimits)
    rounds: PositiveInt = setting(15, "Rounds over which the evidence is averaged.")
    min_judged: PositiveInt = setting(100, "Participants judged in that window before anything is decided; our choice.")
    min_gain: Fraction = setting(
        0.3,
        "Gain two children must bring: 0 where groups mean nothing, 1 where all is to be gained; measured.",
    )
    min_gain_further: Fraction = setting(0.12, "Gain each child beyond the second must bring on top; measured.")
    horizon: PositiveInt = setting(10, "Rounds over which the model averages the noise of its steps; our choice.")
    deviations: NonNegativeFloat = setting(
        5.0,
        "Deviations by which groups must be more aligned than everybody, so that it is not chance; our choice.",
    )
    hopeless: Fraction = setting(
        0.5,
        "Share of that gain below which a cohort stops looking, for participants train on halves meanwhile; 0: never. "
        "Measured.",
    )

    @property
    def window(self) -> int:
        """Return the rounds of evidence wanted."""
        return self.rounds

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return a partition into the grouping whose gain exceeds its price by most."""
        recent = [seen for seen in evidence[-self.rounds :] if seen.judged > 0]
        if len(recent) < _FEWEST_ROUNDS:
            return Verdict(Keep(), None, self.price(2, outlook), 1, explains=False)
        judged = np.array([seen.judged for seen in recent], dtype=np.float64)
        within = np.array([seen.alignments for seen in recent])
        overall = np.array([seen.alignment for seen in recent])
        gains = self.gains(judged @ within / judged.sum(), float(judged @ overall / judged.sum()), outlook)
        is_chance = ~self._is_significant(within - overall[:, None], judged)
        members = np.array([seen.members for seen in recent]).sum(axis=0)
        gains = np.where(is_chance, 0.0, gains)
        best = self._best(gains, members, outlook)
        explains = bool((gains > 0).any())
        enough = len(recent) >= self.rounds and bool(judged.sum() >= self.min_judged)
        is_late = outlook.progress >= self.limits.begin
        is_hopeless = enough and is_late and float(gains.max()) < self.hopeless * self.price(2, outlook)
        if best is None:
            return Verdict(Keep(), float(gains.max()), self.price(2, outlook), 1, explains, is_hopeless)
        number, weights = best
        gain, needed = float(gains[number]), self.price(len(weights), outlook)
        pays = gain >= needed and not is_chance[number]
        acts = pays and enough and self.limits.is_open(outlook)
        decision = Partition(groupings(len(members))[number], weights) if acts else Keep()
        return Verdict(decision, gain, needed, len(weights) if pays else 1, explains, is_hopeless)

    def price(self, children: int, outlook: Outlook) -> float:
        """Return the gain that ``children`` must bring.

        A partition below the root has a higher price: only some of the clients gain, and every cohort's share of the
        resource becomes smaller.
        """
        at_the_root = self.min_gain + self.min_gain_further * (children - 2)
        return at_the_root * (1 + 0.5 * float(np.log2(outlook.cohorts)))

    def gains(self, within: FloatArray, overall: float, outlook: Outlook) -> FloatArray:
        """Return the gain of each grouping, in [-1, 1], from the alignments within groups and of all."""
        updates = self.horizon * outlook.participants
        children = np.array([max(grouping) + 1 for grouping in groupings(_clusters(len(within)))])
        needed = float(within[-1])  # the last grouping keeps every cluster apart
        if needed <= _NO_SIGNAL:
            return np.full(len(within), -1.0)
        shared, grouped = max(overall, 0.0), np.maximum(within, 0.0)
        alone, together = updates / children * grouped, updates * shared
        difference = grouped * alone / (1 + alone) - shared * together / (1 + together)
        return np.asarray(np.clip(difference / needed, -1.0, 1.0))

    def _is_significant(self, difference: FloatArray, judged: FloatArray) -> BoolArray:
        """Return for which groupings the difference, over rounds, is more than chance."""
        weights = judged / judged.sum()
        mean = weights @ difference
        spread = np.sqrt(weights @ (difference - mean) ** 2)
        error = spread * np.sqrt((weights**2).sum())
        return np.asarray(mean > self.deviations * error)

    def _best(self, gains: FloatArray, members: IntArray, outlook: Outlook) -> tuple[int, tuple[float, ...]] | None:
        """Return the grouping with most gain beyond its price of those the limits allow, and its children's shares."""
        best: tuple[float, int, tuple[float, ...]] | None = None
        for number, grouping in enumerate(groupings(len(members))):
            weights = np.bincount(grouping, weights=members.astype(np.float64))
            if weights.min() <= 0 or not self.limits.allow(weights / weights.sum(), outlook):
                continue
            net = float(gains[number]) - self.price(len(weights), outlook)
            if best is None or net > best[0]:
                best = (net, number, tuple(float(weight) for weight in weights / weights.sum()))
        return None if best is None else best[1:]


def _clusters(n_groupings: int) -> int:
    return next(clusters for clusters in range(2, 12) if len(groupings(clusters)) == n_groupings)


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

    @property
    def window(self) -> int:
        """Return the rounds of evidence wanted."""
        return self.rounds

    def judge(self, evidence: Sequence[RoundEvidence], outlook: Outlook) -> Verdict:
        """Return a partition into all clusters once the printed condition holds."""
        recent = evidence[-self.rounds :]
        if not recent or not recent[-1].members:
            return Verdict(Keep(), None, 0.0, 1, explains=False)
        members = np.array(recent[-1].members)
        children = len(members)
        before = float(np.mean([seen.dispersion for seen in recent]))
        within = float(np.mean([seen.dispersion_within for seen in recent]))
        needed = 1 - 1 / np.sqrt(children)
        fall = 1 - within / before if before > 0 else 0.0
        floor = self.alpha * np.sqrt(outlook.participants) / before if before > 0 else np.inf
        if members.min() == 0:
            return Verdict(Keep(), fall, needed, 1, explains=fall > 0)
        weights = members / members.sum()
        pays = bool(fall >= needed and outlook.shares(weights)[0].min() >= floor)
        allowed = self.limits.is_open(outlook) and self.limits.allow(weights, outlook)
        decision = (
            Partition(tuple(range(children)), tuple(float(weight) for weight in weights))
            if pays and allowed
            else Keep()
        )
        return Verdict(decision, fall, needed, children if pays else 1, explains=fall > 0)
