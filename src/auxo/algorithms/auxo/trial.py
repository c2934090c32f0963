"""A partition on trial: branches of one cohort, which cost it nothing, and judges who say whether they would pay.

Everybody goes on training the cohort's own model. Each update moves that model, as ever, and in the shadow of it the
branch that it is nearest to: of every candidate one. So the cohort is trained as if nothing were on trial, and if
nothing comes of it nothing has happened. Whoever takes part for the first time in a trial may judge it before it
trains: its samples have moved neither the branches nor the cohort's own model since they parted (`evidence`). As soon
as judges are sure that it pays, the branches that they would miss become cohorts.

A branch moves by updates of a model that it drifts away from, so that after a while it goes too far: a trial is short.
Where clients are few it would do so at once: there half of the participants train the branches of the candidate that
leads themselves, and everybody judges.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from auxo.algorithms.auxo.evidence import COMPANY, OWN, Evidence, Said, choices, how_many_choose, share_of
from auxo.algorithms.auxo.judges import first_of, seals
from auxo.algorithms.auxo.looking import Candidate
from auxo.algorithms.auxo.pooling import FIRST_LOOK, Pooling
from auxo.algorithms.auxo.settings import TrialSettings
from auxo.algorithms.auxo.sorting import Sorting
from auxo.algorithms.auxo.views import Prints, View
from auxo.core.aggregators import ServerState
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Closing, Opening, Plan
from auxo.core.fingerprint import unit_rows
from auxo.core.folds import FIFTHS, all_but
from auxo.core.gathering import Admission, Belongs, Examined, Gathered
from auxo.core.lost_clients import OfOwnModel
from auxo.core.own_state import own
from auxo.core.partition import Partition
from auxo.core.types import CohortId, Float32Array, FloatArray, IntArray

_MAY_FAIL = 4  # rounds from which on a trial may be given up; our choice
_FAR = 2.0  # times as long as is usual in the round: an update of who has far to go; our choice
_SLOWER = 0.11  # of a loss: what a partition has to bring where losses fall with the rounds, see `_cost`; our choice
_VALIDATION = 0.2  # of as many samples as it trains on, that a client is taken to judge by if it does not say


@dataclass(frozen=True)
class Shadow:
    """The branches of one candidate; nothing in it belongs to a client."""

    view: View
    centres: FloatArray  # (branches, axes) of the clusters that they began from
    servers: tuple[ServerState, ...]
    shown: float = 0.0  # how much structure its clusters had when they were looked for, see `Candidate`

    @property
    def candidate(self) -> Candidate:
        """Return what it began from."""
        return Candidate(self.view, self.shown, self.centres)

    @property
    def stands_out(self) -> bool:
        """Return whether its clusters are more than parts of a cloud."""
        return self.candidate.stands_out

    def nearest(self, prints: Prints, blocks: IntArray) -> IntArray:
        """Return the branch that each update of the cohort's own model is nearest to; -1: none."""
        points = self.view.points(prints, blocks)
        if not self.view.is_of_inputs and self._unit_centres is not None:
            return np.asarray((points @ self._unit_centres).argmax(axis=1))
        nearness = self.view.nearness(points, self.centres)
        best = np.where(np.isnan(nearness), -np.inf, nearness).argmax(axis=1)
        return np.where(np.isnan(nearness).all(axis=1), -1, best)

    @cached_property
    def _unit_centres(self) -> FloatArray | None:
        """Return (axes, branches) the centres' directions, once for a trial's many updates; None: one has none."""
        return unit_rows(self.centres).T.copy() if (self.centres**2).sum(axis=1).all() else None


