"""The rounds of a cohort that looks for groups in updates: `Pooling`, then `OnTrial`."""

from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo.judges import seals
from auxo.algorithms.auxo.looking import leaves_room
from auxo.algorithms.auxo.pooling import Pooling
from auxo.algorithms.auxo.settings import ClusteringSettings, TrialSettings
from auxo.algorithms.auxo.trial import IntoShadows, OnTrial, labelled
from auxo.algorithms.auxo.views import Prints
from auxo.core.aggregators import Aggregator
from auxo.core.claims import claims_of, round_rewards
from auxo.core.cohort_algorithm import Affinities, Closing, Opening, Outcome, Plan, RoundNotes, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.gathering import Admission, ByDirections, Gathered
from auxo.core.lost_clients import of_own_model
from auxo.core.own_state import OwnState, own
from auxo.core.partition import Keep
from auxo.core.rewards import RewardSettings
from auxo.core.types import FloatArray, IntArray

_MOST_GAIN = 0.5  # share of their loss that small cohorts are asked to gain at the most; our choice
_LIARS = 0.15  # share of judges that may lie where claims are signed: as many as the paper has corrupted clients


@dataclass(frozen=True)
class UpdateSearch:
    """What Auxo does where it reads updates; the settings are its own."""

    clustering: ClusteringSettings
    trial: TrialSettings
    rewards: RewardSettings

    def memory(self, parent: CohortState | None) -> Pooling:
        """Return that nothing is known of a new cohort; a child rests, for what it comes from was on trial."""
        return Pooling() if parent is None else Pooling.of_child(own(Pooling, parent.memory), parent.round)

    def generation(self, phase: OwnState) -> int:
        """Return what labels that are given now are of."""
        return phase.generation if isinstance(phase, OnTrial) else own(Pooling, phase).trials

    def plan(self, opening: Opening, plan: Plan) -> Plan:
        """Return who judges besides, on trial."""
        phase = opening.state.memory
        return phase.plan(opening, plan, self.trial) if isinstance(phase, OnTrial) else plan

    def admission(self, closing: Closing, gated: Admission) -> Admission:
        """Return who may move which model: branches' on trial."""
        phase = closing.states[0].memory
        if isinstance(phase, OnTrial) and closing.unproved is not None:
            return IntoShadows(phase, len(closing.models), of_own_model(closing, gated, crediting=True), strangers=True)
        if isinstance(phase, OnTrial):
            return of_own_model(closing, IntoShadows(phase, len(closing.models), gated), crediting=True)
        decides, pooling = of_own_model(closing, gated, crediting=True), own(Pooling, phase)
        reads = pooling.sorting is not None or pooling.pools(closing.states[0].round + 1)
        return decides if reads else ByDirections(decides)

    def places(self, closing: Closing, gathered: Gathered) -> IntArray | None:
        """Return the place that each answer's update names, see `Sorting`; None: updates do not tell places here."""
        phase = closing.states[0].memory
        sorting = (phase.resumes if isinstance(phase, OnTrial) else own(Pooling, phase)).sorting
        if sorting is None:
            return None
        prints = _prints(gathered, np.arange(len(gathered.rows)))
        return sorting.places(closing, prints, claims_of(closing, gathered).known & ~gathered.late)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, scale: float, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the models, look or hear the judges, and decide; None: nobody has moved the cohort's own."""
        phase = closing.states[0].memory
        if isinstance(phase, OnTrial):
            return self._close_trial(closing, gathered, aggregator, phase, scale)
        return self._close_pooling(closing, gathered, aggregator, own(Pooling, phase), scale, rng)

    def _close_pooling(
        self,
        closing: Closing,
        gathered: Gathered,
        aggregator: Aggregator,
        phase: Pooling,
        scale: float,
        rng: np.random.Generator,
    ) -> Outcome | None:
        """Close a round of a cohort that pools updates, or rests."""
        if gathered.movements[0] is None:
            return None
        (state,) = stepped(closing, gathered, aggregator, scale)
        after: Pooling | OnTrial = phase
        if phase.pools(state.round) and self._is_worth_a_look(phase, state, closing):
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

    def _is_worth_a_look(self, phase: Pooling, state: CohortState, closing: Closing) -> bool:
        """Return whether a trial could come to its end, unless it would be the first: it must not be in the way then.

        Where everybody judges, the cohort's own model has fewer samples meanwhile.
        """
        left = state.round * (1 / closing.outlook.progress - 1) if closing.outlook.progress > 0 else np.inf
        return phase.trials == 0 or left >= self.trial.most_rounds

    def _close_trial(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, phase: OnTrial, scale: float
    ) -> Outcome:
        """Move the cohort's model and the branches', hear the judges, and decide as soon as they are sure."""
        # Branches have no part in what was credited to the cohort: it would be ahead of them.
        (state,) = stepped(replace(closing, credits={}), gathered, aggregator, scale)
        moved = zip(phase.servers, gathered.movements[len(closing.models) :], strict=True)
        servers = tuple(one if by is None else aggregator.step(one, by, scale) for one, by in moved)
        prints = _prints(gathered, np.arange(len(gathered.rows)))
        said = phase.said(closing, gathered, prints)
        marks = seals(closing.participants.clients[gathered.rows], phase.generation, closing.secret)
        after = phase.moved(servers, said, marks)
        most = closing.outlook.total_participants - closing.outlook.cohorts + 1
        asked = self._asked_of(closing)
        candidate, partition = after.verdict(state.server, most, asked)
        is_over = candidate is None and after.is_over(asked)
        here = ~gathered.late & (gathered.model == 0)
        goes_on = after.seen_from(prints.take(here))
        memory: Pooling | OnTrial = goes_on if candidate is None else goes_on.parted(closing.cohort, candidate)
        if is_over:
            again = after.is_promising(asked)
            views = () if again else tuple(shadow.view.name for shadow in after.shadows)
            memory = after.given_up().failed(state.round, views, again or after.others, self.clustering)
            kept = after.sure_of(asked)
            if kept is not None and not after.evidence.everybody:
                memory = memory.rested(kept if leaves_room(kept, self.clustering.clusters) else None)
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


def _prints(gathered: Gathered, rows: IntArray) -> Prints:
    columns: tuple[FloatArray, ...] = (gathered.directions, gathered.outputs, gathered.inputs)
    return Prints(*(column[rows] for column in columns))
