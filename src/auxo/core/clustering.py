"""Online clustering of a cohort from one round's participants; labels travel with the clients (section 4.2)."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from auxo.core.fingerprint import unit_rows
from auxo.core.settings import Bounds, NonNegativeFloat, NonNegativeInt, PositiveInt, checked, setting
from auxo.core.types import BoolArray, FloatArray, IntArray

_NEGLIGIBLE = 1e-12  # squared length below which a centre has no direction
_ROUNDING = 1e-12  # length of a block below which it is what rounding has left of directions that are the same


@dataclass(frozen=True)
@checked
class ClusteringSettings:
    """How participants are clustered."""

    # Every way to group the clusters is judged, and there are thousands of ways beyond 8.
    clusters: Annotated[int, Bounds(ge=2, le=8)] = setting(
        8,
        "Most clusters of a cohort (the paper's K); a trial may join some, so this is the most children of a "
        "partition.",
    )
    pool_rounds: PositiveInt = setting(
        10, "Rounds whose updates K-means starts from; 1, as in the paper: a single one."
    )
    pool_per_cluster: PositiveInt = setting(50, "Fewest of these updates for each cluster; our choice.")
    pool_most: PositiveInt = setting(2000, "Most of these updates that are kept: 32 MB of them; our choice.")
    views: Literal["both", "plain"] = setting(
        "both",
        "Look at updates also without what class frequencies explain, and begin with that view unless the other shows "
        "much more structure; or only as they are.",
    )
    min_structure: NonNegativeFloat = setting(
        1.0,
        "What clusters must explain of updates they were not made from, in parts of what they would explain of a cloud "
        "without clusters, chance taken off; with less the cohort looks again later, and tries no partition.",
    )
    finds_number: bool = setting(
        True,
        "Take as many clusters as show most structure in the pool, where a trial decides; otherwise always the most.",
    )
    leave_one_out: bool = setting(True, "Compare a participant with centres that do not contain it; the paper's do.")
    centre_memory: NonNegativeFloat = setting(
        10.0,
        "Weight of the last round's centres, in participants; 0, as in the paper: this round's labels only.",
    )
    restart_after: PositiveInt = setting(
        20,
        "Rounds in which cluster indices explain nothing before clustering starts anew, where a criterion decides.",
    )
    most_starts: NonNegativeInt = setting(
        1,
        "Starts of clustering that explain nothing after which a cohort stops looking; 0: for ever.",
    )
    kmeans_starts: PositiveInt = setting(10, "Tries of K-means, of which the best counts.")


@dataclass(frozen=True)
class ClusteringState:
    """All that a cohort's clustering keeps between rounds: the last centres, and nothing about any client."""

    generation: int = 0  # number of the current start; labels of an earlier one mean nothing. 0: not started yet
    centres: FloatArray | None = None  # (clusters, width) of the last round; None: K-means is to begin
    idle_rounds: int = 0  # judged rounds in a row in which labels explained nothing


@dataclass(frozen=True)
class Clusters:
    """The outcome for one round's participants."""

    similarity: FloatArray  # (participants, clusters) cosine to each centre; NaN where a cluster has none

    @property
    def labels(self) -> IntArray:
        """Return the nearest cluster of each participant."""
        best: IntArray = np.where(np.isnan(self.similarity), -np.inf, self.similarity).argmax(axis=1)
        return best


def cluster_space(directions: FloatArray, blocks: IntArray | None = None, mean: FloatArray | None = None) -> FloatArray:
    """Return updates without what all participants share, scaled to length one.

    Early in training the common direction drowns the differences between clients. With several ``blocks`` each of them
    is scaled by itself first (see `Fingerprint.blocks`): in some, all participants are alike but for a little, which
    may be just what tells them apart. ``mean`` is what is subtracted; None: these participants' own.
    """
    return _scaled(directions - (directions.mean(axis=0, keepdims=True) if mean is None else mean), blocks)


