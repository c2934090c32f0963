"""Evaluation over all clients, on the same held-out samples for every method."""

from dataclasses import dataclass

import numpy as np

from auxo.core.metrics import agreement, spread
from auxo.core.types import BoolArray, Float32Array, IntArray
from auxo.learning.federated_data import FederatedData
from auxo.learning.trainer import Trainer
from auxo.protocol.events import CohortScore, Evaluated
from auxo.runtime.coordinator import Matched
from auxo.simulation.virtual_time import Simulation, SimulationState


@dataclass(frozen=True)
class Scores:
    """Every client's test samples under the model of its cohort."""

    correct: IntArray  # (clients,)
    tests: IntArray  # (clients,)
    cohort: IntArray  # (clients,) position in the tree's cohorts
    lost: BoolArray  # (clients,) had to compare models, see `place_clients`
    matched: IntArray  # (clients,) the cohort each would be matched to; differs from ``cohort`` for the lost only
    matched_correct: IntArray  # (clients,) under the model of that one


def score_clients(trainer: Trainer, data: FederatedData, simulation: Simulation, state: SimulationState) -> Scores:
    """Score each client with the model of the cohort it would use."""
    placed = simulation.placement(state)
    cohort = place_clients(trainer, data, placed, state)
    correct = _correct(trainer, data, cohort, state)
    is_same = bool((cohort == placed.leaf).all())
    matched_correct = correct if is_same else _correct(trainer, data, placed.leaf, state)
    return Scores(correct, data.test.counts(), cohort, ~placed.vouched, placed.leaf, matched_correct)


def _correct(trainer: Trainer, data: FederatedData, cohort: IntArray, state: SimulationState) -> IntArray:
    """Return each client's hits on its test samples under the model of a cohort."""
    tree = state.coordinator.tree
    owner = np.repeat(np.arange(data.n_clients), data.test.counts())
    hit = np.zeros(len(owner), dtype=np.bool_)
    for name in tree.leaves:
        weights = state.coordinator.cohorts[name].server.weights
        samples = np.flatnonzero(cohort[owner] == tree.index[name])
        hit[samples] = _predict(trainer, weights, data, data.test.x_rows[samples]) == data.test.y[samples]
    return np.bincount(owner, weights=hit, minlength=data.n_clients).astype(np.int64)


def place_clients(trainer: Trainer, data: FederatedData, placed: Matched, state: SimulationState) -> IntArray:
    """Return the cohort (position in the tree's cohorts) whose model each client uses.

    A client uses the cohort its own request leads to. One whose request says nothing, most often because it never
    took part, would be sent somewhere at random if it were to train; to use a model it compares the cohorts' models
    on its own training samples instead and takes the one with the least loss. Nothing of that leaves the client.
    """
    tree = state.coordinator.tree
    lost = np.flatnonzero(~placed.vouched)
    if len(tree.leaves) == 1 or len(lost) == 0:
        return placed.leaf
    counts = data.train.counts()
    samples = np.flatnonzero(np.repeat(~placed.vouched, counts))
    owner = np.repeat(np.arange(data.n_clients), counts)[samples]
    losses = np.zeros((len(tree.leaves), data.n_clients))
    for number, cohort in enumerate(tree.leaves):
        weights = state.coordinator.cohorts[cohort].server.weights
        here = trainer.losses(weights, data.x[data.train.x_rows[samples]], data.train.y[samples])
        losses[number] = np.bincount(owner, weights=here, minlength=data.n_clients)
    leaf = placed.leaf.copy()
    leaf[lost] = np.array([tree.index[cohort] for cohort in tree.leaves])[losses[:, lost].argmin(axis=0)]
    return leaf


def _predict(trainer: Trainer, weights: Float32Array, data: FederatedData, rows: IntArray) -> IntArray:
    """Return predictions for rows of x; each distinct row is predicted once."""
    distinct, where = np.unique(rows, return_inverse=True)
    if len(distinct) == 0:
        return np.zeros(0, dtype=np.int64)
    return trainer.predict(weights, data.x[distinct])[where]


def evaluated(
    scores: Scores, data: FederatedData, state: SimulationState, total_participants: int, groups: IntArray | None
) -> Evaluated:
    """Return the event that tells the scores."""
    tree, spent = state.coordinator.tree, state.spent
    over_clients = spread(scores.correct, scores.tests)
    accuracy = scores.correct / np.maximum(scores.tests, 1)
    cohorts = []
    for cohort in tree.leaves:
        mine = (scores.cohort == tree.index[cohort]) & (scores.tests > 0)
        if mine.any():
            cohorts.append(CohortScore(cohort, int(mine.sum()), float(accuracy[mine].mean())))
    return Evaluated(
        time_s=state.clock_s,
        round=spent.participations / total_participants,
        participations=spent.participations,
        wasted_participations=spent.wasted_participations,
        device_s=spent.device_s,
        wasted_device_s=spent.wasted_device_s,
        accuracy=over_clients.accuracy,
        worst_10=over_clients.worst_10,
        best_10=over_clients.best_10,
        variance=over_clients.variance,
        variance_beyond_binomial=over_clients.variance_beyond_binomial,
        cohorts=tuple(cohorts),
        ari=None if groups is None else agreement(scores.cohort, groups),
        lost=int(scores.lost.sum()) if len(tree.leaves) > 1 else 0,
        matched_accuracy=spread(scores.matched_correct, scores.tests).accuracy,
        matched_ari=None if groups is None else agreement(scores.matched, groups),
    )
