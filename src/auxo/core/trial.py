"""A partition on trial: branches of one cohort train models of their own, and clients' held-out samples judge them.

Nothing is lost by trying. The cohort's own model goes on by the mean of the branches' movements, which is, to first
order, what all participants would have sent for it, so it is the rival to beat, and what the cohort goes on with if no
partition pays. What pays is what clients gain,
in loss on samples that neither their model nor their label has seen: those who gain much, those who lose by having
fewer participants, in one sum.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.core.aggregators import Aggregator, ServerState
from auxo.core.dendrogram import Dendrogram
from auxo.core.own_state import NOTHING, blended
from auxo.core.partition import Partition
from auxo.core.settings import setting
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

_NO_MODEL = -1
_FOR_ALL = 2 / 3  # of the deviations, that all must gain by where some of them gain enough by themselves; our choice
_FEW = 0.25  # of those who judge; our choice
_MOST_OF_USUAL = 10.0  # losses count up to as many times the median; our choice


@dataclass(frozen=True)
class TrialSettings:
    """How a partition is tried."""

    rounds: int = setting(10, "Rounds that branches train alone before they are judged by the second half of them.")
    deviations: float = setting(
        3.0,
        "Deviations by which the members of two branches must be better off apart, so that it is not chance.",
    )
    score_deviations: float = setting(
        1.0,
        "Deviations by which their score must be better, too, where judges tell one: a smaller loss may be all there "
        "is to knowing which classes are frequent.",
    )
    min_gain: float = setting(
        0.02,
        "Share of their loss that members of two branches must gain by parting; less is not worth fewer samples.",
    )
    min_participants: int = setting(5, "Fewest participants a round that a branch may have; our choice.")
    looks_from: int = setting(
        20,
        "Participants a round from which on a cohort looks for groups; with fewer, too few would judge what it finds.",
    )
    horizon: int = setting(10, "Rounds over which a model averages the noise of its steps; our choice.")
    waits_for: float = setting(
        0.8,
        "Share of participants that must bring a cluster index before a trial begins.",
    )
    patience: int = setting(
        30,
        "Rounds after which a trial begins all the same, because most clients may never come back.",
    )
    rest: float = setting(
        1.0,
        "How long a cohort trains as it is after a trial that did not pay, in parts of the rounds behind it.",
    )

    def __post_init__(self) -> None:
        for name in ("rounds", "horizon", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.min_participants < 2:
            raise ValueError(f"min_participants: expected at least 2, got {self.min_participants}")
        if self.looks_from < 2 * self.min_participants:
            raise ValueError(
                f"looks_from: expected enough for two branches of min_participants = {self.min_participants}, got "
                f"{self.looks_from}; raise it to {2 * self.min_participants} or more"
            )
        if not 0 <= self.waits_for <= 1:
            raise ValueError(f"waits_for: expected a share in [0, 1], got {self.waits_for}")
        if not 0 <= self.min_gain < 1:
            raise ValueError(f"min_gain: expected a share in [0, 1), got {self.min_gain}")
        for name in ("deviations", "score_deviations", "rest"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a number >= 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class Judgements:
    """What a round's judges have found on samples that they do not train on."""

    asked: IntArray  # (judges, most nodes) nodes that each was asked about; -1: none
    losses: FloatArray  # (judges, most nodes) NaN: none
    scores: FloatArray  # (judges, most nodes) larger is better; NaN: not said

    def by_node(self, nodes: int) -> tuple[FloatArray, FloatArray]:
        """Return losses and scores of those who have answered in full, (judged, nodes) each."""
        whole = (self.asked >= 0).any(axis=1) & (np.isfinite(self.losses) | (self.asked < 0)).all(axis=1)
        asked = self.asked[whole]
        judge, place = np.nonzero(asked >= 0)
        found = []
        for said in (self.losses[whole], self.scores[whole]):
            rows = np.full((len(asked), nodes), np.nan)
            rows[judge, asked[judge, place]] = said[judge, place]
            found.append(rows)
        return found[0], found[1]


