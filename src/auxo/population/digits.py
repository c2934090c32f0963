"""A federated population of handwritten digits: the 1,797 images of 8x8 pixels that come with scikit-learn."""

from math import isfinite

import numpy as np
from sklearn.datasets import load_digits

from auxo.core.rng import stream
from auxo.core.types import BoolArray, Float32Array, IntArray
from auxo.population.federated_data import FederatedData, NumberedNames, Samples
from auxo.population.heterogeneity import Heterogeneity, group_images
from auxo.population.population_plan import DrawnClasses, PopulationPlan, draw_population

_N_CLASSES = 10
_TRAIN_SHARE = 2 / 3
_CLIENTS_AT_ONCE = 8192  # whose images are drawn at a time, so that their orders take little memory


def digits_population(  # noqa: PLR0913 - a population's settings, by keyword
    *,
    clients: int = 2000,
    groups: tuple[float, ...] | int = 4,
    heterogeneity: Heterogeneity,
    samples: tuple[int, int] = (20, 60),
    test_samples: int = 30,
    client_label_concentration: float | None = None,
    noise: float = 0.0,
    seed: int = 0,
    name: str = "digits",
) -> FederatedData:
    """Return clients that hold digits, in planted groups.

    Two thirds of each class's images are for training and one third for testing, before any client is made: no client
    trains on an image that another is tested on. Clients share images; one client holds an image twice only when it
    has more samples of a class than there are images.

    Inputs are flat (64,) and standardised by the mean and the deviation of all training pixels.

    Args:
        groups: relative sizes of the groups, or how many groups of the same size. `NoGroups` ignores it.
        samples: fewest and most training samples of a client; counts are uniform between them.
        client_label_concentration: the alpha of a Dirichlet distribution around the classes of its group from which
            each client draws its own; the smaller, the fewer classes a client holds. None: no such difference.
        noise: deviation of Gaussian noise that each image carries, in deviations of the pixels. The task is nearly
            solved by one model without it; 0.6 leaves room for what a group's own model gains from label skew.

    Raises:
        ValueError: an argument is out of its range, or a group would be empty.

    >>> from auxo.population.heterogeneity import Rotation
    >>> data = digits_population(clients=8, groups=4, heterogeneity=Rotation())
    >>> data.x.shape, sorted(data.groups.tolist())
    ((7188, 64), [0, 0, 1, 1, 2, 2, 3, 3])
    """
    if not (isfinite(noise) and noise >= 0):
        raise ValueError(f"noise: expected a number >= 0, got {noise}")
    plan = PopulationPlan(
        clients, groups, heterogeneity, _N_CLASSES, samples, test_samples, client_label_concentration, seed
    )
    planted = draw_population(plan)
    bunch = load_digits()
    images: Float32Array = (bunch.images / 16).astype(np.float32)
    classes: IntArray = bunch.target.astype(np.int64)
    is_train = _stratified(classes, seed)

    views = group_images(heterogeneity, images, planted.n_groups, seed)
    x = (views.reshape(-1, images[0].size) - images[is_train].mean()) / images[is_train].std()
    if noise > 0:
        drawn_noise = stream(seed, "digits", "noise").standard_normal(x.shape, dtype=np.float32)
        x = (x + noise * drawn_noise) / np.sqrt(1 + noise**2)
    # With a single view, all groups point at the same rows.
    first_row = (planted.groups if len(views) > 1 else np.zeros_like(planted.groups)) * len(images)

    def draw(drawn: DrawnClasses, is_in_split: BoolArray, split: str) -> Samples:
        image_rows = _draw_images(drawn, classes, is_in_split, stream(seed, "digits", split))
        return Samples(np.repeat(first_row, drawn.counts) + image_rows, planted.labels(drawn), drawn.offsets())

    return FederatedData(
        name=name,
        x=x.astype(np.float32, copy=False),
        train=draw(planted.train, is_train, "train-images"),
        test=draw(planted.test, ~is_train, "test-images"),
        n_classes=_N_CLASSES,
        client_names=NumberedNames(clients),
        groups=planted.groups,
    )


def _stratified(classes: IntArray, seed: int) -> BoolArray:
    """Return which images are for training: the same share of every class."""
    is_train = np.zeros(len(classes), dtype=np.bool_)
    for digit in range(_N_CLASSES):
        images = stream(seed, "digits", "split", digit).permutation(np.flatnonzero(classes == digit))
        is_train[images[: round(_TRAIN_SHARE * len(images))]] = True
    return is_train


def _draw_images(
    drawn: DrawnClasses, image_classes: IntArray, is_in_split: BoolArray, rng: np.random.Generator
) -> IntArray:
    """Return an image of the split for every sample, without replacement within a client while its class lasts."""
    clients = len(drawn.counts)
    client_rows = drawn.client_rows()
    image_rows = np.empty(len(drawn.classes), dtype=np.int64)
    for digit in range(_N_CLASSES):
        pool = np.flatnonzero(is_in_split & (image_classes == digit))
        in_order = np.tile(np.arange(len(pool), dtype=np.int16), (min(clients, _CLIENTS_AT_ONCE), 1))
        samples = np.flatnonzero(drawn.classes == digit)
        owners = client_rows[samples]
        first_of_owner = np.searchsorted(owners, np.arange(clients + 1))
        for first in range(0, clients, _CLIENTS_AT_ONCE):
            last = min(first + _CLIENTS_AT_ONCE, clients)
            order = rng.permuted(in_order[: last - first], axis=1)
            some = slice(first_of_owner[first], first_of_owner[last])
            nth_of_owner = np.arange(some.start, some.stop) - first_of_owner[owners[some]]
            image_rows[samples[some]] = pool[order[owners[some] - first, nth_of_owner % len(pool)]]
    return image_rows
