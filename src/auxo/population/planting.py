"""Planting groups in a population that has clients of its own, so that a method's cohorts can be held against them."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt, prod

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData, Samples, StoredInputs
from auxo.population.heterogeneity import (
    AffineShift,
    ConceptShift,
    GroupView,
    Heterogeneity,
    LabelSkew,
    NoGroups,
    Rotation,
    assign_groups,
    class_shares,
    group_view,
    label_maps,
    relative_sizes,
)

_FEWEST_KEPT = 2  # samples that label skew leaves a client in each split, if it has them; our choice
_LOOKED_AT = 1000  # inputs at most that tell what kind of inputs they all are; our choice
_LOOKED_AT_BYTES = 1 << 26  # of them as float32; our choice
_CHANGED_AT_ONCE = 1 << 21  # bytes of float32: what a processor's cache holds changes fastest; measured
_IN_MEMORY = 1 << 30  # bytes of changed inputs; what is larger goes to a temporary file; our choice
_LEVELS = np.float32(255)
_FITTINGS = 200  # times that rows and columns are fitted in turn; what is off then is made up for; our choice
_SMALLEST_SHARE = 1e-9  # so that a class can go to any group when it must
_ALIKE = 0.9  # neighbours in an image differ by at most this part of what any two pixels do; our choice


def plant_groups(
    data: FederatedData, heterogeneity: Heterogeneity, groups: tuple[float, ...] | int, seed: int, *, deal: bool = False
) -> FederatedData:
    """Return the population with its clients in planted groups, which differ in what ``heterogeneity`` says.

    The group of a client is drawn without a look at its data, and what is done to its training samples is done to its
    test samples. The clients, and but for `LabelSkew` their samples, stay what they are:

    - `Rotation` and `AffineShift`: group 0 sees its inputs as they are, each other group through a view of its own.
      Inputs of shape (height, width) or (channels, height, width) are images, and so are flat ones of a square length
      whose neighbours are alike (`inputs_are_images`); what comes in from outside an image is the level that is usual
      at its border. All others are turned and moved as vectors (`GroupView.vectors`).
    - `LabelPermutation`, `LabelSwap` and `NestedConcepts`: each group names the classes its own way.
    - `LabelSkew`: a client keeps a sample of a class with the probability that the class's share in its group has of
      the largest share there, and at least two samples of each split. Its labels are then shared out as before times
      its group's shares, so a client that had all classes alike follows its group's. Nothing moves to another client.
      Of balanced classes, 63 % of the samples remain with 2 groups of 10 classes, 43 % with 4, and 22 % with 10.
    - `NoGroups`: the population stays as it is, natural groups included.

    Labels and offsets take new memory, inputs only where a view changes them: then those that are used are written
    anew, in the type they are stored in, and once more for each further group that uses the same one. Above 1 GiB they
    go to a temporary file that is mapped into memory and gone with the process. A map of a file is read in parts.

    Args:
        data: any population; tokens suit label heterogeneity only.
        groups: relative sizes of the groups, or how many groups of the same size.
        deal: deal all samples out anew, training and test samples apart, to clients of the sizes they had, before
            anything else is done. With `LabelSkew` the groups' shares then decide who gets what, no sample is lost,
            and shares are met as far as there are samples of each class. Natural differences between clients go.

    Raises:
        ValueError: a group would have no client, there are more groups than classes to tell them apart, or the
            inputs are tokens, which cannot be turned.
    """
    if isinstance(heterogeneity, NoGroups) and not deal:
        return data
    if data.has_tokens and isinstance(heterogeneity, Rotation | AffineShift):
        raise ValueError(
            f"plant: {type(heterogeneity).__name__} expects inputs that are numbers, but those of {data.name} are "
            'tokens of a text; plant LabelPermutation ("concept"), or another kind that changes labels'
        )
    sizes = relative_sizes(heterogeneity, groups)
    planting = _Planting(
        groups=assign_groups(data.n_clients, sizes, seed),
        heterogeneity=heterogeneity,
        shares=class_shares(heterogeneity, len(sizes), data.n_classes),
        label_maps=label_maps(heterogeneity, len(sizes), data.n_classes, seed),
        deal=deal,
        seed=seed,
    )
    planted = replace(
        data,
        train=planting.changed(data.train, "train"),
        test=planting.changed(data.test, "test"),
        groups=planting.groups,
    )
    views = [group_view(heterogeneity, group, len(sizes), seed) for group in range(len(sizes))]
    return planted if all(view is None for view in views) else _seen(planted, planting.groups, views)


def deal_out(y: IntArray, sizes: IntArray, groups: IntArray, shares: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the places in ``y`` of the samples that clients get, client after client.

    Every client gets as many as its size says, all different, in random order. What a group gets is fitted to its
    shares, as far as there are samples of each class: if all samples are dealt out, shares are bent so that each class
    is used up. Within a group clients get samples by chance.

    ``y`` are classes from 0, ``sizes`` the clients' samples, at most all together, and ``shares`` (groups, classes).

    >>> from auxo.core.rng import stream
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> sizes, groups = np.array([2, 2]), np.array([1, 0])
    >>> y = np.array([0, 1, 0, 1])
    >>> y[deal_out(y, sizes, groups, shares, stream(0, "example"))].tolist()
    [1, 1, 0, 0]
    """
    n_groups, n_classes = shares.shape
    counts = np.bincount(y, minlength=n_classes)
    group_sizes = np.bincount(groups, weights=sizes, minlength=n_groups).astype(np.int64)
    table = _table(group_sizes, counts, shares, rng)

    by_class = rng.permutation(len(y))
    by_class = by_class[np.argsort(y[by_class], kind="stable")]
    owners = np.repeat(np.tile(np.arange(len(table)), n_classes), table.T.ravel())
    mixed = rng.permutation(len(y))
    by_group = mixed[np.argsort(owners[mixed], kind="stable")]
    clients = np.argsort(groups, kind="stable")
    client_of = np.repeat(clients, sizes[clients])
    dealt: IntArray = by_class[by_group[: len(client_of)]][np.argsort(client_of, kind="stable")]
    return dealt


