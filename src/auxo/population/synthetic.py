"""A federated population of Gaussian classes, of any size."""

from math import isfinite

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray
from auxo.population.federated_data import FederatedData, NumberedNames, Samples
from auxo.population.heterogeneity import AffineShift, Heterogeneity, Rotation
from auxo.population.population_plan import PopulationPlan, draw_population

_CHUNK = 1 << 18  # samples at a time, so that moving them to their class takes little memory beyond x itself


def synthetic_population(  # noqa: PLR0913 - a population's settings, by keyword
    *,
    clients: int,
    groups: tuple[float, ...] | int = 4,
    heterogeneity: Heterogeneity,
    features: int = 32,
    classes: int = 10,
    samples: tuple[int, int] = (20, 60),
    test_samples: int = 30,
    class_separation: float = 3.1,
    client_label_concentration: float | None = None,
    seed: int = 0,
    name: str = "synthetic",
) -> FederatedData:
    """Return clients whose samples are Gaussian around the mean of their class, in planted groups.

    No two samples share an input: ``x`` takes 4 bytes for each feature of each sample and labels and rows another 16,
    so 100,000 clients of 70 samples with 32 features take about 1 GB, and half as much again while they are made.

    Args (others are those of `digits_population`):
        heterogeneity: what the groups differ in. `Rotation` turns the features of every group but the first by a
            random orthogonal matrix; `AffineShift` is for images only.
        features: length of an input.
        class_separation: distance of the class means from the origin, in deviations of a class. With the default
            softmax regression on a group's own samples is right in about nine cases of ten (our own choice).

    Raises:
        ValueError: an argument is out of its range, a group would be empty, or the heterogeneity needs images.

    >>> from auxo.population.heterogeneity import LabelPermutation
    >>> data = synthetic_population(clients=6, groups=(2, 1), heterogeneity=LabelPermutation(), samples=(5, 5))
    >>> data.x.shape, sorted(data.groups.tolist())
    ((210, 32), [0, 0, 0, 0, 1, 1])
    """
    if isinstance(heterogeneity, AffineShift):
        raise ValueError("heterogeneity: AffineShift needs images; use Rotation here, or the digits population")
    if features < 1 or classes < 2:
        raise ValueError(f"expected at least 1 feature and 2 classes, got features={features}, classes={classes}")
    if not (isfinite(class_separation) and class_separation > 0):
        raise ValueError(f"class_separation: expected a positive number, got {class_separation}")
    plan = PopulationPlan(
        clients, groups, heterogeneity, classes, samples, test_samples, client_label_concentration, seed
    )
    planted = draw_population(plan)
    directions = _class_means(heterogeneity, planted.n_groups, classes, features, seed)
    means = (class_separation * directions).astype(np.float32)

    n_train, n_test = len(planted.train.classes), len(planted.test.classes)
    x: Float32Array = stream(seed, "synthetic", "x").standard_normal((n_train + n_test, features), dtype=np.float32)
    for drawn, part in ((planted.train, x[:n_train]), (planted.test, x[n_train:])):
        sample_groups = np.repeat(planted.groups, drawn.counts)
        for start in range(0, len(part), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            part[chunk] += means[sample_groups[chunk], drawn.classes[chunk]]

    return FederatedData(
        name=name,
        x=x,
        train=Samples(np.arange(n_train), planted.labels(planted.train), planted.train.offsets()),
        test=Samples(n_train + np.arange(n_test), planted.labels(planted.test), planted.test.offsets()),
        n_classes=classes,
        client_names=NumberedNames(clients),
        groups=planted.groups,
    )


def _class_means(heterogeneity: Heterogeneity, groups: int, classes: int, features: int, seed: int) -> FloatArray:
    """Return unit vectors (groups, classes, features).

    Turning the means turns the samples: around its mean a class looks the same from all sides.
    """
    directions = stream(seed, "synthetic", "means").standard_normal((classes, features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if not isinstance(heterogeneity, Rotation):
        return np.tile(directions, (groups, 1, 1))
    turned = [directions @ _random_orthogonal(features, seed, group) for group in range(1, groups)]
    return np.stack([directions, *turned])


def _random_orthogonal(size: int, seed: int, group: int) -> FloatArray:
    q, r = np.linalg.qr(stream(seed, "synthetic", "rotation", group).standard_normal((size, size)))
    # Without the signs the matrices would not be uniform over all rotations.
    orthogonal: FloatArray = q * np.sign(np.diagonal(r))
    return orthogonal
