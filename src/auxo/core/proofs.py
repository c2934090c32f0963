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
or none; it bears a signature that is not ours."""

_TIMES = 2  # rewards without a cluster index that prove something; our choice


def observe(signed: AffinityRecords, feedback: FeedbackColumns, settings: AffinitySettings) -> AffinityRecords:
    """Return what is signed after a round, with nothing in it but what follows from updates that the server saw.

    That is running rewards of cohorts that have given some, and cluster indices. Neither what clients have found
    themselves when they compared models, nor rewards that are predicted or come with a partition. Below the root the
    index of who is not proved to belong to the cohort is not signed: it would prove that it belongs to a child.
    """
    signed = widen(signed, feedback.tree)
    at = signed.tree.index[feedback.cohort]
    indices, rows = ClusterIndices.of(signed), np.arange(len(signed.heard))
    is_ours = _belongs(signed, indices, rows, np.full(len(rows), at)) | indices.leads_here[:, at]
    similarity = np.where(is_ours[:, None], feedback.similarity, np.nan)
    heard = replace(feedback, similarity=similarity)
    learnt = learn_round(signed, heard, replace(settings, partition_bonus=0.0))
    return replace(learnt, reward=np.where(learnt.rewarded > 0, learnt.reward, 0.0))


def proofs(
    signed: AffinityRecords, indices: ClusterIndices, rows: IntArray, asked: Requests, tree: CohortTree
) -> IntArray:
    """Return `PROVED` or `UNPROVED` for each request, given what was signed for those who ask.

    A claim to a leaf is proved by the cluster index at the partition that made it, as long as the leaf itself has not
    rewarded less than nothing; without that index by a positive reward of more than one round: the first comes by
    chance to some that do not belong there. A claim to a cohort that was partitioned since is proved by the very index
    that leads on from there. What a comparison of models has told the client is its own word.

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
    best = indices.best[row, cohort]
    led = (best >= 0) & (best == asked.cluster) & (signed.generation[row, cohort] == asked.generation)
    is_leaf = tree.is_leaf[cohort]
    is_proved = np.where(is_leaf, _belongs(signed, indices, row, cohort), led)
    is_led = is_leaf & indices.leads_here[row, cohort]
    return np.where(has & is_proved, PROVED, np.where(has & is_led, LED, UNPROVED))


def _belongs(signed: AffinityRecords, indices: ClusterIndices, row: IntArray, cohort: IntArray) -> BoolArray:
    """Return who is proved to belong to a cohort; everybody does to the root."""
    times, leads = signed.rewarded[row, cohort], indices.leads_here[row, cohort]
    is_liked = (times == 0) | (signed.reward[row, cohort] > 0)
    return np.asarray((cohort == 0) | (is_liked & (leads | (times >= _TIMES))))
