"""What is in a data set: how large its clients are, and how far their labels are from everybody's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.population.preparation import LearningTask

_KINDS = {"uint8": "levels from 0 to 255", "int32": "tokens", "float32": "numbers"}


@dataclass(frozen=True)
class GroupSize:
    """A known group of clients."""

    name: str
    clients: int
    samples: int


@dataclass(frozen=True)
class TargetSummary:
    """A number to be learned, in the units of the data, or a label that samples may have (1) or not (0)."""

    name: str
    mean: float
    deviation: float
    least: float
    greatest: float
    client_least: float  # of the means of clients
    client_greatest: float
    client_deviation: float  # of the means of clients
    by_chance: float  # the same, if each client had drawn as many from everybody's


@dataclass(frozen=True)
class Description:
    """A data set in numbers; arrays have one entry for each client, in the population's order."""

    name: str
    features: tuple[int, ...]
    kind: str  # of inputs, in words
    n_classes: int
    classes_without_samples: int
    train_samples: int
    test_samples: int
    sizes: IntArray  # samples of each client
    classes_each: IntArray  # classes that each client has samples of
    skew: FloatArray  # total variation distance of each client's labels from everybody's
    skew_by_chance: FloatArray  # the same if each client had drawn as many labels from everybody's
    groups: tuple[GroupSize, ...]
    task: LearningTask = "classification"  # of others there are no classes that clients could differ in
    targets: tuple[TargetSummary, ...] = ()  # what is learned then

    @property
    def clients(self) -> int:
        """Return the number of clients."""
        return len(self.sizes)


def describe(data: FederatedData, group_names: Sequence[str] = ()) -> Description:
    """Return what is in a population, training and test samples together. Inputs are not read.

    A client's label skew is half the sum over classes of the difference between its share of the class and everybody's:
    0 for a client like the population, nearly 1 for one whose classes hardly anybody has. A client with few samples is
    skewed by chance alone, so the same is measured with all labels dealt anew.
    """
    clients = np.arange(data.n_clients)
    client = np.concatenate([np.repeat(clients, data.train.counts()), np.repeat(clients, data.test.counts())])
    y = np.concatenate([data.train.y, data.test.y])
    if data.targets is not None:  # there are no classes that clients could differ in
        y = np.zeros_like(y)
    of_class = np.bincount(y, minlength=data.n_classes)
    sizes = np.bincount(client, minlength=data.n_clients)
    classes_each, skew = _skew(client, y, sizes, of_class)
    _, by_chance = _skew(client, stream(0, "describe", "labels").permutation(y), sizes, of_class)
    return Description(
        name=data.name,
        features=data.features,
        kind=_KINDS[data.x.dtype.name],
        n_classes=data.n_classes,
        classes_without_samples=int(np.count_nonzero(of_class == 0)) if data.targets is None else 0,
        train_samples=len(data.train.y),
        test_samples=len(data.test.y),
        sizes=sizes,
        classes_each=classes_each,
        skew=skew,
        skew_by_chance=by_chance,
        groups=_groups(data, sizes, group_names),
        task=data.task,
        targets=_targets(data, client, sizes),
    )


def _targets(data: FederatedData, client: IntArray, sizes: IntArray) -> tuple[TargetSummary, ...]:
    if data.targets is None:
        return ()
    answers = data.preparation.predicted(data.answers(np.concatenate([data.train.y, data.test.y])))
    names = data.preparation.classes or tuple(str(number) for number in range(data.n_classes))
    has_some = sizes > 0
    found = []
    for name, column in zip(names, answers.T, strict=True):
        means = np.bincount(client, column, minlength=len(sizes))[has_some] / sizes[has_some]
        found.append(
            TargetSummary(
                name=name,
                mean=float(column.mean()),
                deviation=float(column.std()),
                least=float(column.min()),
                greatest=float(column.max()),
                client_least=float(means.min()),
                client_greatest=float(means.max()),
                client_deviation=float(means.std()),
                by_chance=float(np.sqrt((column.var() / sizes[has_some]).mean())),
            )
        )
    return tuple(found)


def _skew(client: IntArray, y: IntArray, sizes: IntArray, of_class: IntArray) -> tuple[IntArray, FloatArray]:
    """Return how many classes each client has, and its total variation distance from all samples.

    Only pairs of a client and a class that occur are looked at: a table of clients by classes might not fit in memory.
    """
    pairs, counts = np.unique(client * len(of_class) + y, return_counts=True)
    owner, label = np.divmod(pairs, len(of_class))
    share, expected = counts / sizes[owner], of_class[label] / len(y)
    # Classes that a client lacks differ by everybody's share, and these shares sum to what its own classes leave of 1.
    distances = (1 + np.bincount(owner, np.abs(share - expected) - expected, minlength=len(sizes))) / 2
    return np.bincount(owner, minlength=len(sizes)), np.clip(distances, 0.0, 1.0)


def _groups(data: FederatedData, sizes: IntArray, names: Sequence[str]) -> tuple[GroupSize, ...]:
    if data.groups is None:
        return ()
    numbers, clients = np.unique(data.groups, return_counts=True)
    samples = np.bincount(data.groups, sizes).astype(np.int64)
    return tuple(
        GroupSize(names[number] if number < len(names) else str(number), int(count), int(samples[number]))
        for number, count in zip(numbers.tolist(), clients.tolist(), strict=True)
    )
