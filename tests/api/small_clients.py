"""Clients of two hidden groups that call the same inputs by other names, as people have them in Python."""

import numpy as np
from numpy.typing import NDArray

from auxo.core.rng import stream

FEATURES, CLASSES = 6, 3
NAMES = np.array(["left", "middle", "right"])
QUICK = {
    "training.aggregator": "fedavg",
    "training.learning_rate": 0.1,
    "training.batch_size": 10,
    "run.evaluate_every": 6,
}
"""Settings with which the two groups are found within 40 rounds."""


def samples(number: int, count: int = 40) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the inputs and labels of one client; odd ones call the classes by other names."""
    truth = stream(0, "truth").normal(size=(FEATURES, CLASSES))
    x = stream(1, "inputs", number).normal(size=(count, FEATURES))
    y = (x @ truth).argmax(axis=1)
    # Far from 0 and wide, so that models would fail on inputs that are not standardised as in the run.
    return (500 + 100 * x).astype(np.float32), (y + number % 2) % CLASSES


def clients(count: int = 60) -> dict[str, tuple[NDArray[np.float32], NDArray[np.str_]]]:
    """Return clients by their names, with texts as labels."""
    found = {}
    for number in range(count):
        x, y = samples(number)
        found[f"phone {number:03d}"] = (x, NAMES[y])
    return found
