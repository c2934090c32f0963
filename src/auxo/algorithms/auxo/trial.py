"""A partition on trial: branches of one cohort train models of their own, and clients' samples judge them.

In its first round everybody trains the cohort's own model, and each update moves the branch too that it is nearest to.
From then on one half of the participants trains the cohort's own model, which goes on as ever, and the others train
whichever branch has the least loss on their samples: so clients settle, whatever clusters they came from. Judges say
what the models do on samples that have trained none of them (`evidence`). As soon as they are sure that it pays the
branches that they would miss become cohorts; if they never are, nothing has happened.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo.evidence import OWN, Evidence, Said, choices, share_of
from auxo.algorithms.auxo.judges import TRAINS_ON, are_controls, are_judges, seals
from auxo.algorithms.auxo.looking import Candidate
from auxo.algorithms.auxo.pooling import Pooling
from auxo.algorithms.auxo.settings import TrialSettings
from auxo.algorithms.auxo.views import Prints, View
from auxo.core.aggregators import ServerState
from auxo.core.asking import BEST_ON_TRIAL
from auxo.core.claims import Claims, claims_of
from auxo.core.cohort_algorithm import Closing, Opening, Plan
from auxo.core.gathering import Examined, Gathered
from auxo.core.own_state import own
from auxo.core.partition import Partition
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray

_LAST_PART = 0.75  # of the rounds up to a power of two, after which judges are heard: few at first, more later
_FIRST_LOOK = 2  # rounds after which judges are heard first; our choice
_MAY_FAIL = 4  # rounds from which on a trial may be given up; our choice
_VALIDATION = 0.2  # of as many samples as it trains on, that a client is taken to judge by if it does not say


@dataclass(frozen=True)
class OnTrial:
    """A cohort whose clusters train branches; nothing in it belongs to a client."""

    resumes: Pooling  # what the cohort goes on with if nothing pays
    generation: int  # that labels are of
    view: View
    centres: FloatArray  # (clusters, axes) of the clusters that branches began from
    common: Prints  # what the participants shared from whose updates they come
    blocks: IntArray  # (width,) of the fingerprints
    others: bool  # another view shows groups, too
    servers: tuple[ServerState, ...]  # of the branches
    evidence: Evidence
    settlers: FloatArray  # (branches,) participants so far that liked each best
    rounds: int = 0

    @staticmethod
    def begin(
        pooling: Pooling, found: tuple[Candidate, ...], server: ServerState, blocks: IntArray, generation: int
    ) -> "OnTrial":
        """Return a trial of the first of some candidates, in which every branch starts from the cohort's model."""
        first, *rest = found
        assert pooling.common is not None  # noqa: S101 - something has been pooled
        return OnTrial(
            resumes=replace(pooling, rounds=(), common=None, trials=pooling.trials + 1),
            generation=generation,
            view=first.view,
            centres=first.centres,
            common=pooling.common,
            blocks=blocks,
            others=any(1 < one.structure.shown < math.inf for one in rest),
            servers=(server,) * first.clusters,
            evidence=Evidence.begin(1 + first.clusters, everybody=pooling.everybody),
            settlers=np.zeros(first.clusters),
        )

    def held_servers(self) -> tuple[ServerState, ...]:
        """Return the models of the branches."""
        return self.servers

    def held_models(self) -> tuple[Float32Array, ...]:
        """Return nothing: no model is only compared."""
        return ()

    @property
    def hears(self) -> bool:
        """Return whether judges are heard in the next round.

        Each is heard once where judges are a sample: few at first, when models have hardly parted, and more later.
        """
        if self.rounds < _FIRST_LOOK or self.evidence.everybody:
            return self.rounds >= _FIRST_LOOK
        return self.rounds > _LAST_PART * float(2 ** math.ceil(math.log2(self.rounds)))

    @property
    def is_look(self) -> bool:
        """Return whether what has been heard after the next round is looked at: after 2, 4, 8 ... rounds."""
        return self.rounds >= _FIRST_LOOK and self.rounds & (self.rounds - 1) == 0

    def plan(self, opening: Opening, plan: Plan) -> Plan:
        """Return who trains what: judges and half of the others the cohort's own model, the rest the best branch."""
        asks, clients, offered = plan.asks, opening.selected.clients[plan.rows], len(plan.offered)
        here = asks.model == OWN  # others are about to leave
        judges = here & are_judges(clients, self.resumes.share)
        tries = here & ~are_controls(clients, opening.state.round)
        if not self.evidence.everybody:
            tries &= ~judges
            judges &= ~np.isin(seals(clients, self.generation, opening.secret), self.evidence.said.seals)
        if self.rounds == 0:
            tries = np.zeros_like(here)
        asked = np.array([OWN, *range(offered, offered + len(self.servers))])
        model = np.where(tries, BEST_ON_TRIAL, asks.model)
        heard = np.where((judges & self.hears)[:, None], asked[None, :], -1) if self.hears else None
        fold = np.full(len(clients), TRAINS_ON) if self.evidence.everybody else asks.fold
        return replace(plan, asks=replace(asks, fold=fold, model=model, judges=heard, on_trial=len(self.servers)))

    def nearest(self, prints: Prints) -> IntArray:
        """Return the branch that each update of the cohort's own model is nearest to; -1: none."""
        points = self.view.points(prints.less(self.common), self.blocks)
        nearness = self.view.nearness(points, self.centres[: len(self.servers)])
        best = np.where(np.isnan(nearness), -np.inf, nearness).argmax(axis=1)
        return np.where(np.isnan(nearness).all(axis=1), -1, best)

    def settled(self, gathered: Gathered, offered: int) -> FloatArray:
        """Return (answers, clusters) 1 for the branch whose model had the least loss for a participant, else 0.

        NaN for those who have not looked: where they belong after a partition they find out when they come again.
        """
        branch = gathered.model - offered
        told = gathered.judged.loss[:, 1 : 1 + len(self.servers)]
        if told.shape[1] == len(self.servers):
            has_judged = np.isfinite(told).any(axis=1) & (branch < 0)
            branch = np.where(has_judged, _finite(told).argmin(axis=1), branch)
        places = np.arange(len(self.centres))
        return np.where(branch[:, None] >= 0, (branch[:, None] == places[None, :]).astype(np.float64), np.nan)

    def moved(self, servers: tuple[ServerState, ...], said: Said, branches: IntArray) -> "OnTrial":
        """Return the trial after a round, with the branches that participants have trained in it."""
        evidence = self.evidence.after(said, is_look=self.is_look)
        settlers = self.settlers + np.bincount(branches, minlength=len(servers))
        return replace(self, servers=servers, evidence=evidence, settlers=settlers, rounds=self.rounds + 1)

    def said(self, closing: Closing, gathered: Gathered) -> Said:
        """Return what a round's judges have said.

        Who has told one loss of each model, by validation data of its own, is taken to have the branch that it has
        trained before: by the same samples it would choose and be judged.
        """
        models, asked = 1 + len(self.servers), closing.participants.asks.judges
        if asked is None or gathered.judged.loss.shape[1] < models:
            return Said.none(models)
        # A single sample is both halves of its client; and a model that has diverged is as bad as can be.
        rows = np.flatnonzero(
            (asked[gathered.rows].max(axis=1) >= 0)
            & (gathered.examples > 1)
            & ~gathered.late
            & np.isfinite(gathered.judged.loss[:, OWN])
        )
        judged, claims = gathered.judged, claims_of(closing, gathered).take(rows)
        trains_on_all = closing.participants.asks.fold[gathered.rows[rows]] < 0
        by = _finite(judged.other_loss[rows, :models])
        is_untold = np.isnan(judged.other_loss[rows, :models]).all(axis=1)
        usable = (claims.generation == self.generation) & (claims.label >= 0) & (claims.label < models - 1)
        by[is_untold] = _only(np.where(usable, claims.label + 1, OWN), models)[is_untold]
        heard = np.flatnonzero(~is_untold | usable)
        guessed = np.where(is_untold, _VALIDATION, 0.5) * gathered.examples[rows]
        samples = np.where(np.isnan(judged.samples[rows]), guessed, judged.samples[rows])
        clients = closing.participants.clients[gathered.rows[rows]]
        return Said(
            seals=seals(clients, self.generation, closing.secret),
            rounds=np.full(len(rows), self.rounds),
            samples=samples,
            losses=_finite(judged.loss[rows, :models]),
            scores=judged.score[rows, :models],
            other_losses=by,
            other_scores=judged.other_score[rows, :models],
            both=trains_on_all & ~is_untold & np.array(not self.evidence.everybody),
        ).take(heard)

    def gain(self) -> float:
        """Return what judges gain by their choice, as a share of the loss of the cohort's own model."""
        gains = self.evidence.recent.gains(self.evidence.usual)
        return float(gains.mean()) if len(gains) else 0.0

    def partition(self, own_server: ServerState, most: int, settings: TrialSettings) -> Partition | None:
        """Return what judges are sure of; None: nothing as yet.

        Args:
            own_server: the cohort's own model, which may be one of those that they would miss.
            most: children that there may be.
            settings: see `TrialSettings`.
        """
        alpha = share_of(settings.alpha, self.resumes.trials)
        if (self.evidence.everybody and not self._has_looked) or not self.evidence.is_sure(alpha):
            return None
        kept = np.array(self.evidence.fewest())
        heard = self.evidence.recent
        better = heard.better_scores(kept)
        if len(kept) > most or heard.gains(self.evidence.usual, kept).mean() < settings.min_gain:
            return None
        if np.isfinite(better).any() and not np.nanmean(better) > 0:  # a smaller loss may be calibration alone
            return None
        routes, weights = (
            self._routes(heard, kept),
            np.bincount(np.searchsorted(kept, choices(heard.other_losses, kept))),
        )
        if len(weights) < len(kept) or (weights == 0).any():
            return None
        if OWN not in kept:  # which participants did not have to choose among, and they are more than judges
            weights = weights + np.bincount(routes[: len(self.servers)], self.settlers, len(kept))
        servers = (own_server, *self.servers)
        return Partition(
            routes=routes,
            weights=tuple((weights / weights.sum()).tolist()),
            generation=self.generation,
            # An adaptive optimiser that has seen the few participants of a branch makes smaller steps for many rounds.
            servers=tuple(replace(servers[one], slots=own_server.slots, steps=own_server.steps) for one in kept),
        )

    @property
    def _has_looked(self) -> bool:
        """Return whether the round that has just closed was one after which is looked."""
        return self.rounds - 1 >= _FIRST_LOOK and (self.rounds - 1) & (self.rounds - 2) == 0

    def _routes(self, heard: Said, kept: IntArray) -> tuple[int, ...]:
        """Return which child each cluster goes to: of a branch that is not missed, where its judges would go."""
        first, child_of = choices(heard.other_losses), {int(one): child for child, one in enumerate(kept)}
        largest = int(np.bincount(np.searchsorted(kept, choices(heard.other_losses, kept))).argmax())
        routes = []
        for place in range(1, len(self.centres) + 1):
            mine = heard.take(first == place).other_losses
            if place not in child_of and len(mine):
                routes.append(int(np.bincount(np.searchsorted(kept, choices(mine, kept))).argmax()))
            else:
                routes.append(child_of.get(place, largest))
        # No label leads to the cohort's own model by itself, and every child has to be reached by some number.
        return (*routes, child_of[OWN]) if OWN in child_of else tuple(routes)

    def is_over(self, settings: TrialSettings) -> bool:
        """Return whether it is given up: judges gain too little, or nobody judges, or it has gone on for too long."""
        is_unheard = not len(self.evidence.said.seals) and self.rounds > 2 * _MAY_FAIL
        if is_unheard or self.rounds > settings.most_rounds:
            return True
        looked = self._has_looked if self.evidence.everybody else True
        return looked and self.rounds > _MAY_FAIL and self.evidence.is_hopeless(settings.min_gain)