@dataclass(frozen=True)
class Trial:
    """Branches that train alone, and what clients said of them; nothing in it belongs to a client."""

    dendrogram: Dendrogram
    weights: tuple[float, ...]  # believed share of the cohort's members in each branch
    servers: tuple[ServerState, ...]  # of the branches
    rounds: int = 0  # that it has gone on for
    losses: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (judged, nodes); NaN: not of that node
    scores: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (judged, nodes); NaN: not said

    @staticmethod
    def begin(dendrogram: Dendrogram, weights: FloatArray, server: ServerState) -> "Trial":
        """Return a trial in which every branch starts from the cohort's model."""
        shares = np.bincount(np.array(dendrogram.branch_of), weights=weights, minlength=dendrogram.branches)
        return Trial(
            dendrogram,
            tuple(float(share) for share in shares / shares.sum()),
            (server,) * dendrogram.branches,
            losses=np.zeros((0, dendrogram.root + 1)),
            scores=np.zeros((0, dendrogram.root + 1)),
        )

    def server(self, node: int) -> ServerState:
        """Return the mean of a node's branches: the model that its members would have together."""
        branches = self.dendrogram.below(node)
        if len(branches) == 1:
            return self.servers[branches[0]]
        weights = np.array([self.weights[branch] for branch in branches])
        parts = [self.servers[branch] for branch in branches]
        mean = _mean([part.weights for part in parts], weights).astype(np.float32)
        slots = tuple(_mean([part.slots[slot] for part in parts], weights) for slot in range(len(parts[0].slots)))
        own = blended(tuple(part.own for part in parts), tuple(float(weight) for weight in weights))
        return ServerState(mean, slots, max(part.steps for part in parts), own)

    def mean_movement(self, movements: tuple[FloatArray | None, ...]) -> FloatArray | None:
        """Return what moves the cohort's own model, the rival, in a round: the mean of its branches' movements.

        To first order it is what all participants would have sent for that model. Its optimiser goes on from its own
        state: that of a mean of branches has seen the noise of their few participants, and would make smaller steps for
        many rounds. None: nobody has trained.
        """
        moved = [branch for branch, movement in enumerate(movements) if movement is not None]
        if not moved:
            return None
        known = [movement for movement in movements if movement is not None]
        return _mean(known, np.array([self.weights[branch] for branch in moved]))

    def rival(
        self, server: ServerState, movement: FloatArray | None, aggregator: Aggregator, rate_scale: float
    ) -> ServerState:
        """Return the cohort's own model after a round, from what it was before; see `mean_movement`.

        A step of somebody else's, which keeps a state of its own, knows its own movements only: there the rival is the
        mean of the branches' models and states.
        """
        if server.own != NOTHING:
            return replace(self.server(self.dendrogram.root), steps=server.steps + 1)
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
        """Return the models of the inner nodes but the root's, which is the cohort's own."""
        return tuple(self.server(node).weights for node in range(self.dendrogram.branches, self.dendrogram.root))

    def counts(self, settings: TrialSettings) -> bool:
        """Return whether the next round's judges are heard: in the first half models have hardly parted."""
        return self.rounds >= settings.rounds // 2

    def asked(self, branch: IntArray) -> IntArray:
        """Return the nodes whose models each participant is to judge, -1 filling up; none without a branch."""
        paths = self.dendrogram.paths
        asked = np.full((len(branch), max(map(len, paths))), _NO_MODEL, dtype=np.int64)
        for number, path in enumerate(paths):
            asked[branch == number, : len(path)] = path
        return asked

    def after(
        self,
        movements: tuple[FloatArray | None, ...],
        aggregator: Aggregator,
        rate_scale: float,
        judgements: "Judgements",
    ) -> "Trial":
        """Return the trial after a round.

        Args:
            movements: of the branches; None: nobody has trained it.
            aggregator: of the cohort.
            rate_scale: see `Aggregator.step`.
            judgements: what judges said in it.
        """
        servers = tuple(
            server if movement is None else aggregator.step(server, movement, rate_scale)
            for server, movement in zip(self.servers, movements, strict=True)
        )
        losses, scores = judgements.by_node(self.losses.shape[1])
        return replace(
            self,
            servers=servers,
            rounds=self.rounds + 1,
            losses=np.concatenate([self.losses, losses]),
            scores=np.concatenate([self.scores, scores]),
        )


@dataclass(frozen=True)
class Cut:
    """What a trial came to: the nodes that are to be cohorts; the root alone where no partition pays."""

    nodes: tuple[int, ...]
    gain: float  # of loss, as a share of the rival's
    judged: int


