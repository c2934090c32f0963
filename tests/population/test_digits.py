"""The digits population: planted groups over images that are split before clients are made."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from auxo.core.types import BoolArray, IntArray
from auxo.population import digits
from auxo.population.digits import digits_population
from auxo.population.federated_data import FederatedData, Samples
from auxo.population.heterogeneity import (
    AffineShift,
    Heterogeneity,
    LabelPermutation,
    LabelSkew,
    LabelSwap,
    NestedConcepts,
    NoGroups,
    Rotation,
)

EVERY_KIND = [
    Rotation(),
    AffineShift(),
    LabelPermutation(),
    LabelSwap(),
    NestedConcepts(),
    LabelSkew(),
    NoGroups(),
]
N_IMAGES = 1797


def owner_groups(data: FederatedData, samples: Samples) -> IntArray:
    assert data.groups is not None
    return np.repeat(data.groups, samples.counts())


def accuracy(data: FederatedData, train: BoolArray, test: BoolArray) -> float:
    model = LogisticRegression(max_iter=50, tol=1e-2)
    model.fit(data.x[data.train.x_rows[train]][:4000], data.train.y[train][:4000])
    return float(np.mean(model.predict(data.x[data.test.x_rows[test]]) == data.test.y[test]))


@pytest.mark.parametrize("heterogeneity", EVERY_KIND, ids=lambda kind: type(kind).__name__)
class TestEveryKind:
    def test_no_image_is_both_trained_on_and_tested(self, heterogeneity: Heterogeneity) -> None:
        data = digits_population(clients=100, heterogeneity=heterogeneity)
        assert not set(data.train.x_rows % N_IMAGES) & set(data.test.x_rows % N_IMAGES)

    def test_same_seed_gives_same_bits_and_another_seed_others(self, heterogeneity: Heterogeneity) -> None:
        one, same, other = (digits_population(clients=40, heterogeneity=heterogeneity, seed=seed) for seed in (3, 3, 4))
        for left, right in ((one.train, same.train), (one.test, same.test)):
            assert np.array_equal(left.x_rows, right.x_rows)
            assert np.array_equal(left.y, right.y)
            assert np.array_equal(left.offsets, right.offsets)
        assert np.array_equal(one.x, same.x)
        assert one.train.x_rows.tolist() != other.train.x_rows.tolist()

    def test_inputs_are_flat_float32_around_zero(self, heterogeneity: Heterogeneity) -> None:
        data = digits_population(clients=40, heterogeneity=heterogeneity)
        assert data.x.dtype == np.float32
        assert data.x.shape[1:] == (64,)
        assert abs(data.x[data.train.x_rows].mean()) < 0.1
        assert data.x[data.train.x_rows].std() == pytest.approx(1, abs=0.15)

    def test_a_client_holds_no_image_twice(self, heterogeneity: Heterogeneity) -> None:
        data = digits_population(clients=40, heterogeneity=heterogeneity)
        for samples in (data.train, data.test):
            for client in range(40):
                rows = samples.x_rows[samples.of(client)]
                assert len(set(rows)) == len(rows)


def test_groups_have_the_sizes_asked_for() -> None:
    data = digits_population(clients=100, groups=(5, 3, 2), heterogeneity=LabelPermutation())
    assert data.groups is not None
    assert np.bincount(data.groups).tolist() == [50, 30, 20]


def test_labels_without_renaming_are_the_digits_shown() -> None:
    data = digits_population(clients=20, heterogeneity=Rotation())
    digits = load_digits().target
    assert np.array_equal(data.train.y, digits[data.train.x_rows % N_IMAGES])
    assert np.array_equal(data.test.y, digits[data.test.x_rows % N_IMAGES])


def test_groups_give_the_same_image_different_labels() -> None:
    data = digits_population(clients=100, groups=3, heterogeneity=LabelPermutation())
    digits = load_digits().target[data.train.x_rows]
    owners = owner_groups(data, data.train)
    for digit in range(10):
        names = [set(data.train.y[(digits == digit) & (owners == group)]) for group in range(3)]
        assert all(len(name) == 1 for name in names)
        assert len(set.union(*names)) == 3


def test_rotated_groups_see_the_same_images_turned() -> None:
    data = digits_population(clients=8, groups=4, heterogeneity=Rotation())
    views = data.x.reshape(4, N_IMAGES, 8, 8)
    assert np.array_equal(views[3], np.rot90(views[0], 3, axes=(1, 2)))
    assert np.array_equal(data.train.x_rows // N_IMAGES, owner_groups(data, data.train))
    assert np.array_equal(data.test.x_rows // N_IMAGES, owner_groups(data, data.test))


def test_groups_of_skewed_labels_hold_different_classes() -> None:
    data = digits_population(clients=100, groups=2, heterogeneity=LabelSkew())
    for samples in (data.train, data.test):
        owners = owner_groups(data, samples)
        histograms = np.stack([np.bincount(samples.y[owners == group], minlength=10) for group in range(2)])
        shares = histograms / histograms.sum(axis=1, keepdims=True)
        assert np.abs(shares[0] - shares[1]).sum() > 1


def test_a_client_with_more_samples_of_a_class_than_images_holds_some_twice() -> None:
    data = digits_population(clients=5, heterogeneity=NoGroups(), test_samples=150, client_label_concentration=1e-6)
    rows = data.test.x_rows[data.test.of(0)]
    digits = load_digits().target
    available = np.count_nonzero(digits == digits[rows[0]])
    assert len(set(rows)) == pytest.approx(available / 3, abs=1)


def test_noise_blurs_the_images_and_keeps_their_scale() -> None:
    clean, noisy = (digits_population(clients=10, heterogeneity=NoGroups(), noise=noise).x for noise in (0.0, 1.0))
    assert noisy.std() == pytest.approx(clean.std(), rel=0.02)
    assert np.corrcoef(clean.ravel(), noisy.ravel())[0, 1] == pytest.approx(0.5**0.5, abs=0.02)


@pytest.mark.parametrize("noise", [-0.1, float("inf"), float("nan")])
def test_impossible_noise_is_refused(noise: float) -> None:
    with pytest.raises(ValueError, match="noise: expected a number >= 0"):
        digits_population(clients=10, heterogeneity=NoGroups(), noise=noise)


@pytest.mark.parametrize(
    ("heterogeneity", "noise", "least_gain"),
    [
        (LabelPermutation(), 0.0, 0.5),
        (LabelSwap(), 0.0, 0.08),
        (NestedConcepts(), 0.0, 0.4),
        (Rotation(), 0.0, 0.1),
        (AffineShift(), 0.0, 0.04),
        (LabelSkew(), 0.6, 0.02),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_for_each_group_beats_one_for_all(
    heterogeneity: Heterogeneity, noise: float, least_gain: float
) -> None:
    data = digits_population(clients=300, heterogeneity=heterogeneity, noise=noise)
    train, test = owner_groups(data, data.train), owner_groups(data, data.test)
    for_all = accuracy(data, train >= 0, test >= 0)
    for_each = np.mean([accuracy(data, train == group, test == group) for group in range(4)])
    assert for_each > for_all + least_gain


def test_a_population_drawn_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = digits_population(clients=50, heterogeneity=LabelSkew(), samples=(1, 300))
    monkeypatch.setattr(digits, "_CLIENTS_AT_ONCE", 7)
    in_parts = digits_population(clients=50, heterogeneity=LabelSkew(), samples=(1, 300))
    np.testing.assert_array_equal(in_parts.train.x_rows, whole.train.x_rows)
    np.testing.assert_array_equal(in_parts.test.x_rows, whole.test.x_rows)
