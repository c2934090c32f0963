"""Clusters that have much in common are joined first, and small ones for good."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.algorithms.auxo.dendrogram import Alikeness, Dendrogram, grow
from auxo.core.fingerprint import unit_rows
from auxo.core.rng import stream
from auxo.core.types import IntArray

# Six clusters in three groups (0 1, 2 3, 4 5); the first two groups are alike, too.
GROUP_OF = np.array([0, 0, 1, 1, 2, 2])


def alikeness(labels: IntArray, noise: float = 0.3) -> Alikeness:
    """Return that of one round whose participants' updates are their group's, and noise."""
    rng = stream(0, "alike")
    signals = np.array([[1.0, 0.6, 0, 0], [1.0, -0.6, 0, 0], [0, 0, 1.0, 0]])
    directions = unit_rows(signals[GROUP_OF[labels]] + noise * rng.normal(size=(len(labels), 4)))
    return Alikeness.none(6).after(directions, labels, labels)


def test_groups_are_joined_before_what_is_less_alike() -> None:
    grown = grow(alikeness(np.repeat(np.arange(6), 20)), updates=1000, smallest=0.1)

    assert grown.branches == 6
    held = [set(grown.below(node)) for node in range(6, grown.root + 1)]
    assert {0, 1} in held
    assert {2, 3} in held
    assert {4, 5} in held
    assert {0, 1, 2, 3} in held
    assert held[-1] == set(range(6))


def test_a_cluster_that_cannot_fill_a_round_joins_its_like_for_good() -> None:
    labels = np.concatenate([np.repeat(np.arange(5), 20), [5, 5]])

    grown = grow(alikeness(labels), updates=1000, smallest=0.1)

    assert grown.branches == 5
    assert grown.branch_of[5] == grown.branch_of[4]


@given(st.integers(2, 8), st.integers(0, 10_000), st.floats(0.01, 0.5))
def test_a_dendrogram_holds_every_cluster_once_and_ends_in_one_root(clusters: int, seed: int, smallest: float) -> None:
    rng = stream(seed, "made")
    labels = rng.integers(-1, clusters, 60)
    directions = unit_rows(rng.normal(size=(60, 5)))
    alike = Alikeness.none(clusters).after(directions, labels, np.maximum(labels, 0))

    grown = grow(alike, updates=100, smallest=smallest)

    assert len(grown.branch_of) == clusters
    assert sorted(set(grown.branch_of)) == list(range(grown.branches))
    assert [path[0] for path in grown.paths] == list(range(grown.branches))
    assert {path[-1] for path in grown.paths} == {grown.root}
    shares = np.bincount(grown.branch_of, weights=alike.weights)
    assert grown.branches == 1 or shares.min() >= smallest


def test_one_branch_is_its_own_root() -> None:
    alone = Dendrogram((0, 0, 0), ())

    assert alone.root == 0
    assert alone.paths == ((0,),)


def test_pairs_of_the_same_participant_do_not_count() -> None:
    # Nothing in common but each with itself: unbiased, it is nothing.
    rng = stream(0, "made")
    labels = np.zeros(400, dtype=np.int64)
    alike = Alikeness.none(1).after(unit_rows(rng.normal(size=(400, 400))), labels, labels)

    assert alike.products[0, 0] / alike.pairs[0, 0] == pytest.approx(0.0, abs=1e-3)
