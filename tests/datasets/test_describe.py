"""Descriptions: sizes, groups, and label skew that is told from chance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.core.types import Float32Array, IntArray
from auxo.datasets.describe import Description, describe
from auxo.population.federated_data import FederatedData, samples_by_client
from auxo.population.from_arrays import population_of
from auxo.population.preparation import Preparation


def population(client: IntArray, y: IntArray, group: IntArray | None = None) -> FederatedData:
    """Return a population in which every sample is there twice, once to train on and once to test with."""
    twice = np.tile(client, 2)
    groups = None if group is None else np.tile(group, 2)
    is_test = np.repeat([False, True], len(client))
    x = np.zeros((len(twice), 3), np.float32)
    return population_of(x=x, y=np.tile(y, 2), client=twice, test=is_test, group=groups, name="toy")


def described(client: list[int], y: list[int]) -> Description:
    return describe(population(np.array(client), np.array(y)))


def test_clients_samples_and_classes_are_counted() -> None:
    found = described([0, 0, 0, 1], [0, 3, 0, 1])
    assert (found.clients, found.train_samples, found.test_samples) == (2, 4, 4)
    assert (found.n_classes, found.classes_without_samples) == (4, 1)
    assert found.sizes.tolist() == [6, 2]
    assert found.classes_each.tolist() == [2, 1]
    assert (found.features, found.kind) == ((3,), "numbers")


def test_clients_like_everybody_have_no_skew_and_clients_apart_have_all_but_their_own_share() -> None:
    assert described([0, 0, 1, 1], [0, 1, 0, 1]).skew.tolist() == [0, 0]
    assert described([0, 0, 1, 1], [0, 0, 1, 1]).skew.tolist() == [0.5, 0.5]
    assert described([0, 0, 0, 1], [0, 0, 0, 1]).skew.tolist() == [0.25, 0.75]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=40))
@settings(max_examples=50)
def test_skew_is_half_the_sum_of_differences_between_shares(samples: list[tuple[int, int]]) -> None:
    client, y = np.array([pair[0] for pair in samples]), np.array([pair[1] for pair in samples])
    everybody = np.bincount(y, minlength=6) / len(y)
    own = [np.bincount(y[client == number], minlength=6) / np.sum(client == number) for number in np.unique(client)]
    found = describe(population(client, y)).skew
    np.testing.assert_allclose(found, [np.abs(shares - everybody).sum() / 2 for shares in own], atol=1e-12)


def test_labels_dealt_at_random_are_as_skewed_as_chance_and_sorted_ones_more() -> None:
    client = np.repeat(np.arange(300), 10)
    y = stream(0, "labels").integers(10, size=len(client))
    by_chance, apart = describe(population(client, y)), describe(population(client, np.sort(y)))
    # Each sample is there twice, which halves what there is to draw from; dealt anew, copies part.
    assert by_chance.skew_by_chance.mean() < by_chance.skew.mean() < 0.5
    assert apart.skew.mean() > 0.8
    assert apart.skew_by_chance.mean() == pytest.approx(by_chance.skew_by_chance.mean(), abs=0.02)


def test_groups_are_counted_by_name_where_there_are_names() -> None:
    data = population(np.array([0, 0, 1, 2]), np.zeros(4, np.int64), np.array([1, 1, 0, 1]))
    named = describe(data, ("left", "right")).groups
    assert [(group.name, group.clients, group.samples) for group in named] == [("left", 1, 2), ("right", 2, 6)]
    assert [group.name for group in describe(data).groups] == ["0", "1"]


def test_a_hundred_thousand_clients_are_described_without_a_table_of_clients_by_classes() -> None:
    client = np.repeat(np.arange(100_000), 2)
    y = np.arange(len(client)) % 20_000  # such a table would take 16 GB
    found = describe(population(client, y))
    assert found.clients == 100_000
    np.testing.assert_allclose(found.skew, 1 - 2 / 20_000)


def learned(targets: Float32Array, done: Preparation) -> Description:
    """Return what is said of four clients with as many samples, two of them for testing."""
    rows = np.arange(len(targets))
    train, test = samples_by_client(rows // 4 % 4, rows, rows % 2 == 1, 4)
    x = np.zeros((len(rows), 2), dtype=np.float32)
    clients = ("a", "b", "c", "d")
    return describe(
        FederatedData(
            "toy", x, train, test, targets.shape[1], clients, task=done.task, targets=targets, preparation=done
        )
    )


def test_numbers_to_be_learned_are_told_in_their_units_with_how_far_clients_are_apart() -> None:
    targets = np.repeat(np.array([-1, -1, 1, 1], dtype=np.float32), 4)[:, np.newaxis]
    done = Preparation(classes=("price",), task="regression", target_means=(1000.0,), target_scales=(100.0,))
    (price,) = learned(targets, done).targets
    assert (price.name, price.mean, price.deviation) == ("price", 1000, 100)
    assert (price.least, price.greatest) == (price.client_least, price.client_greatest) == (900, 1100)
    assert price.client_deviation == 100
    assert price.by_chance == 50  # with four samples each


def test_labels_are_told_with_the_share_of_samples_that_have_them() -> None:
    targets = np.zeros((16, 2), dtype=np.float32)
    targets[:4, 0] = 1
    late, broken = learned(targets, Preparation(classes=("late", "broken"), task="multi-label")).targets
    assert (late.name, late.mean, late.client_least, late.client_greatest) == ("late", 0.25, 0, 1)
    assert (broken.mean, broken.client_deviation) == (0, 0)
