"""Auxo's server half: cohorts that are found while they train (Algorithm 1), with our corrections as defaults.

A round goes aggregate -> cluster -> reward -> verdict. A cohort is `Pooling`: it trains its model, gathers fingerprints
and looks at them; or it is `OnTrial`: branches move in the shadow of its model, and judges decide. Of clients nothing
outlives a round but marks of who has taken part in a pool or a trial. Where updates must not tell who is alike, clients
say a few private words instead, and private_search.py has these two phases. docs/departures.md says where and why this
departs from the paper, rule by rule; algorithms/paper.py has the rules as they are printed.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.algorithms.auxo.gate import Gate
from auxo.algorithms.auxo.judges import seals
from auxo.algorithms.auxo.pooling import FIRST_LOOK, Pooling, first_look
from auxo.algorithms.auxo.private_search import PrivateSearch
from auxo.algorithms.auxo.private_trial import PrivateTrial
from auxo.algorithms.auxo.settings import ClusteringSettings, SketchSettings, TrialSettings
from auxo.algorithms.auxo.sketch_pool import SketchPool
from auxo.algorithms.auxo.trial import IntoShadows, OnTrial, labelled
from auxo.algorithms.auxo.views import Prints
from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import ABOUT_SCALING, Aggregator, RateScaling, rate_scale
from auxo.core.claims import Claims, claims_of, held_to, plan_members_first, round_rewards
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
from auxo.core.own_state import OwnState, own
from auxo.core.partition import Keep
from auxo.core.rewards import RewardSettings
from auxo.core.settings import checked, setting
from auxo.core.shares import Sharing, shares_by
from auxo.core.types import CohortId, FloatArray, IntArray

_MOST_GAIN = 0.5  # share of their loss that small cohorts are asked to gain at the most; our choice
_LIARS = 0.15  # share of judges that may lie where claims are signed: as many as the paper has corrupted clients
_FIRST_VERDICT = 1 + FIRST_LOOK  # rounds of a trial after which there can be a partition


@dataclass(frozen=True)
@checked
class Auxo:
    """Finds cohorts of alike clients while they train, and partitions a cohort when its groups are better off alone."""

    affinity: AffinitySettings = field(default_factory=AffinitySettings)
    clustering: ClusteringSettings = field(default_factory=ClusteringSettings)
    rewards: RewardSettings = field(default_factory=RewardSettings)
    trial: TrialSettings = field(default_factory=TrialSettings)
    sketches: SketchSettings = field(default_factory=SketchSettings)
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
    rate_scaling: RateScaling = setting("auto", ABOUT_SCALING)
    sharing: Sharing = setting(
        "members",
        "Participants of a cohort: in proportion to its believed members, or equal for all (the paper's rule).",
    )

    own_states = (Pooling, OnTrial, Claims, SketchPool, PrivateTrial)

    def why_no_partition(self, participants: int, rounds: int) -> str | None:
        """Return what is missing: participants for two cohorts, or rounds for a pool and a trial."""
        if participants < 2:
            return (
                f"two cohorts need two participants a round, and there is {participants}; raise training.participants"
            )
        pooled = first_look(participants, self.clustering)
        first = pooled + _FIRST_VERDICT
        if rounds >= first:
            return None
        return (
            f"a cohort pools updates for {pooled} rounds, and a trial takes at least {_FIRST_VERDICT}, so that the "
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

    def memory(self, parent: CohortState | None) -> Pooling | SketchPool:
        """Return that nothing is known of a new cohort; a child rests, for what it comes from was on trial."""
        if self.clustering.reads == "sketches":
            return self._private.memory(parent)
        if parent is None:
            return Pooling()
        return Pooling.of_child(own(Pooling, parent.memory), parent.round)

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves: each cohort goes at its own pace."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return each cohort's share by the setting."""
        return shares_by(self.sharing, tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return who trains what, and who compares models before; members come first, newcomers are held to them."""
        plan = plan_members_first(opening, self.late_feedback)
        plan = compare_leaves(opening, plan, self.affinity.confirmations)
        phase = opening.state.memory
        if isinstance(phase, OnTrial):
            return phase.plan(opening, plan, self.trial)
        return self._private.plan(opening, plan)

    def admission(self, closing: Closing) -> Admission:
        """Return who may move which model: branches' on trial; a gate is for newcomers to one of several cohorts."""
        phase = closing.states[0].memory
        gated: Admission = AdmitAll()
        reads_updates = self.clustering.reads == "updates"  # else nothing is told from them, nor who fits
        if reads_updates and not self.admit_misfits and closing.outlook.cohorts > 1:
            gated = Gate(held_to(closing, self.rewards), own(Claims, closing.participants.notes).known)
        if isinstance(phase, OnTrial) and closing.unproved is not None:
            return IntoShadows(phase, len(closing.models), of_own_model(closing, gated, crediting=True), strangers=True)
        if isinstance(phase, OnTrial):
            return of_own_model(closing, IntoShadows(phase, len(closing.models), gated), crediting=True)
        return of_own_model(closing, self._private.admission(closing, gated), crediting=True)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the models, look at those who have trained the cohort's, and decide; tell others whose they have."""
        mine, phase = own_answers(closing, gathered), closing.states[0].memory
        outcome = None
        own_movements = (gathered.movements[0], *gathered.movements[len(closing.models) :])
        if any(movement is not None for movement in own_movements):
            if isinstance(phase, OnTrial):
                outcome = self._close_trial(closing, mine, aggregator, phase)
            elif isinstance(phase, SketchPool | PrivateTrial):
                outcome = self._private.close(closing, mine, aggregator, self._rate_scale(closing, aggregator), rng)
            else:
                outcome = self._close_pooling(closing, mine, aggregator, own(Pooling, phase), rng)
        if outcome is None:
            outcome = all_have_left(closing, gathered, aggregator, self.clustering.clusters, _generation(phase))
        return None if outcome is None else tell_places(closing, gathered, outcome, self._sorted(closing, gathered))

    def _sorted(self, closing: Closing, gathered: Gathered) -> IntArray | None:
        """Return the place that each answer's update names, see `Sorting`; None: updates do not tell places here."""
        phase = closing.states[0].memory
        if isinstance(phase, SketchPool | PrivateTrial):
            return None
        sorting = (phase.resumes if isinstance(phase, OnTrial) else own(Pooling, phase)).sorting
        if sorting is None:
            return None
        prints = _prints(gathered, np.arange(len(gathered.rows)))
        return sorting.places(closing, prints, claims_of(closing, gathered).known & ~gathered.late)

    def _close_pooling(
        self,
        closing: Closing,
        gathered: Gathered,
        aggregator: Aggregator,
        phase: Pooling,
        rng: np.random.Generator,
    ) -> Outcome | None:
        """Close a round of a cohort that pools updates, or rests."""
        if gathered.movements[0] is None:
            return None
        (state,) = stepped(closing, gathered, aggregator, self._rate_scale(closing, aggregator))
        after: Pooling | OnTrial = phase
        if phase.pools(state.round):
            here = np.flatnonzero(~gathered.late & (gathered.model == 0))
            # The order in which participants were selected decides nothing, not even how clusters are numbered.
            here = here[np.argsort(closing.participants.clients[gathered.rows[here]], kind="stable")]
            clients = closing.participants.clients[gathered.rows[here]]
            marks = seals(clients, phase.trials, closing.secret)
            after = pool = phase.after(_prints(gathered, here), clients, marks, self.clustering)
            if pool.is_full(self.clustering):
                pool = pool.counted(closing.outlook.check_ins, self.trial)
                found = pool.look(gathered.blocks, self.clustering, rng)
                if found:
                    most, liars = self.clustering.clusters, self._liars(closing)
                    after = OnTrial.begin(pool, found, state.server, gathered.blocks, most, liars)
                else:
                    after = pool.failed(state.round, (), False, self.clustering)
        claims = claims_of(closing, gathered)
        nothing = np.full((len(gathered.rows), self.clustering.clusters), np.nan)
        return Outcome(
            states=(replace(state, memory=after),),
            affinities=Affinities(round_rewards(closing, gathered, self.rewards), nothing, phase.trials),
            notes=RoundNotes(known=int((claims.known & ~gathered.late).sum())),
        )

    def _close_trial(self, closing: Closing, gathered: Gathered, aggregator: Aggregator, phase: OnTrial) -> Outcome:
        """Move the cohort's model and the branches', hear the judges, and decide as soon as they are sure."""
        scale, offered = self._rate_scale(closing, aggregator), len(closing.models)
        # Branches have no part in what was credited to the cohort: it would be ahead of them.
        (state,) = stepped(replace(closing, credits={}), gathered, aggregator, scale)
        moved = zip(phase.servers, gathered.movements[offered:], strict=True)
        servers = tuple(one if by is None else aggregator.step(one, by, scale) for one, by in moved)
        prints = _prints(gathered, np.arange(len(gathered.rows)))
        said = phase.said(closing, gathered, prints)
        marks = seals(closing.participants.clients[gathered.rows], phase.generation, closing.secret)
        after = phase.moved(servers, said, marks)
        most = closing.outlook.total_participants - closing.outlook.cohorts + 1
        asked = self._asked_of(closing)
        candidate, partition = after.verdict(state.server, most, asked)
        is_over = candidate is None and after.is_over(asked)
        memory: Pooling | OnTrial = after if candidate is None else after.parted(closing.cohort, candidate)
        if is_over:
            again = after.is_promising(asked)
            views = () if again else tuple(shadow.view.name for shadow in after.shadows)
            memory = after.given_up().failed(state.round, views, again or after.others, self.clustering)
            if again and not after.evidence.everybody:
                memory = memory.rested()
        claims = claims_of(closing, gathered)
        return Outcome(
            states=(replace(state, memory=memory),),
            decision=partition or Keep(),
            affinities=Affinities(
                np.full(len(gathered.rows), np.nan),
                after.labels(gathered, prints, self.clustering.clusters),
                phase.generation,
                observed=round_rewards(closing, gathered, self.rewards),
            ),
            notes=RoundNotes(
                known=int((claims.known & ~gathered.late).sum()),
                labelled=labelled(closing, gathered, phase.generation),
                judged=len(said.seals),
                gain=float(after.evidence.gains.max()),
                children=1 if partition is None else len(partition.weights),
                gives_up=is_over,
            ),
        )

    def _asked_of(self, closing: Closing) -> TrialSettings:
        """Return the settings of a trial in a cohort with its share of the participants.

        What parting costs is fewer samples behind each model, and that is the more the fewer there are: as in Lemma 1,
        what is gained has to grow as participants become fewer.
        """
        usual = self.trial.min_gain
        scarcity = closing.outlook.total_participants / max(closing.share, 1)
        return replace(self.trial, min_gain=max(usual, min(usual * scarcity, _MOST_GAIN)))

    def _liars(self, closing: Closing) -> float:
        """Return the share of judges that are not believed; where claims are signed nobody is taken at its word."""
        if self.trial.liars is not None:
            return self.trial.liars
        claims = closing.participants.claims
        return _LIARS if claims is not None and claims.unproved is not None else 0.0

    @property
    def _private(self) -> PrivateSearch:
        return PrivateSearch(self.clustering, self.trial, self.sketches)

    def _rate_scale(self, closing: Closing, aggregator: Aggregator) -> float:
        return rate_scale(self.rate_scaling, closing.share, closing.outlook.total_participants, aggregator)


def _generation(phase: OwnState) -> int:
    """Return what labels that are given now are of."""
    if isinstance(phase, OnTrial | SketchPool | PrivateTrial):
        return phase.generation
    return own(Pooling, phase).trials


def _prints(gathered: Gathered, rows: IntArray) -> Prints:
    columns: tuple[FloatArray, ...] = (gathered.directions, gathered.outputs, gathered.inputs)
    return Prints(*(column[rows] for column in columns))
