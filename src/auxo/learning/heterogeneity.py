"""What planted groups of clients differ in: their images, their labels, or which classes they hold."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from scipy import ndimage

from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray, IntArray

# How far an affine map of degree 1 goes. Our own choices: on 8x8 images more than this loses the digit.
_MAX_TURN_DEG = 90.0
_MAX_SHEAR = 0.5
_MAX_LOG2_SCALE = 0.5
_MAX_SHIFT = 0.15  # of the image's side


@dataclass(frozen=True)
class Rotation:
    """Group g of G sees its images turned counterclockwise by g * 360 / G degrees."""


@dataclass(frozen=True)
class AffineShift:
    """Every group but the first sees its images through its own affine map: turned, sheared, scaled, and moved.

    ``degree`` is the strength in [0, 1]; 0 leaves all groups alike. Each part of a map has a random sign and between
    half of its strength and all of it, so that no group stays close to the unchanged images.
    """

    degree: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.degree <= 1:
            raise ValueError(f"degree: expected a value in [0, 1], got {self.degree}")


@dataclass(frozen=True)
class LabelPermutation:
    """Concept shift: each group names the classes by a permutation of its own, and no two agree on any class.

    Group 0 keeps the names. There can be no more groups than classes.
    """


@dataclass(frozen=True)
class LabelSkew:
    """Each group mostly holds its own block of classes; the blocks overlap.

    ``concentration`` is the share of a group's samples that come from its own block, the rest comes from all classes
    alike. A block is an even share of the classes and ``overlap`` more, which are its neighbour's too. There can be
    no more groups than classes. The defaults are our own choice.
    """

    concentration: float = 0.9
    overlap: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.concentration <= 1:
            raise ValueError(f"concentration: expected a share in [0, 1], got {self.concentration}")
        if self.overlap < 0:
            raise ValueError(f"overlap: expected a number of classes >= 0, got {self.overlap}")


@dataclass(frozen=True)
class NoGroups:
    """All clients are of one group."""


Heterogeneity = Rotation | AffineShift | LabelPermutation | LabelSkew | NoGroups


def group_images(heterogeneity: Heterogeneity, images: Float32Array, groups: int, seed: int) -> Float32Array:
    """Return the images (n, side, side) as each group sees them: (views, n, side, side).

    There is one view for each group when the groups differ in their images, and a single one when they do not. What a
    map moves in from outside an image is 0.
    """
    match heterogeneity:
        case Rotation():
            return np.stack([_turned(images, 360.0 * group / groups) for group in range(groups)])
        case AffineShift(degree):
            maps = (_random_affine(degree, stream(seed, "affine-shift", group)) for group in range(1, groups))
            side = images.shape[1]
            return np.stack([images, *(_warped(images, matrix, side * shift) for matrix, shift in maps)])
        case LabelPermutation() | LabelSkew() | NoGroups():
            return images[np.newaxis]
        case _:
            assert_never(heterogeneity)


def label_maps(heterogeneity: Heterogeneity, groups: int, n_classes: int, seed: int) -> IntArray:
    """Return the label that each group gives each class: (groups, classes).

    >>> maps = label_maps(LabelPermutation(), groups=3, n_classes=10, seed=0)
    >>> [len(set(names)) for names in maps.T.tolist()] == [3] * 10
    True
    """
    own_names = np.arange(n_classes)
    if not isinstance(heterogeneity, LabelPermutation):
        return np.tile(own_names, (groups, 1))
    _check_groups_fit(heterogeneity, groups, n_classes)
    # Shifts along one random cycle through all classes: two different shifts never meet.
    cycle = stream(seed, "label-permutation").permutation(n_classes)
    place = np.argsort(cycle)
    maps: IntArray = cycle[(place + np.arange(groups)[:, np.newaxis]) % n_classes]
    return maps


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


def _check_groups_fit(heterogeneity: LabelPermutation | LabelSkew, groups: int, n_classes: int) -> None:
    if groups > n_classes:
        raise ValueError(
            f"groups: {type(heterogeneity).__name__} expects at most one group for each of the {n_classes} classes, "
            f"got {groups}; plant fewer groups"
        )


def _turned(images: Float32Array, angle_deg: float) -> Float32Array:
    quarters, rest = divmod(angle_deg, 90.0)
    if rest == 0:  # exact: interpolation would blur what only changes places
        return np.rot90(images, int(quarters), axes=(1, 2))
    return _warped(images, _turn(angle_deg), np.zeros(2))


def _turn(angle_deg: float) -> FloatArray:
    """Return the map from a place in the turned image to its place in the image it was turned from."""
    cosine, sine = np.cos(np.deg2rad(angle_deg)), np.sin(np.deg2rad(angle_deg))
    return np.array([[cosine, sine], [-sine, cosine]])


def _random_affine(degree: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    turn, shear, scale, *shift = degree * rng.uniform(0.5, 1.0, size=5) * rng.choice([-1.0, 1.0], size=5)
    sheared = np.array([[1.0, _MAX_SHEAR * shear], [0.0, 1.0]])
    matrix = _turn(_MAX_TURN_DEG * turn) @ sheared * 2.0 ** (_MAX_LOG2_SCALE * scale)
    return matrix, _MAX_SHIFT * np.array(shift)


def _warped(images: Float32Array, matrix: FloatArray, shift: FloatArray) -> Float32Array:
    """Return the images with place p holding what was at ``matrix`` @ p + ``shift``, both seen from the centre."""
    centre = (np.array(images.shape[1:]) - 1) / 2
    over_stack = np.eye(3)
    over_stack[1:, 1:] = matrix
    offset = np.concatenate([[0.0], centre + shift - matrix @ centre])
    warped: Float32Array = ndimage.affine_transform(images, over_stack, offset, order=1, mode="grid-constant")
    return warped
