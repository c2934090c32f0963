"""A partition on trial: branches of one cohort train models of their own, and clients' held-out samples judge them.

Nothing is lost by trying. The cohort's own model goes on by the mean of all participants' updates, which is, to first
order, what they would have sent for it, and is what the cohort goes on with if no partition pays. The rival to beat is
the same without the judges' updates: of their own samples the cohort's own model knows too much. What pays is what
clients gain, in loss on samples that neither the models on trial nor their choice among them has seen: those who gain
much, those who lose by having fewer participants, in one sum.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from auxo.core.aggregators import Aggregator, ServerState
from auxo.core.dendrogram import Dendrogram
from auxo.core.own_state import NOTHING, blended
from auxo.core.partition import Partition
from auxo.core.settings import AtLeastTwo, Fraction, NonNegativeFloat, PositiveInt, ProperFraction, checked, setting
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

_NO_MODEL = -1
_HINT = 1 / 2  # of the deviations, from which on a gain may turn out to be one; our choice
_OF_FEW = 2 / 3  # of the deviations, that are asked for where a few judges make up all the chance; our choice
_FEWEST_FREE = 4  # degrees of freedom; with fewer the expansion of the quantile is far too small
_MOST_OF_USUAL = 10.0  # losses count up to as many times the median; our choice


@dataclass(frozen=True)
@checked
class TrialSettings:
    """How a partition is tried."""

    rounds: PositiveInt = setting(
        10, "Rounds that branches train alone before they are judged by the second half of them."
    )
    most_rounds: int = setting(
        40,
        "Rounds after which a trial ends; until then one goes on for as many rounds again while branches gain and it "
        "is open whether it is enough, or chance. Our choice.",
    )
    deviations: NonNegativeFloat = setting(
        3.0,
        "Deviations by which the members of two branches must be better off apart, so that it is not chance.",
    )
    score_deviations: NonNegativeFloat = setting(
        1.0,
        "Deviations by which their score must be better, too, where judges tell one: a smaller loss may be all there "
        "is to knowing which classes are frequent.",
    )
    min_gain: ProperFraction = setting(
        0.02,
        "Share of their loss that members of two branches must gain by parting; less is not worth fewer samples.",
    )
    judges_choose: bool = setting(
        True,
        "Judges are taken to have the model that fits one half of their samples best, and judge by the other half; "
        "false: the model that their cluster index leads to, as those who have validation data of their own do.",
    )
    min_participants: AtLeastTwo = setting(5, "Fewest participants a round that a branch may have; our choice.")
    looks_from: int = setting(
        20,
        "Participants a round from which on a cohort looks for groups; with fewer, too few would judge what it finds.",
    )
    horizon: PositiveInt = setting(10, "Rounds over which a model averages the noise of its steps; our choice.")
    waits_for: Fraction = setting(
        0.8,
        "Share of participants that must bring a cluster index before a trial begins: only their models part properly, "
        "and only their updates tell which clusters are alike. Our choice.",
    )
    patience: PositiveInt = setting(
        30,
        "Rounds after which a trial begins all the same, because most clients may never come back.",
    )
    rest: NonNegativeFloat = setting(
        1.0,
        "How long a cohort trains as it is after a trial that did not pay, in parts of the rounds behind it.",
    )

    def __post_init__(self) -> None:
        if self.looks_from < 2 * self.min_participants:
            raise ValueError(
                f"looks_from: expected enough for two branches of min_participants = {self.min_participants}, got "
                f"{self.looks_from}; raise it to {2 * self.min_participants} or more"
            )
        if self.most_rounds < self.rounds:
            raise ValueError(f"most_rounds: expected at least rounds = {self.rounds}, got {self.most_rounds}")


@dataclass(frozen=True)
class Judgements:
    """What judges have found of the models of all nodes; who has said it of both halves of its samples has two rows."""

    branch: IntArray  # (rows,) that the judge's cluster index leads to; -1: none
    losses: FloatArray  # (rows, nodes) on the samples that it judges by; NaN: not said
    scores: FloatArray  # (rows, nodes) on these, larger is better; NaN: not said
    held_in: FloatArray  # (rows, nodes) losses on its other samples, by which it chooses; NaN: not said
    seals: IntArray  # (rows,) by which judges are known again, see `auxo.core.judges`

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
class Moved:
    """How a round has moved the cohort's own model, which judges train, and those of its branches."""

    own: FloatArray | None  # None: nobody has trained it
    branches: tuple[FloatArray | None, ...]
    behind: FloatArray  # (1 + branches,) examples behind each, the own model's first

    def mean(self, *, with_own: bool = True) -> FloatArray | None:
        """Return the movement of all participants together, or of those who train branches; None: there were none."""
        movements = (self.own if with_own else None, *self.branches)
        there = [place for place, one in enumerate(movements) if one is not None and self.behind[place] > 0]
        if not there:
            return None
        return _mean([one for one in (movements[place] for place in there) if one is not None], self.behind[there])


