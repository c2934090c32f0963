"""Online clustering of a cohort from one round's participants; labels travel with the clients (section 4.2)."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from auxo.core.fingerprint import unit_rows
from auxo.core.types import BoolArray, FloatArray, IntArray

_NEGLIGIBLE = 1e-12  # squared length below which a centre has no direction
_ROUNDING = 1e-12  # length of a block below which it is what rounding has left of directions that are the same
_ROWS_AT_ONCE = 64  # our choice: what they come to on the way stays in the cache


@dataclass(frozen=True)
class ClusteringState:
    """All that a cohort's clustering keeps between rounds: the last centres, and nothing about any client."""

    generation: int = 0  # number of the current start; labels of an earlier one mean nothing. 0: not started yet
    centres: FloatArray | None = None  # (clusters, width) of the last round; None: there are none yet


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
    *,
    leave_one_out: bool,
    centre_memory: float,
    blocks: IntArray | None = None,
) -> tuple[ClusteringState, Clusters]:
    """Cluster this round's participants (Algorithm 1, ClientClustering, once it has centres).

    Args:
        state: the cohort's; it must have centres.
        directions: (participants, width) updates scaled to length one, of at least two participants.
        labels: cluster index each participant's request carried; -1 where none.
        generation: which start of the clustering that index refers to.
        leave_one_out: compare a participant with centres that do not contain it.
        centre_memory: weight of the last round's centres, in participants.
        blocks: (width,) which entries of a direction are scaled together; None: all.

    Returns:
        The next state, and the clusters.
    """
    if state.centres is None:
        raise ValueError("state.centres: expected those that clustering has started from, got none")
    clusters = len(state.centres)
    points = cluster_space(directions, blocks)
    usable = (labels >= 0) & (labels < clusters) & (generation == state.generation)
    member = np.where(usable, labels, -1)[:, None] == np.arange(clusters)[None, :]
    similarity = _similarity(points, member, state.centres, leave_one_out, centre_memory)
    if not usable.any():  # nobody vouches for anything yet
        similarity = near_centres(points, state.centres)
    found = Clusters(similarity)
    return replace(state, centres=_next_centres(points, found, state.centres)), found


def near_centres(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return (points, clusters) cosines to centres; NaN where a cluster has none."""
    usable = (centres**2).sum(axis=1) > _NEGLIGIBLE
    return np.where(usable[None, :], points @ unit_rows(centres).T, np.nan)


def _scaled(rows: FloatArray, blocks: IntArray | None) -> FloatArray:
    """Return the rows with each block scaled to length one, and then the whole; what is zero stays zero."""
    if blocks is None or not (blocks != blocks[0]).any():
        return unit_rows(rows)
    order, starts, place = _layout(blocks.tobytes(), blocks.dtype.str)
    scaled = np.empty(rows.shape)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        squares = some**2 if order is None else (some**2).take(order, axis=1)
        lengths = np.sqrt(np.add.reduceat(squares, starts, axis=1))
        scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > _ROUNDING)
        scaled[first : first + _ROWS_AT_ONCE] = unit_rows(some * scales.take(place, axis=1))
    return scaled


@lru_cache(maxsize=8)
def _layout(written: bytes, kind: str) -> tuple[IntArray | None, IntArray, IntArray]:
    """Return the order in which blocks stand together (None: as they are), their starts, and the block of each entry.

    A fingerprint's blocks are the same in all rounds, and on trial this is asked for with every update.
    """
    blocks = np.frombuffer(written, dtype=kind)
    order = np.argsort(blocks, kind="stable")
    starts = np.flatnonzero(np.diff(blocks[order], prepend=blocks[order[0]] - 1))
    place = np.empty(len(blocks), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(blocks)))
    return None if (np.diff(order) > 0).all() else order, starts, place


def _similarity(
    points: FloatArray, member: BoolArray, last_centres: FloatArray, leave_one_out: bool, centre_memory: float
) -> FloatArray:
    """Return cosines to the centres: labelled participants, oneself left out, and some of the last round's centre.

    A cluster nobody vouches for has no centre in this round (NaN): it is not started anew, which would give its
    number to other clients.
    """
    sums = member.T.astype(np.float64) @ points + centre_memory * last_centres
    inner = points @ sums.T
    norms = np.broadcast_to((sums**2).sum(axis=1), inner.shape)
    if leave_one_out:
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
