"""Updates are looked at without what class frequencies explain, or as they are where that shows much more structure."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.algorithms.auxo import ClusteringSettings, TrialSettings
from auxo.algorithms.auxo.pool import Pool, PooledRound, start_clustering
from auxo.algorithms.auxo.search import CohortNow, Search, Seen, look
from auxo.algorithms.auxo.views import View, without_frequencies
from auxo.core.aggregators import FedAvg
from auxo.core.clustering import near_centres
from auxo.core.fingerprint import Fingerprint, unit_rows
from auxo.core.layers import Layer
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

CLASSES, WIDTH = 5, 40
SETTINGS = ClusteringSettings(clusters=3, pool_rounds=4, pool_per_cluster=10)


def made(groups: float, frequencies: float, seed: int = 0, count: int = 400) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return directions, outputs and groups of clients with frequencies of their own, in three groups."""
    rng = stream(seed, "views")
    of_class, of_group = rng.standard_normal((CLASSES, WIDTH)), unit_rows(rng.standard_normal((3, WIDTH)))
    group = rng.integers(0, 3, count)
    share = rng.dirichlet(np.ones(CLASSES), count) - 1 / CLASSES
    directions = frequencies * share @ of_class + groups * of_group[group] + 0.2 * rng.standard_normal((count, WIDTH))
    return directions, share, group


def pool_of(directions: FloatArray, outputs: FloatArray) -> Pool:
    pool = Pool()
    for rows in np.array_split(np.arange(len(directions)), 4):
        pool = pool.after(PooledRound.of(directions[rows], outputs[rows], rows % 2 == 0), SETTINGS)
    return pool


def purity(directions: FloatArray, outputs: FloatArray, group: IntArray, settings: ClusteringSettings) -> float:
    started = start_clustering(pool_of(directions, outputs), settings, 0, None, stream(0, "cluster"))
    assert started is not None
    assert started.clustering.centres is not None
    seen = started.view.of(directions, outputs)
    nearest = (unit_rows(seen - seen.mean(axis=0)) @ started.clustering.centres.T).argmax(axis=1)
    return sum(float(np.bincount(group[nearest == one]).max(initial=0)) for one in range(3)) / len(group)


def test_groups_are_found_behind_frequencies_that_hide_them() -> None:
    directions, outputs, group = made(groups=1.0, frequencies=4.0)

    assert purity(directions, outputs, group, SETTINGS) > 0.95
    assert purity(directions, outputs, group, ClusteringSettings(3, 4, 10, views="plain")) < 0.7


def test_the_view_without_frequencies_comes_first_and_the_other_one_where_it_shows_something_too() -> None:
    directions, outputs, _ = made(groups=1.0, frequencies=1.0)
    pool = pool_of(directions, outputs)
    started = start_clustering(pool, SETTINGS, 0, None, stream(0, "cluster"))
    again = start_clustering(pool, SETTINGS, 1, None, stream(0, "cluster"), "plain")

    assert started is not None
    assert again is not None
    assert (started.view.explained is not None, started.other) == (True, "plain")
    assert (again.view.explained, again.other) == (None, None)


def test_there_are_as_many_clusters_as_show_most_and_other_numbers_are_nobodys() -> None:
    directions, outputs, _ = made(groups=1.0, frequencies=0.0)
    many = replace(SETTINGS, clusters=8)
    started = start_clustering(pool_of(directions, outputs), many, 0, None, stream(0, "cluster"))
    always = start_clustering(
        pool_of(directions, outputs), replace(many, finds_number=False), 0, None, stream(0, "cluster")
    )
    assert started is not None
    assert started.clustering.centres is not None
    assert always is not None
    assert always.clustering.centres is not None

    assert started.structure.clusters == 3
    assert started.clustering.centres.any(axis=1).tolist() == [True] * 3 + [False] * 5
    assert always.clustering.centres.any(axis=1).all()
    near = near_centres(unit_rows(directions), started.clustering.centres)
    assert np.isnan(near[:, 3:]).all()
    assert np.isfinite(near[:, :3]).all()


def test_groups_that_differ_in_their_frequencies_alone_are_looked_at_as_they_are() -> None:
    rng = stream(1, "views")
    group = rng.integers(0, 3, 400)
    share = np.stack([rng.dirichlet(1 + 30 * (np.arange(CLASSES) == one)) for one in group]) - 1 / CLASSES
    directions = share @ rng.standard_normal((CLASSES, WIDTH)) + 0.2 * rng.standard_normal((400, WIDTH))
    started = start_clustering(pool_of(directions, share), SETTINGS, 0, None, stream(0, "cluster"))

    assert started is not None
    assert started.view.explained is None
    assert purity(directions, share, group, SETTINGS) > 0.95


def looked_at(directions: FloatArray, outputs: FloatArray) -> Search:
    """Return the search after four rounds of these updates."""
    search, count = Search(), len(directions) // 4
    now = CohortNow(FedAvg().initial(np.zeros(3, dtype=np.float32)), round=4, share=count)
    for rows in np.array_split(np.arange(len(directions)), 4):
        seen = Seen(
            directions[rows],
            outputs[rows],
            np.zeros(WIDTH, dtype=np.int64),
            np.full(len(rows), -1),
            np.full(len(rows), -1),
            rows % 2 == 0,
        )
        search = look(search, seen, now, SETTINGS, TrialSettings(), stream(0, "cluster")).search
    return search


def test_where_updates_show_no_structure_a_cohort_looks_again_later() -> None:
    directions, outputs, _ = made(groups=0.0, frequencies=0.0)

    found = looked_at(directions, outputs)

    assert not found.follows
    assert found.pool == Pool()
    assert found.rests_until == max(4, 6 - 4)  # half as many rounds again, the pool's included
    assert looked_at(*made(groups=1.0, frequencies=1.0)[:2]).follows


@given(st.integers(0, 50))
def test_what_is_left_has_nothing_to_do_with_the_outputs(seed: int) -> None:
    directions, outputs, _ = made(1.0, 3.0, seed, count=100)
    directions, outputs = directions - directions.mean(axis=0), outputs - outputs.mean(axis=0)
    view = without_frequencies(directions, outputs)
    assert view is not None
    left = view.of(directions, outputs)

    assert np.abs(outputs.T @ left).max() < 1e-3 * np.abs(outputs.T @ directions).max()
    assert (left**2).sum() < (directions**2).sum()


@pytest.mark.parametrize("outputs", [np.zeros((100, 0)), np.ones((100, 1)), np.zeros((100, 5)), np.eye(20)])
def test_with_too_little_to_fit_there_is_one_view(outputs: FloatArray) -> None:
    assert without_frequencies(np.ones((len(outputs), 3)), outputs) is None


def test_the_plain_view_leaves_updates_as_they_are() -> None:
    rows = np.ones((2, 3))

    assert View().of(rows, np.zeros((2, 0))) is rows


def test_outputs_are_how_the_last_layers_biases_move() -> None:
    layers = Layer((3, 4)), Layer((3,)), Layer((2, 3)), Layer((2,))
    update = np.arange(23, dtype=np.float32)

    assert Fingerprint(23, layers=layers).outputs(update).tolist() == pytest.approx(
        [21 / np.hypot(21, 22), 22 / np.hypot(21, 22)]
    )
    assert len(Fingerprint(21, layers=layers[:3]).outputs(update[:21])) == 0  # its last layer has no bias
    assert len(Fingerprint(23).outputs(update)) == 0
    assert Fingerprint(23, layers=layers).outputs(np.zeros(23, dtype=np.float32)).tolist() == [0, 0]
