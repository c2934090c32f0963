import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.fingerprint import unit_rows
from auxo.core.grouping import grouping_gains, groupings
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

WIDTH = 16


def cosine(one: FloatArray, other: FloatArray) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths > 1e-9 else 0.0


def slow_gains(directions: FloatArray, labels: IntArray, clusters: int) -> list[float]:
    """Return what `grouping_gains` should, straight from its definition."""
    gains = []
    for grouping in groupings(clusters):
        differences = []
        for row, direction in enumerate(directions):
            company, everybody = np.zeros(directions.shape[1]), np.zeros(directions.shape[1])
            for other, update in enumerate(directions):
                if other == row:
                    continue
                everybody = everybody + update
                if grouping[labels[other]] == grouping[labels[row]]:
                    company = company + update
            differences.append(cosine(direction, company) - cosine(direction, everybody))
        gains.append(sum(differences) / len(differences))
    return gains


def updates(groups: IntArray, seed: int, apart: float) -> FloatArray:
    rng = stream(seed, "updates")
    directions = np.eye(WIDTH)[0] + apart * np.eye(WIDTH)[1 + groups]
    return unit_rows(directions + 3.0 * rng.standard_normal((len(groups), WIDTH)) / np.sqrt(WIDTH))


@pytest.mark.parametrize(("clusters", "bell"), [(1, 1), (2, 2), (3, 5), (4, 15), (5, 52), (6, 203)])
def test_every_grouping_but_the_one_of_a_single_group_is_listed_once(clusters: int, bell: int) -> None:
    found = groupings(clusters)
    as_sets = {
        frozenset(frozenset(np.flatnonzero(np.array(grouping) == group).tolist()) for group in set(grouping))
        for grouping in found
    }

    assert len(found) == len(as_sets) == bell - 1
    assert all(len(grouping) == clusters for grouping in found)


def test_groups_are_numbered_in_order_of_first_appearance() -> None:
    for grouping in groupings(4):
        first_seen = list(dict.fromkeys(grouping))

        assert first_seen == list(range(len(first_seen)))


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 14), st.integers(2, 4), st.booleans())
def test_gains_are_those_of_the_definition(seed: int, n: int, clusters: int, with_zeros: bool) -> None:
    rng = stream(seed, "gains")
    directions = unit_rows(rng.standard_normal((n, WIDTH)) + 0.5)
    if with_zeros:
        directions[rng.random(n) < 0.3] = 0.0
    labels = rng.integers(0, clusters, n)

    np.testing.assert_allclose(
        grouping_gains(directions, labels, clusters), slow_gains(directions, labels, clusters), atol=1e-9
    )


@pytest.mark.parametrize("seed", range(5))
def test_two_groups_cut_into_four_clusters_are_joined_again(seed: int) -> None:
    groups = np.repeat([0, 1], 60)
    rounds = []
    for number in range(5):
        labels = groups + 2 * stream(seed, "cut", number).integers(0, 2, 120)
        rounds.append(grouping_gains(updates(groups, 5 * seed + number, apart=2.0), labels, 4))
    gains = np.mean(rounds, axis=0)

    assert groupings(4)[int(gains.argmax())] == (0, 1, 0, 1)
    assert gains.max() > 0


def test_nothing_is_to_be_gained_from_cutting_a_cloud_of_alike_clients() -> None:
    gains = np.array(
        [
            grouping_gains(
                updates(np.zeros(60, dtype=np.int64), seed, apart=0.0), stream(seed, "labels").integers(0, 3, 60), 3
            )
            for seed in range(40)
        ]
    )

    assert (gains.mean(axis=0) < 0).all()
    # A single round may be lucky, but only by as much as chance gives.
    assert gains.max() < 0.1


def test_an_empty_cluster_changes_nothing_for_the_others() -> None:
    directions, labels = updates(np.repeat([0, 1], 10), seed=0, apart=2.0), np.repeat([0, 1], 10)
    two, three = grouping_gains(directions, labels, 2), grouping_gains(directions, labels, 3)

    for number, grouping in enumerate(groupings(3)):
        expected = two[0] if grouping[0] != grouping[1] else 0.0
        assert three[number] == pytest.approx(expected)


@settings(max_examples=20)
@given(st.permutations(range(12)))
def test_the_order_of_participants_does_not_matter(order: list[int]) -> None:
    directions, labels = updates(np.repeat([0, 1], 6), seed=0, apart=2.0), np.array([0, 1, 2] * 4)
    rows = np.array(order)

    np.testing.assert_allclose(
        grouping_gains(directions[rows], labels[rows], 3), grouping_gains(directions, labels, 3), atol=1e-12
    )


def test_a_participant_alone_in_its_group_has_no_company() -> None:
    directions = unit_rows(np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2]]))
    gain = grouping_gains(directions, np.array([0, 1, 1]), 2)[0]

    assert gain == pytest.approx(slow_gains(directions, np.array([0, 1, 1]), 2)[0])
    assert gain < 0


def test_inputs_are_left_untouched() -> None:
    directions, labels = updates(np.repeat([0, 1], 6), seed=0, apart=2.0), np.array([0, 1, 2] * 4)
    directions_before, labels_before = directions.copy(), labels.copy()
    grouping_gains(directions, labels, 3)

    np.testing.assert_array_equal(directions, directions_before)
    np.testing.assert_array_equal(labels, labels_before)
