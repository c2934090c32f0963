"""The synthetic population: Gaussian classes that a softmax model learns in the right group."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from auxo.core.types import BoolArray
from auxo.population.federated_data import FederatedData
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
from auxo.population.synthetic import synthetic_population

EVERY_KIND = [Rotation(), LabelPermutation(), LabelSwap(), NestedConcepts(), LabelSkew(), NoGroups()]


def accuracy(data: FederatedData, members: BoolArray) -> float:
    train, test = np.repeat(members, data.train.counts()), np.repeat(members, data.test.counts())
    model = LogisticRegression(max_iter=50, tol=1e-2)
    model.fit(data.x[data.train.x_rows[train]], data.train.y[train])
    return float(np.mean(model.predict(data.x[data.test.x_rows[test]]) == data.test.y[test]))


@pytest.mark.parametrize("heterogeneity", EVERY_KIND, ids=lambda kind: type(kind).__name__)
class TestEveryKind:
    def test_every_sample_has_an_input_of_its_own(self, heterogeneity: Heterogeneity) -> None:
        data = synthetic_population(clients=50, heterogeneity=heterogeneity)
        rows = np.concatenate([data.train.x_rows, data.test.x_rows])
        assert sorted(rows.tolist()) == list(range(len(data.x)))
        assert data.x.dtype == np.float32

    def test_same_seed_gives_same_bits_and_another_seed_others(self, heterogeneity: Heterogeneity) -> None:
        one, same, other = (
            synthetic_population(clients=30, heterogeneity=heterogeneity, seed=seed) for seed in (1, 1, 2)
        )
        assert np.array_equal(one.x, same.x)
        assert np.array_equal(one.train.y, same.train.y)
        assert np.array_equal(one.test.offsets, same.test.offsets)
        assert not np.array_equal(one.x[:100], other.x[:100])

    def test_a_groups_own_model_is_right_in_about_nine_cases_of_ten(self, heterogeneity: Heterogeneity) -> None:
        data = synthetic_population(clients=300, groups=2, heterogeneity=heterogeneity)
        assert data.groups is not None
        assert accuracy(data, data.groups == 0) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("heterogeneity", [Rotation(), LabelPermutation()], ids=lambda kind: type(kind).__name__)
def test_one_model_for_all_groups_is_much_worse(heterogeneity: Heterogeneity) -> None:
    data = synthetic_population(clients=300, groups=4, heterogeneity=heterogeneity)
    assert accuracy(data, np.ones(300, dtype=np.bool_)) < 0.65


def test_a_group_that_is_rotated_keeps_the_distances_between_its_classes() -> None:
    data = synthetic_population(clients=200, groups=2, heterogeneity=Rotation(), classes=3)
    owners = np.repeat(data.groups if data.groups is not None else 0, data.train.counts())
    means = np.stack(
        [
            [data.x[data.train.x_rows[(owners == group) & (data.train.y == label)]].mean(axis=0) for label in range(3)]
            for group in range(2)
        ]
    )
    assert np.allclose(means[0] @ means[0].T, means[1] @ means[1].T, atol=1)
    assert np.linalg.norm(means[0] - means[1], axis=1).min() > 1


def test_the_size_of_inputs_and_the_number_of_classes_can_be_chosen() -> None:
    data = synthetic_population(clients=40, groups=2, heterogeneity=NoGroups(), features=5, classes=7)
    assert data.x.shape[1:] == (5,)
    assert data.n_classes == 7
    assert np.unique(data.train.y).tolist() == list(range(7))


def test_classes_far_apart_are_told_apart_always() -> None:
    data = synthetic_population(clients=100, heterogeneity=NoGroups(), class_separation=20.0)
    assert accuracy(data, np.ones(100, dtype=np.bool_)) > 0.99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heterogeneity": AffineShift()}, "AffineShift needs images"),
        ({"features": 0}, "features=0"),
        ({"classes": 1}, "classes=1"),
        ({"class_separation": 0.0}, "class_separation: expected a positive number"),
        ({"class_separation": float("nan")}, "class_separation: expected a positive number"),
    ],
)
def test_arguments_out_of_range_are_refused(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"clients": 10, "heterogeneity": NoGroups(), **change}
    with pytest.raises(ValueError, match=message):
        synthetic_population(**arguments)  # type: ignore[arg-type]  # the wrong values are the point
