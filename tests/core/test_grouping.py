from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.fingerprint import unit_rows
from auxo.core.grouping import alignments, groupings
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

WIDTH = 16


def slow_mean(directions: FloatArray, groups: IntArray) -> float:
    """Return the mean over participants with company of their mean inner product with the others of their group."""
    means = []
    for row, direction in enumerate(directions):
        company = [
            float(direction @ other)
            for place, other in enumerate(directions)
            if place != row and groups[place] == groups[row]
        ]
        if company:
            means.append(sum(company) / len(company))
    return sum(means) / len(means) if means else 0.0


def slow_alignments(directions: FloatArray, labels: IntArray, clusters: int) -> tuple[list[float], float]:
    """Return what `alignments` should, straight from its definition."""
    within = [slow_mean(directions, np.array(grouping)[labels]) for grouping in groupings(clusters)]
    return within, slow_mean(directions, np.zeros_like(labels))


class Shares(NamedTuple):
    """Squared lengths in an update before it is scaled; the rest up to one is noise."""

    common: float
    group: float


def updates(groups: IntArray, shares: Shares, width: int, seed: int) -> FloatArray:
    """Return unit updates: a common direction, one for each group at right angles, and noise in all of ``width``."""
    rng = stream(seed, "updates", width)
    axes = np.eye(width)
    signal = np.sqrt(shares.common) * axes[0] + np.sqrt(shares.group) * axes[1 + groups]
    noise = np.sqrt((1 - shares.common - shares.group) / width)
    return unit_rows(signal + noise * rng.standard_normal((len(groups), width)))


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


@pytest.mark.parametrize("clusters", [2, 3, 4, 5])
def test_the_last_grouping_keeps_every_cluster_apart(clusters: int) -> None:
    assert groupings(clusters)[-1] == tuple(range(clusters))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 14), st.integers(2, 4), st.booleans())
def test_alignments_are_those_of_the_definition(seed: int, n: int, clusters: int, with_zeros: bool) -> None:
    rng = stream(seed, "alignments")
    directions = unit_rows(rng.standard_normal((n, WIDTH)) + 0.5)
    if with_zeros:
        directions[rng.random(n) < 0.3] = 0.0
    labels = rng.integers(0, clusters, n)
    within, overall = alignments(directions, labels, clusters)
    slow_within, slow_overall = slow_alignments(directions, labels, clusters)

    np.testing.assert_allclose(within, slow_within, atol=1e-10)
    assert overall == pytest.approx(slow_overall, abs=1e-10)


@pytest.mark.parametrize("shares", [Shares(0.02, 0.03), Shares(0.05, 0.0), Shares(0.0, 0.05), Shares(0.0, 0.0)])
def test_alignments_are_the_shares_of_signal_however_much_noise_there_is(shares: Shares) -> None:
    groups = np.repeat([0, 1], 150)
    rounds = [alignments(updates(groups, shares, 2000, seed), groups, 2) for seed in range(3)]
    within, overall = np.mean([found[0] for found in rounds]), np.mean([found[1] for found in rounds])
    # Of the others in both groups, 149 of 299 have one's own direction in common.
    expected_overall = shares.common + shares.group * 149 / 299

    assert within == pytest.approx(shares.common + shares.group, abs=0.002)
    assert overall == pytest.approx(expected_overall, abs=0.002)


def test_few_participants_are_no_bias() -> None:
    groups, shares = np.repeat([0, 1], 3), Shares(0.2, 0.2)
    rounds = [alignments(updates(groups, shares, 400, seed), groups, 2) for seed in range(300)]

    assert np.mean([found[0] for found in rounds]) == pytest.approx(0.4, abs=0.01)
    assert np.mean([found[1] for found in rounds]) == pytest.approx(0.2 + 0.2 * 2 / 5, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_two_groups_cut_into_four_clusters_are_as_alike_joined_as_apart(seed: int) -> None:
    groups = np.repeat([0, 1], 100)
    labels = groups + 2 * stream(seed, "cut").integers(0, 2, 200)
    within, _ = alignments(updates(groups, Shares(0.05, 0.1), 500, seed), labels, 4)
    joined, apart = within[groupings(4).index((0, 1, 0, 1))], within[-1]

    assert joined == pytest.approx(apart, abs=0.01)
    # Every grouping that mixes the groups is less alike.
    for number, grouping in enumerate(groupings(4)):
        if {grouping[0], grouping[2]} & {grouping[1], grouping[3]}:
            assert within[number] < joined - 0.01


def test_an_empty_cluster_changes_nothing_for_the_others() -> None:
    labels = np.repeat([0, 1], 10)
    directions = updates(labels, Shares(0.2, 0.3), 50, seed=0)
    (two, overall), (three, same_overall) = alignments(directions, labels, 2), alignments(directions, labels, 3)

    assert same_overall == pytest.approx(overall)
    for number, grouping in enumerate(groupings(3)):
        assert three[number] == pytest.approx(two[0] if grouping[0] != grouping[1] else overall)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_of_participants_does_not_matter(order: list[int]) -> None:
    directions, labels = updates(np.repeat([0, 1], 6), Shares(0.2, 0.3), WIDTH, seed=0), np.array([0, 1, 2] * 4)
    rows = np.array(order)
    within, overall = alignments(directions, labels, 3)
    permuted_within, permuted_overall = alignments(directions[rows], labels[rows], 3)

    np.testing.assert_allclose(permuted_within, within, atol=1e-12)
    assert permuted_overall == pytest.approx(overall, abs=1e-12)


def test_a_participant_alone_in_its_group_has_no_company_and_does_not_count() -> None:
    directions = unit_rows(np.array([[0.0, 1.0], [1.0, 0.1], [1.0, 0.2]]))
    within, _ = alignments(directions, np.array([0, 1, 1]), 2)

    assert within[0] == pytest.approx(float(directions[1] @ directions[2]))


def test_where_nobody_has_company_nothing_is_alike() -> None:
    within, overall = alignments(unit_rows(np.array([[1.0, 0.1], [1.0, 0.2]])), np.array([0, 1]), 2)

    assert within[0] == 0.0
    assert overall > 0.9


def test_inputs_are_left_untouched() -> None:
    directions, labels = updates(np.repeat([0, 1], 6), Shares(0.2, 0.3), WIDTH, seed=0), np.array([0, 1, 2] * 4)
    directions_before, labels_before = directions.copy(), labels.copy()
    alignments(directions, labels, 3)

    np.testing.assert_array_equal(directions, directions_before)
    np.testing.assert_array_equal(labels, labels_before)
