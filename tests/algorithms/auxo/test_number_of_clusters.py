"""There are as many clusters as explain most of points that they were not made from."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from auxo.algorithms.auxo.number_of_clusters import STANDS_OUT, _silhouette, distinct, principal, silhouettes, structure
from auxo.core.fingerprint import unit_rows
from auxo.core.rng import stream
from auxo.core.types import FloatArray


def test_structure_is_one_without_clusters_and_more_with_them() -> None:
    rng = stream(0, "structure")
    cloud = unit_rows(rng.standard_normal((600, 30)) * np.linspace(3, 0.5, 30))
    clusters = unit_rows(cloud + 1.5 * unit_rows(rng.standard_normal((3, 30)))[rng.integers(0, 3, 600)])
    halves = np.arange(600) % 2 == 0

    assert structure(cloud, halves, 3, stream(1, "k")).shown == pytest.approx(1, abs=0.2)
    assert structure(clusters, halves, 3, stream(1, "k")).shown > STANDS_OUT
    assert structure(cloud[:8], halves[:8], 3, stream(1, "k")).shown == np.inf  # too few to tell
    assert structure(np.ones((60, 3)), halves[:60], 3, stream(1, "k")).shown == 0


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_most_structure_is_shown_with_as_many_clusters_as_there_are(groups: int) -> None:
    rng = stream(groups, "groups")
    cloud = rng.standard_normal((600, 30))
    points = unit_rows(cloud + 4 * unit_rows(rng.standard_normal((groups, 30)))[np.arange(600) % groups])

    assert structure(points, rng.random(600) < 0.5, 8, stream(1, "k")).clusters == groups


@pytest.mark.parametrize("most", [4, 8])
def test_a_cloud_does_not_stand_out_but_by_chance(most: int) -> None:
    shown = []
    for seed in range(20):
        rng = stream(seed, "cloud")
        points = principal(rng.standard_normal((600, 20)) * np.linspace(3, 0.5, 20))
        shown.append(structure(points, np.arange(600) % 2 == 0, most, stream(seed, "k")).shown)

    assert (np.array(shown) > STANDS_OUT).mean() <= 0.1
    assert 0.8 < np.median(shown) < 1.2


@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("count", [8, 12, 30])
def test_few_points_are_in_as_many_clusters_as_are_farthest_apart(groups: int, count: int) -> None:
    rng = stream(count, "few")
    points = 4 * np.eye(10)[np.arange(count) % groups] + 0.5 * rng.standard_normal((count, 10))

    assert silhouettes(points, 4, stream(0, "k")) == groups
    assert silhouettes(points, 2, stream(0, "k")) == 2


@pytest.mark.parametrize("most", [2, 4, 7])
@pytest.mark.parametrize("count", [20, 45, 90])
def test_of_a_cloud_no_number_of_clusters_is_clear(count: int, most: int) -> None:
    cloud = stream(count, "cloud").standard_normal((count, 40))

    assert silhouettes(cloud, most, stream(0, "k")) is None


@pytest.mark.parametrize(
    ("points", "number"), [(np.eye(2)[[0, 0, 1, 1]], 2), (np.eye(3), None), (np.arange(6.0).reshape(2, 3), None)]
)
def test_points_too_few_or_too_much_alike_for_more_are_in_two_clusters_or_none(
    points: FloatArray, number: int | None
) -> None:
    assert silhouettes(points, 8, stream(0, "k")) == number


def test_equal_points_are_one_though_rounding_has_moved_them_apart() -> None:
    rng = stream(0, "kinds")
    rounded = np.repeat(unit_rows(rng.standard_normal((3, 50))), 20, axis=0) + 1e-16 * rng.standard_normal((60, 50))

    assert distinct(rounded) == 3


def test_principal_axes_hold_the_points_distances_and_begin_with_the_least_of_them() -> None:
    rng = stream(0, "axes")
    points = rng.standard_normal((80, 6)) @ rng.standard_normal((6, 200)) + 3  # six directions, a mean that is not zero
    along = principal(points)
    centred = points - points.mean(axis=0)

    np.testing.assert_allclose(along @ along.T, centred @ centred.T, atol=1e-5 * np.abs(centred @ centred.T).max())
    assert (np.diff(along.std(axis=0)) > -1e-6).all()
    covariance = along.T @ along
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-6 * covariance.max())


@pytest.mark.parametrize("seed", range(3))
def test_silhouettes_are_scikit_learns(seed: int) -> None:
    rng = stream(seed, "silhouettes")
    points, labels = rng.standard_normal((40, 5)), rng.integers(0, 4, 40)
    labels[labels == 3] = np.where(np.arange((labels == 3).sum()) == 0, 3, 0)  # one point has a cluster of its own
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)

    assert _silhouette(distances, labels) == pytest.approx(silhouette_score(points, labels))
    assert _silhouette(distances, np.zeros(40, dtype=np.int64)) == -1
