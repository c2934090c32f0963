"""The oracle: a cohort for each true group, which no method may know; what there is to be gained.

Nothing but the matching differs from a federation that has found its cohorts: clients keep their records and are
rewarded, so that members' updates come first in the sums.
"""

from dataclasses import dataclass, field

import numpy as np

from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Aggregator, RateScaling, rate_scale
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
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Gathered
from auxo.core.matching import CheckIns, Matched, Matching
from auxo.core.partition import Decision, Keep, Partition
from auxo.core.plain_cohorts import PlainCohorts
from auxo.core.rewards import RewardSettings
from auxo.core.settings import setting
from auxo.core.shares import Sharing, shares_by
from auxo.core.types import CohortId, IntArray


@dataclass(frozen=True)
class Oracle:
    """A model for each known group, partitioned at several times; the run that ends most accurate counts.

    A group's own model gains from the start by being its own, and loses what all groups share; which of the two
    matters more depends on the population.
    """

    starts: tuple[float, ...] = setting(
        (0.0, 0.25),
        "Parts of the run after which the groups part; each is a run of its own, and the better one counts.",
    )
    rate_scaling: RateScaling = setting(
        "none",
        "How the server's learning rate follows the share of participants a cohort has.",
    )
    sharing: Sharing = setting(
        "members",
        "Participants of a cohort: in proportion to its believed members, or equal for all (the paper's rule).",
    )

    def __post_init__(self) -> None:
        if not self.starts or not all(0 <= at <= 1 for at in self.starts):
            raise ValueError(f"starts: expected one or more parts of the run in [0, 1], got {self.starts}")

    def given(self, groups: IntArray) -> tuple["KnownGroups", ...]:
        """Return one algorithm for each start; ``groups`` are those of the whole population."""
        return tuple(KnownGroups(groups, at, self.rate_scaling, self.sharing) for at in self.starts)


@dataclass(frozen=True, eq=False)
class KnownGroups(PlainCohorts):
    """A cohort for each group, from a part of the run on."""

    groups: IntArray  # (clients,)
    at: float  # share of the run after which the groups part; 0: they never meet
    rate_scaling: RateScaling = "none"
    sharing: Sharing = "members"
    rewards: RewardSettings = field(default_factory=RewardSettings)
    client_half = ClientHalf(AffinitySettings(confirmations=0), clusters=4)

    own_states = (Claims,)

    @property
    def matching(self) -> Matching:
        """Return that the groups decide."""
        return ByGroup(self.groups)

    def begin(self, initial: InitialModel) -> Start:
        """Return one model, for one cohort or for each of the groups."""
        return Start((initial(0),), self._partition() if self.at == 0 else None)

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return each cohort's share by the setting."""
        return shares_by(self.sharing, tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return that all train on all their samples, members first."""
        return plan_members_first(opening)

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, reward the participants, and partition when the time has come."""
        if not gathered.used:
            return None
        scale = rate_scale(self.rate_scaling, closing.share, closing.outlook.total_participants)
        due = self.at > 0 and closing.outlook.progress >= self.at and closing.outlook.cohorts == 1
        decision: Decision = self._partition() if due else Keep()
        clusters = self.client_half.clusters
        nothing = np.full((len(gathered.rows), clusters), np.nan)
        return Outcome(
            stepped(closing, gathered, aggregator, scale),
            decision,
            Affinities(round_rewards(closing, gathered, self.rewards), nothing, generation=0),
            notes=RoundNotes(
                known=int((claims_of(closing, gathered).known & ~gathered.late).sum()),
                children=len(decision.weights) if isinstance(decision, Partition) else 1,
            ),
        )

    def _partition(self) -> Partition:
        """Return one child for each group, in the order of their numbers; no clustering led to it."""
        counts = np.bincount(self.groups)
        shares = counts / counts.sum()
        return Partition(tuple(range(len(counts))), tuple(float(share) for share in shares), generation=0)


@dataclass(frozen=True, eq=False)
class ByGroup:
    """Every client goes to the cohort of its true group, once there are such cohorts."""

    groups: IntArray  # (clients,)

    def match(self, state: CoordinatorState, check_ins: CheckIns, rng: np.random.Generator) -> Matched:
        """Return the leaf of each client's group; requests do not matter."""
        is_partitioned = len(state.tree.branches) > 0  # the root is position 0, and its children follow in group order
        leaf = self.groups[check_ins.clients] + 1 if is_partitioned else np.zeros(len(check_ins), dtype=np.int64)
        return Matched(leaf, np.ones(len(check_ins), dtype=np.bool_))

    place = match
