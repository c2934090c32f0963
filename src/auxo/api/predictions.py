"""What a run's models predict for clients' samples, and how well: classes, numbers, or labels of several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.api.new_clients import NewClients
from auxo.core.metric import Metric
from auxo.core.types import BoolArray, CohortId, Float32Array, FloatArray, InputArray, IntArray
from auxo.population.preparation import Preparation
from auxo.training.trainer import TellsProbabilities, Trainer, metric_of, scoring


@dataclass(frozen=True)
class Predictions:
    """What is predicted for every sample of some clients, in the order of the rows that they came from."""

    client: IntArray  # (samples,) row of the population
    row: IntArray  # (samples,) where the sample stands in what it came from, from 0
    is_test: BoolArray  # (samples,) False: its label may have decided about the cohort
    is_labelled: BoolArray  # (samples,) False: nobody knows its label, and ``label`` means nothing
    label: NDArray[Any]  # (samples,) classes; otherwise (samples, targets) numbers or flags
    predicted: NDArray[Any]  # of the same shape
    probabilities: FloatArray | None  # (samples, classes or labels); None where outputs are none
    score: float  # the mean over test samples with a label; NaN without any
    metric: Metric  # what the score is

    @property
    def accuracy(self) -> float:
        """Return the score, which for classes is the share of test samples whose label is predicted."""
        return self.score


def predicted_by(trainer: Trainer, weights: Float32Array, x: InputArray, done: Preparation) -> NDArray[Any]:
    """Return what a model predicts: class numbers (samples,), or numbers in their units or flags (samples, targets)."""
    own = scoring(trainer)
    if done.task == "classification" or own is None:
        return trainer.predict(weights, x)
    outputs = own.outputs(weights, x)
    return outputs > 0 if done.task == "multi-label" else done.predicted(outputs)


def likely_by(trainer: Trainer, weights: Float32Array, x: InputArray) -> FloatArray | None:
    """Return how likely a model holds each class or label to be, (samples, classes); None where it does not tell."""
    return trainer.probabilities(weights, x) if isinstance(trainer, TellsProbabilities) else None


def scores_of(trainer: Trainer, weights: Float32Array, x: InputArray, answers: NDArray[Any]) -> FloatArray:
    """Return the score of each sample, the one that the run's clients were scored by."""
    own = scoring(trainer)
    if own is None:
        hits: FloatArray = (trainer.predict(weights, x) == answers).astype(np.float64)
        return hits
    return own.scores(weights, x, answers)


def predict_clients(
    clients: NewClients, cohorts: Sequence[CohortId], models: Mapping[CohortId, Float32Array], trainer: Trainer
) -> Predictions:
    """Return what is predicted for every sample, by the model of its client's cohort."""
    data, done = clients.data, clients.data.preparation
    splits, everybody = (data.train, data.test), np.arange(data.n_clients)
    client = np.concatenate([np.repeat(everybody, split.counts()) for split in splits])
    at = np.concatenate([split.x_rows for split in splits])
    y = np.concatenate([split.y for split in splits])
    is_test = np.repeat([False, True], [len(split.y) for split in splits])
    order = np.argsort(clients.row[at], kind="stable")
    client, at, y, is_test = client[order], at[order], y[order], is_test[order]
    is_labelled = clients.is_labelled[at]
    width = () if data.targets is None else (data.n_classes,)
    predicted = np.zeros((len(at), *width), dtype=np.int64 if data.targets is None else np.float64)
    scores = np.full(len(at), np.nan)
    likely: FloatArray | None = np.zeros((len(at), data.n_classes))
    for cohort in dict.fromkeys(cohorts):
        theirs = np.array([one == cohort for one in cohorts], dtype=np.bool_)[client]
        if theirs.any():
            inputs = data.inputs(at[theirs])
            predicted[theirs] = predicted_by(trainer, models[cohort], inputs, done)
            told = likely_by(trainer, models[cohort], inputs)
            if told is None or likely is None:
                likely = None
            else:
                likely[theirs] = told
        scored = theirs & is_test & is_labelled
        if scored.any():
            scores[scored] = scores_of(trainer, models[cohort], data.inputs(at[scored]), data.answers(y[scored]))
    tested = scores[~np.isnan(scores)]
    return Predictions(
        client=client,
        row=clients.row[at],
        is_test=is_test,
        is_labelled=is_labelled,
        label=y if data.targets is None else done.predicted(data.answers(y)),
        predicted=predicted,
        probabilities=likely,
        score=float(tested.mean()) if len(tested) else float("nan"),
        metric=metric_of(trainer),
    )
