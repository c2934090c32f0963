"""K-means: as scikit-learn has it, in less time."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from auxo.algorithms.auxo.kmeans import divided, kmeans
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray


def made_clusters(number: int, each: int, noise: float, seed: int) -> tuple[FloatArray, IntArray]:
    rng = stream(seed, "made clusters")
    labels = np.arange(number * each) % number
    return 4 * rng.standard_normal((number, 10))[labels] + noise * rng.standard_normal((len(labels), 10)), labels


def left(points: FloatArray, centres: FloatArray) -> float:
    """Return the squared distances of points from their nearest centres."""
    return float(((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).min(axis=1).sum())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [2, 3, 8])
def test_clusters_that_are_far_apart_are_found_as_scikit_learn_finds_them(number: int, seed: int) -> None:
    points, groups = made_clusters(number, 25, 0.5, seed)
    centres, labels = kmeans(points, number, 10, stream(seed, "k"))
    theirs = KMeans(number, n_init=10, random_state=seed).fit(points)

    assert adjusted_rand_score(groups, labels) == 1
    assert left(points, centres) == pytest.approx(theirs.inertia_, rel=1e-9)
    for cluster in range(number):
        np.testing.assert_allclose(centres[cluster], points[labels == cluster].mean(axis=0))


@pytest.mark.parametrize("seed", range(4))
def test_where_clusters_overlap_about_as_little_is_left_as_scikit_learn_leaves(seed: int) -> None:
    points, _ = made_clusters(5, 60, 4.0, seed)
    centres, labels = kmeans(points, 5, 10, stream(seed, "k"))
    theirs = KMeans(5, n_init=10, random_state=seed).fit(points)

    assert left(points, centres) <= 1.01 * theirs.inertia_
    np.testing.assert_array_equal(labels, ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1))


def test_more_starts_never_leave_more() -> None:
    points, _ = made_clusters(6, 30, 3.0, 1)
    found = [left(points, kmeans(points, 6, starts, stream(0, "k"))[0]) for starts in (1, 2, 4, 8)]

    assert found == sorted(found, reverse=True)


def test_of_points_of_few_kinds_every_kind_is_a_cluster_and_more_clusters_than_kinds_break_nothing() -> None:
    kinds = stream(0, "kinds").standard_normal((3, 10))
    points = kinds[np.arange(60) % 3]
    for number in (3, 5):
        centres, labels = kmeans(points, number, 5, stream(0, "k"))

        assert adjusted_rand_score(np.arange(60) % 3, labels) == 1
        assert centres.shape == (number, 10)
        assert left(points, centres) == pytest.approx(0, abs=1e-12)


def test_equal_points_are_all_in_one_cluster() -> None:
    centres, labels = kmeans(np.ones((7, 4)), 3, 2, stream(0, "k"))

    assert set(labels.tolist()) == {labels[0]}
    np.testing.assert_array_equal(centres, np.ones((3, 4)))


def test_dividing_gives_the_centres_of_every_number_of_clusters_on_the_way() -> None:
    points, groups = made_clusters(5, 40, 0.5, 2)
    found = list(divided(points, 7))

    assert [len(centres) for centres in found] == [2, 3, 4, 5, 6, 7]
    assert [left(points, one) for one in found] == sorted((left(points, one) for one in found), reverse=True)
    nearest = ((points[:, None, :] - found[3][None]) ** 2).sum(axis=2).argmin(axis=1)
    assert adjusted_rand_score(groups, nearest) == 1
