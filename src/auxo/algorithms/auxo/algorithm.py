"""Auxo's server half: cohorts that are found while they train (Algorithm 1), with our corrections as defaults.

A round goes aggregate -> cluster -> reward -> verdict. A cohort is `Pooling`: it trains its model, gathers fingerprints
and looks at them; or it is `OnTrial`: branches move in the shadow of its model, and judges decide. update_search.py has
both. Of clients nothing outlives a round but marks of who has taken part in a pool or a trial. Where updates must not
tell who is alike, clients say a few private words instead, and private_search.py has these two phases.
docs/departures.md says where and why this departs from the paper, rule by rule; algorithms/paper.py has the rules as
they are printed.
"""

from dataclasses import dataclass, field

import numpy as np

from auxo.algorithms.auxo.gate import Gate
from auxo.algorithms.auxo.pooling import FIRST_LOOK, Pooling, first_look
from auxo.algorithms.auxo.private_search import PrivateSearch
from auxo.algorithms.auxo.private_trial import PrivateTrial
from auxo.algorithms.auxo.settings import ClusteringSettings, SketchSettings, TrialSettings
from auxo.algorithms.auxo.sketch_pool import SketchPool
from auxo.algorithms.auxo.trial import OnTrial
from auxo.algorithms.auxo.update_search import UpdateSearch
from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Aggregator, RateScaling, rate_scale
from auxo.core.claims import Claims, held_to, plan_members_first
from auxo.core.cohort_algorithm import ClientHalf, Closing, InitialModel, Opening, Outcome, Plan, Start
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.lost_clients import all_have_left, compare_leaves, own_answers, tell_places
from auxo.core.matching import ByRequest, Matching
from auxo.core.own_state import OwnState, own
from auxo.core.rewards import RewardSettings
from auxo.core.settings import checked, setting
from auxo.core.shares import Sharing, shares_by
from auxo.core.types import CohortId

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
    rate_scaling: RateScaling = setting(
        "none",
        "How the server's learning rate follows the share of participants a cohort has.",
    )
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

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return that nothing is known of a new cohort."""
        return self._search.memory(parent)

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the leaves: each cohort goes at its own pace."""
        return tree.leaves

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return each cohort's share by the setting."""
        return shares_by(self.sharing, tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return who trains what, and who compares models before; members come first, newcomers are held to them."""
        plan = plan_members_first(opening, self.late_feedback)
        return self._search.plan(opening, compare_leaves(opening, plan, self.affinity.confirmations))

    def admission(self, closing: Closing) -> Admission:
        """Return who may move which model: branches' on trial; a gate is for newcomers to one of several cohorts."""
        gated: Admission = AdmitAll()
        reads_updates = self.clustering.reads == "updates"  # else nothing is told from them, nor who fits
        if reads_updates and not self.admit_misfits and closing.outlook.cohorts > 1:
            gated = Gate(held_to(closing, self.rewards), own(Claims, closing.participants.notes).known)
        return self._search.admission(closing, gated)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the models, look at those who have trained the cohort's, and decide; tell others whose they have."""
        mine, search, outcome = own_answers(closing, gathered), self._search, None
        own_movements = (gathered.movements[0], *gathered.movements[len(closing.models) :])
        if any(movement is not None for movement in own_movements):
            scale = rate_scale(self.rate_scaling, closing.share, closing.outlook.total_participants)
            outcome = search.close(closing, mine, aggregator, scale, rng)
        if outcome is None:
            generation = search.generation(closing.states[0].memory)
            outcome = all_have_left(closing, gathered, aggregator, self.clustering.clusters, generation)
        return None if outcome is None else tell_places(closing, gathered, outcome, search.places(closing, gathered))

    @property
    def _search(self) -> UpdateSearch | PrivateSearch:
        """Return how groups are looked for: what a cohort's memory means, and what it does in each phase."""
        if self.clustering.reads == "sketches":
            return PrivateSearch(self.clustering, self.trial, self.sketches)
        return UpdateSearch(self.clustering, self.trial, self.rewards)
