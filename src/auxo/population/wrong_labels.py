"""Wrong labels: training samples that bear another class than their own; test samples keep theirs."""

from dataclasses import replace

import numpy as np

from auxo.core.rng import random_bits
from auxo.core.types import IntArray
from auxo.population.federated_data import FederatedData


def mislabelled(data: FederatedData, clients: IntArray, seed: int) -> FederatedData:
    """Return the population with a wrong label on every training sample of these clients.

    Which one is drawn for each sample once and for all, each of the others with the same chance; where numbers are to
    be learned, or several labels, it is the answer to another sample.
    """
    labels = data.n_classes if data.targets is None else len(data.targets)
    if labels < 2:
        return data
    positions = data.train.positions(clients)
    shift = 1 + random_bits(seed, "wrong labels", positions) % np.uint64(labels - 1)
    y = data.train.y.copy()
    y[positions] = (y[positions] + shift.astype(np.int64)) % labels
    return replace(data, train=replace(data.train, y=y))
