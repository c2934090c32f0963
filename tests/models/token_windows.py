"""A small population of windows of tokens."""

from collections.abc import Sequence

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import IntArray
from auxo.population.federated_data import FederatedData, Samples

CLASSES, LENGTH, VOCABULARY, CLIENTS, SAMPLES_EACH = 4, 6, 12, 6, 20
_MISPRINTS = 0.1


def token_population(counts: Sequence[int] = (SAMPLES_EACH,) * CLIENTS) -> FederatedData:
    """Return clients whose windows are one phrase for each class, with misprints."""
    rng = stream(1, "tokens")
    phrases = rng.integers(VOCABULARY, size=(CLASSES, LENGTH))
    total, offsets = sum(counts), np.cumsum([0, *counts])

    def drawn(first: int) -> tuple[IntArray, Samples]:
        y = rng.integers(CLASSES, size=total)
        misprinted = rng.random((total, LENGTH)) < _MISPRINTS
        windows: IntArray = np.where(misprinted, rng.integers(VOCABULARY, size=(total, LENGTH)), phrases[y])
        return windows, Samples(np.arange(first, first + total), y, offsets)

    (x_train, train), (x_test, test) = drawn(0), drawn(total)
    x = np.concatenate([x_train, x_test]).astype(np.int32)
    x.flat[0] = VOCABULARY - 1  # the largest token occurs
    return FederatedData("phrases", x, train, test, CLASSES, tuple(map(str, range(len(counts)))))
