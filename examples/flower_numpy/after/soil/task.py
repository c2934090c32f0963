"""The data and the model: a farm's moisture is linear in its sensors, and there are two kinds of soil."""

import numpy as np
from flwr.app import Array, ArrayRecord

SENSORS, DEPTHS, SAMPLES = 8, 3, 60


def load_data(farm: int) -> tuple[np.ndarray, ...]:
    """Return a farm's training and test samples; nobody tells which soil it has."""
    soil = farm % 2
    true = np.random.Generator(np.random.PCG64(soil)).normal(size=(DEPTHS, SENSORS))
    rng = np.random.Generator(np.random.PCG64(1000 + farm))
    x = rng.normal(size=(SAMPLES, SENSORS))
    y = x @ true.T + 0.3 * rng.normal(size=(SAMPLES, DEPTHS))
    return x[:40], y[:40], x[40:], y[40:]


def initial_model() -> ArrayRecord:
    """Return a model that knows nothing."""
    return ArrayRecord({"weight": Array(np.zeros((DEPTHS, SENSORS))), "bias": Array(np.zeros(DEPTHS))})


def mean_squared_error(arrays: ArrayRecord, x: np.ndarray, y: np.ndarray) -> float:
    """Return a model's loss."""
    return float(((x @ arrays["weight"].numpy().T + arrays["bias"].numpy() - y) ** 2).mean())


def train(arrays: ArrayRecord, x: np.ndarray, y: np.ndarray, epochs: int, rate: float) -> ArrayRecord:
    """Return the model after a few steps of gradient descent."""
    weight, bias = arrays["weight"].numpy(), arrays["bias"].numpy()
    for _ in range(epochs):
        error = x @ weight.T + bias - y
        weight, bias = weight - rate * error.T @ x / len(x), bias - rate * error.mean(axis=0)
    return ArrayRecord({"weight": Array(weight), "bias": Array(bias)})
