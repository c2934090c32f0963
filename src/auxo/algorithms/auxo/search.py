"""A cohort's search for groups: pool updates, follow clusters, try a partition, rest if it did not pay in any view.

It goes by evidence and not by the clock: nothing here knows how many rounds a run will have.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from auxo.algorithms.auxo.dendrogram import Alikeness, grow
from auxo.algorithms.auxo.judges import seals
from auxo.algorithms.auxo.pool import Pool, PooledRound, start_clustering
from auxo.algorithms.auxo.settings import ClusteringSettings, TrialSettings
from auxo.algorithms.auxo.trial import Trial
from auxo.algorithms.auxo.views import View, ViewName
from auxo.core.aggregators import ServerState
from auxo.core.clustering import ClusteringState, cluster_round, cluster_space, near_centres
from auxo.core.gathering import Examined
from auxo.core.types import BoolArray, FloatArray, IntArray

_LATER = 1.5  # times the rounds so far, until a cohort without structure looks again; our choice


@dataclass(frozen=True)
class Search:
    """How far a cohort's search has come. Nothing in it belongs to a client, and all of it can be lost."""

    pool: Pool = field(default_factory=Pool)
    clustering: ClusteringState = field(default_factory=ClusteringState)
    view: View = field(default_factory=View)  # that clustering goes by
    mean: FloatArray | None = None  # (width,) of the last round's directions in that view
    blocks: IntArray | None = None  # (width,) of the fingerprints
    alike: Alikeness | None = None  # since clustering began
    followed: int = 0  # rounds since clustering began
    trial: Trial | None = None
    rests_until: int = 0  # round after which the cohort looks again
    other: ViewName | None = None  # view that shows structure as well, and has not been on trial
    only: ViewName | None = None  # view that the cohort looks at next; None: whichever is best

    def looks(self, number: int) -> bool:
        """Return whether the cohort looks for groups in the round of this number."""
        return self.trial is not None or number > self.rests_until

    @property
    def follows(self) -> bool:
        """Return whether there are clusters, and so labels that clients bring."""
        return self.clustering.centres is not None

    def rested(self, number: int, settings: TrialSettings) -> "Search":
        """Return the search after a trial, in the round of this number: longer rests every time."""
        pause = max(1, round(settings.rest * number))
        return Search(clustering=ClusteringState(self.clustering.generation), rests_until=number + pause)

    def failed(self, number: int, settings: TrialSettings) -> "Search":
        """Return the search after a trial that did not pay: the other view has its turn first, if it shows anything."""
        if self.other is None:
            return self.rested(number, settings)
        return Search(clustering=ClusteringState(self.clustering.generation), only=self.other)

    def has_heard(self, clients: IntArray, secret: str) -> BoolArray:
        """Return which clients have judged the models that are on trial; ``secret`` is the run's."""
        if self.trial is None:
            return np.zeros(len(clients), dtype=np.bool_)
        return np.isin(seals(clients, self.clustering.generation, secret), self.trial.heard.seals)

    def branches(self, labels: IntArray, generation: IntArray) -> IntArray:
        """Return the branch on trial that each label leads to; -1: none."""
        if self.trial is None:
            return np.full(len(labels), -1, dtype=np.int64)
        branch_of = np.array([*self.trial.dendrogram.branch_of, -1])
        usable = (generation == self.clustering.generation) & (labels >= 0) & (labels < len(branch_of) - 1)
        return np.asarray(branch_of[np.where(usable, labels, -1)])

    def similarity(self, directions: FloatArray, outputs: FloatArray) -> FloatArray:
        """Return how near updates of the cohort's own model are to the centres, when a trial has begun."""
        if self.clustering.centres is None or self.mean is None:
            raise ValueError("search: expected clusters, got none; look for some first")
        points = cluster_space(self.view.of(directions, outputs), self.blocks, self.mean)
        return near_centres(points, self.clustering.centres)


@dataclass(frozen=True)
class Looked:
    """What one round has added."""

    search: Search
    similarity: FloatArray  # (participants, clusters) of those in time; NaN: nothing to be said


@dataclass(frozen=True)
class Seen:
    """A round's participants that were in time and trained the cohort's own model."""

    directions: FloatArray  # (participants, width)
    outputs: FloatArray  # (participants, outputs) see `Fingerprint.outputs`
    blocks: IntArray
    labels: IntArray  # (participants,) cluster index each brought; -1: none
    generation: IntArray
    first_half: BoolArray  # (participants,) see `auxo.algorithms.auxo.pool.are_in_first_half`


@dataclass(frozen=True)
class CohortNow:
    """What a trial would begin from."""

    server: ServerState  # after the round
    round: int  # that has just closed
    share: int  # updates that the cohort's rounds want