def inputs_are_images(data: FederatedData) -> bool:
    """Return whether inputs are images: (height, width), (channels, height, width), or flat squares that look so.

    A flat input of a square length looks so if neighbours in the square are closer to each other than two features
    are on average, judged by up to 1,000 inputs. Words that were hashed into 64 * 64 places do not.
    """
    if data.has_tokens or len(data.features) > 3:
        return False
    if len(data.features) > 1:
        return True
    side = isqrt(data.features[0])
    if side < 2 or side * side != data.features[0]:
        return False
    square = _some(data).reshape(-1, side, side)
    between_neighbours = np.concatenate([np.diff(square, axis=1).ravel(), np.diff(square, axis=2).ravel()])
    # Of any two features of an input, the mean squared difference is twice their variance.
    between_any = 2 * square.reshape(len(square), -1).var(axis=1, ddof=1).mean()
    return bool(np.square(between_neighbours).mean() <= _ALIKE * between_any and between_any > 0)


@dataclass(frozen=True)
class _Planting:
    """Who is in which group, and what that does to samples but for their inputs."""

    groups: IntArray  # (clients,)
    heterogeneity: Heterogeneity
    shares: FloatArray  # (groups, classes)
    label_maps: IntArray  # (groups, classes)
    deal: bool
    seed: int

    def changed(self, samples: Samples, split: str) -> Samples:
        if self.deal:
            rng = stream(self.seed, "planting", "deal", split)
            places = deal_out(samples.y, samples.counts(), self.groups, self._shares_to_deal(samples.y), rng)
            samples = replace(samples, x_rows=samples.x_rows[places], y=samples.y[places])
        elif isinstance(self.heterogeneity, LabelSkew):
            samples = _thinned(samples, self.groups, self.shares, stream(self.seed, "planting", "keep", split))
        if isinstance(self.heterogeneity, ConceptShift):
            names = self.label_maps[np.repeat(self.groups, samples.counts()), samples.y]
            samples = replace(samples, y=names)
        return samples

    def _shares_to_deal(self, y: IntArray) -> FloatArray:
        if isinstance(self.heterogeneity, LabelSkew):
            return self.shares
        return np.tile(np.bincount(y, minlength=self.shares.shape[1]) / max(1, len(y)), (len(self.shares), 1))


