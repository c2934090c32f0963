"""The verdict on a partition: what the judges of a trial have said, and the cut of the dendrogram that pays by it.

What pays is what clients gain, in loss on samples that neither the models on trial nor their choice among them has
seen: those who gain much, those who lose by having fewer participants, in one sum.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from auxo.algorithms.auxo.dendrogram import Dendrogram
from auxo.algorithms.auxo.settings import TrialSettings
from auxo.core.types import FloatArray, IntArray

_HINT = 1 / 2  # of the deviations, from which on a gain may turn out to be one; our choice
_OF_FEW = 2 / 3  # of the deviations, that are asked for where a few judges make up all the chance; our choice
_FEWEST_FREE = 4  # degrees of freedom; with fewer the expansion of the quantile is far too small
_MOST_OF_USUAL = 10.0  # losses count up to as many times the median; our choice


@dataclass(frozen=True)
class Judgements:
    """What judges have found of the models of all nodes; who has said it of both halves of its samples has two rows."""

    branch: IntArray  # (rows,) that the judge's cluster index leads to; -1: none
    losses: FloatArray  # (rows, nodes) on the samples that it judges by; NaN: not said
    scores: FloatArray  # (rows, nodes) on these, larger is better; NaN: not said
    held_in: FloatArray  # (rows, nodes) losses on its other samples, by which it chooses; NaN: not said
    seals: IntArray  # (rows,) by which judges are known again, see `auxo.algorithms.auxo.judges`

    @property
    def judges(self) -> int:
        """Return how many there are."""
        return len(np.unique(self.seals))

    def whole(self) -> "Judgements":
        """Return what those have said of whom it is known where they would be.

        A model with no finite loss has diverged for them, which is as bad as can be. Who says the same of both halves
        has not told them apart: it would be judged by what it chose by.
        """
        held_in = np.where(np.isnan(self.held_in), np.inf, self.held_in)
        chooses = np.isfinite(held_in).any(axis=1) & (self.held_in != self.losses).any(axis=1)
        rows = np.flatnonzero((chooses | (self.branch >= 0)) & np.isfinite(self.losses[:, -1:]).all(axis=1))
        return Judgements(
            self.branch[rows],
            np.where(np.isnan(self.losses[rows]), np.inf, self.losses[rows]),
            self.scores[rows],
            np.where(chooses[rows, None], held_in[rows], np.nan),
            self.seals[rows],
        )

    def and_of(self, others: "Judgements") -> "Judgements":
        """Return these and others."""
        return Judgements(
            np.concatenate([self.branch, others.branch]),
            np.concatenate([self.losses, others.losses]),
            np.concatenate([self.scores, others.scores]),
            np.concatenate([self.held_in, others.held_in]),
            np.concatenate([self.seals, others.seals]),
        )

    @staticmethod
    def none(nodes: int) -> "Judgements":
        """Return that nobody has been heard."""
        nothing, nobody = np.zeros((0, nodes)), np.zeros(0, dtype=np.int64)
        return Judgements(nobody, nothing, nothing, nothing, nobody)


@dataclass(frozen=True)
class Cut:
    """What a trial came to: the nodes that are to be cohorts; the root alone where no partition pays."""

    nodes: tuple[int, ...]
    gain: float  # of loss, as a share of the rival's
    judged: int
    is_open: bool = False  # some nodes gain by parting, and it takes longer to tell whether enough and not by chance

    @property
    def pays(self) -> bool:
        """Return whether there is a partition to be made."""
        return len(self.nodes) > 1


def prune(dendrogram: Dendrogram, heard: Judgements, settings: TrialSettings) -> Cut:
    """Return the cut of the dendrogram in which every two nodes are better off apart, beyond chance.

    From the branches up: what a node's members lose by sharing its model is compared with what they have in the best
    cut below.
    """
    root = dendrogram.root
    if not len(heard.seals):
        return Cut((root,), 0.0, 0)
    court = _Court(dendrogram, replace(heard, losses=_tamed(heard.losses, root)), settings)
    cut, is_open = court.best_cut(root)
    rival = float(court.heard.losses[:, root].mean())
    gain = rival - float(_at(court.heard.losses, court.place(cut)).mean())
    return Cut(cut, gain / rival if rival > 0 and len(cut) > 1 else 0.0, heard.judges, is_open)


@dataclass(frozen=True)
class _Court:
    """All that a trial's judges have said, and what follows from it."""

    dendrogram: Dendrogram
    heard: Judgements
    settings: TrialSettings

    def place(self, cut: tuple[int, ...]) -> IntArray:
        """Return the node of a cut that a judge would have: by least loss, else by its cluster index; -1: none.

        That is what clients do once a partition is made: they compare models, and labels may be wrong.
        """
        node_of = np.full(self.dendrogram.branches + 1, -1)
        for node in cut:
            node_of[list(self.dendrogram.below(node))] = node
        of_cut = self.heard.held_in[:, list(cut)]
        chosen = np.array(cut)[np.where(np.isnan(of_cut), np.inf, of_cut).argmin(axis=1)]
        return np.where(np.isnan(of_cut).any(axis=1), node_of[self.heard.branch], chosen)

    @cached_property
    def branch(self) -> IntArray:
        """Return the branch that each judge would have."""
        return self.place(tuple(range(self.dendrogram.branches)))

    def best_cut(self, node: int) -> tuple[tuple[int, ...], bool]:
        """Return the best cut below a node, and whether it is open that there is a better one.

        That is the node itself, unless its members are better off in what is below.
        """
        if node < self.dendrogram.branches:
            return (node,), False
        one, other = (self.best_cut(part) for part in self.dendrogram.joins[node - self.dendrogram.branches])
        cut, is_open = one[0] + other[0], one[1] or other[1]
        verdict = self.verdict(cut, node)
        return (cut if verdict == "better" else (node,)), is_open or verdict == "open"

    def verdict(self, cut: tuple[int, ...], node: int) -> Literal["better", "open", "worse"]:
        """Return whether a node's members are better off in a cut: in loss, by enough and beyond chance, and in score.

        It is open where they gain, either beyond chance and not enough, as models do that have hardly parted, or enough
        and by half of the deviations.

        A model that is not yet sure of anything has a smaller loss as soon as it knows which classes its clients have
        most, and gets more of the others wrong. What people ask for is the score.
        """
        mine = np.flatnonzero(np.isin(self.branch, self.dendrogram.below(node)))
        place = self.place(cut)[mine]
        losses, scores, seals = self.heard.losses[mine], self.heard.scores[mine], self.heard.seals[mine]
        gains = losses[:, node] - _at(losses, place)
        needed = self.settings.min_gain * float(losses[:, node].mean()) if len(mine) else 0.0
        gained = _Mean.of(gains, place, seals)
        if gained is None or not gained.is_beyond_chance(_HINT * self.settings.deviations):
            return "worse"
        is_sure = gained.is_beyond_chance(self.settings.deviations)
        if gained.value <= needed or not is_sure:
            return "open" if gained.value > needed or is_sure else "worse"
        better = _at(scores, place) - scores[:, node]
        said = ~np.isnan(better)
        scored = _Mean.of(better[said], place[said], seals[said])
        if scored is None or scored.value > self.settings.score_deviations * scored.error:
            return "better"
        return "open" if scored.value > 0 else "worse"