@dataclass(frozen=True)
class ToBranches:
    """Has updates of the cohort's own model move the nearest branch, too, in a trial's first round."""

    trial: OnTrial
    offered: int  # leaves whose models take part in the round; the first is the cohort's own
    stays: BoolArray  # (participants,) judges, whose updates move no branch

    def place(self, row: int, examined: Examined, model: int) -> int | tuple[int, ...] | None:
        """Return the models that an update moves; none where somebody has trained another leaf's."""
        if model >= self.offered or self.trial.rounds > 0 or self.stays[row]:
            return model if model == OWN or model >= self.offered else None
        if model != OWN:
            return None
        prints = Prints(examined.direction[None, :], examined.outputs[None, :], examined.inputs[None, :])
        branch = int(self.trial.nearest(prints)[0])
        return model if branch < 0 else (model, self.offered + branch)


def to_branches(trial: OnTrial, closing: Closing) -> ToBranches:
    """Return who decides which models the updates of a round on trial move."""
    judges = are_judges(closing.participants.clients, trial.resumes.share)
    return ToBranches(trial, len(closing.models), judges & ~np.array(trial.evidence.everybody))


def labelled(closing: Closing, gathered: Gathered, generation: int) -> int:
    """Return how many participants have brought a label of this generation."""
    claims = own(Claims, closing.participants.notes).take(gathered.rows)
    return int(((claims.label >= 0) & (claims.generation == generation)).sum())


def _finite(losses: FloatArray) -> FloatArray:
    return np.where(np.isnan(losses), np.inf, losses)


def _only(place: IntArray, models: int) -> FloatArray:
    """Return losses by which nobody can choose anything but one model."""
    return np.where(np.arange(models)[None, :] == place[:, None], 0.0, np.inf)
