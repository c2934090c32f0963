"""CFL: everybody trains in every round, and a cohort whose mean update vanishes while members' do not is cut in two.

Sattler, Müller and Samek, Clustered Federated Learning: Model-Agnostic Distributed Multi-Task Optimization under
Privacy Constraints, TNNLS 2020 (arXiv 1910.01991), Algorithm 3. At a stationary point of the common objective clients
of one distribution have small updates; where some are large, their cosines say who belongs together. A cohort is
bipartitioned so that the largest cosine between the two sides is small, by complete linkage as in the authors' code.

Children go on from the model that the updates were taken at, as in the paper; the authors' code moves each child by its
own members' mean in the same round. Cosines and norms are those of fingerprints, see `auxo.core.pairwise`.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import EVERYBODY, Circumstances, Closing, Outcome, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_table import CohortTable, with_newcomers
from auxo.core.gathering import Gathered
from auxo.core.own_state import OwnState, own
from auxo.core.pairwise import sketched_updates, too_many
from auxo.core.settings import AtLeastTwo, Fraction, NonNegativeFloat, NonNegativeInt, checked, setting
from auxo.core.table_cohorts import TableCohorts, parted
from auxo.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class LargestMean:
    """What a cohort remembers: the longest mean update of its lineage, by which its thresholds are scaled."""

    norm: float = 0.0


@dataclass(frozen=True)
@checked
class Cfl(TableCohorts):
    """Bipartitions of cohorts at stationary points, with all clients in all rounds."""

    # The paper's rule of thumb is a tenth of the longest mean update for eps_1, and one to ten times that for eps_2.
    # The longest of many updates grows with their number: of 2,000 clients without groups it is 2.0 to 2.6 times the
    # longest mean, in every round, so that the default, which suits a hundred clients, cuts them into cohorts of a few.
    eps_1: NonNegativeFloat = setting(
        0.4, "A cohort is stationary when the norm of its mean update is below this; the number is the authors'."
    )
    eps_2: NonNegativeFloat = setting(
        2.0,
        "A stationary cohort is cut when a member's update is longer than this; our choice, the authors have 1.6. "
        "Thousands of clients need 2.5 to 3.",
    )
    relative: bool = setting(
        True,
        "Thresholds are in units of the cohort's longest mean update so far, because norms depend on the model. "
        "false: they are norms, as in the authors' code.",
    )
    first_split: NonNegativeInt = setting(20, "Rounds before any cohort is cut; the default is the authors'.")
    smallest: AtLeastTwo = setting(3, "Fewest participants of a cohort that is cut; the default is the authors'.")
    gamma_max: Fraction | None = setting(
        None,
        "Largest approximation error of members, in [0, 1]: a cohort is cut only where the largest cosine across is "
        "below sqrt((1 - gamma_max) / 2) (paper). Not set: without that guard, as in the authors' code.",
    )

    own_states = (CohortTable, LargestMean)

    def why_not(self, circumstances: Circumstances) -> str | None:
        """Return that it cannot do without anybody, or that there are too many."""
        if not circumstances.is_everybody_reachable:
            return (
                f"needs every one of the {circumstances.clients:,} clients in every round, but "
                f'{" and ".join(circumstances.obstacles)}; set devices.availability = "always", devices.dropout = 0 '
                "and no devices.deadline_s, or leave it out"
            )
        return too_many(circumstances.clients)

    def wants(self, state: CohortState, share: int) -> int:
        """Return that everybody takes part in every round."""
        return EVERYBODY

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return the longest mean update so far, which children inherit."""
        return LargestMean() if parent is None else parent.memory

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, or cut the cohort in two."""
        if not gathered.used:
            return None
        mine = ~gathered.late & (gathered.model == 0)
        updates = sketched_updates(gathered, mine)
        mean = float(np.linalg.norm(updates.mean(axis=0)))
        largest = LargestMean(max(own(LargestMean, closing.states[0].memory).norm, mean))
        cut = self._bipartition(closing, updates, mean, largest.norm)
        if cut is None:
            (after,) = stepped(closing, gathered, aggregator)
            return Outcome((replace(after, memory=largest),), table=with_newcomers(closing, gathered))
        outcome = parted(closing, gathered, gathered.rows[mine], cut)
        return replace(outcome, states=(replace(outcome.states[0], memory=largest),))

    def _bipartition(self, closing: Closing, updates: FloatArray, mean: float, largest: float) -> IntArray | None:
        """Return the side of each member of a cohort that is to be cut; None: it is not."""
        scale = largest if self.relative else 1.0
        norms = np.linalg.norm(updates, axis=1)
        has_room = closing.outlook.cohorts < closing.outlook.total_participants
        is_early = closing.states[0].round < self.first_split
        if is_early or not has_room or len(updates) < self.smallest:
            return None
        if not (mean < self.eps_1 * scale and norms.max() > self.eps_2 * scale):
            return None
        side, across = bipartition(updates)
        if self.gamma_max is not None and not across < np.sqrt((1 - self.gamma_max) / 2):
            return None
        return side


def bipartition(updates: FloatArray) -> tuple[IntArray, float]:
    """Return two sides of clients, by complete linkage of their cosines, and the largest cosine between the two.

    The first client is on side 0.

    >>> bipartition(np.array([[1.0, 0.0], [-1.0, 0.1], [1.0, 0.2]]))[0].tolist()
    [0, 1, 0]
    """
    norms = np.linalg.norm(updates, axis=1)
    cosines = updates @ updates.T / (np.outer(norms, norms) + 1e-12)
    found = AgglomerativeClustering(2, metric="precomputed", linkage="complete").fit_predict(-cosines)
    side: BoolArray = found != found[0]
    return side.astype(np.int64), float(cosines[np.ix_(~side, side)].max())
