"""The data and the model: softmax regression, for one half of the nodes with the classes in reverse."""

import numpy as np
from numpy.typing import NDArray

from auxo.core.rng import stream

FEATURES, CLASSES, SAMPLES = 8, 4, 80
RATE, BATCH = 0.1, 8
Model = list[NDArray[np.float32]]


def initial_model() -> Model:
    """Return the model that everybody starts from: weights and biases."""
    return [np.zeros((CLASSES, FEATURES), np.float32), np.zeros(CLASSES, np.float32)]


def group_of(partition: int) -> int:
    """Return the hidden group of a node; nothing but the data depends on it."""
    return partition % 2


def samples_of(partition: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the samples of a node: the same whenever it is asked."""
    world, rng = stream(0, "world"), stream(0, "samples", partition)
    truth = world.normal(size=(FEATURES, CLASSES))
    x = rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    y = (x @ truth).argmax(axis=1)
    return x, y if group_of(partition) == 0 else CLASSES - 1 - y


def train(model: Model, x: NDArray[np.float32], y: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Descend the cross entropy for one pass over the samples, in place."""
    weights, biases = model
    order = rng.permutation(len(y))
    for first in range(0, len(y), BATCH):
        rows = order[first : first + BATCH]
        error = probabilities(model, x[rows])
        error[np.arange(len(rows)), y[rows]] -= 1
        weights -= RATE * error.T @ x[rows] / len(rows)
        biases -= RATE * error.mean(axis=0)


def probabilities(model: Model, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probability of each class for each sample."""
    scores = x @ model[0].T + model[1]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=np.float32)


def mean_loss(model: Model, x: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    """Return the mean cross entropy."""
    return float(-np.log(np.maximum(probabilities(model, x)[np.arange(len(y)), y], 1e-12)).mean())
