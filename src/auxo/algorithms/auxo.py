"""Auxo's server half: cohorts that are found while they train (Algorithm 1), with our corrections as defaults.

A round goes aggregate -> cluster -> reward -> verdict. Nothing about a client outlives it. docs/departures.md says
where and why this departs from the paper, rule by rule; algorithms/paper.py has the rules as they are printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from auxo.core.affinity import FOLDS, AffinitySettings
from auxo.core.aggregators import Aggregator, RateScaling, ServerState, Weighting, rate_scale, update_weight
from auxo.core.asking import CHOOSES_BY, LEAST_LOSS
from auxo.core.claims import Claims, claims_of, plan_members_first, round_rewards
from auxo.core.clustering import ClusteringSettings, ClusteringState, cluster_round, compare, note_explained
from auxo.core.cohort_algorithm import (
    Affinities,
    ClientHalf,
    Closing,
    InitialModel,
    Opening,
    Outcome,
    Plan,
    RoundNotes,
    Start,
    stepped,
)
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.comparing import all_have_left, compare_leaves, of_own_model, own_answers, tell_places
from auxo.core.evidence import round_evidence
from auxo.core.gate import Gate
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.judges import are_judges, seals
from auxo.core.matching import ByRequest, Matching
from auxo.core.own_state import own
from auxo.core.partition import CrossFittedGain, Keep, Partition, PartitionCriterion, RoundEvidence
from auxo.core.pool import are_in_first_half
from auxo.core.rewards import RewardSettings
from auxo.core.search import CohortNow, Search, Seen, ToBranches, late_similarity, look
from auxo.core.settings import Fraction, PositiveInt, checked, setting
from auxo.core.shares import Sharing, shares_by
from auxo.core.trial import Judgements, Moved, TrialSettings, prune
from auxo.core.types import CohortId, Float32Array, FloatArray, IntArray

_TAKES_OFF = 1.5  # growth of the mean update that shows it: where models learn from the start it shrinks; our choice
_MOST_ASIDE = 0.5  # share of the clients that may train for no branch; our choice
_FEWEST_JUDGED = 50  # participants in the criterion's window before a cohort says that there is nothing; our choice


@dataclass(frozen=True)
class StepLengths:
    """How long the mean updates were since clustering started: they grow as long as a model has yet to take off."""

    at_start: float = 0.0
    longest: float = 0.0

    def after(self, length: float, has_started: bool) -> "StepLengths":
        """Return the lengths after a round whose mean update has this one."""
        longest = length if has_started else max(self.longest, length)
        return StepLengths(length if has_started else self.at_start, longest)

    @property
    def has_grown(self) -> bool:
        """Return whether the model has taken off since: labels of the time before may well mean nothing."""
        return self.longest > _TAKES_OFF * self.at_start


@dataclass(frozen=True)
class AuxoMemory:
    """What a cohort keeps between rounds besides its model."""

    clustering: ClusteringState = field(default_factory=ClusteringState)
    evidence: tuple[RoundEvidence, ...] = ()
    step_lengths: StepLengths = field(default_factory=StepLengths)
    settled: bool = False  # it no longer looks for groups: nobody is clustered, all train on all their samples
    search: Search = field(default_factory=Search)  # where a trial decides; the fields above are for a criterion

    def held_servers(self) -> tuple[ServerState, ...]:
        """Return the models of the branches on trial."""
        return self.search.trial.servers if self.search.trial is not None else ()

    def held_models(self) -> tuple[Float32Array, ...]:
        """Return the models that branches would have together."""
        return self.search.trial.joined() if self.search.trial is not None else ()


@dataclass(frozen=True)
@checked
class Auxo:
    """Finds cohorts of alike clients while they train, and partitions a cohort when its groups are better off alone."""

    affinity: AffinitySettings = field(default_factory=AffinitySettings)
    clustering: ClusteringSettings = field(default_factory=ClusteringSettings)
    rewards: RewardSettings = field(default_factory=RewardSettings)
    decides: Literal["trial", "criterion"] = setting(
        "trial",
        "What decides about a partition: held-out samples in a trial, or a criterion on updates, as in the paper.",
    )
    trial: TrialSettings = field(default_factory=TrialSettings)
    criterion: PartitionCriterion = field(default_factory=CrossFittedGain)
    start_round: PositiveInt = setting(
        5,
        "First round in which a cohort clusters its participants, where a criterion decides; our choice.",
    )
    cross_fit: bool = setting(
        True,
        "Where a criterion decides: participants alternate between halves of their samples while partitions are "
        "possible, labels come from one half and are judged on the other.",
    )
    cross_fit_share: Fraction = setting(
        0.2,
        "Share of the clients, always the same ones, that judge a partition on trial; they train no branch meanwhile. "
        "Above 0.5 they do, on the half of their samples that they do not judge by. (Where a criterion decides, these "
        "clients alternate between halves.) Our choice.",
    )
    late_feedback: bool = setting(
        True,
        "Participants that finish after the round has closed still learn how they fitted.",
    )
    admit_misfits: bool = setting(False, "Aggregate newcomers that turn out not to fit the cohort.")
    by_unit: bool = setting(
        True,
        "Compare updates unit by unit of the model (a matrix's row, a convolution's filter), each scaled to length one "
        "by itself; the paper compares whole updates.",
    )
    rate_scaling: RateScaling = setting(
        "none",
        "How the server's learning rate follows the share of participants a cohort has.",
    )
    sharing: Sharing = setting(
        "members",
        "Participants of a cohort: in proportion to its believed members, or equal for all (the paper's rule).",
    )

    own_states = (AuxoMemory, Claims)

    def why_no_partition(self, participants: int, rounds: int) -> str | None:
        """Return what is missing: enough participants for two cohorts, or rounds for a pool and a trial."""
        if self.decides == "criterion":
            least = 2 * self.criterion.limits.min_participants
            if participants >= least:
                return None
            return (
                f"two cohorts need {least} participants a round (min_participants of auxo.criterion.limits), and there "
                f"are {participants}; raise training.participants"
            )
        if participants < self.trial.looks_from:
            return (
                f"a cohort looks for groups from {self.trial.looks_from} participants a round on "
                f"(auxo.trial.looks_from), and there are {participants}; raise training.participants"
            )
        pooled = self.clustering.pool_per_cluster * self.clustering.clusters
        first = max(self.clustering.pool_rounds, -(-pooled // participants)) + self.trial.rounds
        if rounds >= first:
            return None
        return (
            f"clustering starts from a pool of updates, and a trial takes {self.trial.rounds} rounds, so that the "
            f"first can be made after round {first}, and there are {rounds}; raise training.rounds"
        )

    @property
    def matching(self) -> Matching:
        """Return that clients choose."""
        return ByRequest(compares=self.affinity.confirmations > 0)

    @property
    def client_half(self) -> ClientHalf:
        """Return how clients weigh cohorts."""
        return ClientHalf(self.affinity, self.clustering.clusters)

    def begin(self, initial: InitialModel) -> Start:
        """Return one model for everybody."""
        return Start((initial(0),))

    def memory(self, parent: CohortState | None) -> AuxoMemory:
        """Return that nothing is known of a new cohort.

        It rests as if the trial that it comes from had been its own: looking costs small cohorts more, and what was
        joined within it was not worth parting.
        """
        if parent is None or self.decides == "criterion":
            return AuxoMemory()
        return AuxoMemory(search=Search(rests_until=_memory(parent).search.rests_until))

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves: each cohort goes at its own pace."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return each cohort's share by the setting."""
        return shares_by(self.sharing, tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return who trains on which half of its samples, and who compares models before.

        Members come first, for newcomers are compared with them.
        """
        if self.decides == "trial":
            return self._trial_plan(opening)
        fold = self.folds(
            _memory(opening.state),
            opening.state.round,
            opening.progress,
            opening.selected.clients,
            opening.selected.requests.participations,
        )
        plan = plan_members_first(opening, fold, self.late_feedback)
        return compare_leaves(opening, plan, self.affinity.confirmations)

    def folds(
        self, memory: AuxoMemory, rounds: int, progress: float, clients: IntArray, participations: IntArray
    ) -> IntArray:
        """Return the half each participant trains on: alternating from visit to visit while partitions are possible.

        Only some clients do so, always the same ones: they are those that are judged. The others train on everything.
        """
        deciding = progress <= self.criterion.limits.end and rounds + 1 >= self.start_round
        if not self.cross_fit or memory.settled or not deciding:
            return np.full(len(participations), -1, dtype=np.int64)
        return np.where(are_judges(clients, self.cross_fit_share), participations % FOLDS, -1)

    def _looks(self, search: Search, number: int, share: int) -> bool:
        """Return whether a cohort looks for groups in this round; it does not where too few would judge them."""
        return search.trial is not None or (share >= self.trial.looks_from and search.looks(number))

    def _trial_plan(self, opening: Opening) -> Plan:
        """Return who trains what: on trial each branch its model, and judges the cohort's own."""
        search = _memory(opening.state).search
        if not self._looks(search, opening.state.round + 1, opening.share):
            plan = plan_members_first(opening, None, self.late_feedback)
            return compare_leaves(opening, plan, self.affinity.confirmations)
        plan = plan_members_first(opening, None, self.late_feedback)
        plan = compare_leaves(opening, plan, self.affinity.confirmations)
        claims, clients = own(Claims, plan.notes), opening.selected.clients[plan.rows]
        if search.follows and not self._stand_aside:
            halves = np.where(are_judges(clients, self.cross_fit_share), CHOOSES_BY, -1)
            plan = replace(plan, asks=replace(plan.asks, fold=halves))
        if search.trial is None:
            return plan
        offered = len(plan.offered)
        judges = are_judges(clients, self.cross_fit_share)
        compares = plan.asks.model == LEAST_LOSS
        elsewhere = compares | (judges & self._stand_aside)
        branch = np.where(elsewhere, -1, search.branches(claims.label, claims.generation))
        unheard = judges & ~search.has_heard(clients)
        asked = search.trial.asked(unheard & ~compares & search.trial.counts(self.trial))
        model = np.where(branch >= 0, offered + branch, plan.asks.model)
        return replace(plan, asks=replace(plan.asks, model=model, judges=np.where(asked >= 0, offered + asked, -1)))

    @property
    def _stand_aside(self) -> bool:
        """Return whether judges train no branch; where most clients judge, few would be left."""
        return self.cross_fit_share <= _MOST_ASIDE

    def admission(self, closing: Closing) -> Admission:
        """Return the gate that newcomers have to pass once there are several cohorts."""
        return of_own_model(closing, self._admission(closing))

    def _admission(self, closing: Closing) -> Admission:
        search = _memory(closing.states[0]).search
        if search.trial is not None:
            judges = are_judges(closing.participants.clients, self.cross_fit_share)
            return ToBranches(search, len(closing.states), judges & self._stand_aside)
        if self.admit_misfits or closing.outlook.cohorts == 1:
            return AdmitAll()
        return Gate(self.rewards, own(Claims, closing.participants.notes).known)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, cluster and reward those who have trained it, and decide; tell others whose they have."""
        mine = own_answers(closing, gathered)
        close = self._close_search if self.decides == "trial" else self._close_by_criterion
        outcome = close(closing, mine, aggregator, rng)
        if outcome is None:
            memory = _memory(closing.states[0])
            generation = max(memory.clustering.generation, memory.search.clustering.generation)
            outcome = all_have_left(closing, gathered, aggregator, self.clustering.clusters, generation)
        return None if outcome is None else tell_places(closing, gathered, outcome)

    def _close_by_criterion(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Close a round of a cohort whose partition is decided upon by what updates have in common."""
        movement = gathered.movements[0]
        if movement is None:
            return None
        scale = rate_scale(self.rate_scaling, closing.share, closing.outlook.total_participants)
        state, *others = stepped(closing, gathered, aggregator, scale)
        memory, claims = _memory(state), claims_of(closing, gathered)
        clustering, similarity, evidence = self._cluster(closing, state, claims, gathered, rng)
        labelled = (claims.label >= 0) & (claims.generation == clustering.generation)
        share = closing.share if self.sharing == "members" else None
        outlook = replace(closing.outlook, labelled=float(labelled.mean()), share=share)
        kept = (*memory.evidence, *((evidence,) if evidence else ()))[-self.criterion.window :]
        verdict = self.criterion.judge(kept, outlook)
        restarted = False
        if evidence and evidence.judged and verdict.gain is not None and isinstance(verdict.decision, Keep):
            clustering, restarted = note_explained(clustering, verdict.explains, self.clustering)
        has_started = clustering.centres is not None and memory.clustering.centres is None
        step_lengths = memory.step_lengths.after(float(np.linalg.norm(movement)), has_started)
        is_hopeless = evidence is not None and verdict.is_hopeless
        has_tried = restarted and self._has_tried(clustering, kept)
        gives_up = (is_hopeless or has_tried) and not memory.settled
        if gives_up and step_lengths.has_grown:  # not before labels of the present model have had their chance
            gives_up, restarted = False, True
            clustering = ClusteringState(clustering.generation)
        after = AuxoMemory(
            clustering=clustering,
            evidence=() if restarted else kept,
            step_lengths=step_lengths,
            settled=memory.settled or gives_up,
        )
        decision = verdict.decision
        if isinstance(decision, Partition):
            decision = replace(decision, generation=clustering.generation)
        return Outcome(
            states=(replace(state, memory=after), *others),
            decision=decision,
            affinities=Affinities(round_rewards(closing, gathered, self.rewards), similarity, clustering.generation),
            notes=RoundNotes(
                known=int((claims.known & ~gathered.late).sum()),
                labelled=int(labelled.sum()),
                judged=evidence.judged if evidence else 0,
                gain=verdict.gain,
                gain_needed=verdict.needed,
                children=verdict.children,
                restarted=restarted,
                gives_up=gives_up,
            ),
        )

    def _close_search(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Close a round of a cohort that looks for groups, or has stopped doing so."""
        if all(movement is None for movement in gathered.movements):
            return None
        if _memory(closing.states[0]).search.trial is not None:
            return self._close_trial(closing, gathered, aggregator)
        if gathered.movements[0] is None:
            return None
        scale = rate_scale(self.rate_scaling, closing.share, closing.outlook.total_participants)
        state, *others = stepped(closing, gathered, aggregator, scale)
        search, claims = _memory(state).search, claims_of(closing, gathered)
        similarity = np.full((len(gathered.rows), self.clustering.clusters), np.nan)
        if self._looks(search, state.round, closing.share):
            here = np.flatnonzero(~gathered.late & (gathered.model == 0))
            seen = Seen(
                gathered.directions[here],
                gathered.outputs[here],
                gathered.blocks,
                claims.label[here],
                claims.generation[here],
                are_in_first_half(closing.participants.clients[gathered.rows[here]]),
            )
            looked = look(
                search, seen, CohortNow(state.server, state.round, closing.share), self.clustering, self.trial, rng
            )
            search, similarity[here] = looked.search, looked.similarity
            if gathered.late.any() and search.clustering.centres is not None and len(here) > 1:
                similarity[gathered.late] = late_similarity(
                    search, seen, gathered.directions[gathered.late], gathered.outputs[gathered.late]
                )
        labelled = (claims.label >= 0) & (claims.generation == search.clustering.generation)
        return Outcome(
            states=(replace(state, memory=AuxoMemory(search=search)), *others),
            affinities=Affinities(
                round_rewards(closing, gathered, self.rewards), similarity, search.clustering.generation
            ),
            notes=RoundNotes(known=int((claims.known & ~gathered.late).sum()), labelled=int(labelled.sum())),
        )

    def _close_trial(self, closing: Closing, gathered: Gathered, aggregator: Aggregator) -> Outcome:
        """Move the branches' models, hear the judges, and decide once the trial is over."""
        state, claims = closing.states[0], claims_of(closing, gathered)
        search, offered = _memory(state).search, len(closing.states)
        assert search.trial is not None  # noqa: S101 - the caller has looked
        scale = rate_scale(self.rate_scaling, closing.share, closing.outlook.total_participants)
        judgements = self._judgements(closing, gathered, search.trial.dendrogram.root)
        moved = Moved(
            gathered.movements[0],
            gathered.movements[offered:],
            _behind(gathered, aggregator, offered, search.trial.dendrogram.branches),
        )
        trial = search.trial.after(moved, aggregator, scale, judgements)
        server = trial.own(state.server, moved, aggregator, scale)
        state = replace(state, server=server, round=state.round + 1)
        cut = prune(trial, self.trial)
        over = trial.is_over(cut, self.trial)
        if over:
            cut = trial.ends_with(cut)
            after = search.rested(state.round, self.trial) if cut.pays else search.failed(state.round, self.trial)
        else:
            after = replace(search, trial=trial.going_on(cut, self.trial))
        similarity = np.full((len(gathered.rows), self.clustering.clusters), np.nan)
        strangers = np.flatnonzero(gathered.model == 0)
        if len(strangers):
            similarity[strangers] = search.similarity(gathered.directions[strangers], gathered.outputs[strangers])
        return Outcome(
            states=(replace(state, memory=AuxoMemory(search=after)), *closing.states[1:]),
            decision=trial.parted(cut, search.clustering.generation) if over and cut.pays else Keep(),
            affinities=Affinities(np.full(len(gathered.rows), np.nan), similarity, search.clustering.generation),
            notes=RoundNotes(
                known=int((claims.known & ~gathered.late).sum()),
                labelled=int((gathered.model >= offered).sum()),
                judged=judgements.judges,
                gain=cut.gain,
                children=len(cut.nodes),
                gives_up=over and not cut.pays,
            ),
        )

    def _judgements(self, closing: Closing, gathered: Gathered, root: int) -> Judgements:
        """Return what a round's judges have said, by node: they were asked of all of them, the root's last.

        Who has trained on all samples has them judge each other's choice; of a half that was trained on they say too
        much.
        """
        search, asked = _memory(closing.states[0]).search, closing.participants.asks.judges
        if asked is None or not asked.size:
            return Judgements.none(root + 1)
        # A single sample is both halves of its client.
        rows = np.flatnonzero((asked[gathered.rows].max(axis=1) >= 0) & (gathered.examples > 1))
        claims = claims_of(closing, gathered).take(rows)
        branch = search.branches(claims.label, claims.generation)
        judged = gathered.judged
        said = (judged.loss, judged.score, judged.other_loss, judged.other_score)
        losses, scores, held_in, scores_in = (_as_wide(one[rows], root + 1) for one in said)
        marks = seals(closing.participants.clients[gathered.rows[rows]], search.clustering.generation)
        if not self.trial.judges_choose:
            return Judgements(branch, losses, scores, np.full_like(held_in, np.nan), marks).whole()
        one_way = Judgements(branch, losses, scores, held_in, marks).whole()
        both = np.flatnonzero(closing.participants.asks.fold[gathered.rows[rows]] < 0)
        nobody = np.full(len(both), -1)
        other_way = Judgements(nobody, held_in[both], scores_in[both], losses[both], marks[both]).whole()
        return one_way.and_of(other_way)

    def _cluster(
        self, closing: Closing, state: CohortState, claims: Claims, gathered: Gathered, rng: np.random.Generator
    ) -> tuple[ClusteringState, FloatArray, RoundEvidence | None]:
        memory, n_clusters = _memory(state), self.clustering.clusters
        similarity = np.full((len(gathered.rows), n_clusters), np.nan)
        is_over = closing.outlook.progress > self.criterion.limits.end
        if memory.settled or state.round < self.start_round or is_over:
            return memory.clustering, similarity, None
        before, in_time = memory.clustering, np.flatnonzero(~gathered.late)
        present, directions = claims.take(in_time), gathered.directions[in_time]
        held_out = present.held_out_label(closing.participants.asks.fold[gathered.rows][in_time])
        labels = np.where(held_out >= 0, held_out, present.label)
        blocks = gathered.blocks
        clustering, clusters = cluster_round(
            before, directions, labels, present.generation, self.clustering, rng, blocks=blocks
        )
        if clusters is None:
            return clustering, similarity, None
        judged_by = held_out if self.cross_fit else present.label
        judged = (judged_by >= 0) & (judged_by < n_clusters) & (present.generation == before.generation)
        judged &= before.centres is not None
        if self.cross_fit:
            # A single sample is both halves of its client: it would be judged on what its label comes from.
            judged &= gathered.examples[in_time] > 1
        evidence = round_evidence(directions, clusters, n_clusters, judged_by, judged)
        similarity[in_time] = clusters.similarity
        if gathered.late.any():
            late = gathered.directions[gathered.late]
            similarity[gathered.late] = compare(clustering, directions, late, blocks=blocks)
        return clustering, similarity, evidence

    def _has_tried(self, clustering: ClusteringState, evidence: Sequence[RoundEvidence]) -> bool:
        """Return whether clustering has started often enough to say that there is nothing to find."""
        judged = sum(seen.judged for seen in evidence)
        return 0 < self.clustering.most_starts <= clustering.generation and judged >= _FEWEST_JUDGED


def _behind(gathered: Gathered, aggregator: Aggregator, offered: int, branches: int) -> FloatArray:
    """Return the weight of the updates behind each movement: of the cohort's own model, and of each branch's.

    Of those that were admitted, and in the aggregator's own measure.
    """
    weighting: Weighting = "uniform" if getattr(aggregator, "weighting", "examples") == "uniform" else "examples"
    behind = np.zeros(1 + branches)
    if gathered.placed is not None:
        for row in np.flatnonzero(np.isin(gathered.rows, gathered.aggregated) & (gathered.placed >= 0)).tolist():
            model = int(gathered.placed[row])
            if model == 0 or model >= offered:
                place = 0 if model == 0 else model - offered + 1
                behind[place] += update_weight(weighting, int(gathered.examples[row]))
    return behind


def _as_wide(said: FloatArray, width: int) -> FloatArray:
    """Return answers with a column for everything that was asked; NaN where there is none."""
    filled = np.full((len(said), width), np.nan)
    filled[:, : said.shape[1]] = said[:, :width]
    return filled


def _memory(state: CohortState) -> AuxoMemory:
    return own(AuxoMemory, state.memory)
