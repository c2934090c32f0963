"""Planted groups differ in what their heterogeneity says, and in nothing else."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.population.heterogeneity import (
    AffineShift,
    Heterogeneity,
    LabelPermutation,
    LabelSkew,
    LabelSwap,
    NestedConcepts,
    NoGroups,
    Rotation,
    assign_groups,
    class_shares,
    group_images,
    group_view,
    label_maps,
    relative_sizes,
)
from auxo.population.population_plan import PopulationPlan, draw_population

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


@given(n_classes=st.integers(2, 12), data=st.data(), seed=st.integers(0, 99))
def test_swapping_groups_exchange_two_classes_each_and_no_class_is_exchanged_twice(
    n_classes: int, data: st.DataObject, seed: int
) -> None:
    groups = data.draw(st.integers(1, 1 + n_classes // 2))
    maps = label_maps(LabelSwap(), groups, n_classes, seed)
    own = np.arange(n_classes)
    assert np.array_equal(maps[0], own)
    assert (maps[1:] != own).sum(axis=1).tolist() == [2] * (groups - 1)
    assert all(np.array_equal(names[names], own) for names in maps)  # exchanged twice, all is as it was
    assert ((maps != own).sum(axis=0) <= 1).all()


@given(
    branches=st.integers(2, 4), fine=st.integers(1, 3), pairs=st.integers(1, 2), data=st.data(), seed=st.integers(0, 99)
)
def test_nested_groups_differ_a_little_within_a_branch_and_much_between_branches(
    branches: int, fine: int, pairs: int, data: st.DataObject, seed: int
) -> None:
    fewest_classes = max(branches, 2 * pairs * (fine - 1))
    n_classes = data.draw(st.integers(fewest_classes, fewest_classes + 8))
    maps = label_maps(NestedConcepts(branches, pairs), branches * fine, n_classes, seed)
    assert maps[0].tolist() == list(range(n_classes))
    assert all(sorted(names) == list(range(n_classes)) for names in maps.tolist())
    for (one, names), (other, other_names) in combinations(enumerate(maps), 2):
        agreed = int((names == other_names).sum())
        swapped = sum(2 * pairs for group in (one, other) if group % fine)
        if one // fine == other // fine:
            assert agreed == n_classes - swapped
        else:
            assert agreed <= swapped


def test_what_nested_groups_exchange_is_the_same_in_every_branch() -> None:
    first, first_swapped, second, second_swapped = label_maps(NestedConcepts(), 4, 10, seed=0)
    assert np.array_equal(first != first_swapped, second != second_swapped)
    assert (first != first_swapped).sum() == 4
    assert not (first == second).any()


@pytest.mark.parametrize("heterogeneity", [LabelPermutation(), LabelSwap(), NestedConcepts()])
def test_another_seed_plants_other_names(heterogeneity: Heterogeneity) -> None:
    maps = [label_maps(heterogeneity, 4, 10, seed).tolist() for seed in (0, 0, 1)]
    assert maps[0] == maps[1] != maps[2]


@pytest.mark.parametrize(
    ("heterogeneity", "groups", "message"),
    [
        (LabelSwap(), 4, "2 classes for each group that exchanges names, which are 6, but there are 5 classes; plant"),
        (NestedConcepts(), 6, "4 classes for each group that exchanges names, which are 8, but there are 5 classes"),
        (NestedConcepts(), 3, "as many groups in each of its 2 branches.*got 3; plant a multiple of the branches"),
        (NestedConcepts(branches=6), 6, "no more branches than the 5 classes"),
    ],
)
def test_groups_whose_names_the_classes_do_not_suffice_for_are_refused(
    heterogeneity: Heterogeneity, groups: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        label_maps(heterogeneity, groups, 5, seed=0)


@pytest.mark.parametrize("heterogeneity", [Rotation(), AffineShift(), LabelSkew(), NoGroups()])
def test_only_concept_shifts_rename_classes(heterogeneity: Heterogeneity) -> None:
    assert label_maps(heterogeneity, 3, 4, seed=0).tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize(
    "heterogeneity", [Rotation(), AffineShift(), LabelPermutation(), LabelSwap(), NestedConcepts(), NoGroups()]
)
def test_only_label_skew_prefers_classes(heterogeneity: Heterogeneity) -> None:
    assert np.array_equal(class_shares(heterogeneity, 3, 4), np.full((3, 4), 0.25))


@pytest.mark.parametrize("heterogeneity", [LabelPermutation(), LabelSwap(), NestedConcepts(), LabelSkew(), NoGroups()])
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
        draw_population(plan)


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
    assert (views == IMAGES).all()
    assert group_view(AffineShift(0.0), 1, 3, seed=0) is None


def test_affine_shifts_differ_between_groups_and_grow_with_the_degree() -> None:
    digit = bar(slice(1, 7), slice(3, 5))

    def moved(degree: float) -> float:
        views = group_images(AffineShift(degree), digit, 4, seed=0)
        assert np.array_equal(views[0], digit)
        assert all(not np.allclose(one, other, atol=0.05) for one, other in combinations(views, 2))
        return float(np.abs(views[1:] - digit).mean())

    assert moved(0.1) < moved(0.4)


@pytest.mark.parametrize("degree", [0.25, 0.5, 0.75, 1.0])
def test_the_parts_of_an_affine_shift_are_between_half_of_the_degree_and_all_of_it(degree: float) -> None:
    views = [group_view(AffineShift(degree), group, 40, seed=0) for group in range(1, 40)]
    parts = np.array([(v.turn_deg / 90, v.shear / 0.5, v.log2_scale / 0.5, v.shift[0] / 0.15) for v in views if v])
    assert len(parts) == 39
    assert (np.abs(parts) >= 0.5 * degree - 1e-9).all()
    assert (np.abs(parts) <= degree + 1e-9).all()
    assert (parts < 0).any(axis=0).all()
    assert (parts > 0).any(axis=0).all()


def test_a_higher_degree_goes_further_in_the_same_direction() -> None:
    half, whole = (group_view(AffineShift(degree), 2, 3, seed=7) for degree in (0.5, 1.0))
    assert half is not None
    assert whole is not None
    assert whole.turn_deg == pytest.approx(2 * half.turn_deg)
    assert whole.shift == pytest.approx([2 * part for part in half.shift])


def test_channels_are_seen_alike_and_images_that_are_not_square_keep_their_shape() -> None:
    view = group_view(Rotation(), 1, 4, seed=0)
    assert view is not None
    colours = np.stack([IMAGES, IMAGES], axis=1)[:, :, :6]  # (5, 2, 6, 8)
    seen = view.images(colours)
    assert seen.shape == colours.shape
    assert np.array_equal(seen[:, 0], seen[:, 1])
    around = np.rot90(colours[:, 0, :, 1:7], axes=(1, 2))  # what of a quarter turn stays inside
    assert np.allclose(seen[:, 0, :, 1:7], around, atol=1e-5)


def test_half_a_turn_of_images_that_are_not_square_is_exact() -> None:
    view = group_view(Rotation(), 1, 2, seed=0)
    assert view is not None
    assert np.array_equal(view.images(IMAGES[:, :6]), IMAGES[:, 5::-1, ::-1])


def test_what_comes_in_from_outside_is_the_fill() -> None:
    view = group_view(AffineShift(1.0), 1, 2, seed=0)
    assert view is not None
    plain = np.full((2, 8, 8), 0.7, np.float32)
    assert np.allclose(view.images(plain, fill=0.7), plain)
    assert not np.allclose(view.images(plain), plain)


@given(features=st.integers(2, 12), turns=st.integers(2, 6), seed=st.integers(0, 9))
def test_vectors_turned_by_one_group_after_another_come_around(features: int, turns: int, seed: int) -> None:
    view = group_view(Rotation(), 1, turns, seed)
    assert view is not None
    start = stream(seed, "test-vectors").standard_normal((4, features), dtype=np.float32)
    vectors = start
    for _ in range(turns):
        vectors = view.vectors(vectors, centre=0.5)
    assert np.allclose(vectors, start, atol=1e-4)


def test_a_shift_moves_vectors_by_at_most_half_a_deviation() -> None:
    view = group_view(AffineShift(1.0), 1, 2, seed=0)
    assert view is not None
    moved = view.vectors(np.full((1, 9), 3.0, np.float32), centre=3.0, deviation=2.0) - 3.0
    assert (np.abs(moved) > 0.49).all()
    assert (np.abs(moved) < 1.01).all()
    assert set(np.sign(moved).ravel().tolist()) == {-1.0, 1.0}


@given(clients=st.integers(6, 60), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3), seed=st.integers(0, 9))
def test_groups_have_as_many_clients_as_their_sizes_say(clients: int, sizes: list[int], seed: int) -> None:
    groups = assign_groups(clients, tuple(map(float, sizes)), seed)
    exact = clients * np.array(sizes) / sum(sizes)
    assert (np.abs(np.bincount(groups, minlength=len(sizes)) - exact) < 1).all()


def test_groups_are_the_ones_that_planted_populations_have() -> None:
    plan = PopulationPlan(50, (2.0, 1.0, 1.0), LabelSkew(), 4, (1, 2), 1, client_label_concentration=None, seed=3)
    assert draw_population(plan).groups.tolist() == assign_groups(50, (2.0, 1.0, 1.0), seed=3).tolist()


def test_no_groups_are_one_group_whatever_their_number() -> None:
    assert relative_sizes(NoGroups(), 4) == (1.0,)
    assert relative_sizes(Rotation(), 3) == (1.0, 1.0, 1.0)
    assert relative_sizes(Rotation(), (2.0, 1.0)) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AffineShift(1.5), "degree: expected a value in"),
        (lambda: AffineShift(float("nan")), "degree: expected a value in"),
        (lambda: LabelSkew(concentration=-0.1), "concentration: expected a value"),
        (lambda: NestedConcepts(branches=1), "branches: expected at least 2, got 1; without branches"),
        (lambda: NestedConcepts(pairs=0), "pairs: expected at least 1, got 0; without pairs"),
        (lambda: LabelSkew(overlap=-1), "overlap: expected at least 0"),
    ],
)
def test_values_out_of_range_are_refused(make: type[Heterogeneity], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
