"""Planted groups differ in what their heterogeneity says, and in nothing else."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.learning.assemble import PopulationPlan, plant
from auxo.learning.heterogeneity import (
    AffineShift,
    Heterogeneity,
    LabelPermutation,
    LabelSkew,
    NoGroups,
    Rotation,
    class_shares,
    group_images,
    label_maps,
)

IMAGES = stream(0, "test-images").random((5, 8, 8), dtype=np.float32)


def bar(rows: slice, columns: slice) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    image = np.zeros((1, 8, 8), dtype=np.float32)
    image[0, rows, columns] = 1
    return image


@given(n_classes=st.integers(2, 12), data=st.data(), seed=st.integers(0, 99))
def test_any_two_groups_disagree_on_the_name_of_every_class(n_classes: int, data: st.DataObject, seed: int) -> None:
    groups = data.draw(st.integers(1, n_classes))
    maps = label_maps(LabelPermutation(), groups, n_classes, seed)
    assert maps[0].tolist() == list(range(n_classes))
    assert all(sorted(names) == list(range(n_classes)) for names in maps.tolist())
    assert not any((one == other).any() for one, other in combinations(maps, 2))


def test_another_seed_plants_other_permutations() -> None:
    maps = [label_maps(LabelPermutation(), 4, 10, seed).tolist() for seed in (0, 0, 1)]
    assert maps[0] == maps[1] != maps[2]


@pytest.mark.parametrize("heterogeneity", [Rotation(), AffineShift(), LabelSkew(), NoGroups()])
def test_only_label_permutation_renames_classes(heterogeneity: Heterogeneity) -> None:
    assert label_maps(heterogeneity, 3, 4, seed=0).tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize("heterogeneity", [Rotation(), AffineShift(), LabelPermutation(), NoGroups()])
def test_only_label_skew_prefers_classes(heterogeneity: Heterogeneity) -> None:
    assert np.array_equal(class_shares(heterogeneity, 3, 4), np.full((3, 4), 0.25))


@pytest.mark.parametrize("heterogeneity", [LabelPermutation(), LabelSkew(), NoGroups()])
def test_groups_that_differ_in_labels_share_one_view_of_the_images(heterogeneity: Heterogeneity) -> None:
    assert np.array_equal(group_images(heterogeneity, IMAGES, 4, seed=0), IMAGES[np.newaxis])


@given(
    concentration=st.floats(0, 1),
    overlap=st.integers(0, 3),
    n_classes=st.integers(2, 12),
    data=st.data(),
)
def test_shares_of_classes_sum_to_one_and_own_classes_get_the_concentration(
    concentration: float, overlap: int, n_classes: int, data: st.DataObject
) -> None:
    groups = data.draw(st.integers(1, n_classes))
    shares = class_shares(LabelSkew(concentration, overlap), groups, n_classes)
    width = min(n_classes, -(-n_classes // groups) + overlap)
    assert np.allclose(shares.sum(axis=1), 1)
    own_block = np.sort(shares, axis=1)[:, ::-1][:, :width].sum(axis=1)
    assert np.allclose(own_block, concentration + (1 - concentration) * width / n_classes)
    assert (shares.max(axis=0) >= (concentration / width)).all()  # every class is somebody's own


def test_neighbouring_groups_share_a_class_and_distant_ones_do_not() -> None:
    own = class_shares(LabelSkew(concentration=0.9, overlap=1), groups=4, n_classes=10) > 0.1
    assert own.sum(axis=1).tolist() == [4, 4, 4, 4]
    assert (own[0] & own[1]).any()
    assert not (own[0] & own[2]).any()


@pytest.mark.parametrize("heterogeneity", [LabelPermutation(), LabelSkew()])
def test_more_groups_than_classes_are_refused(heterogeneity: LabelPermutation | LabelSkew) -> None:
    plan = PopulationPlan(100, 4, heterogeneity, 3, (1, 2), 1, client_label_concentration=None, seed=0)
    with pytest.raises(ValueError, match="at most one group for each of the 3 classes, got 4"):
        plant(plan)


def test_four_rotated_groups_see_quarter_turns_exactly() -> None:
    views = group_images(Rotation(), IMAGES, 4, seed=0)
    for group in range(4):
        assert np.array_equal(views[group], np.rot90(IMAGES, group, axes=(1, 2)))


def test_turns_between_quarters_go_the_same_way_as_quarters() -> None:
    diagonal = np.eye(8, dtype=np.float32)[np.newaxis]  # from top left to bottom right
    views = group_images(Rotation(), diagonal, 8, seed=0)
    level, rising = views[1, 0], views[2, 0]
    assert level[3:5].sum() > 0.9 * level.sum()
    assert np.array_equal(rising, np.fliplr(diagonal[0]))
    right = group_images(Rotation(), bar(slice(3, 5), slice(5, 8)), 12, seed=0)[1, 0]  # turned by 30 degrees
    assert right[:4].sum() > right[4:].sum()  # upwards


def test_an_affine_shift_of_degree_zero_changes_nothing() -> None:
    views = group_images(AffineShift(0.0), IMAGES, 3, seed=0)
    assert np.allclose(views, IMAGES[np.newaxis], atol=1e-6)


def test_affine_shifts_differ_between_groups_and_grow_with_the_degree() -> None:
    digit = bar(slice(1, 7), slice(3, 5))

    def moved(degree: float) -> float:
        views = group_images(AffineShift(degree), digit, 4, seed=0)
        assert np.array_equal(views[0], digit)
        assert all(not np.allclose(one, other, atol=0.05) for one, other in combinations(views, 2))
        return float(np.abs(views[1:] - digit).mean())

    assert moved(0.1) < moved(0.4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AffineShift(1.5), "degree: expected a value in"),
        (lambda: AffineShift(float("nan")), "degree: expected a value in"),
        (lambda: LabelSkew(concentration=-0.1), "concentration: expected a share"),
        (lambda: LabelSkew(overlap=-1), "overlap: expected a number of classes"),
    ],
)
def test_values_out_of_range_are_refused(make: type[Heterogeneity], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
