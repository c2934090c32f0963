"""Planted groups are found in the view that shows them, as many as there are."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from auxo.algorithms.auxo.looking import Candidate, MostClusters, best_first, look
from auxo.algorithms.auxo.number_of_clusters import STANDS_OUT
from auxo.algorithms.auxo.views import Prints, View, ViewName
from auxo.core.rng import stream
from auxo.core.types import IntArray
from tests.algorithms.auxo.made_prints import Seen, of_updates, seen

CLUSTERS = 6


def looked(at: Seen, most: int = CLUSTERS) -> tuple[Candidate, ...]:
    return look(
        at.prints,
        at.blocks,
        MostClusters(most, most, 8),
        at.first_half,
        np.arange(len(at.groups)),
        stream(0, "cluster"),
    )


def nearest(candidate: Candidate, at: Seen) -> IntArray:
    near = candidate.view.nearness(candidate.view.points(at.prints, at.blocks), candidate.centres)
    return np.asarray(np.where(np.isnan(near), -np.inf, near).argmax(axis=1))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize(
    ("kind", "view"),
    [("classes", "plain"), ("turned", "without frequencies"), ("units", "input energies"), ("shifted", "input means")],
)
def test_the_view_that_shows_the_planted_groups_comes_first_unless_another_shows_them_too(
    kind: str, view: ViewName, groups: int, seed: int
) -> None:
    at = seen(kind, groups, seed=seed)
    found = looked(at)
    place = [one.view.name for one in found].index(view)

    for best in found[: place + 1]:  # one that comes before may part groups further, and mixes none
        assert homogeneity_score(at.groups, nearest(best, at)) > 0.95
        assert best.centres.any(axis=1).all()
        assert best.shown > STANDS_OUT
    assert found[place].clusters == groups
    assert adjusted_rand_score(at.groups, nearest(found[place], at)) > 0.95


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("grouped", [True, False])
def test_of_hundreds_of_classes_frequencies_show_groups_of_them_and_are_no_candidate_without(
    grouped: bool, seed: int
) -> None:
    rng, groups = stream(seed, "classes"), np.arange(240) % 4
    # Each has 30 samples of classes that are its group's, 100 of 400, or any.
    drawn = rng.integers(100, size=(240, 30)) + 100 * groups[:, None] if grouped else rng.integers(400, size=(240, 30))
    outputs = np.stack([np.bincount(one, minlength=400) for one in drawn]).astype(np.float64)
    noise = rng.standard_normal((240, 50))
    prints = Prints(noise, outputs - outputs.mean(axis=0), np.zeros((240, 0)))
    found = look(
        prints, np.zeros(50, dtype=np.int64), MostClusters(8, 8, 8), rng.random(240) < 0.5, np.arange(240), rng
    )
    shown = [one for one in found if one.view.name == "frequencies"]

    assert bool(shown) is grouped
    for one in shown:
        near = one.view.nearness(one.view.points(prints, None), one.centres).argmax(axis=1)
        assert one is found[0]
        assert adjusted_rand_score(groups, near) > 0.95


@pytest.mark.parametrize("most", [4, 8])
def test_where_none_stand_out_half_as_many_clusters_leave_room_for_another_view(most: int) -> None:
    rng = stream(0, "cloud")
    at = of_updates(rng.standard_normal((400, 54)).astype(np.float32), np.zeros(400, dtype=np.int64))
    found = [one for one in looked(at, most) if one.shown < STANDS_OUT]

    assert found
    assert all(2 <= one.clusters <= most // 2 for one in found)


@pytest.mark.parametrize("groups", [2, 3])
def test_where_updates_are_too_few_to_tell_views_are_taken_as_they_come(groups: int) -> None:
    at = seen("classes", groups, clients=30)
    found = looked(at)

    assert [one.view.name for one in found] == ["plain", "without frequencies", "input energies", "input means"]
    assert {one.shown for one in found} == {np.inf}
    assert found[0].clusters == groups
    assert adjusted_rand_score(at.groups, nearest(found[0], at)) == 1


def test_no_more_clusters_are_looked_for_than_may_be() -> None:
    assert {one.clusters for one in looked(seen("classes", 3), most=2)} == {2}


@pytest.mark.parametrize("clients", [3, 8, 200])
def test_equal_updates_give_no_candidate(clients: int) -> None:
    update = np.arange(1, 55, dtype=np.float32)

    assert looked(of_updates(np.tile(update, (clients, 1)), np.zeros(clients, dtype=np.int64))) == ()


def test_zero_updates_give_no_candidate() -> None:
    assert looked(of_updates(np.zeros((40, 54), dtype=np.float32), np.zeros(40, dtype=np.int64))) == ()


def test_updates_of_few_kinds_are_so_many_clusters_and_no_more() -> None:
    kinds = stream(0, "kinds").standard_normal((3, 54)).astype(np.float32)
    at = of_updates(kinds[np.arange(240) % 3], np.arange(240) % 3)

    plain = next(one for one in looked(at) if one.view.name == "plain")

    assert plain.clusters == 3
    assert np.isfinite(plain.centres).all()
    assert adjusted_rand_score(at.groups, nearest(plain, at)) == 1


def test_the_same_generator_gives_the_same_bits_and_nothing_is_changed() -> None:
    at = seen("turned", 2, clients=60)
    before = at.prints.directions.copy()
    one, other = looked(at), looked(at)

    assert [a.view.name for a in one] == [b.view.name for b in other]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.centres, b.centres)
    np.testing.assert_array_equal(at.prints.directions, before)


@pytest.mark.parametrize(
    ("shown", "clusters", "first"),
    [
        ((2.0, 2.1), (3, 3), 0),  # about as much: as views come
        ((2.0, 3.0), (3, 3), 1),
        ((2.0, 2.1), (8, 3), 1),  # eight would be on trial alone
        ((2.1, 2.0), (8, 3), 1),
        ((2.0, 2.1), (5, 5), 0),  # neither leaves room
        ((3.0, 2.0), (8, 3), 0),  # clearly more
        ((np.inf, np.inf), (8, 3), 0),  # nobody can tell
    ],
)
def test_candidates_come_by_what_they_show_and_if_that_is_about_as_much_leave_room_for_others(
    shown: tuple[float, float], clusters: tuple[int, int], first: int
) -> None:
    names: tuple[ViewName, ...] = ("plain", "input means")
    views = [
        Candidate(View(name), much, np.eye(8)[:number])
        for name, much, number in zip(names, shown, clusters, strict=True)
    ]

    assert best_first(views, 8) == (views[first], views[1 - first])