@dataclass(frozen=True)
class Trial:
    """Branches that train alone, and what clients said of them; nothing in it belongs to a client."""

    dendrogram: Dendrogram
    weights: tuple[float, ...]  # believed share of the cohort's members in each branch
    servers: tuple[ServerState, ...]  # of the branches
    rival: ServerState  # what those who train branches would have together
    paid: tuple[int, ...] = ()  # nodes of a cut that paid, when the trial went on for what was open besides
    rounds: int = 0  # that it has gone on for
    heard: Judgements = field(default_factory=lambda: Judgements.none(0))

    @staticmethod
    def begin(dendrogram: Dendrogram, weights: FloatArray, server: ServerState) -> "Trial":
        """Return a trial in which every branch starts from the cohort's model."""
        shares = np.bincount(np.array(dendrogram.branch_of), weights=weights, minlength=dendrogram.branches)
        return Trial(
            dendrogram,
            tuple(float(share) for share in shares / shares.sum()),
            (server,) * dendrogram.branches,
            server,
            heard=Judgements.none(dendrogram.root + 1),
        )

    def server(self, node: int) -> ServerState:
        """Return the mean of a node's branches: the model that its members would have together."""
        branches = self.dendrogram.below(node)
        if len(branches) == 1:
            return self.servers[branches[0]]
        weights = np.array([self.weights[branch] for branch in branches])
        return _mean_server([self.servers[branch] for branch in branches], weights)

    def own(self, server: ServerState, moved: Moved, aggregator: Aggregator, rate_scale: float) -> ServerState:
        """Return the cohort's own model after a round, from what it was before.

        It moves by the mean of all participants' updates, whichever model they were made at: to first order what they
        would have sent for it. Its optimiser goes on from its own state: that of a mean of branches has seen the noise
        of their few participants, and would make smaller steps for many rounds. A step of somebody else's, which keeps
        a state of its own, knows its own movements only: there it is the mean of the models and states.
        """
        if server.own != NOTHING:
            share = float(moved.behind[0] / max(moved.behind.sum(), 1.0))
            parts, weights = list(self.servers), [(1 - share) * weight for weight in self.weights]
            if moved.own is not None and share > 0:
                parts.append(aggregator.step(server, moved.own, rate_scale))
                weights.append(share)
            return replace(_mean_server(parts, np.array(weights)), steps=server.steps + 1)
        movement = moved.mean()
        return server if movement is None else aggregator.step(server, movement, rate_scale)

    def parted(self, cut: "Cut", generation: int) -> Partition:
        """Return the partition into the nodes of a cut, each with the model that it has had on trial."""
        held = [self.dendrogram.below(node) for node in cut.nodes]
        return Partition(
            routes=routes_of(self.dendrogram, cut),
            weights=tuple(sum(self.weights[branch] for branch in branches) for branches in held),
            generation=generation,
            servers=tuple(self.server(node) for node in cut.nodes),
        )

    def joined(self) -> tuple[Float32Array, ...]:
        """Return the models of the inner nodes; the root's is the rival."""
        inner = range(self.dendrogram.branches, self.dendrogram.root)
        return (*(self.server(node).weights for node in inner), self.rival.weights)

    def counts(self, settings: TrialSettings) -> bool:
        """Return whether the next round's judges are heard: in the first half models have hardly parted."""
        return self.rounds % settings.rounds >= settings.rounds // 2

    def is_over(self, cut: "Cut", settings: TrialSettings) -> bool:
        """Return whether it ends with this cut: when its rounds are, unless it is open what more of them would show.

        Where a cut pays already the others wait for that once, and not longer.
        """
        if self.rounds % settings.rounds:
            return False
        return not cut.is_open or bool(self.paid) or self.rounds + settings.rounds > settings.most_rounds

    def ends_with(self, cut: "Cut") -> "Cut":
        """Return what it comes to: its last cut, or an earlier one if only that has paid."""
        return replace(cut, nodes=self.paid) if self.paid and not cut.pays else cut

    def going_on(self, cut: "Cut", settings: TrialSettings) -> "Trial":
        """Return the trial before its next round: of models that train on, judges are heard anew."""
        if self.rounds % settings.rounds:
            return self
        return replace(self, heard=Judgements.none(self.dendrogram.root + 1), paid=cut.nodes if cut.pays else self.paid)

    def asked(self, judges: BoolArray) -> IntArray:
        """Return the nodes whose models each participant is to judge: all of them, and -1 for others."""
        return np.where(judges[:, None], np.arange(self.dendrogram.root + 1)[None, :], _NO_MODEL)

    def after(self, moved: Moved, aggregator: Aggregator, rate_scale: float, judgements: "Judgements") -> "Trial":
        """Return the trial after a round.

        Args:
            moved: how it has moved the models.
            aggregator: of the cohort.
            rate_scale: see `Aggregator.step`.
            judgements: what judges said in it.
        """
        servers = tuple(
            server if movement is None else aggregator.step(server, movement, rate_scale)
            for server, movement in zip(self.servers, moved.branches, strict=True)
        )
        after = replace(self, servers=servers, rounds=self.rounds + 1, heard=self.heard.and_of(judgements))
        together = moved.mean(with_own=False)
        if self.rival.own != NOTHING:  # as in `own`
            return replace(after, rival=replace(after.server(self.dendrogram.root), steps=self.rival.steps + 1))
        return after if together is None else replace(after, rival=aggregator.step(self.rival, together, rate_scale))


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