def look(
    search: Search,
    seen: Seen,
    cohort: CohortNow,
    clustering: ClusteringSettings,
    trial: TrialSettings,
    rng: np.random.Generator,
) -> Looked:
    """Return the search after a round in which the cohort's own model was trained.

    Args:
        search: before it.
        seen: its participants.
        cohort: after the round.
        clustering: how participants are clustered.
        trial: how a partition is tried.
        rng: for K-means.
    """
    nothing = np.full((len(seen.directions), clustering.clusters), np.nan)
    if len(seen.directions) < 2:
        return Looked(search, nothing)
    if search.clustering.centres is None:
        pool = search.pool.after(PooledRound.of(seen.directions, seen.outputs, seen.first_half), clustering)
        search = replace(search, pool=pool, blocks=seen.blocks)
        if not pool.is_full(clustering):
            return Looked(search, nothing)
        started = start_clustering(pool, clustering, search.clustering.generation, seen.blocks, rng, search.only)
        if started is None and search.only is None:
            return Looked(search, nothing)
        if started is None or started.structure.shown < clustering.min_structure:  # a trial would find nothing
            return Looked(_without_structure(search, cohort.round, trial), nothing)
        search = replace(
            search,
            pool=Pool(),
            clustering=started.clustering,
            view=started.view,
            other=started.other,
            alike=Alikeness.none(clustering.clusters),
            followed=0,
        )
    directions = search.view.of(seen.directions, seen.outputs)
    search = replace(search, mean=directions.mean(axis=0), blocks=seen.blocks)
    state, clusters = cluster_round(
        search.clustering,
        directions,
        seen.labels,
        seen.generation,
        leave_one_out=clustering.leave_one_out,
        centre_memory=clustering.centre_memory,
        blocks=seen.blocks,
    )
    assert search.alike is not None  # noqa: S101 - it was begun with the centres
    usable = (seen.generation == search.clustering.generation) & (seen.labels < clustering.clusters)
    labels = np.where(usable, seen.labels, -1)
    alike = search.alike.after(seen.directions, labels, clusters.labels)
    search = replace(search, clustering=state, alike=alike, followed=search.followed + 1)
    is_time = float((labels >= 0).mean()) >= trial.waits_for or search.followed >= trial.patience
    if is_time:
        search = _tried(search, alike, cohort, trial)
    return Looked(search, clusters.similarity)


def _without_structure(search: Search, number: int, settings: TrialSettings) -> Search:
    """Return the search after a pool that shows nothing: the next one is full in half as many rounds more."""
    if search.only is not None:  # it has come to a trial in the other view, which did not pay
        return search.rested(number, settings)
    later = max(number, round(_LATER * number) - len(search.pool.rounds))
    return replace(search, pool=Pool(), rests_until=later)


def _tried(search: Search, alike: Alikeness, cohort: CohortNow, settings: TrialSettings) -> Search:
    """Return the search with a trial begun; at rest where no two branches could fill their rounds."""
    dendrogram = grow(alike, settings.horizon * cohort.share, settings.min_participants / max(cohort.share, 1))
    if dendrogram.branches < 2:
        return search.failed(cohort.round, settings)  # to go on looking would cost, and could bring nothing
    return replace(search, trial=Trial.begin(dendrogram, alike.weights, cohort.server))


def late_similarity(search: Search, seen: Seen, directions: FloatArray, outputs: FloatArray) -> FloatArray:
    """Return the similarity of participants that came after the round had closed; NaN where there are no clusters.

    Args:
        search: after the round.
        seen: those who were in time.
        directions: (late participants, width).
        outputs: (late participants, outputs).
    """
    if search.clustering.centres is None:
        return np.full((len(directions), 0), np.nan)
    in_time, late = search.view.of(seen.directions, seen.outputs), search.view.of(directions, outputs)
    return near_centres(cluster_space(late, search.blocks, in_time.mean(axis=0)), search.clustering.centres)


@dataclass(frozen=True)
class ToBranches:
    """Sends updates of the cohort's own model to the branch on trial that they are nearest to."""

    search: Search
    offered: int  # leaves whose models take part in the round; the first is the cohort's own
    stays: BoolArray  # (participants,) whose updates of it move no branch

    def place(self, row: int, examined: Examined, model: int) -> int | None:
        """Return the branch's model; None where somebody has trained another leaf's."""
        if model >= self.offered:
            return model
        if model > 0 or self.search.trial is None:
            return None
        if self.stays[row]:
            return model
        nearest = int(np.nanargmax(self.search.similarity(examined.direction[None, :], examined.outputs[None, :])[0]))
        return self.offered + self.search.trial.dendrogram.branch_of[nearest]