def _table(sizes: IntArray, counts: IntArray, shares: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return how many samples of each class each group gets, and in the last row what nobody gets."""
    wanted = sizes[:, np.newaxis] * np.maximum(shares, _SMALLEST_SHARE)
    # If there is enough of every class, what is left over makes up the difference, and all fits at once.
    fitted = np.vstack([wanted, np.maximum(counts - wanted.sum(axis=0), _SMALLEST_SHARE)])
    rows = np.append(sizes, counts.sum() - sizes.sum())
    for _ in range(_FITTINGS):
        fitted *= _ratio(counts, fitted.sum(axis=0))
        fitted *= _ratio(rows, fitted.sum(axis=1))[:, np.newaxis]

    table, left = np.zeros_like(fitted, dtype=np.int64), counts.copy()
    for group, size in enumerate(sizes):
        got = np.minimum(np.floor(fitted[group]).astype(np.int64), left)
        by_remainder = np.argsort(got - fitted[group], kind="stable")
        by_remainder = by_remainder[left[by_remainder] > got[by_remainder]]
        got[by_remainder[: max(0, size - int(got.sum()))]] += 1
        got += rng.multivariate_hypergeometric(left - got, size - int(got.sum()))
        table[group] = got
        left -= got
    table[-1] = left
    return table


def _ratio(wanted: IntArray, got: FloatArray) -> FloatArray:
    return np.divide(wanted, got, out=np.zeros_like(got), where=got > 0)


def _thinned(samples: Samples, groups: IntArray, shares: FloatArray, rng: np.random.Generator) -> Samples:
    """Return the samples that clients keep, in the order they were in."""
    counts = samples.counts()
    clients = np.repeat(np.arange(len(counts)), counts)
    chance = (shares / shares.max(axis=1, keepdims=True))[groups[clients], samples.y]
    level = 1 - rng.random(len(clients))  # above 0
    with np.errstate(divide="ignore"):  # a class without a share comes last
        score = level / chance
    order = np.lexsort((level, score, clients))
    nth_of_client = np.empty(len(order), dtype=np.int64)
    nth_of_client[order] = np.arange(len(order)) - samples.offsets[clients]  # clients are in order already
    kept = (score <= 1) | (nth_of_client < _FEWEST_KEPT)
    left = np.bincount(clients[kept], minlength=len(counts))
    return Samples(samples.x_rows[kept], samples.y[kept], np.concatenate([[0], np.cumsum(left)]))


def _seen(data: FederatedData, groups: IntArray, views: list[GroupView | None]) -> FederatedData:
    """Return the population with each input as the group of its client sees it."""
    splits = (data.train, data.test)
    group_and_row = np.concatenate([np.repeat(groups, part.counts()) * len(data.x) + part.x_rows for part in splits])
    distinct, x_rows = np.unique(group_and_row, return_inverse=True)
    looks = _Looks.of(data)
    parts = _views_of_rows(data, distinct, views, looks)
    n_train = len(data.train.x_rows)
    return replace(
        data,
        x=_gathered(parts, (len(distinct), *data.features), np.dtype(np.uint8 if looks.stays_levels else np.float32)),
        train=replace(data.train, x_rows=x_rows[:n_train]),
        test=replace(data.test, x_rows=x_rows[n_train:]),
    )


@dataclass(frozen=True)
class _Looks:
    """What has to be known about all inputs to change some."""

    shape: tuple[int, ...] | None  # of an image; None: no images
    stays_levels: bool  # images of levels from 0 to 255 are rounded back to such
    fill: float  # usual at the border of an image, as stored
    centre: float  # what a model sees as 0
    deviation: float

    @staticmethod
    def of(data: FederatedData) -> "_Looks":
        some = _some(data)
        centre = 0.0 if data.scaling is None else data.scaling.shift
        deviation = float(np.sqrt(np.square(some - some.mean(axis=0)).mean()))
        if not inputs_are_images(data):
            return _Looks(None, False, 0.0, centre, deviation)
        side = isqrt(data.features[0])
        shape = (side, side) if len(data.features) == 1 else data.features
        images = some.reshape(-1, *shape[-2:])
        border = np.concatenate([images[:, [0, -1]].ravel(), images[:, :, [0, -1]].ravel()])
        is_levels = data.x.dtype == np.uint8
        fill = float(np.median(border)) * (_LEVELS if is_levels else 1)
        return _Looks(shape, is_levels, float(fill), centre, deviation)


def _some(data: FederatedData) -> Float32Array:
    """Return some stored inputs as numbers, levels from 0 to 1, evenly taken from all: clients follow each other."""
    most = max(1, min(len(data.x), _LOOKED_AT, _LOOKED_AT_BYTES // (4 * prod(data.features))))
    return _as_numbers(data.x[np.linspace(0, len(data.x) - 1, most).astype(np.int64)])


def _as_numbers(stored: StoredInputs) -> Float32Array:
    numbers = stored.astype(np.float32)
    return numbers / _LEVELS if stored.dtype == np.uint8 else numbers


def _views_of_rows(
    data: FederatedData, group_and_row: IntArray, views: list[GroupView | None], looks: _Looks
) -> Iterator[StoredInputs]:
    """Yield inputs as the groups see them, in parts, for sorted numbers of group and row."""
    at_once = max(1, _CHANGED_AT_ONCE // (4 * prod(data.features)))
    for group, view in enumerate(views):
        first, last = np.searchsorted(group_and_row, [group * len(data.x), (group + 1) * len(data.x)])
        for start in range(first, last, at_once):
            rows = group_and_row[start : min(start + at_once, last)] - group * len(data.x)
            yield _viewed(data.x[rows], view, looks)


def _viewed(stored: StoredInputs, view: GroupView | None, looks: _Looks) -> StoredInputs:
    if looks.shape is None:
        numbers = _as_numbers(stored)
        return numbers if view is None else view.vectors(numbers, looks.centre, looks.deviation)
    if view is None:
        return stored
    images = stored.reshape(len(stored), *looks.shape).astype(np.float32)
    seen = view.images(images, looks.fill).reshape(stored.shape)
    return np.rint(seen).astype(np.uint8) if looks.stays_levels else seen


def _gathered(
    parts: Iterator[StoredInputs], shape: tuple[int, ...], dtype: np.dtype[np.float32 | np.uint8 | np.int32]
) -> StoredInputs:
    """Return parts as one array, in memory or in a file that no other program sees."""
    if prod(shape) * dtype.itemsize <= _IN_MEMORY:
        x = np.empty(shape, dtype)
        filled = 0
        for part in parts:
            x[filled : filled + len(part)] = part
            filled += len(part)
        return x
    # Written before it is mapped: a disk that is full must raise here, not end the process later.
    with tempfile.TemporaryFile(prefix="auxo-") as file:
        for part in parts:
            np.ascontiguousarray(part, dtype).tofile(file)
        file.flush()
        return np.memmap(file, dtype, mode="r", shape=shape)
