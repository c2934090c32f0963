"""There are as many clusters as explain most of points that they were not made from."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.auxo import ClusteringSettings
from auxo.algorithms.auxo.number_of_clusters import distinct, principal, structure
from auxo.algorithms.auxo.pool import Pool, PooledRound, start_clustering
from auxo.core.fingerprint import unit_rows
from auxo.core.rng import stream

CLASSES, WIDTH = 5, 40
SETTINGS = ClusteringSettings(clusters=3, pool_rounds=4, pool_per_cluster=10)


def test_structure_is_one_without_clusters_and_more_with_them() -> None:
    rng = stream(0, "structure")
    cloud = unit_rows(rng.standard_normal((600, 30)) * np.linspace(3, 0.5, 30))
    clusters = unit_rows(cloud + 1.5 * unit_rows(rng.standard_normal((3, 30)))[rng.integers(0, 3, 600)])
    halves = np.arange(600) % 2 == 0

    assert structure(cloud, halves, 3, stream(1, "k")).shown == pytest.approx(1, abs=0.2)
    assert structure(clusters, halves, 3, stream(1, "k")).shown > 1.3
    assert structure(cloud[:8], halves[:8], 3, stream(1, "k")).shown == np.inf  # too few to tell
    assert structure(np.ones((60, 3)), halves[:60], 3, stream(1, "k")).shown == 0


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_most_structure_is_shown_with_as_many_clusters_as_there_are(groups: int) -> None:
    rng = stream(groups, "groups")
    cloud = rng.standard_normal((600, 30))
    points = unit_rows(cloud + 4 * unit_rows(rng.standard_normal((groups, 30)))[np.arange(600) % groups])

    assert structure(points, rng.random(600) < 0.5, 8, stream(1, "k")).clusters == groups


@pytest.mark.parametrize("count", [200, 600])
def test_a_cloud_shows_no_structure_but_by_chance_however_few_points_it_has(count: int) -> None:
    shown = []
    for seed in range(10):
        rng = stream(seed, "cloud")
        points = principal(rng.standard_normal((count, 20)) * np.linspace(3, 0.5, 20))
        shown.append(structure(points, np.arange(count) % 2 == 0, 4, stream(seed, "k")).shown)

    assert (np.array(shown) >= ClusteringSettings().min_structure).mean() <= 0.1


@pytest.mark.parametrize("seed", range(4))
def test_that_there_is_too_little_is_told_by_fewer_clouds_and_no_differently(seed: int) -> None:
    rng = stream(seed, "cloud")
    pull = 1.5 * (seed % 2) * unit_rows(rng.standard_normal((3, 20)))[rng.integers(0, 3, 400)]
    points, halves = principal(rng.standard_normal((400, 20)) + 2 * pull), np.arange(400) % 2 == 0
    whole = structure(points, halves, 4, stream(seed, "k"))
    short = structure(points, halves, 4, stream(seed, "k"), enough=1.0)

    assert (short.shown >= 1) == (whole.shown >= 1) == bool(seed % 2)
    assert whole.shown < 1 or short == whole


def test_updates_of_few_kinds_are_so_many_clusters_and_no_more() -> None:
    rng = stream(0, "kinds")
    kinds = rng.standard_normal((3, 650))
    rounds = tuple(
        PooledRound.of(kinds[np.arange(60) % 3], np.zeros((60, 0)), np.arange(60) % 2 == 0)  # of both halves each kind
        for _ in range(4)
    )
    rounded = np.repeat(unit_rows(kinds[:, :50]), 20, axis=0) + 1e-16 * rng.standard_normal((60, 50))
    started = start_clustering(Pool(rounds), replace(SETTINGS, clusters=8), 0, None, stream(1, "k"))

    assert distinct(rounded) == 3
    assert started is not None
    assert started.structure.clusters == 3
    assert started.clustering.centres is not None
    assert np.isfinite(started.clustering.centres).all()


def test_principal_axes_hold_the_points_distances_and_begin_with_the_least_of_them() -> None:
    rng = stream(0, "axes")
    points = rng.standard_normal((80, 6)) @ rng.standard_normal((6, 200)) + 3  # six directions, a mean that is not zero
    along = principal(points)
    centred = points - points.mean(axis=0)

    np.testing.assert_allclose(along @ along.T, centred @ centred.T, atol=1e-8)
    assert (np.diff(along.std(axis=0)) >= -1e-9).all()
    covariance = along.T @ along
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-6)
