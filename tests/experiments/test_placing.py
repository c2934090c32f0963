"""Walking down the tree: where clients come to, how many models they try, and what it costs."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.experiments.placing import place_newcomers
from auxo.population.federated_data import FederatedData, Samples
from auxo.simulation.devices import EqualDevices
from auxo.training.softmax_trainer import SoftmaxTrainer

FEATURES, CLASSES, SAMPLES = 6, 4, 30
# Four halvings of two: sixteen leaves, of which nobody should have to try all.
DEPTH = 4


def deep_tree() -> CohortTree:
    tree, level = CohortTree(), [ROOT]
    for _ in range(DEPTH):
        for cohort in level:
            tree = tree.partition(cohort, (0, 1), (0.5, 0.5))
        level = [child for branch in tree.branches if branch.cohort in level for child in branch.children]
    return tree


def truth_of(leaf: CohortId) -> Float32Array:
    """Return the weights of a leaf: each partition on its way adds a difference, and later ones smaller ones."""
    weights = np.zeros((FEATURES, CLASSES))
    for depth, _ in enumerate(leaf.split(".")[1:], start=1):
        name = ".".join(leaf.split(".")[: depth + 1])
        weights += stream(5, "difference", name).normal(size=weights.shape) * 3 / depth
    return np.concatenate([weights.ravel(), np.zeros(CLASSES)]).astype(np.float32)


def population(leaves: tuple[CohortId, ...], each: int) -> FederatedData:
    """Return clients of every leaf, whose labels follow from its weights."""
    clients = len(leaves) * each
    x = stream(6, "x").normal(size=(clients * SAMPLES, FEATURES)).astype(np.float32)
    y = np.empty(len(x), dtype=np.int64)
    for client in range(clients):
        mine = slice(client * SAMPLES, (client + 1) * SAMPLES)
        weights = truth_of(leaves[client // each])[:-CLASSES].reshape(FEATURES, CLASSES)
        y[mine] = (x[mine] @ weights).argmax(axis=1)
    samples = Samples(np.arange(len(y)), y, np.arange(clients + 1) * SAMPLES)
    return FederatedData("deep", x, samples, samples, CLASSES, tuple(f"c{number}" for number in range(clients)))


def test_clients_find_their_leaf_in_a_deep_tree_with_few_models() -> None:
    tree, each = deep_tree(), 10
    data = population(tree.leaves, each)
    models = {leaf: truth_of(leaf) for leaf in tree.leaves}
    placed = place_newcomers(tree, models, SoftmaxTrainer(FEATURES, CLASSES), data)

    right = np.array([cohort == tree.leaves[row // each] for row, cohort in enumerate(placed.cohort)])
    assert right.mean() > 0.9
    assert placed.models.min() == 2 * DEPTH
    assert placed.models.mean() < 0.75 * len(tree.leaves)
    assert (placed.samples == SAMPLES).all()
    assert (placed.margin[right] > 0).all()


def test_each_client_is_placed_as_it_would_be_alone() -> None:
    tree = deep_tree()
    data = population(tree.leaves, 2)
    models = {leaf: truth_of(leaf) for leaf in tree.leaves}
    trainer = SoftmaxTrainer(FEATURES, CLASSES)
    together = place_newcomers(tree, models, trainer, data)
    for client in (0, 13, 31):
        mine = data.train.of(client)
        only = Samples(data.train.x_rows[mine], data.train.y[mine], np.array([0, SAMPLES]))
        alone = place_newcomers(
            tree, models, trainer, replace(data, train=only, test=only, client_names=("alone",), groups=None)
        )
        assert alone.cohort[0] == together.cohort[client]
        assert alone.models[0] == together.models[client]


def test_where_there_is_one_cohort_nothing_is_tried() -> None:
    data = population(deep_tree().leaves, 1)
    placed = place_newcomers(CohortTree(), {ROOT: truth_of(ROOT)}, SoftmaxTrainer(FEATURES, CLASSES), data)
    assert set(placed.cohort) == {"0"}
    assert placed.models.sum() == placed.samples.sum() == 0
    assert np.isnan(placed.loss).all()


def test_children_that_cannot_be_told_apart_are_both_followed() -> None:
    tree = deep_tree()
    data = population(tree.leaves, 1)
    same = dict.fromkeys(tree.leaves, truth_of(tree.leaves[0]))
    placed = place_newcomers(tree, same, SoftmaxTrainer(FEATURES, CLASSES), data)
    assert (placed.models == len(tree.cohorts) - 1).all()


def test_a_model_that_has_diverged_is_nobody_s() -> None:
    tree = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
    data = population(tree.leaves, 3)
    broken = {leaf: truth_of(leaf) for leaf in tree.leaves} | {CohortId("0.0"): np.full_like(truth_of(ROOT), np.nan)}
    placed = place_newcomers(tree, broken, SoftmaxTrainer(FEATURES, CLASSES), data)
    assert set(placed.cohort) == {"0.1"}


def test_it_is_charged_for_downloads_and_for_a_third_of_training_but_uploads_nothing() -> None:
    tree = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
    data = population(tree.leaves, 3)
    trainer = SoftmaxTrainer(FEATURES, CLASSES)
    placed = place_newcomers(tree, {leaf: truth_of(leaf) for leaf in tree.leaves}, trainer, data, most_samples=9)
    assert (placed.samples == 9).all()
    devices = EqualDevices().draw(data.n_clients, 0)
    expected = 18 / 3 * devices.compute_s_per_sample + 2 * 32 * trainer.n_params / devices.download_bps
    assert placed.device_s(devices, trainer.n_params) == pytest.approx(expected)


def test_who_has_nothing_to_compare_by_is_named() -> None:
    data = population(deep_tree().leaves, 1)
    offsets = data.train.offsets.copy()
    offsets[3] = offsets[2]
    with pytest.raises(ValueError, match="got none of 'c2'; leave it out"):
        place_newcomers(
            deep_tree(),
            {},
            SoftmaxTrainer(FEATURES, CLASSES),
            replace(data, train=replace(data.train, offsets=offsets)),
        )
    with pytest.raises(ValueError, match="most_samples: expected at least 1, got 0"):
        place_newcomers(deep_tree(), {}, SoftmaxTrainer(FEATURES, CLASSES), data, most_samples=0)


def test_a_placement_says_how_the_cohorts_compare_and_whether_samples_tell_them_apart() -> None:
    tree = CohortTree().partition(ROOT, (0, 1, 2), (0.4, 0.3, 0.3))
    data = population(tree.leaves, 4)
    models = {leaf: truth_of(leaf) for leaf in tree.leaves}
    trainer = SoftmaxTrainer(FEATURES, CLASSES)
    placed = place_newcomers(tree, models, trainer, data)
    assert placed.is_sure.all()
    ordered = np.sort(placed.losses, axis=1)
    assert placed.loss == pytest.approx(ordered[:, 0])
    assert placed.margin == pytest.approx(ordered[:, 1] - ordered[:, 0])
    assert placed.rival[0] == tree.leaves[int(placed.losses[0].argsort()[1])]
    nearly = {leaf: weights.copy() for leaf, weights in models.items()}
    noise = stream(7, "noise").normal(size=trainer.n_params).astype(np.float32)
    nearly[tree.leaves[1]] = models[tree.leaves[0]] + np.float32(0.01) * noise
    unsure = place_newcomers(tree, nearly, trainer, data)
    assert not unsure.is_sure[:4].all()
    assert unsure.is_sure[8:].all()
    assert not place_newcomers(tree, models, trainer, data, most_samples=1).is_sure.any()


def test_where_all_models_have_diverged_nobody_is_surely_placed() -> None:
    tree = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
    data = population(tree.leaves, 3)
    broken = dict.fromkeys(tree.leaves, np.full_like(truth_of(ROOT), np.nan))
    placed = place_newcomers(tree, broken, SoftmaxTrainer(FEATURES, CLASSES), data)
    assert not placed.is_sure.any()
    assert set(placed.cohort) <= set(tree.leaves)
