"""Planted groups have the sizes asked for, and clients draw the classes they should."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.population.heterogeneity import LabelPermutation, LabelSkew, NoGroups, Rotation
from auxo.population.population_plan import PopulationPlan, draw_population

PLAN = PopulationPlan(
    clients=200,
    groups=4,
    heterogeneity=Rotation(),
    n_classes=10,
    samples=(20, 60),
    test_samples=30,
    client_label_concentration=None,
    seed=0,
)


def histograms(plan: PopulationPlan) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return each client's shares of the classes, before labels are renamed."""
    drawn = draw_population(plan).train
    table = np.zeros((plan.clients, plan.n_classes))
    np.add.at(table, (drawn.client_rows(), drawn.classes), 1)
    return table / drawn.counts[:, np.newaxis]


@given(sizes=st.lists(st.floats(0.2, 5), min_size=1, max_size=6), clients=st.integers(200, 400))
def test_groups_have_their_share_of_the_clients(sizes: list[float], clients: int) -> None:
    groups = draw_population(replace(PLAN, clients=clients, groups=tuple(sizes), samples=(1, 2), test_samples=1)).groups
    exact = clients * np.array(sizes) / sum(sizes)
    assert (np.abs(np.bincount(groups, minlength=len(sizes)) - exact) < 1).all()


def test_the_order_of_clients_does_not_tell_their_groups() -> None:
    groups = draw_population(replace(PLAN, clients=2000)).groups
    assert abs(np.corrcoef(groups, np.arange(2000))[0, 1]) < 0.1
    assert np.mean(groups[1:] == groups[:-1]) == pytest.approx(0.25, abs=0.05)


def test_no_groups_makes_one_group_of_all() -> None:
    assert not draw_population(replace(PLAN, heterogeneity=NoGroups())).groups.any()


def test_sample_counts_cover_the_range_that_was_asked_for() -> None:
    planted = draw_population(replace(PLAN, clients=2000, samples=(3, 6)))
    assert np.unique(planted.train.counts).tolist() == [3, 4, 5, 6]
    assert np.unique(planted.test.counts).tolist() == [30]


def test_labels_are_the_names_that_the_clients_group_gives() -> None:
    planted = draw_population(replace(PLAN, heterogeneity=LabelPermutation()))
    labels = planted.labels(planted.train)
    for sample, client in enumerate(planted.train.client_rows()[:500]):
        assert labels[sample] == planted.label_maps[planted.groups[client], planted.train.classes[sample]]


def test_a_clients_classes_come_in_random_order() -> None:
    drawn = draw_population(replace(PLAN, heterogeneity=LabelSkew())).train
    same_client = np.diff(drawn.client_rows()) == 0
    steps = np.sign(np.diff(drawn.classes))[same_client]
    assert abs(np.mean(steps)) < 0.05


def test_label_skew_gives_each_group_its_own_histogram() -> None:
    plan = replace(PLAN, heterogeneity=LabelSkew(concentration=1.0, overlap=0), groups=2)
    groups = draw_population(plan).groups
    tables = histograms(plan)
    assert not tables[groups == 0][:, 5:].any()
    assert not tables[groups == 1][:, :5].any()


def test_dirichlet_makes_clients_differ_more_and_keeps_their_mean() -> None:
    without, mild, strong = (histograms(replace(PLAN, client_label_concentration=alpha)) for alpha in (None, 1.0, 0.1))
    spread = [table.std(axis=0).mean() for table in (without, mild, strong)]
    assert spread[0] * 1.5 < spread[1]
    assert spread[1] * 1.5 < spread[2]
    assert np.allclose(strong.mean(axis=0), 0.1, atol=0.06)


def test_dirichlet_stays_within_the_classes_of_the_group() -> None:
    plan = replace(PLAN, heterogeneity=LabelSkew(1.0, overlap=0), groups=2, client_label_concentration=0.5)
    assert not histograms(plan)[draw_population(plan).groups == 0][:, 5:].any()


def test_a_tiny_dirichlet_concentration_leaves_one_class_a_client() -> None:
    assert (histograms(replace(PLAN, client_label_concentration=1e-6)).max(axis=1) == 1).all()


def test_training_and_test_classes_of_a_client_follow_the_same_distribution() -> None:
    planted = draw_population(replace(PLAN, client_label_concentration=1e-6))
    train = planted.train.classes[planted.train.offsets()[:-1]]
    assert np.array_equal(train, planted.test.classes[planted.test.offsets()[:-1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": 0}, "clients: expected at least 1, got 0"),
        ({"groups": 0}, "groups: expected a number >= 1"),
        ({"groups": ()}, "groups: expected a number >= 1"),
        ({"groups": (1.0, -1.0)}, "groups: expected a number >= 1"),
        ({"groups": (1.0, float("nan"))}, "groups: expected a number >= 1"),
        ({"samples": (0, 5)}, "samples: expected"),
        ({"samples": (6, 5)}, "samples: expected"),
        ({"test_samples": 0}, "test_samples: expected at least 1"),
        ({"client_label_concentration": 0.0}, "client_label_concentration: expected a positive number"),
        ({"clients": 3}, "of 3 clients group 3 would get none"),
        ({"groups": (1000.0, 1.0)}, "of 200 clients group 1 would get none"),
    ],
)
def test_plans_that_cannot_be_planted_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_population(replace(PLAN, **change))  # type: ignore[arg-type]  # the wrong values are the point
