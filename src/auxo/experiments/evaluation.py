"""Evaluation over all clients or a sample of them, on the same held-out samples for every method."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.columns import take
from auxo.core.matching import NOWHERE, Matched
from auxo.core.metric import ACCURACY, Metric
from auxo.core.metrics import agreement, spread
from auxo.core.rng import stream
from auxo.core.types import BoolArray, Float32Array, FloatArray, InputArray, IntArray
from auxo.engines.personal_models import PersonalModels
from auxo.population.federated_data import FederatedData, Samples
from auxo.protocol.events import CohortScore, Evaluated
from auxo.simulation.virtual_time import Simulation, SimulationState
from auxo.training.trainer import Trainer, scoring

_SAMPLES_AT_ONCE = 1 << 20  # that a model is asked about; our choice
_LARGEST_LOSS = 700.0  # of which e to it is still a number


@dataclass(frozen=True)
class Scores:
    """The test samples of the clients that are evaluated, each under the model of its cohort."""

    clients: IntArray  # (evaluated,) rows of the population, ascending
    correct: FloatArray  # (evaluated,) hits, or the sum of its samples' scores
    tests: IntArray  # (evaluated,)
    cohort: IntArray  # (evaluated,) position in the tree's cohorts
    lost: BoolArray  # (evaluated,) had to compare models, see `place_clients`
    matched: IntArray  # (evaluated,) where the next check-in would lead; differs from ``cohort`` for the lost only
    matched_correct: FloatArray  # (evaluated,) under the model of that one
    loss: FloatArray | None = None  # (evaluated,) mean cross entropy of its test samples; None where nobody asked
    are_hits: bool = True  # whether ``correct`` counts samples whose class is right
    tuning_device_s: float = 0.0  # that it took clients to make the models of ``cohort`` their own

    def of(self, some: BoolArray) -> "Scores":
        """Return those of some of the clients."""
        return take(self, some)

    @property
    def mean(self) -> float:
        """Return the mean accuracy over clients."""
        return spread(self.correct, self.tests, self.are_hits).accuracy


@dataclass(frozen=True)
class EvaluationSettings:
    """What an evaluation looks at."""

    with_loss: bool = False  # the mean cross entropy of test samples, too, which is another pass
    personal: PersonalModels | None = None  # clients use models that they have tuned so; None: those of their cohorts


USUAL = EvaluationSettings()


def clients_to_evaluate(n_clients: int, at_most: int | None, seed: int) -> IntArray:
    """Return the rows of everybody, or of a random sample that is the same for every method and every evaluation."""
    if at_most is None or at_most >= n_clients:
        return np.arange(n_clients)
    return np.sort(stream(seed, "evaluated").permutation(n_clients)[:at_most])


def score_clients(
    trainer: Trainer,
    data: FederatedData,
    simulation: Simulation,
    state: SimulationState,
    clients: IntArray,
    measured: EvaluationSettings = USUAL,
) -> Scores:
    """Score each of these clients with the model of the cohort it would use, as it is or tuned to the client."""
    placed = simulation.placement(state, clients)
    cohort = place_clients(trainer, data, clients, placed, state)
    look = _Look(trainer, data, state, measured.personal)
    correct, loss = look.at(clients, cohort, measured.with_loss)
    finds_it = (placed.cohort == NOWHERE) | (~placed.vouched & placed.compares)
    matched = np.where(finds_it, cohort, placed.cohort)
    is_same = bool((cohort == matched).all())
    matched_correct = correct if is_same else look.at(clients, matched, with_loss=False)[0]
    return Scores(
        clients=clients,
        correct=correct,
        tests=data.test.counts(clients),
        cohort=cohort,
        lost=~placed.vouched,
        matched=matched,
        matched_correct=matched_correct,
        loss=loss,
        are_hits=scoring(trainer) is None,
        tuning_device_s=0.0
        if measured.personal is None
        else float(measured.personal.device_s(simulation.world.devices, clients).sum()),
    )


@dataclass(frozen=True)
class _Look:
    """Looks at clients' test samples under the models of cohorts."""

    trainer: Trainer
    data: FederatedData
    state: SimulationState
    personal: PersonalModels | None

    def at(self, clients: IntArray, cohort: IntArray, with_loss: bool) -> tuple[FloatArray, FloatArray | None]:
        """Return each client's hits, or the sum of its samples' scores, and its mean cross entropy if asked for."""
        tree = self.state.coordinator.tree
        correct, losses = np.zeros(len(clients)), np.zeros(len(clients)) if with_loss else None
        for name in tree.leaves:
            mine = np.flatnonzero(cohort == tree.index[name])
            weights = self.state.coordinator.cohorts[name].server.weights
            for some, model in self._models(weights, mine, clients):
                scores = self._scores(model, self.data.test.positions(clients[some]))
                correct[some] = self._summed(scores, clients[some])
                if losses is not None:
                    losses[some] = self._mean_loss(model, clients[some])
        return correct, losses

    def _models(
        self, weights: Float32Array, mine: IntArray, clients: IntArray
    ) -> Iterator[tuple[IntArray, Float32Array]]:
        """Yield models with the places of the clients that use them: one for all, or for each its own."""
        if self.personal is None:
            yield mine, weights
        else:
            own = self.personal.tuned(weights, clients[mine])
            yield from zip(mine[:, np.newaxis], own, strict=True)

    def _scores(self, weights: Float32Array, positions: IntArray) -> FloatArray:
        """Return for each of these test samples whether its class is right, or its score."""
        own, test = scoring(self.trainer), self.data.test
        if own is not None:
            return by_sample(own.scores, weights, self.data, test, positions)
        hits = _predict(self.trainer, weights, self.data, test.x_rows[positions]) == test.y[positions]
        return np.asarray(hits, dtype=np.float64)

    def _mean_loss(self, weights: Float32Array, clients: IntArray) -> FloatArray:
        test = self.data.test
        losses = by_sample(self.trainer.losses, weights, self.data, test, test.positions(clients))
        return np.asarray(self._summed(losses, clients) / np.maximum(test.counts(clients), 1))

    def _summed(self, of_samples: FloatArray, clients: IntArray) -> FloatArray:
        owner = np.repeat(np.arange(len(clients)), self.data.test.counts(clients))
        return np.asarray(np.bincount(owner, weights=of_samples, minlength=len(clients)), dtype=np.float64)


