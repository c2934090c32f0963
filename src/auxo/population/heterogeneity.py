"""What planted groups of clients differ in: their images, their labels, or which classes they hold."""

from dataclasses import dataclass
from math import isfinite
from typing import assert_never

import numpy as np
from scipy import sparse

from auxo.core.rng import stream
from auxo.core.settings import Fraction, NonNegativeInt, checked
from auxo.core.types import Float32Array, FloatArray, IntArray

# How far an affine map of degree 1 goes. Our own choices: on 8x8 images more than this loses the digit.
_MAX_TURN_DEG = 90.0
_MAX_SHEAR = 0.5
_MAX_LOG2_SCALE = 0.5
_MAX_SHIFT = 0.15  # of the image's side
_MAX_OFFSET = 0.5  # of inputs that are no images, in their deviations


@dataclass(frozen=True)
class Rotation:
    """Group g of G sees its images turned counterclockwise by g * 360 / G degrees.

    Inputs that are no images are turned by the same angle, in planes that each hold two features, paired by chance.
    """


@dataclass(frozen=True)
@checked
class AffineShift:
    """Every group but the first sees its images through its own affine map: turned, sheared, scaled, and moved.

    ``degree`` is the strength in [0, 1]; 0 leaves all groups alike. Each part of a map has a random sign and between
    half of its strength and all of it, so that no group stays close to the unchanged images. A map of a higher degree
    goes further in the same direction.

    At degree 1 an image is turned by 45 to 90 degrees, sheared by 0.25 to 0.5, made larger or smaller by a factor of
    1.19 to 1.41, and moved by 0.075 to 0.15 of its side in each direction; on 28x28 pixels by 2.1 to 4.2. Angle,
    shear, shift and the logarithm of the factor are proportional to the degree. Inputs that are no images are turned,
    in planes of two features of the group's own, and moved.
    """

    degree: Fraction = 0.5


@dataclass(frozen=True)
class LabelPermutation:
    """Concept shift: each group names the classes by a permutation of its own, and no two agree on any class.

    Group 0 keeps the names. There can be no more groups than classes.
    """


@dataclass(frozen=True)
class LabelSwap:
    """A small concept shift: each group exchanges the names of two classes, a pair of its own.

    Group 0 keeps the names, and no class is in two pairs. There can be one group more than pairs of classes.
    """


@dataclass(frozen=True)
class NestedConcepts:
    """Groups within groups: names of classes differ much between branches, and a little between groups of a branch.

    Groups follow each other branch by branch. Branches name the classes by permutations that agree on no class; of a
    branch's groups, each but the first also exchanges the names within ``pairs`` pairs of classes of its own, the same
    ones in every branch. Groups of a branch so agree on all other classes, and groups of two branches at most on those
    that are exchanged. The defaults are our own choice.
    """

    branches: int = 2
    pairs: int = 2

    def __post_init__(self) -> None:
        if self.branches < 2:
            raise ValueError(f"branches: expected at least 2, got {self.branches}; without branches there is LabelSwap")
        if self.pairs < 1:
            raise ValueError(f"pairs: expected at least 1, got {self.pairs}; without pairs there is LabelPermutation")


@dataclass(frozen=True)
@checked
class LabelSkew:
    """Each group mostly holds its own block of classes; the blocks overlap.

    ``concentration`` is the share of a group's samples that come from its own block, the rest comes from all classes
    alike. A block is an even share of the classes and ``overlap`` more, which are its neighbour's too. There can be
    no more groups than classes. The defaults are our own choice.
    """

    concentration: Fraction = 0.9
    overlap: NonNegativeInt = 1


@dataclass(frozen=True)
class NoGroups:
    """All clients are of one group."""


Heterogeneity = Rotation | AffineShift | LabelPermutation | LabelSwap | NestedConcepts | LabelSkew | NoGroups
ConceptShift = LabelPermutation | LabelSwap | NestedConcepts  # groups name the classes their own way


