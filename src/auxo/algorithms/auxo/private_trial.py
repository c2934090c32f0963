"""A partition on trial among clients that say one word each (`auxo.core.words`).

It goes as `auxo.algorithms.auxo.trial` has it, but that nothing is read from updates: a participant finds by the
published centres which branch is its own, and says so once, by randomised response; its updates move that branch
besides the cohort's own model. A judge says one gain. What is not said cannot be weighed: all branches become cohorts,
or none does.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo.evidence import OWN, share_of
from auxo.algorithms.auxo.judges import first_of, seals
from auxo.algorithms.auxo.pooling import FIRST_LOOK
from auxo.algorithms.auxo.private_evidence import PrivateEvidence
from auxo.algorithms.auxo.settings import SketchSettings, TrialSettings
from auxo.algorithms.auxo.sketch_pool import SketchPool, asked_words, question_of, words_asked_of
from auxo.core.aggregators import ServerState
from auxo.core.claims import Claims, claims_of
from auxo.core.cohort_algorithm import Closing, Opening, Plan
from auxo.core.gathering import Admission, Examined, Gathered
from auxo.core.own_state import own
from auxo.core.partition import Partition
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.core.words import Words, possible_label

_MAY_FAIL = 4  # rounds from which on a trial may be given up; our choice


@dataclass(frozen=True)
class PrivateTrial:
    """A cohort with branches in its shadow, one for each centre; nothing in it belongs to a client but marks."""

    resumes: SketchPool  # what the cohort goes on with if nothing pays
    centres: FloatArray  # (branches, width) that are published
    servers: tuple[ServerState, ...]
    evidence: PrivateEvidence
    seen: IntArray  # marks of those who have taken part, see `auxo.algorithms.auxo.judges`
    said: FloatArray  # (branches,) how many have named each as theirs
    rounds: int = 0

    @staticmethod
    def begin(pool: SketchPool, centres: FloatArray, server: ServerState, settings: SketchSettings) -> "PrivateTrial":
        """Return a trial in which all branches start from the cohort's model."""
        branches = len(centres)
        return PrivateTrial(
            resumes=replace(pool, rounds=()),
            centres=centres,
            servers=(server,) * branches,
            evidence=PrivateEvidence.begin(1 + branches, settings.gain_epsilon),
            seen=np.zeros(0, dtype=np.int64),
            said=np.zeros(branches),
        )

    @property
    def generation(self) -> int:
        """Return what labels are of: the question."""
        return self.resumes.question

    def held_servers(self) -> tuple[ServerState, ...]:
        """Return the models of the branches."""
        return self.servers

    def held_models(self) -> tuple[Float32Array, ...]:
        """Return nothing: no model is only compared."""
        return ()

    def plan(self, opening: Opening, plan: Plan, trial: TrialSettings, sketches: SketchSettings) -> Plan:
        """Return who says its label, if it has not yet, and who judges: some of those who are here for the first time.

        What a judge chooses by is its samples; a label is found once it has trained.
        """
        asks, clients, offered = plan.asks, opening.selected.clients[plan.rows], len(plan.offered)
        here = asks.model == OWN  # others are about to leave
        unlabelled = here & (self.claimed(own(Claims, plan.notes)) < 0)
        judges = np.zeros_like(here)
        if self.rounds >= FIRST_LOOK:
            fresh = here & ~np.isin(seals(clients, self.generation, opening.secret), self.seen)
            judges = first_of(clients, fresh, sketches.judges, opening.state.round)
            asked = np.array([OWN, *range(offered, offered + len(self.servers))])
            asks = replace(asks, judges=np.where(judges[:, None], asked[None, :], -1))
        references = self.evidence.open(self._alpha(trial))
        place = references[(np.cumsum(judges) - 1) % len(references)]
        common = Words(
            question_of(opening.cohort, self.generation),
            self.generation,
            sketches.width,
            centres=tuple(tuple(one) for one in self.centres.tolist()),
        )
        words = tuple(
            replace(
                common,
                label=sketches.label_epsilon if labels else None,
                gain=sketches.gain_epsilon if judge else None,
                reference=reference if judge else OWN,
            )
            if labels or judge
            else None
            for labels, judge, reference in zip(unlabelled.tolist(), judges.tolist(), place.tolist(), strict=True)
        )
        return replace(plan, asks=asked_words(asks, words))

    def claimed(self, claims: Claims) -> IntArray:
        """Return the branch that each one's request names, from an earlier round of the trial; -1: none."""
        is_one = (claims.generation == self.generation) & (claims.label < len(self.servers))
        return np.where(is_one, claims.label, -1)

    def branches(self, closing: Closing, gathered: Gathered) -> IntArray:
        """Return the branch of each answer, as it says now or has said before; -1: it has not."""
        told = gathered.words.labels
        is_one = _says_label(closing, gathered.rows) & (told >= 0) & (told < len(self.servers))
        return np.where(is_one, told, self.claimed(claims_of(closing, gathered)))

    def labels(self, closing: Closing, gathered: Gathered, clusters: int) -> FloatArray:
        """Return (answers, clusters) 1 for the branch that somebody has said to belong to, else 0; NaN: to none."""
        branch = self.branches(closing, gathered)[:, None]
        return np.where(branch >= 0, (branch == np.arange(clusters)[None, :]).astype(np.float64), np.nan)

    def moved(self, servers: tuple[ServerState, ...], closing: Closing, gathered: Gathered) -> "PrivateTrial":
        """Return the trial after a round, with what its judges have said, and who now has taken part."""
        asked = words_asked_of(closing, gathered.rows)
        judges = np.array([one is not None and one.gain is not None for one in asked], dtype=np.bool_)
        judges &= np.isfinite(gathered.words.gains) & ~gathered.late
        references = np.array([0 if one is None else one.reference for one in asked], dtype=np.int64)
        is_new = _says_label(closing, gathered.rows)
        branch = self.branches(closing, gathered)[is_new]
        marks = seals(closing.participants.clients[gathered.rows], self.generation, closing.secret)
        return replace(
            self,
            servers=servers,
            evidence=self.evidence.after(references[judges], gathered.words.gains[judges]),
            seen=np.union1d(self.seen, marks),
            said=self.said + np.bincount(branch[branch >= 0], minlength=len(self.said)),
            rounds=self.rounds + 1,
        )

    def verdict(self, own_server: ServerState, most: int, settings: TrialSettings) -> Partition | None:
        """Return the partition that is made once judges are sure that it pays; None: not as yet.

        Args:
            own_server: the cohort's own, by which branches' optimisers go on.
            most: children that there may be.
            settings: see `TrialSettings`.
        """
        is_worth_it = self.evidence.gain >= self._needed(settings)
        if not is_worth_it or not self.evidence.is_sure(self._alpha(settings)):
            return None
        if len(self.servers) > most or (self.said == 0).any():
            return None
        return Partition(
            routes=tuple(range(len(self.servers))),
            weights=tuple((self.said / self.said.sum()).tolist()),
            generation=self.generation,
            # An adaptive optimiser that has seen the few participants of a branch makes smaller steps for many rounds.
            servers=tuple(replace(one, slots=own_server.slots, steps=own_server.steps) for one in self.servers),
        )

    def is_over(self, settings: TrialSettings) -> bool:
        """Return whether it is given up: judges gain too little, or nobody judges, or it has gone on for too long."""
        if self.rounds >= settings.most_rounds:
            return True
        return self.rounds >= _MAY_FAIL and self.evidence.is_hopeless(self._needed(settings))

    def _needed(self, settings: TrialSettings) -> float:
        """Return what judges have to gain by now: branches part round by round, and later in training slowly."""
        return settings.min_gain * min(1.0, self.rounds / settings.most_rounds)

    def _alpha(self, settings: TrialSettings) -> float:
        return share_of(settings.alpha, self.resumes.question)