def by_sample(
    of: Callable[[Float32Array, InputArray, NDArray[Any]], FloatArray],
    weights: Float32Array,
    data: FederatedData,
    split: Samples,
    positions: IntArray,
) -> FloatArray:
    """Return the loss or the score of each of these samples of a split; few enough are in memory at a time."""
    found = [
        of(weights, data.inputs(split.x_rows[some]), data.answers(split.y[some]))
        for some in _in_parts(positions)
        if len(some)
    ]
    return np.concatenate(found) if found else np.zeros(0)


def place_clients(
    trainer: Trainer, data: FederatedData, clients: IntArray, placed: Matched, state: SimulationState
) -> IntArray:
    """Return the cohort (position in the tree's cohorts) whose model each of these clients uses.

    A client uses the cohort its own request leads to. One whose request says nothing, most often because it never
    took part, would be sent somewhere at random if it were to train; to use a model it compares the cohorts' models
    on its own training samples instead and takes the one with the least loss. So does everybody, lost or not, where
    the method has it so. Nothing of that leaves the client.
    """
    tree = state.coordinator.tree
    leaves = np.array([tree.index[leaf] for leaf in tree.leaves])
    if not np.isin(placed.cohort, (*leaves, NOWHERE)).all():
        wrong = sorted({int(position) for position in placed.cohort} - {*leaves.tolist(), NOWHERE})
        raise ValueError(f"place: expected positions of leaves ({leaves.tolist()}) or NOWHERE, got {wrong}")
    if len(leaves) == 1:
        return np.full(len(clients), leaves[0])
    compares = np.flatnonzero(~placed.vouched | (placed.cohort == NOWHERE))
    if len(compares) == 0:
        return placed.cohort
    samples = data.train.positions(clients[compares])
    owner = np.repeat(np.arange(len(compares)), data.train.counts(clients[compares]))
    losses = np.zeros((len(tree.leaves), len(compares)))
    for number, cohort in enumerate(tree.leaves):
        weights = state.coordinator.cohorts[cohort].server.weights
        here = by_sample(trainer.losses, weights, data, data.train, samples)
        losses[number] = np.bincount(owner, weights=here, minlength=len(compares))
    losses = np.where(np.isnan(losses), np.inf, losses)  # a model that has diverged is nobody's choice
    leaf = placed.cohort.copy()
    leaf[compares] = leaves[losses.argmin(axis=0)]
    return leaf


