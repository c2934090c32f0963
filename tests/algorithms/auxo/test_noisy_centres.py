"""Centres from sketches that are mostly noise: labels that clients give themselves by them are right."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from auxo.algorithms.auxo.kmeans import kmeans
from auxo.algorithms.auxo.noisy_centres import needed, noisy_centres, same_length
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray
from auxo.core.words import label_of
from auxo.privacy.priv_unit import PrivUnit

WIDTH, CLIENTS = 32, 2000


def _clients(groups: int, between: float, seed: int) -> tuple[FloatArray, IntArray]:
    """Return sketches of length one with a share of their energy between groups, and the groups."""
    rng = stream(seed, "clients")
    centres = rng.standard_normal((groups, WIDTH))
    centres -= centres.mean(axis=0)
    centres /= max(np.sqrt((centres**2).sum(axis=1).mean()), 1e-9)
    group = rng.integers(groups, size=CLIENTS)
    own = rng.standard_normal((CLIENTS, WIDTH)) / np.sqrt(WIDTH)
    sketches = np.sqrt(between) * centres[group] + np.sqrt(1 - between) * own
    return sketches / np.linalg.norm(sketches, axis=1, keepdims=True), group


def _self_given(clean: FloatArray, centres: FloatArray) -> list[int | None]:
    return [label_of(one, centres.tolist()) for one in clean]


@pytest.mark.parametrize(
    ("groups", "epsilon", "read_at_most", "given_at_least"),
    [
        (2, 2, 0.25, 0.98),
        (2, 4, 0.65, 0.98),
        (2, 8, 0.92, 0.98),
        (4, 2, 0.06, 0.3),
        (4, 4, 0.3, 0.8),
        (4, 8, 0.8, 0.98),
    ],
)
def test_labels_that_clients_give_themselves_are_right_where_those_read_from_sketches_are_chance(
    groups: int, epsilon: float, read_at_most: float, given_at_least: float
) -> None:
    read, given = [], []
    for seed in (100, 101, 102):
        clean, group = _clients(groups, 0.5, seed)
        said = PrivUnit(WIDTH, epsilon).draw(clean, stream(seed, "noise"))
        centres, labels = kmeans(said, groups, 10, stream(seed, "centres"))
        read.append(adjusted_rand_score(group, labels))
        given.append(adjusted_rand_score(group, _self_given(clean, centres)))

    assert np.mean(read) <= read_at_most
    assert np.mean(given) >= given_at_least


@pytest.mark.parametrize(("groups", "epsilon"), [(2, 4), (2, 8), (3, 8), (4, 8)])
def test_as_many_centres_are_found_as_there_are_groups(groups: int, epsilon: float) -> None:
    clean, group = _clients(groups, 0.5, 100)
    said = PrivUnit(WIDTH, epsilon).draw(clean, stream(100, "noise"))

    centres = noisy_centres(said - said.mean(axis=0), 8, stream(100, "centres"))

    assert centres is not None
    assert len(centres) == groups
    assert adjusted_rand_score(group, _self_given(clean, said.mean(axis=0) + centres)) > 0.98
    # They are where the groups are, and not farther out: noise has not been taken for distance.
    true = np.stack([clean[group == one].mean(axis=0) for one in range(groups)]) - clean.mean(axis=0)
    found = np.sort(np.linalg.norm(centres, axis=1))
    np.testing.assert_allclose(found, np.sort(np.linalg.norm(true, axis=1)), rtol=0.2)


@pytest.mark.parametrize("epsilon", [2, 4, 8])
def test_where_there_are_no_groups_hardly_ever_any_centres_are_found(epsilon: float) -> None:
    found = 0
    for seed in range(100, 140):
        clean, _ = _clients(1, 0.5, seed)
        said = PrivUnit(WIDTH, epsilon).draw(clean, stream(seed, "noise"))
        found += noisy_centres(said - said.mean(axis=0), 2, stream(seed, "centres")) is not None

    assert found <= 6  # one look of twenty


def test_fewer_sketches_are_needed_where_there_is_less_noise() -> None:
    clean, _ = _clients(2, 0.5, 100)
    many = [needed(PrivUnit(WIDTH, epsilon).draw(clean, stream(0, "noise"))) for epsilon in (2, 4, 8)]

    assert many[0] > 10 * many[1] > 50 * many[2]


def test_nobody_counts_for_more_by_a_longer_sketch() -> None:
    clean, _ = _clients(2, 0.5, 100)
    said = PrivUnit(WIDTH, 4.0).draw(clean, stream(0, "noise"))
    forged = said.copy()
    forged[:200] *= 1e4
    forged[200] = 0.0

    lengths = np.linalg.norm(same_length(forged), axis=1)

    np.testing.assert_allclose(np.delete(lengths, 200), np.linalg.norm(said[-1]), rtol=1e-9)
    np.testing.assert_allclose(same_length(forged)[:200], said[:200], rtol=1e-9)


def test_in_too_few_sketches_nothing_is_looked_for() -> None:
    assert noisy_centres(np.zeros((10, WIDTH)), 8, stream(0, "few")) is None
    assert noisy_centres(np.zeros((0, WIDTH)), 2, stream(0, "none")) is None
