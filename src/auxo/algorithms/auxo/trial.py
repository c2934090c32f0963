"""A partition on trial: branches of one cohort train models of their own, and clients' held-out samples judge them.

Nothing is lost by trying. The cohort's own model goes on by the mean of all participants' updates, which is, to first
order, what they would have sent for it, and is what the cohort goes on with if no partition pays. The rival to beat is
the same without the judges' updates: of their own samples the cohort's own model knows too much. verdict.py has what
follows from what the judges say.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.algorithms.auxo.dendrogram import Dendrogram
from auxo.algorithms.auxo.settings import TrialSettings
from auxo.algorithms.auxo.verdict import Cut, Judgements
from auxo.core.aggregators import Aggregator, ServerState
from auxo.core.own_state import NOTHING, blended
from auxo.core.partition import Partition
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

_NO_MODEL = -1


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
    """Branches that train alone, and what clients said of them, each under a seal."""

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

    def parted(self, cut: Cut, generation: int) -> Partition:
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

    def is_over(self, cut: Cut, settings: TrialSettings) -> bool:
        """Return whether it ends with this cut: when its rounds are, unless it is open what more of them would show.

        Where a cut pays already the others wait for that once, and not longer.
        """
        if self.rounds % settings.rounds:
            return False
        return not cut.is_open or bool(self.paid) or self.rounds + settings.rounds > settings.most_rounds

    def ends_with(self, cut: Cut) -> Cut:
        """Return what it comes to: its last cut, or an earlier one if only that has paid."""
        return replace(cut, nodes=self.paid) if self.paid and not cut.pays else cut

    def going_on(self, cut: Cut, settings: TrialSettings) -> "Trial":
        """Return the trial before its next round: of models that train on, judges are heard anew."""
        if self.rounds % settings.rounds:
            return self
        return replace(self, heard=Judgements.none(self.dendrogram.root + 1), paid=cut.nodes if cut.pays else self.paid)

    def asked(self, judges: BoolArray) -> IntArray:
        """Return the nodes whose models each participant is to judge: all of them, and -1 for others."""
        return np.where(judges[:, None], np.arange(self.dendrogram.root + 1)[None, :], _NO_MODEL)

    def after(self, moved: Moved, aggregator: Aggregator, rate_scale: float, judgements: Judgements) -> "Trial":
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