@dataclass(frozen=True)
class IntoBranches:
    """Has an update of the cohort's own model move the branch that its client has named, too."""

    trial: PrivateTrial
    claimed: IntArray  # (participants,) branch by an earlier round's word; -1: none
    asked: BoolArray  # (participants,) whether each was asked for its label in this one
    offered: int  # leaves whose models take part in the round; the first is the cohort's own
    otherwise: Admission  # decides who may move that one

    @staticmethod
    def of(trial: PrivateTrial, closing: Closing, otherwise: Admission) -> "IntoBranches":
        """Return that of a round."""
        claims, rows = own(Claims, closing.participants.notes), np.arange(len(closing.participants.clients))
        asked = _says_label(closing, rows)
        return IntoBranches(trial, trial.claimed(claims), asked, len(closing.models), otherwise)

    def place(self, row: int, examined: Examined, model: int) -> int | tuple[int, ...] | None:
        """Return the models that an update moves; none where somebody has trained another leaf's."""
        if model != OWN:
            return model if model >= self.offered else None
        if self.otherwise.place(row, examined, model) is None:
            return None
        branch, told = int(self.claimed[row]), possible_label(examined.answer.label)
        if self.asked[row] and told is not None and told < len(self.trial.servers):
            branch = told
        return (model, self.offered + branch) if branch >= 0 else model


def _says_label(closing: Closing, rows: IntArray) -> BoolArray:
    """Return which of some participants were asked for their label in this round."""
    return np.array(
        [one is not None and one.label is not None for one in words_asked_of(closing, rows)], dtype=np.bool_
    )
