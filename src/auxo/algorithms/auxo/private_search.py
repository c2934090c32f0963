"""The rounds of a cohort that looks for groups in private sketches: `SketchPool`, then `PrivateTrial`.

The same two phases as where updates are read, by words that clients say of themselves (`auxo.core.words`): sketches
are pooled until their noise lets centres be seen, centres are published, clients name their branch, judges say a gain.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.algorithms.auxo.private_trial import IntoBranches, PrivateTrial
from auxo.algorithms.auxo.settings import ClusteringSettings, SketchSettings, TrialSettings
from auxo.algorithms.auxo.sketch_pool import SketchPool
from auxo.core.aggregators import Aggregator
from auxo.core.claims import claims_of
from auxo.core.cohort_algorithm import Affinities, Closing, Opening, Outcome, Plan, RoundNotes, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.gathering import Admission, ByDirections, Gathered
from auxo.core.lost_clients import of_own_model
from auxo.core.own_state import OwnState, own
from auxo.core.partition import Keep
from auxo.core.types import IntArray


@dataclass(frozen=True)
class PrivateSearch:
    """What Auxo does in place of reading updates; the settings are its own."""

    clustering: ClusteringSettings
    trial: TrialSettings
    sketches: SketchSettings

    def memory(self, parent: CohortState | None) -> SketchPool:
        """Return that nothing is known of a new cohort; a child rests, and asks something new."""
        return SketchPool() if parent is None else own(SketchPool, parent.memory).rested(parent.round)

    def generation(self, phase: OwnState) -> int:
        """Return what labels that are given now are of."""
        return phase.generation if isinstance(phase, PrivateTrial) else own(SketchPool, phase).generation

    def plan(self, opening: Opening, plan: Plan) -> Plan:
        """Return who is asked for which words."""
        phase = opening.state.memory
        if isinstance(phase, PrivateTrial):
            return phase.plan(opening, plan, self.trial, self.sketches)
        return own(SketchPool, phase).plan(opening, plan, self.sketches)

    def admission(self, closing: Closing, gated: Admission) -> Admission:
        """Return who may move which model: branches' on trial."""
        phase = closing.states[0].memory
        if isinstance(phase, PrivateTrial):
            gated = IntoBranches.of(phase, closing, gated)
        return ByDirections(of_own_model(closing, gated, crediting=True))

    def places(self, closing: Closing, gathered: Gathered) -> IntArray | None:
        """Return nothing: updates do not tell places."""
        return None

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, scale: float, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the models, hear what was said, and decide; None: nobody has moved the cohort's own."""
        phase = closing.states[0].memory
        if isinstance(phase, PrivateTrial):
            return self._close_trial(closing, gathered, aggregator, phase, scale)
        if gathered.movements[0] is None:
            return None
        (state,) = stepped(closing, gathered, aggregator, scale)
        claims = claims_of(closing, gathered)
        nothing = np.full((len(gathered.rows), self.clustering.clusters), np.nan)
        pool = own(SketchPool, phase)
        return Outcome(
            states=(replace(state, memory=self._looked(closing, gathered, pool, state, rng)),),
            # Rewards would be read from updates, and lead clients astray where these are mostly noise.
            affinities=Affinities(np.full(len(gathered.rows), np.nan), nothing, pool.generation),
            notes=RoundNotes(known=int((claims.known & ~gathered.late).sum())),
        )

    def _looked(
        self, closing: Closing, gathered: Gathered, phase: SketchPool, state: CohortState, rng: np.random.Generator
    ) -> SketchPool | PrivateTrial:
        """Return the cohort's phase after a round of a pool: on trial, if there is anything to try."""
        if state.round <= phase.rests_until:
            return phase
        pool, there = phase.after(closing, gathered, self.sketches), len(gathered.rows)
        if not pool.is_full(there, self.sketches):
            return pool
        found = pool.look(self.clustering.clusters, rng)
        if found is not None:
            return PrivateTrial.begin(pool, found, state.server, self.sketches)
        return pool.rested(state.round) if pool.is_drained(there, self.sketches) else pool.looked()

    def _close_trial(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, phase: PrivateTrial, scale: float
    ) -> Outcome:
        """Move the cohort's model and the branches', hear the judges, and decide as soon as they are sure."""
        # Branches have no part in what was credited to the cohort: it would be ahead of them.
        (state,) = stepped(replace(closing, credits={}), gathered, aggregator, scale)
        moved = zip(phase.servers, gathered.movements[len(closing.models) :], strict=True)
        servers = tuple(one if by is None else aggregator.step(one, by, scale) for one, by in moved)
        after = phase.moved(servers, closing, gathered)
        most = closing.outlook.total_participants - closing.outlook.cohorts + 1
        partition = after.verdict(state.server, most, self.trial)
        is_over = partition is None and after.is_over(self.trial)
        memory: SketchPool | PrivateTrial = after if partition is None else after.resumes
        if is_over:
            memory = after.resumes.rested(state.round)
        claims = claims_of(closing, gathered)
        labels = after.labels(closing, gathered, self.clustering.clusters)
        return Outcome(
            states=(replace(state, memory=memory),),
            decision=partition or Keep(),
            affinities=Affinities(np.full(len(gathered.rows), np.nan), labels, phase.generation),
            notes=RoundNotes(
                known=int((claims.known & ~gathered.late).sum()),
                labelled=int((~np.isnan(labels[:, 0])).sum()),
                judged=int(after.evidence.heard.sum() - phase.evidence.heard.sum()),
                gain=after.evidence.gain,
                children=1 if partition is None else len(partition.weights),
                gives_up=is_over,
            ),
        )
