"""Planting groups in populations that have clients of their own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray
from auxo.population.digits import digits_population
from auxo.population.federated_data import FederatedData, Samples, Scaling, StoredInputs
from auxo.population.heterogeneity import (
    AffineShift,
    ConceptShift,
    Heterogeneity,
    LabelPermutation,
    LabelSkew,
    LabelSwap,
    NestedConcepts,
    NoGroups,
    Rotation,
    class_shares,
    group_view,
    label_maps,
)
from auxo.population.planting import deal_out, inputs_are_images, plant_groups

KINDS: list[Heterogeneity] = [Rotation(), AffineShift(0.5), LabelPermutation(), LabelSwap(), LabelSkew(), NoGroups()]
VIEWS: list[Heterogeneity] = [Rotation(), AffineShift(0.5)]


def population(x: StoredInputs, clients: int = 6, n_classes: int = 4, seed: int = 0) -> FederatedData:
    """Return clients who share the rows of x out among each other, a third of them for testing."""
    rng = stream(seed, "test-planting")
    owner = np.sort(
        np.concatenate([np.repeat(np.arange(clients), 2), rng.integers(clients, size=len(x) - 2 * clients)])
    )
    rows = rng.permutation(len(x))
    is_test = rng.random(len(x)) < 1 / 3
    first = np.searchsorted(owner, np.arange(clients))
    is_test[first], is_test[first + 1] = True, False  # everybody has both
    y = rng.integers(n_classes, size=len(x))

    def split(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Samples:
        counts = np.bincount(owner[chosen], minlength=clients)
        return Samples(rows[chosen], y[chosen], np.concatenate([[0], np.cumsum(counts)]))

    names = tuple(f"writer {client}" for client in range(clients))
    return FederatedData("toy", x, split(~is_test), split(is_test), n_classes, names)


def numbers(*shape: int, seed: int = 0) -> StoredInputs:
    return stream(seed, "test-planting", "x").random(shape, dtype=np.float32)


def levels(*shape: int, seed: int = 0) -> StoredInputs:
    return stream(seed, "test-planting", "x").integers(256, size=shape, dtype=np.uint8)


def groups_of(data: FederatedData) -> IntArray:
    assert data.groups is not None
    return data.groups


def everything(data: FederatedData) -> list[list[object]]:
    splits = [column.tolist() for part in (data.train, data.test) for column in (part.y, part.offsets)]
    rows = np.concatenate([data.train.x_rows, data.test.x_rows])
    return [*splits, data.inputs(rows).tolist(), groups_of(data).tolist(), [str(data.x.dtype)]]


@pytest.mark.parametrize("heterogeneity", KINDS[:-1])
@pytest.mark.parametrize("deal", [False, True])
def test_the_same_seed_plants_the_same_and_another_one_something_else(heterogeneity: Heterogeneity, deal: bool) -> None:
    data = population(numbers(200, 6, 6), clients=40)
    first, again, other = (everything(plant_groups(data, heterogeneity, 2, seed, deal=deal)) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_groups_are_drawn_without_a_look_at_the_data() -> None:
    one = population(numbers(60, 8), clients=20, n_classes=3)
    another = population(levels(90, 5, 5, seed=1), clients=20, n_classes=9, seed=1)
    groups = {
        tuple(groups_of(plant_groups(data, heterogeneity, (3, 1), seed=5)).tolist())
        for data in (one, another)
        for heterogeneity in KINDS[:-1]
    }
    (only,) = groups
    assert np.bincount(only).tolist() == [15, 5]


def test_planted_groups_take_the_place_of_natural_ones() -> None:
    natural = replace(population(numbers(60, 8), clients=20), groups=np.arange(20))
    assert set(groups_of(plant_groups(natural, LabelPermutation(), 2, seed=0)).tolist()) == {0, 1}


@pytest.mark.parametrize("features", [(9,), (5, 5), (2, 5, 4)])
def test_a_degree_of_zero_changes_nothing(features: tuple[int, ...]) -> None:
    data = population(numbers(60, *features))
    planted = plant_groups(data, AffineShift(0.0), 3, seed=0)
    assert planted.x is data.x
    assert planted.train is data.train
    assert planted.test is data.test


def test_no_groups_leave_the_population_as_it_is() -> None:
    data = replace(population(numbers(60, 8)), groups=np.arange(6))
    assert plant_groups(data, NoGroups(), 4, seed=0) is data


@pytest.mark.parametrize("heterogeneity", [*VIEWS, LabelPermutation(), LabelSwap()])
@pytest.mark.parametrize("x", [numbers(60, 6, 6), levels(60, 6, 6), numbers(60, 7)], ids=["numbers", "levels", "flat"])
def test_training_and_test_samples_of_a_client_are_changed_alike(heterogeneity: Heterogeneity, x: StoredInputs) -> None:
    data = population(x)
    data = replace(data, test=data.train)  # the same samples: what differs afterwards was changed differently
    planted = plant_groups(data, heterogeneity, 3, seed=0)
    assert np.array_equal(planted.inputs(planted.train.x_rows), planted.inputs(planted.test.x_rows))
    assert np.array_equal(planted.train.y, planted.test.y)


@settings(max_examples=25)
@given(
    heterogeneity=st.sampled_from(KINDS),
    features=st.sampled_from([(4,), (9,), (3, 3), (4, 3), (2, 3, 4)]),
    clients=st.integers(3, 8),
    groups=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_every_client_has_its_own_samples_as_its_group_sees_them(
    heterogeneity: Heterogeneity, features: tuple[int, ...], clients: int, groups: int, seed: int
) -> None:
    data = population(numbers(40, *features, seed=seed), clients, seed=seed)
    before = data.x.copy()
    planted = plant_groups(data, heterogeneity, groups, seed)

    assert np.array_equal(data.x, before)
    assert planted.client_names == data.client_names
    n_groups = 1 if isinstance(heterogeneity, NoGroups) else groups
    names = label_maps(heterogeneity, n_groups, data.n_classes, seed)
    for client in range(clients):
        group = 0 if planted.groups is None else int(planted.groups[client])
        for was, now in ((data.train, planted.train), (data.test, planted.test)):
            old, new = data.x[was.x_rows[was.of(client)]], planted.x[now.x_rows[now.of(client)]]
            labels = names[group, was.y[was.of(client)]]
            if isinstance(heterogeneity, LabelSkew):
                kept = np.isin(was.x_rows[was.of(client)], now.x_rows[now.of(client)])
                assert kept.sum() == len(new) >= min(2, len(old))
                old, labels = old[kept], labels[kept]
            assert np.array_equal(now.y[now.of(client)], labels)
            if group_view(heterogeneity, group, n_groups, seed) is None:
                assert np.array_equal(new, old)
            else:
                assert len(new) == len(old)
                assert not np.allclose(new, old)


@pytest.mark.parametrize("heterogeneity", VIEWS)
@pytest.mark.parametrize("features", [(8, 8), (3, 8, 8), (3, 6, 8), (64,)])
def test_images_are_seen_as_group_views_say(heterogeneity: Heterogeneity, features: tuple[int, ...]) -> None:
    x = np.zeros((60, *features), np.float32)
    image = x.reshape(60, -1, *(features[-2:] if len(features) > 1 else (8, 8)))
    image[..., 2:4, 2:7] = numbers(60, 1, 1, 1)  # a bar on an empty ground
    data = population(x)
    planted = plant_groups(data, heterogeneity, 3, seed=4)
    group = np.repeat(groups_of(planted), planted.train.counts())
    for number in (1, 2):
        view = group_view(heterogeneity, number, 3, seed=4)
        assert view is not None
        expected = view.images(image[data.train.x_rows[group == number]])
        seen = planted.x[planted.train.x_rows[group == number]]
        assert np.array_equal(seen, expected.reshape(seen.shape))


def test_levels_stay_levels_and_are_those_of_the_numbers_but_for_rounding() -> None:
    stored = levels(60, 7, 7)
    as_levels = plant_groups(population(stored), AffineShift(0.7), 3, seed=1)
    as_numbers = plant_groups(population(stored.astype(np.float32)), AffineShift(0.7), 3, seed=1)
    assert as_levels.x.dtype == np.uint8
    assert np.abs(as_levels.x.astype(np.float32) - as_numbers.x).max() <= 0.501


def test_what_comes_in_from_outside_is_what_is_usual_at_the_border() -> None:
    paper = np.full((60, 8, 8), 255, np.uint8)
    paper[:, 3:5, 2:6] = 0  # dark ink on white
    planted = plant_groups(population(paper), AffineShift(1.0), 3, seed=0)
    corners = planted.x[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert (corners == 255).all()


@pytest.mark.parametrize("heterogeneity", VIEWS)
@pytest.mark.parametrize("x", [numbers(60, 6, 6), levels(60, 6, 6), numbers(60, 7), levels(60, 7)])
def test_what_is_scaled_when_it_is_read_is_changed_as_if_it_had_been_scaled_before(
    heterogeneity: Heterogeneity, x: StoredInputs
) -> None:
    data = population(x)
    scaling = Scaling(0.3, 0.2)
    later = plant_groups(replace(data, scaling=scaling), heterogeneity, 3, seed=2)
    scaled = (data.inputs(np.arange(60)) - np.float32(0.3)) / np.float32(0.2)
    before = plant_groups(replace(data, x=scaled.astype(np.float32)), heterogeneity, 3, seed=2)
    assert later.scaling == scaling
    a_level = 0.51 / 255 / 0.2
    assert np.allclose(later.inputs(later.train.x_rows), before.inputs(before.train.x_rows), atol=a_level)


def test_vectors_are_turned_by_the_angle_of_their_group_and_keep_their_lengths() -> None:
    data = population(stream(0, "test-vectors").standard_normal((90, 10), dtype=np.float32))
    planted = plant_groups(data, Rotation(), 3, seed=0)
    group = np.repeat(groups_of(planted), planted.train.counts())
    was, now = data.x[data.train.x_rows], planted.x[planted.train.x_rows]
    cosine = (was * now).sum(axis=1) / np.linalg.norm(was, axis=1) / np.linalg.norm(now, axis=1)
    assert np.allclose(np.linalg.norm(was, axis=1), np.linalg.norm(now, axis=1), atol=1e-5)
    assert np.allclose(cosine[group == 0], 1, atol=1e-5)
    assert np.allclose(cosine[group > 0], -0.5, atol=1e-5)  # of 120 and 240 degrees


def test_vectors_move_further_with_the_degree_of_an_affine_shift() -> None:
    data = population(stream(0, "test-vectors").standard_normal((90, 11), dtype=np.float32))

    def moved(degree: float) -> float:
        planted = plant_groups(data, AffineShift(degree), 3, seed=0)
        return float(np.abs(planted.x[planted.train.x_rows] - data.x[data.train.x_rows]).mean())

    distances = [moved(degree) for degree in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert distances[0] == 0
    assert distances == sorted(set(distances))


def test_levels_that_are_no_image_become_numbers_from_0_to_1() -> None:
    data = population(levels(60, 7))
    planted = plant_groups(data, Rotation(), 2, seed=0)
    unchanged = np.repeat(groups_of(planted), planted.train.counts()) == 0
    assert planted.x.dtype == np.float32
    was, now = data.inputs(data.train.x_rows), planted.inputs(planted.train.x_rows)
    assert np.array_equal(now[unchanged], was[unchanged])


def test_flat_inputs_are_images_if_neighbours_are_alike() -> None:
    assert inputs_are_images(digits_population(clients=8, heterogeneity=NoGroups()))
    words = (stream(0, "test-words").random((200, 64)) < 0.05).astype(np.float32)
    assert not inputs_are_images(population(words))
    assert not inputs_are_images(population(numbers(60, 63)))
    assert not inputs_are_images(population(np.zeros((60, 64), np.float32)))
    assert inputs_are_images(population(numbers(60, 3, 4)))


@pytest.mark.parametrize("heterogeneity", VIEWS)
def test_tokens_cannot_be_turned(heterogeneity: Heterogeneity) -> None:
    tokens = np.arange(600, dtype=np.int32).reshape(60, 10)
    with pytest.raises(ValueError, match=r"plant: \w+ expects inputs that are numbers.*tokens of a text"):
        plant_groups(population(tokens), heterogeneity, 2, seed=0)


@pytest.mark.parametrize("heterogeneity", [LabelPermutation(), LabelSwap(), NestedConcepts(), LabelSkew()])
def test_labels_are_planted_without_touching_inputs_of_any_kind(heterogeneity: Heterogeneity, tmp_path: Path) -> None:
    file = tmp_path / "tokens.npy"
    np.save(file, np.arange(600, dtype=np.int32).reshape(60, 10))
    mapped = np.load(file, mmap_mode="r")
    data = population(mapped)
    assert plant_groups(data, heterogeneity, 2, seed=0).x is mapped


def test_maps_of_files_are_read_and_a_large_result_is_a_map_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "images.npy"
    np.save(file, levels(60, 5, 5))
    data = population(np.load(file, mmap_mode="r"))
    small = plant_groups(data, AffineShift(), 3, seed=0)
    monkeypatch.setattr("auxo.population.planting._IN_MEMORY", 0)
    monkeypatch.setattr("auxo.population.planting._CHANGED_AT_ONCE", 400)  # bytes: four images at a time
    large = plant_groups(data, AffineShift(), 3, seed=0)
    assert isinstance(large.x, np.memmap)
    assert not isinstance(small.x, np.memmap)
    assert everything(large) == everything(small)


def test_an_input_that_several_groups_use_is_kept_once_for_each_and_an_unused_one_not_at_all() -> None:
    x = numbers(10, 4, 4)
    rows = np.array([0, 1, 1, 2])
    samples = Samples(rows, np.zeros(4, dtype=np.int64), np.arange(5))  # four clients; row 1 is two clients'
    data = FederatedData("shared", x, samples, samples, 2, ("a", "b", "c", "d"))
    populations = (plant_groups(data, Rotation(), 2, seed) for seed in range(99))
    planted = next(planted for planted in populations if groups_of(planted)[1:3].tolist() == [0, 1])
    assert len(planted.x) == 4
    assert np.array_equal(planted.x[planted.train.x_rows[1]], x[1])
    assert np.array_equal(planted.x[planted.train.x_rows[2]], x[1, ::-1, ::-1])


def fitted(x: FloatArray, y: IntArray) -> FloatArray:
    """Return the weights of a linear model, by ridge regression."""
    x = np.column_stack([x, np.ones(len(x))])
    return np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ np.eye(10)[y]).astype(np.float64)


def test_a_linear_model_of_one_group_serves_others_worse_the_higher_the_degree() -> None:
    natural = digits_population(clients=80, heterogeneity=NoGroups(), samples=(40, 40))

    def accuracies(degree: float) -> tuple[float, float]:
        data = plant_groups(natural, AffineShift(degree), 2, seed=3)
        in_own = np.repeat(groups_of(data) == 0, data.train.counts())
        weights = fitted(data.inputs(data.train.x_rows[in_own]).astype(np.float64), data.train.y[in_own])
        x = data.inputs(data.test.x_rows).astype(np.float64)
        is_right = np.column_stack([x, np.ones(len(x))]).dot(weights).argmax(axis=1) == data.test.y
        is_own = np.repeat(groups_of(data) == 0, data.test.counts())
        return float(is_right[is_own].mean()), float(is_right[~is_own].mean())

    own, others = zip(*(accuracies(degree) for degree in (0.0, 0.25, 0.5, 1.0)), strict=True)
    assert min(own) > 0.85
    assert others[0] > 0.85
    assert others[0] > others[1] > others[2] > others[3]
    assert others[3] < 0.5


@pytest.mark.parametrize(("groups", "share"), [(2, 0.625), (4, 0.426), (10, 0.217)])
def test_label_skew_leaves_the_share_of_balanced_samples_that_is_documented(groups: int, share: float) -> None:
    natural = digits_population(clients=200, heterogeneity=NoGroups(), samples=(50, 50))
    planted = plant_groups(natural, LabelSkew(), groups, seed=0)
    assert len(planted.train.y) / len(natural.train.y) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("deal", [False, True])
def test_labels_follow_the_shares_of_the_group_in_both_splits(deal: bool) -> None:
    natural = digits_population(clients=400, heterogeneity=NoGroups(), samples=(40, 40))
    skew = LabelSkew(overlap=0)  # so that dealing need not share a class out between two groups that both want it
    planted = plant_groups(natural, skew, 2, seed=0, deal=deal)
    shares = class_shares(skew, 2, 10)
    for samples in (planted.train, planted.test):
        of_group = np.repeat(groups_of(planted), samples.counts())
        for group in (0, 1):
            got = np.bincount(samples.y[of_group == group], minlength=10) / (of_group == group).sum()
            assert np.abs(got - shares[group]).max() < 0.03


def test_label_skew_leaves_everybody_two_samples_even_of_classes_their_group_does_not_hold() -> None:
    data = population(numbers(100, 5), clients=10, n_classes=2)
    only_ones = replace(data, train=replace(data.train, y=np.ones_like(data.train.y)))
    planted = plant_groups(only_ones, LabelSkew(concentration=1.0, overlap=0), 2, seed=0)
    counts = planted.train.counts()
    own = groups_of(planted) == 1
    assert (counts[own] == data.train.counts()[own]).all()
    assert (counts[~own] == np.minimum(2, data.train.counts()[~own])).all()


@settings(max_examples=20)
@given(
    heterogeneity=st.sampled_from(KINDS), clients=st.integers(3, 9), groups=st.integers(1, 3), seed=st.integers(0, 9)
)
def test_dealing_gives_every_sample_of_a_split_to_one_client_and_clients_keep_their_sizes(
    heterogeneity: Heterogeneity, clients: int, groups: int, seed: int
) -> None:
    data = population(numbers(50, 3, 3, seed=seed), clients, seed=seed)
    planted = plant_groups(data, heterogeneity, groups, seed, deal=True)
    for was, now in ((data.train, planted.train), (data.test, planted.test)):
        assert np.array_equal(was.offsets, now.offsets)
        if not isinstance(heterogeneity, Rotation | AffineShift):
            assert np.array_equal(np.sort(was.x_rows), np.sort(now.x_rows))
        if not isinstance(heterogeneity, ConceptShift):
            assert np.array_equal(np.bincount(was.y, minlength=4), np.bincount(now.y, minlength=4))


def test_dealing_without_label_skew_gives_all_groups_the_same_classes() -> None:
    natural = digits_population(clients=300, heterogeneity=LabelSkew(), groups=3, samples=(30, 30))
    planted = plant_groups(natural, AffineShift(0.1), 2, seed=0, deal=True)
    of_group = np.repeat(groups_of(planted), planted.train.counts())
    one, other = (np.bincount(planted.train.y[of_group == group]) / (of_group == group).sum() for group in (0, 1))
    assert np.abs(one - other).max() < 0.01


@settings(max_examples=40)
@given(
    y=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=8),
    weights=st.lists(st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=4, max_size=4), min_size=3, max_size=3),
    seed=st.integers(0, 99),
)
def test_nobody_is_dealt_a_sample_twice_whatever_is_wanted(
    y: list[int], sizes: list[int], weights: list[list[float]], seed: int
) -> None:
    classes = np.array(y)
    wanted = np.array(sizes)
    while wanted.sum() > len(classes):
        wanted = wanted // 2
    shares = np.array(weights) + np.array([1.0, 0, 0, 0])
    shares /= shares.sum(axis=1, keepdims=True)
    groups = np.arange(len(wanted)) % 3
    dealt = deal_out(classes, wanted, groups, shares, stream(seed, "test-deal"))
    assert len(dealt) == wanted.sum()
    assert len(set(dealt.tolist())) == len(dealt)


def test_shares_are_met_exactly_while_there_are_samples_left_over() -> None:
    y = np.repeat([0, 1, 2], 100)
    shares = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    dealt = deal_out(y, np.array([40, 40]), np.array([0, 1]), shares, stream(0, "test-deal"))
    assert np.bincount(y[dealt[:40]], minlength=3).tolist() == [20, 20, 0]
    assert np.bincount(y[dealt[40:]], minlength=3).tolist() == [0, 10, 30]


@pytest.mark.parametrize(
    ("heterogeneity", "groups", "message"),
    [
        (Rotation(), 0, "groups: expected a number >= 1"),
        (Rotation(), (1.0, -1.0), "groups: expected a number >= 1"),
        (Rotation(), 7, "of 6 clients group 6 would get none"),
        (NestedConcepts(), 3, "as many groups in each of its 2 branches"),
        (LabelSwap(), 4, "but there are 4 classes; plant fewer groups"),
        (LabelSkew(), 5, "at most one group for each of the 4 classes, got 5"),
    ],
)
def test_groups_that_cannot_be_planted_are_refused(
    heterogeneity: Heterogeneity, groups: tuple[float, ...] | int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plant_groups(population(numbers(60, 8)), heterogeneity, groups, seed=0)