@dataclass(frozen=True)
class _Mean:
    """The mean of what judges say, and how far it may be off by chance.

    Chance is within the parts of a cut: that one of them gains more than another is no sign of it. Otherwise a few who
    gain everything, as a minority does, would hide by that very gain that it is none. Where a part loses, how many
    judges of each part there are decides the sign, and that is chance as well.
    """

    value: float
    error: float
    freedom: int  # degrees of freedom of the error
    of_few: float  # the same if the error is that of few judges, however many others there are (Satterthwaite)

    @staticmethod
    def of(values: FloatArray, part: IntArray, seals: IntArray) -> "_Mean | None":
        """Return the mean over judges, of whom each counts the same; None where no error can be told."""
        judge = _numbered(seals)
        rows = np.bincount(judge)
        _, part = np.unique(part, return_inverse=True)
        weight = 1.0 / rows[judge]  # who has judged by both halves is one judge all the same
        in_part = np.bincount(part, weights=weight)
        means = np.bincount(part, weights=weight * values) / in_part if len(values) else np.zeros(0)
        count, freedom = len(rows), len(rows) - len(means)
        if freedom < 1:
            return None
        value = float((weight * values).sum() / count)
        centres = means[part] if (means >= 0).all() else np.full(len(values), value)
        off = np.bincount(judge, weights=weight * (values - centres))  # of each judge, its halves together
        home = part[np.unique(judge, return_index=True)[1]]
        spreads, judges = (np.bincount(home, weights=one, minlength=len(means)) for one in (off**2, None))
        # A part with a single judge has no spread of its own to go by: it is taken to be as wide as all of them.
        free = np.where(judges > 1, judges - 1, freedom)
        wide = np.where(judges > 1, spreads / free, spreads.sum() / freedom)
        errors = judges * wide / count**2
        concentration = float((errors**2 / free).sum())
        of_few = float(errors.sum()) ** 2 / concentration if concentration > 0 else float(freedom)
        return _Mean(value, float(np.sqrt(errors.sum())), freedom, of_few)

    def is_beyond_chance(self, deviations: float) -> bool:
        """Return whether it is above zero by so many deviations, or by as much as makes up for few judges."""
        if self.freedom < _FEWEST_FREE:
            return False
        enough = max(_student(deviations, self.freedom), _student(_OF_FEW * deviations, self.of_few))
        return self.value > enough * self.error


def _numbered(seals: IntArray) -> IntArray:
    """Return a number for each judge, in the order in which they come first: what their seals are decides nothing."""
    _, first, judge = np.unique(seals, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[judge])


def _student(deviations: float, freedom: float) -> float:
    """Return Student's quantile for the chance of so many deviations, by the first terms of its expansion."""
    z = deviations
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _at(values: FloatArray, node: IntArray) -> FloatArray:
    """Return each row's value at its node."""
    return np.asarray(values[np.arange(len(node)), node])


def _tamed(losses: FloatArray, root: int) -> FloatArray:
    """Return the losses with none beyond all others, or a single client could hide what all the others gain."""
    usual = float(np.median(losses[:, root]))
    return losses if usual <= 0 else np.minimum(losses, _MOST_OF_USUAL * usual)
