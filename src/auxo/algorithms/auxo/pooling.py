"""Pooling: a cohort gathers fingerprints of its participants' updates, nobody's name beside them, and looks at them.

It looks early, and when that came to nothing again after a rest, at twice as many. K-means that sees a single round's
participants can be wrong for ever, since all that follows is made of its labels.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo.evidence import STEEP
from auxo.algorithms.auxo.looking import Candidate, MostClusters, look
from auxo.algorithms.auxo.number_of_clusters import told_by
from auxo.algorithms.auxo.settings import ClusteringSettings, TrialSettings
from auxo.algorithms.auxo.sorting import Sorting
from auxo.algorithms.auxo.views import Prints, ViewName
from auxo.core.rng import random_bits
from auxo.core.types import BoolArray, Float32Array, IntArray

FIRST_LOOK = 2  # rounds of a trial after which judges are heard first; our choice
_FEWEST_PRINTS = 8  # that are worth a look; our choice
_SHORT_REST = 4  # of the rounds behind a cohort, the part that it rests for after a promising trial; our choice
_FEWEST_A_BRANCH = 3  # participants of a round, half of whom train branches; our choice
_USUAL_A_BRANCH = 5  # where nobody can tell how many groups there are; our choice


@dataclass(frozen=True)
class PooledRound:
    """A round's fingerprints without what its participants shared, in half the memory; see `Prints`."""

    directions: Float32Array  # (participants, width)
    outputs: Float32Array  # (participants, outputs)
    inputs: Float32Array  # (participants, 2 * inputs)
    first_half: BoolArray  # (participants,) of two of clients, see `are_in_first_half`
    seals: IntArray  # (participants,) by which clients that come again are counted, see `auxo.algorithms.auxo.judges`

    @staticmethod
    def of(prints: Prints, first_half: BoolArray, seals: IntArray) -> "PooledRound":
        """Return what is kept of a round."""
        return PooledRound(
            prints.directions.astype(np.float32),
            prints.outputs.astype(np.float32),
            prints.inputs.astype(np.float32),
            first_half,
            seals,
        )