@dataclass(frozen=True)
class OnTrial:
    """A cohort with branches in its shadow."""

    resumes: Pooling  # what the cohort goes on with if nothing pays
    generation: int  # that labels are of
    common: Prints  # what the last round's participants shared
    blocks: IntArray  # (width,) of the fingerprints
    others: bool  # views that are not on trial show groups, too
    shadows: tuple[Shadow, ...]
    evidence: Evidence
    seen: IntArray  # marks of those who have taken part, see `auxo.algorithms.auxo.judges`
    rounds: int = 0

    @staticmethod
    def begin(
        pooling: Pooling,
        found: tuple[Candidate, ...],
        server: ServerState,
        blocks: IntArray,
        most: int,
        liars: float = 0.0,
    ) -> "OnTrial":
        """Return a trial of the first candidates, ``most`` branches at the most; all start from the cohort's model.

        Of its judges a share of ``liars`` is not believed.
        """
        assert pooling.common is not None  # noqa: S101 - something has been pooled
        shadows: list[Shadow] = []
        # Where everybody judges participants train the branches of one candidate; others would only go too far.
        for one in found[:1] if pooling.everybody else found:
            if sum(len(shadow.servers) for shadow in shadows) + one.clusters <= most:
                shadows.append(Shadow(one.view, one.centres, (server,) * one.clusters, one.shown))
        on_trial = [shadow.view.name for shadow in shadows]
        others = any(one.stands_out and one.view.name not in on_trial for one in found)
        return OnTrial(
            resumes=replace(
                pooling, rounds=(), common=None, trials=pooling.trials + 1, bets=pooling.bets + pooling.everybody
            ),
            generation=pooling.trials + 1,
            common=pooling.common,
            blocks=blocks,
            others=others,
            shadows=tuple(shadows),
            evidence=Evidence.begin(
                [len(shadow.servers) for shadow in shadows],
                everybody=pooling.everybody,
                stake=pooling.stake,
                liars=liars,
                steep=pooling.steep,
                begun=server.steps,
                clients=pooling.clients,
            ),
            seen=np.zeros(0, dtype=np.int64),
        )

    @property
    def servers(self) -> tuple[ServerState, ...]:
        """Return the branches' models, one candidate's after another's."""
        return tuple(server for shadow in self.shadows for server in shadow.servers)

    def held_servers(self) -> tuple[ServerState, ...]:
        """Return the models of the branches."""
        return self.servers

    def held_models(self) -> tuple[Float32Array, ...]:
        """Return nothing: no model is only compared."""
        return ()

    @property
    def is_look(self) -> bool:
        """Return whether few clients' words are weighed after the next round: after 4, 8, 16 ... rounds."""
        return self.rounds >= FIRST_LOOK and self.rounds & (self.rounds + 1) == 0

    def plan(self, opening: Opening, plan: Plan, settings: TrialSettings) -> Plan:
        """Return who judges before it trains the cohort's own model: some of those who are there for the first time.

        Where clients are few all judge, and half of the participants train the branch that their label names.
        """
        asks, clients, offered = plan.asks, opening.selected.clients[plan.rows], len(plan.offered)
        if self.evidence.everybody:
            asks = replace(asks, fold=np.full(len(clients), all_but(self.resumes.bets)))
        if self.rounds < FIRST_LOOK:
            return replace(plan, asks=asks)
        asked = np.array([OWN, *range(offered, offered + len(self.servers))])
        if self.evidence.everybody:
            here = asks.model == OWN  # others are about to leave
            branch, number = self._labelled(own(Claims, plan.notes)), opening.state.round
            tries = here & (branch >= 0) & ~first_of(clients, here, (len(clients) + 1) // 2, number)
            asks = replace(asks, model=np.where(tries, offered + branch, asks.model))
            judges = here
        else:
            # Also who compares cohorts' models, and is heard if it stays: members of a group that was not found yet are
            # not rewarded here, and compare at every visit.
            fresh = ~np.isin(seals(clients, self.generation, opening.secret), self.seen)
            judges = first_of(clients, fresh, settings.judges, opening.state.round)
        return replace(plan, asks=replace(asks, judges=np.where(judges[:, None], asked[None, :], -1)))

    def _labelled(self, claims: Claims) -> IntArray:
        """Return the leading candidate's branch that each participant's label names; -1: none."""
        branches = self.evidence.candidates[self.evidence.leading][1:] - 1
        is_one = (claims.generation == self.generation) & np.isin(claims.label, branches)
        return np.where(is_one, claims.label, -1)

    def nearest(self, prints: Prints) -> IntArray:
        """Return (updates, candidates) the place among all branches of each one's nearest; -1: none."""
        seen, first, found = prints.less(self.common), 0, []
        for shadow in self.shadows:
            nearest = shadow.nearest(seen, self.blocks)
            found.append(np.where(nearest < 0, -1, first + nearest))
            first += len(shadow.servers)
        return np.stack(found, axis=1)

    def labels(self, gathered: Gathered, prints: Prints, clusters: int) -> FloatArray:
        """Return (answers, clusters) 1 for the branch that somebody belongs to, else 0.

        That is the one that its update is nearest to, of the candidate that is waited for (see `verdict`); and where
        everybody judges, the leading one's with the least loss on what it trains on. NaN for those of whom neither is
        known.
        """
        candidate = next(iter(self._standing_out), self.evidence.leading)
        branches = self.evidence.candidates[candidate]
        branch = np.where(gathered.model == OWN, self.nearest(prints)[:, candidate], -1)
        told = gathered.judged.other_loss
        if self.evidence.everybody and told.shape[1] > branches[-1]:
            has_said = np.isfinite(told[:, branches]).any(axis=1)
            branch = np.where(has_said, choices(_finite(told), branches[1:]) - 1, branch)
        places = np.arange(clusters)
        return np.where(branch[:, None] >= 0, (branch[:, None] == places[None, :]).astype(np.float64), np.nan)

    def moved(self, servers: tuple[ServerState, ...], said: Said, seen: IntArray) -> "OnTrial":
        """Return the trial after a round, in which those with these marks have taken part."""
        rest, shadows = list(servers), []
        for shadow in self.shadows:
            shadows.append(replace(shadow, servers=tuple(rest[: len(shadow.servers)])))
            del rest[: len(shadow.servers)]
        return replace(
            self,
            shadows=tuple(shadows),
            evidence=self.evidence.after(said, is_look=self.is_look),
            seen=np.union1d(self.seen, seen),
            rounds=self.rounds + 1,
        )

    def seen_from(self, prints: Prints) -> "OnTrial":
        """Return the trial that goes on after a round in which these updates were made of the cohort's own model.

        What all updates share changes as the model moves. Without what it is by now, clusters stay where they were for
        many rounds; without what it was when they were found, more and more updates are taken for others.
        """
        return replace(self, common=prints.mean()) if len(prints.directions) > 1 else self

    def said(self, closing: Closing, gathered: Gathered, prints: Prints) -> Said:
        """Return what a round's judges have said.

        Who has told one loss of each model, by validation data of its own, is taken to choose the branches that its
        update is nearest to: by the same samples it would choose and be judged.
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
        judged, is_judge = gathered.judged, np.isin(np.arange(len(gathered.rows)), rows)
        by = _finite(judged.other_loss[rows, :models])
        is_untold = np.isnan(judged.other_loss[rows, :models]).all(axis=1)
        if is_untold.any():
            nearest = self.nearest(prints.take(is_judge))
            if (
                self.evidence.everybody
            ):  # an update of a branch, or of a model that has moved on, tells less than a label
                label = self._labelled(own(Claims, closing.participants.notes).take(gathered.rows[rows]))
                nearest[:, 0] = np.where(label >= 0, label, nearest[:, 0])
            by[is_untold] = _only(nearest[is_untold], models)
        guessed = np.where(is_untold | self.evidence.everybody, _VALIDATION, 0.5) * gathered.examples[rows]
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
            errors=np.where(judged.error[rows, :models] >= 0, judged.error[rows, :models], np.nan),  # as it came
            both=~is_untold & np.array(not self.evidence.everybody),
            # Who tells no errors has an app that parts its samples by itself, in the same way each time.
            kept_out=~is_untold & np.isfinite(judged.error[rows]).any() & (gathered.examples[rows] >= FIFTHS),
            far=gathered.lengths[rows] > _FAR * np.median(gathered.lengths),
        )

    def verdict(
        self, own_server: ServerState, most: int, settings: TrialSettings
    ) -> tuple[int, Partition] | tuple[None, None]:
        """Return the candidate that judges are sure of, and the partition that is made of it; or nothing as yet.

        The candidate by which they gain most is waited for while the trial goes on, of those that stand out if there is
        one: parts of a cloud may gain sooner, by the classes that clients happen to have, and hide groups for good.
        They also wait where a view that is not on trial stands out as well: that one is looked at next.

        Args:
            own_server: the cohort's own model, which may be one of those that they would miss.
            most: children that there may be.
            settings: see `TrialSettings`.
        """
        if self.evidence.everybody and not self._has_looked:
            return None, None
        alpha = self._alpha(settings)
        candidates, is_early = self.evidence.by_gain, self.rounds < settings.most_rounds
        if self._standing_out and (is_early or self.others):
            candidates = self._standing_out
        if is_early:
            candidates = candidates[:1]
        for candidate in candidates:
            if self.evidence.is_sure(candidate, alpha):
                made = self._partition(candidate, own_server, most, settings)
                if made is not None:
                    return candidate, made
        return None, None

    @property
    def _standing_out(self) -> tuple[int, ...]:
        """Return the candidates that stand out, those first by which judges gain most; none where everybody judges.

        There only the leading candidate's branches are trained as they should be.
        """
        if self.evidence.everybody:
            return ()
        return tuple(one for one in self.evidence.by_gain if self.shadows[one].stands_out)

    def parted(self, cohort: CohortId, candidate: int) -> Pooling:
        """Return what children go on from whose partition was made of a candidate."""
        resumes = replace(self.resumes, steep=self.evidence.steepness, sorting=None)
        shadow, branches = self.shadows[candidate], self.evidence.candidates[candidate][1:]
        if not shadow.view.is_of_inputs:  # others do not outlast the model that all had
            return resumes
        became, first = np.isin(branches, self.evidence.fewest(candidate)), int(branches[0]) - 1
        sorting = Sorting(cohort, shadow.view, shadow.centres, self.common, self.blocks, first, became)
        return replace(resumes, sorting=sorting)

    def _needed(self, settings: TrialSettings) -> float:
        """Return what judges have to gain by now: branches part round by round, and later in training slowly."""
        return settings.min_gain * min(1.0, self.rounds / settings.most_rounds)

    def _cost(self, shares: FloatArray) -> float:
        """Return what judges have to gain, in parts of their loss, for children with such shares of the participants.

        A model that a third of them train is at most as far behind as one that has trained for a third of the time. How
        much that is, the course of the cohort's own model tells. While its loss falls fast, what a branch seems to gain
        is little more than a few rounds' lead, so that it counts by the square: that is no reason to part for good.
        And where samples are few a model never catches up with one that has them all, see `Evidence.price`.
        """
        slower = _SLOWER * self.evidence.steepness**2 * float(-(shares * np.log(shares)).sum())
        return max(slower, self.evidence.price * (len(shares) - 1))

    def _alpha(self, settings: TrialSettings) -> float:
        if self.evidence.everybody and self.evidence.is_fresh:  # trials bet what the one before has left
            return share_of(settings.alpha, max(1, -(-self.resumes.bets // FIFTHS)))
        if self.evidence.everybody:
            return share_of(settings.alpha, max(1, self.resumes.bets))
        return share_of(settings.alpha, self.resumes.trials) / len(self.shadows)

    def given_up(self) -> Pooling:
        """Return what the cohort goes on with if nothing came of it; samples that were bet on are not bet on again."""
        return replace(self.resumes, stake=self._left, steep=self.evidence.steepness)

    @property
    def _left(self) -> float:
        is_last = self.resumes.bets % FIFTHS == 0
        return 1.0 if is_last else self.evidence.left

    def _partition(
        self, candidate: int, own_server: ServerState, most: int, settings: TrialSettings
    ) -> Partition | None:
        kept = self.evidence.fewest(candidate)
        is_early = self.rounds < settings.most_rounds
        if is_early and self.shadows[candidate].stands_out and not self.evidence.can_do_with(candidate, kept):
            return None  # groups that stand out are not put together only because few judges have been heard
        heard = self.evidence.recent
        gains = self.evidence.gains_of(heard, kept)
        weights = how_many_choose(choices(heard.other_losses, kept), kept)
        if len(kept) > most or (weights < COMPANY).any():
            return None
        if gains.mean() < max(self._needed(settings), self._cost(weights / weights.sum())):
            return None
        if not self.evidence.has_fewer_errors(kept):
            return None
        servers = (own_server, *self.servers)
        return Partition(
            routes=self._routes(heard, kept),
            weights=tuple((weights / weights.sum()).tolist()),
            generation=self.generation,
            # An adaptive optimiser that has seen the few participants of a branch makes smaller steps for many rounds.
            servers=tuple(replace(servers[one], slots=own_server.slots, steps=own_server.steps) for one in kept),
        )

    @property
    def _has_looked(self) -> bool:
        """Return whether the round that has just closed was one after which is looked."""
        return self.rounds > FIRST_LOOK and self.rounds & (self.rounds - 1) == 0

    def _routes(self, heard: Said, kept: IntArray) -> tuple[int, ...]:
        """Return which child each cluster goes to: of a branch that is not missed, where its judges would go.

        A branch's judges are those who would choose it among its own candidate's: labels may be of another candidate.
        """
        child_of = {int(one): child for child, one in enumerate(kept)}
        goes_to = np.searchsorted(kept, choices(heard.other_losses, kept))
        largest, routes = int(np.bincount(goes_to).argmax()), list[int]()
        for models in self.evidence.candidates:
            first = choices(heard.other_losses, models)
            for place in models[1:].tolist():
                mine = goes_to[first == place]
                if place not in child_of and len(mine):
                    routes.append(int(np.bincount(mine).argmax()))
                else:
                    routes.append(child_of.get(place, largest))
        # No label leads to the cohort's own model by itself, and every child has to be reached by some number.
        return (*routes, child_of[OWN]) if OWN in child_of else tuple(routes)

    def is_over(self, settings: TrialSettings) -> bool:
        """Return whether it is given up: judges gain too little, or nobody judges, or it has gone on for too long."""
        if self.rounds >= settings.most_rounds:
            return True
        if self.rounds < _MAY_FAIL or (self.evidence.everybody and not self._has_looked):
            return False
        return self.evidence.is_hopeless(max(self._needed(settings), self.evidence.price))

    def is_promising(self, settings: TrialSettings) -> bool:
        """Return whether judges are sure that it pays although no partition is made: it will soon be looked at again.

        Early in training a smaller loss may come with more errors, and models that have trained longer are as sure.
        Where everybody judges, it is enough that bets are being won, and not for less than a branch's price: the next
        trial goes on with what they have left.
        """
        if self.evidence.everybody and self.evidence.is_fresh:
            return self._left > 1 and not self.evidence.is_hopeless(self.evidence.price)
        return self.sure_of(settings) is not None

    def sure_of(self, settings: TrialSettings) -> Candidate | None:
        """Return the candidate that judges are sure of, and if there are several gain most by; None: there is none."""
        alpha = self._alpha(settings)
        sure = (one for one in self.evidence.by_gain if self.evidence.is_sure(one, alpha))
        return next((self.shadows[one].candidate for one in sure), None)


@dataclass(frozen=True)
class IntoShadows:
    """Has an update of the cohort's own model move the nearest branches, too."""

    trial: OnTrial
    offered: int  # leaves whose models take part in the round; the first is the cohort's own
    otherwise: Admission  # decides who may move that one
    # Who may not move it moves branches all the same: it may be of a group that is on trial. Where claims are signed
    # such a group has no proof of being members, for it does not fit; elsewhere its own records say that it is.
    strangers: bool = False

    def place(self, row: int, examined: Examined, model: int) -> int | tuple[int, ...] | Belongs | None:
        """Return the models that an update moves."""
        if model >= self.offered:
            return model
        if model != OWN:  # who has compared models may have trained another leaf's
            return self.otherwise.place(row, examined, model) if isinstance(self.otherwise, OfOwnModel) else None
        moved = self.otherwise.place(row, examined, model)
        if moved is None and not self.strangers:
            return None
        prints = Prints(examined.direction[None, :], examined.outputs[None, :], examined.inputs[None, :])
        nearest, evidence = self.trial.nearest(prints)[0], self.trial.evidence
        if evidence.everybody and self.trial.rounds >= FIRST_LOOK:  # participants train its branches themselves
            nearest = np.delete(nearest, evidence.leading)
        branches = tuple(self.offered + int(one) for one in nearest if one >= 0)
        return branches or None if moved is None else (model, *branches)


def labelled(closing: Closing, gathered: Gathered, generation: int) -> int:
    """Return how many participants have brought a label of this generation."""
    claims = own(Claims, closing.participants.notes).take(gathered.rows)
    return int(((claims.label >= 0) & (claims.generation == generation)).sum())


def _finite(losses: FloatArray) -> FloatArray:
    return np.where(np.isnan(losses), np.inf, losses)


def _only(branches: IntArray, models: int) -> FloatArray:
    """Return losses by which nobody can choose anything but its branch of each candidate, or else the own model."""
    losses = np.full((len(branches), models), np.inf)
    losses[:, OWN] = 1.0
    row, column = np.nonzero(branches >= 0)
    losses[row, 1 + branches[row, column]] = 0.0
    return losses
