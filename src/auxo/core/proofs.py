"""What is proved of a claim: what the server itself has observed of a client, which it has signed and not kept.

A client works out the reward that it claims by itself, so that a signature under the feedback of one round would prove
nothing. What is signed is the *running* record, made by `observe` from all rounds so far. On the wire it is a token
(`auxo.protocol.tokens`); a simulation keeps it as columns of the clients' side that no mod can change. Either way what
counts is decided here.
"""

from dataclasses import replace

import numpy as np

from auxo.core.affinity import (
    AffinityRecords,
    AffinitySettings,
    ClusterIndices,
    FeedbackColumns,
    Requests,
    learn_round,
    widen,
)
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import BoolArray, IntArray

PROVED, LED, UNPROVED, FORGED = 2, 1, 0, -1
"""The claim is what was observed; a cluster index has led here who has not fitted since; it is the client's own word,
or none; it bears a signature that is not ours, or is another than what the client has had signed."""

_TIMES = 2  # rewards without a cluster index that prove something; our choice
# By which a claimed reward may be above the one that was signed: a client claims what its token says, and where its own
# settings are others than the server's it makes something else of its feedback. Our choice.
_MORE = 0.5


def observe(signed: AffinityRecords, feedback: FeedbackColumns, settings: AffinitySettings) -> AffinityRecords:
    """Return what is signed after a round, with nothing in it but what follows from updates that the server saw.

    That is running rewards of cohorts that have given some, and cluster indices. Neither what clients have found
    themselves when they compared models, nor rewards that are predicted or come with a partition. Below the root the
    index of who is not proved to belong to the cohort must not prove that it belongs to a child: it is signed under a
    number that no clustering has, see `_as_unproved`.
    """
    signed = widen(signed, feedback.tree)
    at = signed.tree.index[feedback.cohort]
    indices, rows = ClusterIndices.of(signed), np.arange(len(signed.heard))
    held = signed.generation[:, at]
    is_ours = _belongs(signed, indices, rows, np.full(len(rows), at)) | indices.leads_here[:, at]
    is_ours |= held == feedback.generation
    generation = signed.generation.copy()
    generation[:, at] = np.where(held < _NONE, _as_unproved(held), held)
    learnt = learn_round(replace(signed, generation=generation), feedback, replace(settings, partition_bonus=0.0))
    learnt.generation[:, at] = np.where(is_ours, learnt.generation[:, at], _as_unproved(learnt.generation[:, at]))
    return replace(learnt, reward=np.where(learnt.rewarded > 0, learnt.reward, 0.0))


def proofs(
    signed: AffinityRecords, indices: ClusterIndices, rows: IntArray, asked: Requests, tree: CohortTree
) -> IntArray:
    """Return what is proved of each request, given what was signed for those who ask.

    A claim to a leaf is proved by the cluster index at the partition that made it, as long as the leaf itself has not
    rewarded less than nothing; without that index by a positive reward of more than one round: the first comes by
    chance to some that do not belong there. A claim to a cohort that was partitioned since is proved by the very index
    that leads on from there. What a comparison of models has told the client is its own word. All indices and rewards
    are signed, so that who names another index, or a far larger reward, than it has had signed forges it, unless it has
    taken part more often than its token knows of.

    Args:
        signed: records that only `observe` has made, in the server's tree or an earlier state of it.
        indices: of these.
        rows: (requests,) each client's row in ``signed``; -1: nothing is signed for it.
        asked: as the clients have said it, whatever that is.
        tree: the server's.
    """
    names = np.array([*(tree.index.get(cohort, -1) for cohort in asked.tree.cohorts), -1])
    at = names[np.where((asked.cohort >= 0) & (asked.cohort < len(names) - 1), asked.cohort, -1)]
    has = (rows >= 0) & (at >= 0) & (at < len(signed.tree.cohorts))
    if not has.any():
        return np.full(len(rows), UNPROVED)
    row, cohort = np.where(has, rows, 0), np.where(has, at, 0)
    best, held = indices.best[row, cohort], signed.generation[row, cohort]
    is_so = (best >= 0) & (best == asked.cluster)
    led = is_so & (held == asked.generation)
    is_leaf = tree.is_leaf[cohort]
    is_proved = np.where(is_leaf, _belongs(signed, indices, row, cohort), led)
    is_led = is_leaf & indices.leads_here[row, cohort]
    is_forged = (asked.cluster >= 0) & ~led & ~(is_so & (_as_unproved(held) == asked.generation))
    is_forged |= asked.reward > signed.reward[row, cohort] + _MORE
    # A token that was used up or expired is followed by one that begins anew: it does not know what the client does.
    is_forged &= asked.participations <= signed.participations[row]
    return np.select([has & is_forged, has & is_proved, has & is_led], [FORGED, PROVED, LED], UNPROVED)


_NONE = -1  # number of the clustering that who holds no similarities has them of


def _as_unproved(generation: IntArray) -> IntArray:
    """Return the number under which an index is signed that leads nowhere; of such a number the one that it had."""
    return np.asarray(2 * _NONE - generation)


def _belongs(signed: AffinityRecords, indices: ClusterIndices, row: IntArray, cohort: IntArray) -> BoolArray:
    """Return who is proved to belong to a cohort; everybody does to the root."""
    times, leads = signed.rewarded[row, cohort], indices.leads_here[row, cohort]
    is_liked = (times == 0) | (signed.reward[row, cohort] > 0)
    return np.asarray((cohort == 0) | (is_liked & (leads | (times >= _TIMES))))
