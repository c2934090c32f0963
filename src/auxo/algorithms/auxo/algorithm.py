"""Auxo's server half: cohorts that are found while they train (Algorithm 1), with our corrections as defaults.

A round goes aggregate -> cluster -> reward -> verdict. Nothing about a client outlives it. docs/departures.md says
where and why this departs from the paper, rule by rule; algorithms/paper.py has the rules as they are printed.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.algorithms.auxo.gate import Gate
from auxo.algorithms.auxo.judges import are_judges, seals
from auxo.algorithms.auxo.pool import are_in_first_half
from auxo.algorithms.auxo.search import CohortNow, Search, Seen, ToBranches, late_similarity, look
from auxo.algorithms.auxo.settings import ClusteringSettings, TrialSettings
from auxo.algorithms.auxo.trial import Moved
from auxo.algorithms.auxo.verdict import Judgements, prune
from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Aggregator, RateScaling, ServerState, Weighting, rate_scale, update_weight
from auxo.core.asking import CHOOSES_BY, LEAST_LOSS
from auxo.core.claims import Claims, claims_of, plan_members_first, round_rewards
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
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.lost_clients import all_have_left, compare_leaves, of_own_model, own_answers, tell_places
from auxo.core.matching import ByRequest, Matching
from auxo.core.own_state import own
from auxo.core.partition import Keep
from auxo.core.rewards import RewardSettings
from auxo.core.settings import Fraction, checked, setting
from auxo.core.shares import Sharing, shares_by
from auxo.core.types import CohortId, Float32Array, FloatArray

_MOST_ASIDE = 0.5  # share of the clients that may train for no branch; our choice


@dataclass(frozen=True)
class AuxoMemory:
    """What a cohort keeps between rounds besides its model."""

    search: Search = field(default_factory=Search)

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
    trial: TrialSettings = field(default_factory=TrialSettings)
    judge_share: Fraction = setting(
        0.2,
        "Share of the clients, always the same ones, that judge a partition on trial; they train no branch meanwhile. "
        "Above 0.5 they do, on the half of their samples that they do not judge by. Our choice.",
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
        if parent is None:
            return AuxoMemory()
        return AuxoMemory(search=Search(rests_until=_memory(parent).search.rests_until))

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves: each cohort goes at its own pace."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return each cohort's share by the setting."""
        return shares_by(self.sharing, tree, openers)

    def _looks(self, search: Search, number: int, share: int) -> bool:
        """Return whether a cohort looks for groups in this round; it does not where too few would judge them."""
        return search.trial is not None or (share >= self.trial.looks_from and search.looks(number))

    def plan(self, opening: Opening) -> Plan:
        """Return who trains what, and who compares models before: on trial each branch its model, judges the cohort's.

        Members come first, for newcomers are compared with them.
        """
        search = _memory(opening.state).search
        plan = plan_members_first(opening, self.late_feedback)
        plan = compare_leaves(opening, plan, self.affinity.confirmations)
        if not self._looks(search, opening.state.round + 1, opening.share):
            return plan
        claims, clients = own(Claims, plan.notes), opening.selected.clients[plan.rows]
        if search.follows and not self._stand_aside:
            halves = np.where(are_judges(clients, self.judge_share), CHOOSES_BY, -1)
            plan = replace(plan, asks=replace(plan.asks, fold=halves))
        if search.trial is None:
            return plan
        offered = len(plan.offered)
        judges = are_judges(clients, self.judge_share)
        compares = plan.asks.model == LEAST_LOSS
        elsewhere = compares | (judges & self._stand_aside)
        branch = np.where(elsewhere, -1, search.branches(claims.label, claims.generation))
        unheard = judges & ~search.has_heard(clients, opening.secret)
        asked = search.trial.asked(unheard & ~compares & search.trial.counts(self.trial))
        model = np.where(branch >= 0, offered + branch, plan.asks.model)
        return replace(plan, asks=replace(plan.asks, model=model, judges=np.where(asked >= 0, offered + asked, -1)))

    @property
    def _stand_aside(self) -> bool:
        """Return whether judges train no branch; where most clients judge, few would be left."""
        return self.judge_share <= _MOST_ASIDE

    def admission(self, closing: Closing) -> Admission:
        """Return the gate that newcomers have to pass once there are several cohorts."""
        return of_own_model(closing, self._admission(closing))

    def _admission(self, closing: Closing) -> Admission:
        search = _memory(closing.states[0]).search
        if search.trial is not None:
            judges = are_judges(closing.participants.clients, self.judge_share)
            return ToBranches(search, len(closing.models), judges & self._stand_aside)
        if self.admit_misfits or closing.outlook.cohorts == 1:
            return AdmitAll()
        return Gate(self.rewards, own(Claims, closing.participants.notes).known)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, cluster and reward those who have trained it, and decide; tell others whose they have."""
        mine = own_answers(closing, gathered)
        outcome = self._close(closing, mine, aggregator, rng)
        if outcome is None:
            generation = _memory(closing.states[0]).search.clustering.generation
            outcome = all_have_left(closing, gathered, aggregator, self.clustering.clusters, generation)
        return None if outcome is None else tell_places(closing, gathered, outcome)

    def _close(
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
        (state,) = stepped(closing, gathered, aggregator, scale)
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
            states=(replace(state, memory=AuxoMemory(search=search)),),
            affinities=Affinities(
                round_rewards(closing, gathered, self.rewards), similarity, search.clustering.generation
            ),
            notes=RoundNotes(known=int((claims.known & ~gathered.late).sum()), labelled=int(labelled.sum())),
        )

    def _close_trial(self, closing: Closing, gathered: Gathered, aggregator: Aggregator) -> Outcome:
        """Move the branches' models, hear the judges, and decide once the trial is over."""
        state, claims = closing.states[0], claims_of(closing, gathered)
        search, offered = _memory(state).search, len(closing.models)
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
        cut = prune(trial.dendrogram, trial.heard, self.trial)
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
            states=(replace(state, memory=AuxoMemory(search=after)),),
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
        clients = closing.participants.clients[gathered.rows[rows]]
        marks = seals(clients, search.clustering.generation, closing.secret)
        if not self.trial.judges_choose:
            return Judgements(branch, losses, scores, np.full_like(held_in, np.nan), marks).whole()
        one_way = Judgements(branch, losses, scores, held_in, marks).whole()
        both = np.flatnonzero(closing.participants.asks.fold[gathered.rows[rows]] < 0)
        nobody = np.full(len(both), -1)
        other_way = Judgements(nobody, held_in[both], scores_in[both], losses[both], marks[both]).whole()
        return one_way.and_of(other_way)


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
