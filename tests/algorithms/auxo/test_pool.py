"""Clustering starts from a pool of many rounds' fingerprints, of which the oldest go first."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auxo.algorithms.auxo import ClusteringSettings
from auxo.algorithms.auxo.pool import Pool, PooledRound, are_in_first_half, start_clustering
from auxo.core.fingerprint import unit_rows
from auxo.core.rng import stream
from auxo.protocol.codec import from_bytes, to_bytes
from tests.core.made_updates import N_PARAMS, of_two_groups

SETTINGS = ClusteringSettings(clusters=2, pool_rounds=3, pool_per_cluster=5, pool_most=20)


def numbered(number: int, count: int = 4) -> PooledRound:
    """Return a round's fingerprints, all of which tell its number."""
    return PooledRound(
        np.full((count, 2), number, dtype=np.float32), np.zeros((count, 0), dtype=np.float32), np.arange(count) % 2 == 0
    )


def pooled(rounds: int, count: int = 4, settings: ClusteringSettings = SETTINGS) -> Pool:
    pool = Pool()
    for number in range(rounds):
        pool = pool.after(numbered(number, count), settings)
    return pool


def rounds_in(pool: Pool) -> list[float]:
    return [float(one.directions[0, 0]) for one in pool.rounds]


@pytest.mark.parametrize(
    ("rounds", "count", "is_full"),
    [(2, 4, False), (2, 50, False), (3, 3, False), (3, 4, True), (4, 3, True), (9, 1, False), (10, 1, True)],
)
def test_a_pool_is_full_with_enough_rounds_and_enough_fingerprints_for_each_cluster(
    rounds: int, count: int, is_full: bool
) -> None:
    assert pooled(rounds, count).is_full(SETTINGS) is is_full


def test_the_oldest_rounds_go_when_the_others_are_enough_by_themselves() -> None:
    assert rounds_in(pooled(5)) == [0, 1, 2, 3, 4]  # 20, with the first of them
    assert rounds_in(pooled(6)) == [1, 2, 3, 4, 5]
    assert pooled(30).sketches == 20


def test_a_round_that_is_larger_than_the_pool_is_kept_alone() -> None:
    pool = pooled(3).after(numbered(9, 50), SETTINGS)

    assert rounds_in(pool) == [9]
    assert pool.sketches == 50


def test_a_pool_keeps_rounds_without_their_mean_and_leaves_the_one_before_as_it_was() -> None:
    before, rows = pooled(2), np.arange(8.0).reshape(4, 2)
    after = before.after(PooledRound.of(rows, rows[:, :1], np.arange(4) < 2), SETTINGS)
    kept = after.rounds[-1]

    assert rounds_in(before) == [0, 1]
    assert kept.directions.tolist() == [[-3, -3], [-1, -1], [1, 1], [3, 3]]
    assert kept.outputs.ravel().tolist() == [-3, -1, 1, 3]
    assert {kept.directions.dtype, kept.outputs.dtype} == {np.dtype(np.float32)}
    assert rows[0].tolist() == [0, 1]
    assert to_bytes(from_bytes(Pool, to_bytes(after))) == to_bytes(after)


def two_groups(rounds: int, count: int = 6) -> Pool:
    """Return a pool of rounds with members of two groups in turn."""
    pool = Pool()
    for number in range(rounds):
        directions = unit_rows(of_two_groups(count, seed=number).astype(np.float64))
        pool = pool.after(PooledRound.of(directions, np.zeros((count, 0)), np.arange(count) < count // 2), SETTINGS)
    return pool


def test_clustering_starts_from_all_that_is_in_the_pool() -> None:
    pool = two_groups(3)
    started = start_clustering(pool, SETTINGS, 4, None, stream(0, "cluster"))
    assert started is not None
    centres = started.clustering.centres
    assert centres is not None
    points = unit_rows(np.concatenate([one.directions for one in pool.rounds]).astype(np.float64))
    nearest = (points @ centres.T).argmax(axis=1)

    assert started.view.explained is None  # nothing is known of outputs
    assert started.clustering.generation == 5
    assert centres.shape == (2, N_PARAMS)
    assert len({(int(label), row % 2) for row, label in enumerate(nearest)}) == 2  # each is one group
    for cluster in range(2):
        np.testing.assert_allclose(centres[cluster], points[nearest == cluster].mean(axis=0), atol=1e-9)


def test_a_client_is_always_in_the_same_half_and_about_as_many_are_in_each() -> None:
    clients = np.arange(2000)
    first = are_in_first_half(clients)

    np.testing.assert_array_equal(are_in_first_half(clients[::-1]), first[::-1])
    assert 900 < first.sum() < 1100


def test_the_same_pool_and_stream_start_the_same_clustering() -> None:
    one, other = (start_clustering(two_groups(3), SETTINGS, 0, None, stream(3, "cluster")) for _ in range(2))

    assert to_bytes(one) == to_bytes(other)


@pytest.mark.parametrize(
    "pool",
    [Pool((PooledRound.of(np.eye(3), np.zeros((3, 0)), np.arange(3) < 1),)), pooled(1, count=9)],
    ids=["too few", "all the same"],
)
def test_nothing_starts_from_too_few_different_points(pool: Pool) -> None:
    assert start_clustering(pool, SETTINGS, 0, None, stream(0, "cluster")) is None


@pytest.mark.parametrize("name", ["pool_rounds", "pool_per_cluster", "pool_most"])
def test_settings_that_mean_nothing_are_refused(name: str) -> None:
    changes: dict[str, Any] = {name: 0}

    with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
        replace(SETTINGS, **changes)