@dataclass(frozen=True)
class Pooling:
    """A cohort that trains its model, and looks for groups unless it rests. All of it is lost without harm."""

    rests_until: int = 0  # round after which it looks again
    needs: int = 0  # rounds to pool before the next look; 0: as many as the settings say
    trials: int = 0  # so far, its ancestors' included
    tried: tuple[ViewName, ...] = ()  # views that a trial has gone by in vain
    rounds: tuple[PooledRound, ...] = ()
    common: Prints | None = None  # what the last round's participants shared
    clients: float = 0.0  # that the cohort is taken to have, by how often they came again; 0: nobody has counted
    everybody: bool = False  # would judge: clients are few, and keep out a fifth of their samples
    stake: float = 1.0  # where everybody judges: what bets of the last trials have left of it
    bets: int = 0  # trials that everybody has judged
    steep: float = STEEP  # how fast losses fell in the last trial, see `Evidence.steepness`
    kept: Candidate | None = None  # that judges were sure of in the last trial, though no partition was made
    sorting: Sorting | None = None  # of the partition that it comes from; None: updates do not tell clients' places

    def pools(self, number: int) -> bool:
        """Return whether the round of this number is pooled."""
        return number > self.rests_until

    @staticmethod
    def of_child(parent: "Pooling", number: int) -> "Pooling":
        """Return that of a child that is made in the round of this number; it rests, for its groups were on trial."""
        return Pooling(
            rests_until=2 * number,
            trials=parent.trials,
            bets=parent.bets,
            steep=parent.steep,
            sorting=parent.sorting,
        )

    def after(self, prints: Prints, who: IntArray, seals: IntArray, settings: ClusteringSettings) -> "Pooling":
        """Return it with one more round, of these clients; of too many the oldest ones go."""
        if len(prints.directions) < 2:  # without what others send there is nothing left of an update
            return self
        common = prints.mean()
        rounds = (*self.rounds, PooledRound.of(prints.less(common), are_in_first_half(who), seals))
        while len(rounds) > 1 and sum(len(kept.first_half) for kept in rounds[1:]) >= settings.pool_most:
            rounds = rounds[1:]
        return replace(self, rounds=rounds, common=common)

    def is_full(self, settings: ClusteringSettings) -> bool:
        """Return whether there is enough to look at."""
        prints = sum(len(one.first_half) for one in self.rounds)
        enough = prints >= _FEWEST_PRINTS and len(self.rounds) >= (self.needs or settings.pool_rounds)
        return enough or prints >= settings.pool_most

    def counted(self, check_ins: float, settings: TrialSettings) -> "Pooling":
        """Return it with the number of clients there are: two draws of one client are as rare as clients are many.

        A single round, in which nobody can come again, tells nothing. Everybody has to judge where too few would be
        left who have not taken part before judges are heard: clients are few, or most take part in every round.
        """
        sizes = np.array([len(one.seals) for one in self.rounds], dtype=np.float64)
        clients, again = max(self.clients, check_ins), 1.0
        if len(sizes) > 1:
            pairs = (sizes.sum() ** 2 - (sizes**2).sum()) / 2  # of participants of different rounds
            _, times = np.unique(np.concatenate([one.seals for one in self.rounds]), return_counts=True)
            again = float((times * (times - 1) / 2).sum())
            clients = max(check_ins, float(pairs / max(again, 1.0)))
        newcomers = clients * max(0.0, 1 - float(sizes.mean()) / max(clients, 1.0)) ** FIRST_LOOK
        # Where nobody has come again there are more of them than small rounds can tell.
        return replace(self, clients=clients, everybody=again > 0 and newcomers < 2 * settings.judges)

    def look(self, blocks: IntArray, settings: ClusteringSettings, rng: np.random.Generator) -> tuple[Candidate, ...]:
        """Return what a partition could be tried with, the best first; nothing where all updates are alike."""
        prints = Prints(
            np.concatenate([one.directions for one in self.rounds]).astype(np.float64),
            np.concatenate([one.outputs for one in self.rounds]).astype(np.float64),
            np.concatenate([one.inputs for one in self.rounds]).astype(np.float64),
        )
        first_half = np.concatenate([one.first_half for one in self.rounds])
        who = np.concatenate([one.seals for one in self.rounds])
        most = unclear = int(np.clip(self.clients // 2, 2, settings.clusters))
        if self.everybody:  # half of the participants train the branches, and those of one are no better
            size = float(np.mean([len(one.first_half) for one in self.rounds]))
            most, unclear = (int(np.clip(size // one, 2, most)) for one in (_FEWEST_A_BRANCH, _USUAL_A_BRANCH))
        elif told_by(first_half) < most:  # rather fewer clusters than none that can be told, but not much fewer
            most = unclear = max(told_by(first_half), most // 2, 2)
        # Where everybody judges the first candidate is on trial alone, and who comes first need leave no room.
        room = MostClusters(most, unclear, 2 * settings.clusters if self.everybody else settings.clusters)
        found = look(prints, blocks, room, first_half, who, rng)
        found = tuple(one for one in found if one.view.name not in self.tried) or found
        kept = self.kept
        if kept is None or self.everybody or kept.clusters > most:
            return found
        # What its own view shows by now comes last: others have had no trial beside it.
        return (kept, *sorted(found, key=lambda one: one.view.name == kept.view.name))

    def failed(self, number: int, views: tuple[ViewName, ...], others: bool, settings: ClusteringSettings) -> "Pooling":
        """Return it after a look, or a trial in some views, that came to nothing in the round of this number.

        Where another view shows groups it has its turn first. Then the cohort rests for as many rounds as lie behind
        it: to look costs something, and the longer it has found nothing the less there is to be found.
        """
        # Where all of them have had their turn, it begins anew.
        tried = views if set(views) & set(self.tried) else (*self.tried, *views)
        again = replace(self, rests_until=number, tried=tried, rounds=(), common=None, everybody=False, kept=None)
        if others:
            return again
        needs = self.needs or settings.pool_rounds
        more = needs if self.everybody else 2 * needs  # where everybody has been seen, more of the same tells nothing
        return replace(again, rests_until=2 * number, needs=more)

    def rested(self, kept: Candidate | None) -> "Pooling":
        """Return it with a short rest: what pays with a smaller loss alone is tried again, but not all the time.

        Its clusters are kept for that, if they leave room for what is found by then. Early in training groups stand
        out that are still there when the model has learnt most, but that nobody would find any more.
        """
        return replace(self, rests_until=self.rests_until + self.rests_until // _SHORT_REST, kept=kept)


def first_look(participants: int, settings: ClusteringSettings) -> int:
    """Return the round after which a new cohort with so many participants in each has enough to look at."""
    enough = max(settings.pool_rounds, -(-_FEWEST_PRINTS // participants))
    return min(enough, -(-settings.pool_most // participants))


def are_in_first_half(clients: IntArray) -> BoolArray:
    """Return which clients are in the first of two halves, always the same one: who comes again is no other client.

    That is all that a pool knows of them.
    """
    return np.asarray(random_bits(0, "pool", clients) >> np.uint64(63) == 0)
