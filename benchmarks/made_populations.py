"""Populations that are made for the benchmarks: groups that see their inputs in units of their own."""

import numpy as np

from auxo.core.rng import stream
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_of

_FEATURES, _CLASSES = 32, 10
_GROUPS = 3
_SEPARATION = 3.1  # of class means from the origin, in deviations of a class; as in `synthetic_population`
_SPREAD = 1.5  # of the logarithms of the gains
_SAMPLES, _TEST_SAMPLES = (20, 60), 30


def units_population(clients: int, seed: int) -> FederatedData:
    """Return Gaussian classes whose features every group sees with gains of its own, as instruments of other makes do.

    Each client has its own class frequencies, Dirichlet(1). Columns are standardised over everybody.
    """
    rng = stream(seed, "units")
    means = rng.standard_normal((_CLASSES, _FEATURES))
    means *= _SEPARATION / np.linalg.norm(means, axis=1, keepdims=True)
    gains = np.exp(_SPREAD * rng.standard_normal((_GROUPS, _FEATURES)))
    counts = rng.integers(_SAMPLES[0], _SAMPLES[1] + 1, clients) + _TEST_SAMPLES
    client = np.repeat(np.arange(clients), counts)
    within = np.arange(len(client)) - np.repeat(np.cumsum(counts) - counts, counts)
    frequencies = rng.dirichlet(np.ones(_CLASSES), clients).cumsum(axis=1)
    y = (rng.random(len(client))[:, None] > frequencies[client]).sum(axis=1).clip(max=_CLASSES - 1)
    group = client % _GROUPS
    x = (means[y] + rng.standard_normal((len(y), _FEATURES))) * gains[group]
    test = within < _TEST_SAMPLES
    x = (x - x[~test].mean(axis=0)) / x[~test].std(axis=0)
    return population_of(x=x.astype(np.float32), y=y, client=client, test=test, group=group, name="units")
