"""Updates are looked at as they are, without what class frequencies explain, and by their inputs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.algorithms.auxo.views import Prints, View, views_of
from auxo.core.fingerprint import unit_rows
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

WIDTH = 40
ONE_BLOCK = np.zeros(WIDTH, dtype=np.int64)


def made(classes: int = 5, count: int = 400, frequencies: float = 3.0, seed: int = 0) -> tuple[Prints, IntArray]:
    """Return fingerprints of clients with frequencies of their own, in three groups, and these."""
    rng = stream(seed, "views")
    of_class, of_group = rng.standard_normal((classes, WIDTH)), unit_rows(rng.standard_normal((3, WIDTH)))
    group = rng.integers(0, 3, count)
    share = rng.dirichlet(np.full(classes, 5 / classes), count) - 1 / classes
    directions = frequencies * share @ of_class + of_group[group] + 0.2 * rng.standard_normal((count, WIDTH))
    prints = Prints(directions, share, np.zeros((count, 0)))
    return prints.less(prints.mean()), group


def view(name: str, prints: Prints) -> View:
    return next(one for one in views_of(prints) if one.name == name)


def apart(points: FloatArray, group: IntArray) -> float:
    """Return how much of the points' spread lies between groups."""
    middle = np.stack([points[group == one].mean(axis=0) for one in range(3)])[group]
    return float((middle**2).sum() / (points**2).sum())


def test_what_a_round_has_in_common_is_taken_off_and_nothing_else() -> None:
    rng = stream(0, "common")
    prints = Prints(rng.standard_normal((9, 4)), rng.standard_normal((9, 3)), rng.standard_normal((9, 2)))
    less = prints.less(prints.mean())

    for column in (less.directions, less.outputs, less.inputs):
        np.testing.assert_allclose(column.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(less.directions - less.directions[0], prints.directions - prints.directions[0])


def test_the_plain_view_has_updates_scaled_to_length_one_and_is_always_there() -> None:
    prints, _ = made()
    first, *_ = views_of(prints)

    assert first == View()
    np.testing.assert_allclose(first.points(prints, ONE_BLOCK), unit_rows(prints.directions))


@given(st.integers(0, 50))
def test_what_is_left_of_an_update_has_nothing_to_do_with_its_outputs(seed: int) -> None:
    prints, _ = made(count=100, seed=seed)
    explained = view("without frequencies", prints).explained
    assert explained is not None
    left = prints.directions - prints.outputs @ explained

    assert np.abs(prints.outputs.T @ left).max() < 1e-3 * np.abs(prints.outputs.T @ prints.directions).max()
    assert (left**2).sum() < (prints.directions**2).sum()


def test_groups_stand_out_without_the_frequencies_that_hide_them() -> None:
    prints, group = made()
    hidden, seen = (view(name, prints).points(prints, ONE_BLOCK) for name in ("plain", "without frequencies"))

    assert apart(seen, group) > 2 * apart(hidden, group)


@pytest.mark.parametrize(("classes", "count"), [(600, 2000), (600, 60), (250, 400)])
def test_very_many_outputs_still_have_the_second_view_by_those_that_clients_differ_in_most(
    classes: int, count: int
) -> None:
    rng = stream(0, "many")
    frequent = np.where(np.arange(classes) % 100 == 7, 1.0, 1e-3)  # most classes are rare
    outputs = frequent * rng.standard_normal((count, classes))
    of_group = unit_rows(rng.standard_normal((3, WIDTH)))[np.arange(count) % 3]
    directions = outputs @ rng.standard_normal((classes, WIDTH)) + of_group
    prints = Prints(directions, outputs, np.zeros((count, 0)))
    hidden, seen = (view(name, prints).points(prints, ONE_BLOCK) for name in ("plain", "without frequencies"))
    explained = view("without frequencies", prints).explained

    assert explained is not None
    assert explained.shape == (classes, WIDTH)
    used = np.abs(explained).max(axis=1) > 0
    assert used[7::100].all()
    assert used.sum() <= count // 8
    assert apart(seen, np.arange(count) % 3) > 2 * apart(hidden, np.arange(count) % 3)


@pytest.mark.parametrize("outputs", [np.zeros((100, 0)), np.ones((100, 1)), np.zeros((100, 5)), np.eye(15)])
def test_with_too_little_to_fit_there_is_no_second_view(outputs: FloatArray) -> None:
    prints = Prints(np.ones((len(outputs), 3)), outputs, np.zeros((len(outputs), 0)))

    assert "without frequencies" not in [one.name for one in views_of(prints)]


def test_views_of_inputs_are_there_where_inputs_differ_and_have_points_about_one_long() -> None:
    rng = stream(0, "inputs")
    prints, _ = made()
    with_inputs = replace(prints, inputs=7.0 * rng.standard_normal((400, 12)))

    names = ["plain", "without frequencies", "input energies", "input means", "frequencies"]
    assert [one.name for one in views_of(with_inputs)] == names
    for name in ("input energies", "input means"):
        points = view(name, with_inputs).points(with_inputs, ONE_BLOCK)
        assert np.median(np.linalg.norm(points, axis=1)) == pytest.approx(1)
    without_means = replace(prints, inputs=with_inputs.inputs * (np.arange(12) < 6))
    assert "input means" not in [one.name for one in views_of(without_means)]
    alike = replace(prints, inputs=np.zeros((400, 12)))
    assert not {"input energies", "input means"} & {one.name for one in views_of(alike)}


def test_whose_means_are_far_off_is_no_farther_than_twice_the_usual() -> None:
    rng = stream(0, "inputs")
    prints, _ = made()
    inputs = rng.standard_normal((400, 12))
    inputs[7, 6:] *= 1000
    far = replace(prints, inputs=inputs)
    points = view("input means", far).points(far, ONE_BLOCK)

    assert np.linalg.norm(points[7]) == pytest.approx(2)
    np.testing.assert_allclose(points[7] / 2, inputs[7, 6:] / np.linalg.norm(inputs[7, 6:]), atol=1e-3)


@pytest.mark.parametrize("outputs", [np.zeros((100, 0)), np.ones((100, 1)), np.zeros((100, 5))])
def test_without_outputs_that_move_there_is_no_view_of_frequencies(outputs: FloatArray) -> None:
    prints = Prints(np.ones((len(outputs), 3)), outputs, np.zeros((len(outputs), 0)))

    assert "frequencies" not in [one.name for one in views_of(prints)]


@pytest.mark.parametrize("name", ["plain", "input energies"])
def test_the_nearest_centre_is_the_one_that_a_point_is_at_and_a_cluster_that_is_not_there_is_nobodys(
    name: str,
) -> None:
    seen = View("plain") if name == "plain" else View("input energies")
    centres = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    near = seen.nearness(np.array([[1.0, 0.0], [0.0, 1.0], [-9.0, 0.0]]), centres)

    assert near[:2, :2].argmax(axis=1).tolist() == [0, 1]
    assert np.isnan(near[:, 2]).all()
    if name == "input energies":
        assert near[0, 0] == near[1, 1] == 1
        assert near[2].tolist()[:2] == [-1, -1]
