"""Descriptions: sizes, groups, and label skew that is told from chance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.core.types import IntArray
from auxo.datasets.describe import Description, describe
from auxo.population.federated_data import FederatedData
from auxo.population.from_arrays import population_of


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