@dataclass(frozen=True)
class GroupView:
    """How one group sees its inputs: turned, sheared, scaled, and moved."""

    turn_deg: float  # counterclockwise
    seed: int
    planes: tuple[int | str, ...]  # under the seed: the planes in which inputs that are no images turn
    shear: float = 0.0
    log2_scale: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)  # of an image's height and width

    def images(self, images: Float32Array, fill: float = 0.0) -> Float32Array:
        """Return images (..., height, width) as the group sees them; what comes in from outside is ``fill``."""
        height, width = images.shape[-2:]
        flat = images.reshape(-1, height, width)
        quarters, rest = divmod(self.turn_deg, 90.0)
        only_turns = (self.shear, self.log2_scale, *self.shift) == (0.0, 0.0, 0.0, 0.0)
        if only_turns and rest == 0 and (height == width or quarters % 2 == 0):
            # Exact: interpolation would blur what only changes places.
            return np.rot90(flat, int(quarters), axes=(1, 2)).reshape(images.shape)
        sheared = np.array([[1.0, self.shear], [0.0, 1.0]])
        matrix = _turn(self.turn_deg) @ sheared * 2.0**self.log2_scale
        shift = np.array([height, width]) * np.array(self.shift)
        return _warped(flat, matrix, shift, fill).reshape(images.shape)

    def vectors(self, vectors: Float32Array, centre: float = 0.0, deviation: float = 1.0) -> Float32Array:
        """Return inputs that are no images, (n, *features), as the group sees them.

        Every plane of two features is turned around ``centre`` by the view's angle, which is then the angle between
        what an input was and what it becomes (an odd feature out stays). A view that moves images moves every feature
        up or down by the same part of ``deviation``.
        """
        flat = vectors.reshape(len(vectors), -1)
        rng = stream(self.seed, *self.planes)
        features = flat.shape[1]
        one, other = rng.permutation(features)[: features // 2 * 2].reshape(2, -1)
        signs = rng.choice([-1.0, 1.0], size=features)
        cosine, sine = (np.float32(part) for part in _turn(self.turn_deg)[0])
        centred = flat - np.float32(centre)
        turned = centred.copy()
        turned[:, one] = cosine * centred[:, one] - sine * centred[:, other]
        turned[:, other] = sine * centred[:, one] + cosine * centred[:, other]
        offset = centre + deviation * _MAX_OFFSET * self.shift[0] / _MAX_SHIFT * signs
        turned += offset.astype(np.float32)
        return turned.reshape(vectors.shape)


def group_view(heterogeneity: Heterogeneity, group: int, groups: int, seed: int) -> GroupView | None:
    """Return how a group sees its inputs; None when it sees them as they are.

    >>> group_view(Rotation(), group=1, groups=4, seed=0).turn_deg
    90.0
    """
    match heterogeneity:
        case Rotation():
            # All groups turn in the same planes, so that any two differ by the angle between them.
            return GroupView(360.0 * group / groups, seed, ("rotation", "planes")) if group else None
        case AffineShift(degree):
            if group == 0 or degree == 0:
                return None
            rng = stream(seed, "affine-shift", group)
            turn, shear, scale, *shift = degree * rng.uniform(0.5, 1.0, size=5) * rng.choice([-1.0, 1.0], size=5)
            return GroupView(
                turn_deg=float(_MAX_TURN_DEG * turn),
                seed=seed,
                planes=("affine-shift", group, "planes"),
                shear=float(_MAX_SHEAR * shear),
                log2_scale=float(_MAX_LOG2_SCALE * scale),
                shift=(float(_MAX_SHIFT * shift[0]), float(_MAX_SHIFT * shift[1])),
            )
        case LabelPermutation() | LabelSwap() | NestedConcepts() | LabelSkew() | NoGroups():
            return None
        case _:
            assert_never(heterogeneity)


def group_images(heterogeneity: Heterogeneity, images: Float32Array, groups: int, seed: int) -> Float32Array:
    """Return the images (n, side, side) as each group sees them: (views, n, side, side).

    There is one view for each group when the groups differ in their images, and a single one when they do not. What a
    map moves in from outside an image is 0.
    """
    if not isinstance(heterogeneity, Rotation | AffineShift):
        return images[np.newaxis]
    views = [group_view(heterogeneity, group, groups, seed) for group in range(groups)]
    return np.stack([images if view is None else view.images(images) for view in views])


def relative_sizes(heterogeneity: Heterogeneity, groups: tuple[float, ...] | int) -> tuple[float, ...]:
    """Return the relative sizes of groups, given those or their number; `NoGroups` makes one group of all."""
    sizes = (1.0,) * groups if isinstance(groups, int) else groups
    if not sizes or not all(isfinite(size) and size > 0 for size in sizes):
        raise ValueError(f"groups: expected a number >= 1 or the groups' positive sizes, got {groups}")
    return (1.0,) if isinstance(heterogeneity, NoGroups) else sizes


def assign_groups(clients: int, sizes: tuple[float, ...], seed: int) -> IntArray:
    """Return the group of each client: by chance, but as many of each as the relative sizes say.

    >>> sorted(assign_groups(5, (3.0, 1.0), seed=0).tolist())
    [0, 0, 0, 0, 1]
    """
    relative = np.array(sizes)
    exact = clients * relative / relative.sum()
    whole = np.floor(exact).astype(np.int64)
    largest_remainders = np.argsort(whole - exact, kind="stable")[: clients - int(whole.sum())]
    whole[largest_remainders] += 1
    if not whole.all():
        raise ValueError(
            f"groups: expected at least one client in every group, but of {clients} clients group "
            f"{int(np.argmin(whole))} would get none; plant more clients, fewer groups, or a larger share for it"
        )
    return stream(seed, "population", "groups").permutation(np.repeat(np.arange(len(sizes)), whole))


def label_maps(heterogeneity: Heterogeneity, groups: int, n_classes: int, seed: int) -> IntArray:
    """Return the label that each group gives each class: (groups, classes).

    >>> maps = label_maps(LabelPermutation(), groups=3, n_classes=10, seed=0)
    >>> [len(set(names)) for names in maps.T.tolist()] == [3] * 10
    True
    >>> maps = label_maps(LabelSwap(), groups=3, n_classes=10, seed=0)
    >>> (maps != maps[0]).sum(axis=1).tolist()
    [0, 2, 2]

    Raises:
        ValueError: there are more groups than the classes can tell apart, or they do not fill all branches alike.
    """
    match heterogeneity:
        case LabelPermutation():
            _check_groups_fit(heterogeneity, groups, n_classes)
            return _permuted(groups, n_classes, seed)
        case LabelSwap():
            return _swapped(groups, 1, n_classes, seed)
        case NestedConcepts(branches, pairs):
            if groups % branches or branches > n_classes:
                raise ValueError(
                    f"groups: NestedConcepts expects as many groups in each of its {branches} branches, and no more "
                    f"branches than the {n_classes} classes, got {groups}; plant a multiple of the branches"
                )
            within = _swapped(groups // branches, pairs, n_classes, seed)
            return _permuted(branches, n_classes, seed)[:, within].reshape(groups, n_classes)
        case Rotation() | AffineShift() | LabelSkew() | NoGroups():
            return np.tile(np.arange(n_classes), (groups, 1))
        case _:
            assert_never(heterogeneity)


def class_shares(heterogeneity: Heterogeneity, groups: int, n_classes: int) -> FloatArray:
    """Return how each group's samples are spread over the classes, before any labels are renamed: (groups, classes).

    >>> class_shares(LabelSkew(concentration=0.8, overlap=1), groups=2, n_classes=4).round(2).tolist()
    [[0.32, 0.32, 0.32, 0.05], [0.32, 0.05, 0.32, 0.32]]
    """
    if not isinstance(heterogeneity, LabelSkew):
        return np.full((groups, n_classes), 1 / n_classes)
    _check_groups_fit(heterogeneity, groups, n_classes)
    width = min(n_classes, -(-n_classes // groups) + heterogeneity.overlap)
    shares = np.full((groups, n_classes), (1 - heterogeneity.concentration) / n_classes)
    for group in range(groups):
        block = (group * n_classes // groups + np.arange(width)) % n_classes
        shares[group, block] += heterogeneity.concentration / width
    return shares


def _permuted(groups: int, n_classes: int, seed: int) -> IntArray:
    """Return names of the classes for each group, of which no two agree on any class."""
    # Shifts along one random cycle through all classes: two different shifts never meet.
    cycle = stream(seed, "label-permutation").permutation(n_classes)
    place = np.argsort(cycle)
    maps: IntArray = cycle[(place + np.arange(groups)[:, np.newaxis]) % n_classes]
    return maps


def _swapped(groups: int, pairs: int, n_classes: int, seed: int) -> IntArray:
    """Return names of the classes for each group: all but the first exchange those of some pairs of their own."""
    needed = 2 * pairs * (groups - 1)
    if needed > n_classes:
        raise ValueError(
            f"groups: expected {2 * pairs} classes for each group that exchanges names, which are {needed}, but there "
            f"are {n_classes} classes; plant fewer groups"
        )
    one, other = stream(seed, "label-swap").permutation(n_classes)[:needed].reshape(groups - 1, pairs, 2).T
    maps = np.tile(np.arange(n_classes), (groups, 1))
    swapping = np.arange(1, groups)
    maps[swapping, one], maps[swapping, other] = other, one
    return maps


def _check_groups_fit(heterogeneity: LabelPermutation | LabelSkew, groups: int, n_classes: int) -> None:
    if groups > n_classes:
        raise ValueError(
            f"groups: {type(heterogeneity).__name__} expects at most one group for each of the {n_classes} classes, "
            f"got {groups}; plant fewer groups"
        )


def _turn(angle_deg: float) -> FloatArray:
    """Return the map from a place in the turned image to its place in the image it was turned from."""
    cosine, sine = np.cos(np.deg2rad(angle_deg)), np.sin(np.deg2rad(angle_deg))
    return np.array([[cosine, sine], [-sine, cosine]])


def _warped(images: Float32Array, matrix: FloatArray, shift: FloatArray, fill: float) -> Float32Array:
    """Return the images with place p holding what was at ``matrix`` @ p + ``shift``, both seen from the centre.

    Between pixels it is interpolated linearly, so one sparse matrix does it for all images.
    """
    height, width = images.shape[1:]
    pixels = height * width
    centre = (np.array([height, width]) - 1) / 2
    origin = centre + shift - matrix @ centre
    source = matrix @ np.indices((height, width)).reshape(2, -1) + origin[:, np.newaxis]
    corner = np.floor(source).astype(np.int64)
    beyond = source - corner
    neighbours, weights = [], []
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = corner[0] + down, corner[1] + right
        is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        neighbours.append(np.where(is_inside, row * width + column, pixels))
        weights.append(np.abs(1 - down - beyond[0]) * np.abs(1 - right - beyond[1]))
    entries = (np.stack(weights, axis=1).ravel(), np.stack(neighbours, axis=1).ravel(), np.arange(pixels + 1) * 4)
    mixing = sparse.csr_array(entries, shape=(pixels, pixels + 1))
    columns = np.full((pixels + 1, len(images)), fill)  # the last row is the outside
    columns[:pixels] = images.reshape(len(images), pixels).T
    warped: Float32Array = (mixing @ columns).T.astype(np.float32).reshape(images.shape)
    return warped