def cluster_round(  # noqa: PLR0913 - one for each thing that clustering depends on
    state: ClusteringState,
    directions: FloatArray,
    labels: IntArray,
    generation: IntArray,
    settings: ClusteringSettings,
    rng: np.random.Generator,
    *,
    blocks: IntArray | None = None,
) -> tuple[ClusteringState, Clusters | None]:
    """Cluster this round's participants (Algorithm 1, ClientClustering).

    Args:
        state: the cohort's.
        directions: (participants, width) updates scaled to length one.
        labels: cluster index each participant's request carried; -1 where none.
        generation: which start of the clustering that index refers to.
        settings: see `ClusteringSettings`.
        rng: for K-means.
        blocks: (width,) which entries of a direction are scaled together; None: all.

    Returns:
        The next state, and the clusters; None when there were too few participants to begin.
    """
    if len(directions) < 2:
        return state, None  # without the mean of others there is nothing left of an update
    points = cluster_space(directions, blocks)
    if state.centres is None:
        if len(points) < 2 * settings.clusters or len(np.unique(points, axis=0)) < settings.clusters:
            return state, None
        from sklearn.cluster import KMeans  # noqa: PLC0415 - slow to import, and a device never needs it

        seed = int(rng.integers(2**31))
        start = KMeans(settings.clusters, n_init=settings.kmeans_starts, random_state=seed).fit(points)
        similarity = points @ unit_rows(start.cluster_centers_).T
        return ClusteringState(state.generation + 1, start.cluster_centers_), Clusters(similarity)
    usable = (labels >= 0) & (labels < settings.clusters) & (generation == state.generation)
    member = np.where(usable, labels, -1)[:, None] == np.arange(settings.clusters)[None, :]
    similarity = _similarity(points, member, state.centres, settings)
    if not usable.any():  # nobody vouches for anything yet
        similarity = near_centres(points, state.centres)
    clusters = Clusters(similarity)
    return replace(state, centres=_next_centres(points, clusters, state.centres)), clusters


def compare(
    state: ClusteringState, directions: FloatArray, others: FloatArray, *, blocks: IntArray | None = None
) -> FloatArray:
    """Return the similarity of ``others``, who came after the round had closed, to the centres it has left behind.

    Args:
        state: after the round; it must have centres.
        directions: (participants, width) of the round, for the mean that is subtracted.
        others: (late participants, width).
        blocks: (width,) as in the round.
    """
    if state.centres is None:
        raise ValueError("state.centres: expected those of a clustered round, got none")
    return near_centres(_scaled(others - directions.mean(axis=0, keepdims=True), blocks), state.centres)


def near_centres(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return (points, clusters) cosines to centres; NaN where a cluster has none."""
    usable = (centres**2).sum(axis=1) > _NEGLIGIBLE
    return np.where(usable[None, :], points @ unit_rows(centres).T, np.nan)


def _scaled(rows: FloatArray, blocks: IntArray | None) -> FloatArray:
    """Return the rows with each block scaled to length one, and then the whole; what is zero stays zero."""
    if blocks is None or not (blocks != blocks[0]).any():
        return unit_rows(rows)
    order = np.argsort(blocks, kind="stable")
    starts = np.flatnonzero(np.diff(blocks[order], prepend=blocks[order[0]] - 1))
    lengths = np.sqrt(np.add.reduceat((rows**2)[:, order], starts, axis=1))
    scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > _ROUNDING)
    place = np.empty(len(blocks), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(blocks)))
    return unit_rows(rows * scales[:, place])


def _similarity(
    points: FloatArray, member: BoolArray, last_centres: FloatArray, settings: ClusteringSettings
) -> FloatArray:
    """Return cosines to the centres: labelled participants, oneself left out, and some of the last round's centre.

    A cluster nobody vouches for has no centre in this round (NaN): it is not started anew, which would give its
    number to other clients.
    """
    sums = member.T.astype(np.float64) @ points + settings.centre_memory * last_centres
    inner = points @ sums.T
    norms = np.broadcast_to((sums**2).sum(axis=1), inner.shape)
    if settings.leave_one_out:
        own = (points**2).sum(axis=1, keepdims=True) * member
        norms = norms + own - 2 * inner * member
        inner = inner - own
    usable = norms > _NEGLIGIBLE
    return np.where(usable, inner / np.sqrt(np.where(usable, norms, 1.0)), np.nan)


def _next_centres(points: FloatArray, clusters: Clusters, last_centres: FloatArray) -> FloatArray:
    nearest = clusters.labels[:, None] == np.arange(len(last_centres))[None, :]
    count = nearest.sum(axis=0)[:, None]
    means = nearest.T.astype(np.float64) @ points / np.maximum(count, 1)
    return np.where(count > 0, means, last_centres)


def note_explained(
    state: ClusteringState, explained: bool, settings: ClusteringSettings
) -> tuple[ClusteringState, bool]:
    """Count rounds in which labels explain nothing; after enough of them ask for a new start.

    The first K-means can be wrong for ever: every later centre is made of its labels.

    Returns:
        The next state, and whether the labels were thrown away.
    """
    if explained:
        return replace(state, idle_rounds=0), False
    if state.idle_rounds + 1 < settings.restart_after:
        return replace(state, idle_rounds=state.idle_rounds + 1), False
    return ClusteringState(state.generation), True
