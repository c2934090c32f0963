"""Populations that are made for the benchmarks: groups whose instruments have units, or zeros, of their own."""

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import FloatArray
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_of

_FEATURES, _CLASSES = 32, 10
_GROUPS = 3
_SEPARATION = 3.1  # of class means from the origin, in deviations of a class; as in `synthetic_population`
_SPREAD = 1.5  # of the logarithms of the gains
_SHIFT = 1.0  # of features, in deviations of a class
_SHIFTED, _ZEROS = 12, 4  # features and groups of these: one model goes around few shifts of many features
_SAMPLES, _TEST_SAMPLES = (20, 60), 30


def units_population(clients: int, seed: int) -> FederatedData:
    """Return Gaussian classes whose features every group sees with gains of its own, as instruments of other makes do.

    Each client has its own class frequencies, Dirichlet(1). Columns are standardised over everybody.
    """
    rng = stream(seed, "units")
    means = _class_means(rng, _FEATURES)
    gains = np.exp(_SPREAD * rng.standard_normal((_GROUPS, _FEATURES)))
    return _seen_by_groups("units", clients, means, gains, np.zeros_like(gains), rng)


def shifted_population(clients: int, seed: int) -> FederatedData:
    """Return Gaussian classes whose features every group sees shifted by zeros of its own, else as in `units`."""
    rng = stream(seed, "shifted")
    means = _class_means(rng, _SHIFTED)
    shifts = _SHIFT * rng.standard_normal((_ZEROS, _SHIFTED))
    return _seen_by_groups("shifted", clients, means, np.ones_like(shifts), shifts, rng)


def _class_means(rng: np.random.Generator, features: int) -> FloatArray:
    means = rng.standard_normal((_CLASSES, features))
    return np.asarray(means * _SEPARATION / np.linalg.norm(means, axis=1, keepdims=True))


def _seen_by_groups(
    name: str, clients: int, means: FloatArray, gains: FloatArray, shifts: FloatArray, rng: np.random.Generator
) -> FederatedData:
    counts = rng.integers(_SAMPLES[0], _SAMPLES[1] + 1, clients) + _TEST_SAMPLES
    client = np.repeat(np.arange(clients), counts)
    within = np.arange(len(client)) - np.repeat(np.cumsum(counts) - counts, counts)
    frequencies = rng.dirichlet(np.ones(_CLASSES), clients).cumsum(axis=1)
    y = (rng.random(len(client))[:, None] > frequencies[client]).sum(axis=1).clip(max=_CLASSES - 1)
    group = client % len(gains)
    x = (means[y] + rng.standard_normal((len(y), means.shape[1]))) * gains[group] + shifts[group]
    test = within < _TEST_SAMPLES
    x = (x - x[~test].mean(axis=0)) / x[~test].std(axis=0)
    return population_of(x=x.astype(np.float32), y=y, client=client, test=test, group=group, name=name)