def prune(trial: Trial, settings: TrialSettings) -> Cut:
    """Return the cut of the dendrogram in which every two nodes are better off apart, beyond chance.

    From the branches up: what a node's members lose by sharing its model is compared with what they have in the best
    cut below.
    """
    root = trial.dendrogram.root
    if not len(trial.losses):
        return Cut((root,), 0.0, 0)
    losses = _tamed(trial.losses, root)
    cut, best = _best_cut(trial.dendrogram, root, _Judged(losses, trial.scores), settings)
    rival = losses[:, root]
    gain = float((rival - best.loss).mean() / rival.mean()) if rival.mean() > 0 else 0.0
    return Cut(cut, gain, len(losses))


@dataclass(frozen=True)
class _Judged:
    """What judges have said, by node (judged, nodes), or of the best cut below one, (judged,) with NaN for others."""

    loss: FloatArray
    score: FloatArray

    def of(self, node: int) -> "_Judged":
        return _Judged(self.loss[:, node], self.score[:, node])

    def or_of(self, other: "_Judged") -> "_Judged":
        mine = ~np.isnan(self.loss)
        return _Judged(np.where(mine, self.loss, other.loss), np.where(mine, self.score, other.score))


def _best_cut(
    dendrogram: Dendrogram, node: int, judged: _Judged, settings: TrialSettings
) -> tuple[tuple[int, ...], _Judged]:
    """Return the best cut below a node, and what its members say of it."""
    together = judged.of(node)
    if node < dendrogram.branches:
        return (node,), together
    parts = [_best_cut(dendrogram, part, judged, settings) for part in dendrogram.joins[node - dendrogram.branches]]
    apart = parts[0][1].or_of(parts[1][1])
    cut = parts[0][0] + parts[1][0]
    members = tuple(~np.isnan(judged.loss[:, one]) for one in cut)
    if _is_better(together, apart, members, settings):
        return cut, apart
    return (node,), together


def _is_better(together: _Judged, apart: _Judged, members: tuple[BoolArray, ...], settings: TrialSettings) -> bool:
    """Return whether members are better off apart: in loss by enough and beyond chance, and in score as well.

    A model that is not yet sure of anything has a smaller loss as soon as it knows which classes its clients have most,
    and gets more of the others wrong. What people ask for is the score.
    """
    mine = ~np.isnan(apart.loss)
    if mine.sum() < 2:
        return False
    gains = together.loss - apart.loss
    if gains[mine].mean() <= settings.min_gain * float(together.loss[mine].mean()):
        return False
    # Where few gain all of it, as a minority does, the mean of all is never far beyond its error; that of the few is.
    are_few = _is_beyond_chance(gains[mine], _FOR_ALL * settings.deviations) and any(
        _is_beyond_chance(gains[some], settings.deviations) for some in members if some.sum() <= _FEW * mine.sum()
    )
    if not (are_few or _is_beyond_chance(gains[mine], settings.deviations)):
        return False
    better = (apart.score - together.score)[mine]
    said = better[~np.isnan(better)]
    return len(said) < 2 or bool(said.mean() > settings.score_deviations * _error(said))


def _is_beyond_chance(gains: FloatArray, deviations: float) -> bool:
    """Return whether a mean is above zero by so many deviations, or by as much as makes up for few values."""
    freedom = len(gains) - 1
    if freedom < 1:
        return False
    z = deviations  # Student's quantile for the chance of so many deviations, by the first terms of its expansion
    needed = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return bool(gains.mean() > needed * _error(gains))


def _error(values: FloatArray) -> float:
    """Return the standard error of their mean."""
    return float(values.std(ddof=1)) / float(np.sqrt(len(values)))


def _tamed(losses: FloatArray, root: int) -> FloatArray:
    """Return the losses with none beyond all others, or a single client could hide what all the others gain."""
    usual = float(np.median(losses[:, root]))
    return losses if usual <= 0 else np.minimum(losses, _MOST_OF_USUAL * usual)


def routes_of(dendrogram: Dendrogram, cut: Cut) -> tuple[int, ...]:
    """Return which of the cut's nodes each cluster goes to."""
    node_of = {branch: number for number, node in enumerate(cut.nodes) for branch in dendrogram.below(node)}
    return tuple(node_of[branch] for branch in dendrogram.branch_of)


def _mean(arrays: list[Float32Array] | list[FloatArray], weights: FloatArray) -> FloatArray:
    total = np.zeros(arrays[0].shape)
    for array, weight in zip(arrays, weights / weights.sum(), strict=True):
        total += weight * array
    return total