def prune(trial: Trial, settings: TrialSettings) -> Cut:
    """Return the cut of the dendrogram in which every two nodes are better off apart, beyond chance.

    From the branches up: what a node's members lose by sharing its model is compared with what they have in the best
    cut below.
    """
    root, heard = trial.dendrogram.root, trial.heard
    if not len(heard.seals):
        return Cut((root,), 0.0, 0)
    court = _Court(trial.dendrogram, replace(heard, losses=_tamed(heard.losses, root)), settings)
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
        _, judge, rows = np.unique(seals, return_inverse=True, return_counts=True)
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


def routes_of(dendrogram: Dendrogram, cut: Cut) -> tuple[int, ...]:
    """Return which of the cut's nodes each cluster goes to."""
    node_of = {branch: number for number, node in enumerate(cut.nodes) for branch in dendrogram.below(node)}
    return tuple(node_of[branch] for branch in dendrogram.branch_of)


def _mean_server(parts: list[ServerState], weights: FloatArray) -> ServerState:
    """Return the mean of models and of their optimisers' states."""
    mean = _mean([part.weights for part in parts], weights).astype(np.float32)
    slots = tuple(_mean([part.slots[slot] for part in parts], weights) for slot in range(len(parts[0].slots)))
    own = blended(tuple(part.own for part in parts), tuple(float(weight) for weight in weights))
    return ServerState(mean, slots, max(part.steps for part in parts), own)


def _mean(arrays: list[Float32Array] | list[FloatArray], weights: FloatArray) -> FloatArray:
    total = np.zeros(arrays[0].shape)
    for array, weight in zip(arrays, weights / weights.sum(), strict=True):
        total += weight * array
    return total