def _predict(trainer: Trainer, weights: Float32Array, data: FederatedData, rows: IntArray) -> IntArray:
    """Return predictions for rows of x; each distinct row is predicted once."""
    distinct, where = np.unique(rows, return_inverse=True)
    if len(distinct) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([trainer.predict(weights, data.inputs(some)) for some in _in_parts(distinct)])[where]


def _in_parts(rows: IntArray) -> list[IntArray]:
    """Return the rows in parts whose inputs and outputs do not take much memory; at least one part."""
    return np.split(rows, range(_SAMPLES_AT_ONCE, len(rows), _SAMPLES_AT_ONCE))


def evaluated(
    scores: Scores,
    state: SimulationState,
    total_participants: int,
    groups: IntArray | None,
    metric: Metric = ACCURACY,
    attacked: Scores | None = None,
) -> Evaluated:
    """Return the event that tells the scores.

    Args:
        scores: of those who are told of.
        state: of the simulation.
        total_participants: a round.
        groups: of the whole population.
        metric: what a score is.
        attacked: of everybody, where some of them attack and ``scores`` are those of the others.
    """
    groups = None if groups is None else groups[scores.clients]
    tree, spent = state.coordinator.tree, state.spent
    over_clients = spread(scores.correct, scores.tests, scores.are_hits)
    accuracy = scores.correct / np.maximum(scores.tests, 1)
    cohorts = []
    for cohort in tree.leaves:
        mine = (scores.cohort == tree.index[cohort]) & (scores.tests > 0)
        if mine.any():
            cohorts.append(CohortScore(cohort, int(mine.sum()), float(accuracy[mine].mean())))
    return Evaluated(
        time_s=state.clock_s,
        round=spent.participations / total_participants,
        **asdict(spent),
        **asdict(over_clients),
        cohorts=tuple(cohorts),
        ari=None if groups is None else agreement(scores.cohort, groups),
        lost=int(scores.lost.sum()) if len(tree.leaves) > 1 else 0,
        matched_accuracy=spread(scores.matched_correct, scores.tests, scores.are_hits).accuracy,
        matched_ari=None if groups is None else agreement(scores.matched, groups),
        perplexity=_perplexity(scores),
        tuning_device_s=scores.tuning_device_s,
        metric=metric,
        attackers=0 if attacked is None else len(attacked.clients) - len(scores.clients),
        accuracy_of_all=None if attacked is None else attacked.mean,
    )


def _perplexity(scores: Scores) -> float | None:
    """Return e to the mean loss of clients with test samples; None where nobody asked or it is beyond all numbers."""
    if scores.loss is None or not scores.tests.any():
        return None
    mean = float(scores.loss[scores.tests > 0].mean())
    return math.exp(mean) if mean <= _LARGEST_LOSS else None  # a model that has diverged may have a loss of nan
