"""Updates that go on saying where clients belong, in cohorts that were parted by their inputs."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, Pooling
from auxo.algorithms.auxo.sorting import Sorting
from auxo.algorithms.auxo.views import Prints, View, ViewName
from auxo.core.aggregators import FedAvg
from auxo.core.asking import Asks
from auxo.core.cohort_algorithm import Closing, Participants
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.own_state import own
from auxo.core.partition import Outlook
from auxo.core.types import ROOT, BoolArray, CohortId, FloatArray
from tests.algorithms.auxo.made_trials import heard, said_of, trial_of, two_groups

HERE, THERE = CohortId("0.1"), CohortId("0.0")
TREE = CohortTree().partition(ROOT, (0, 1, 1, 0), (0.5, 0.5))  # labels 2 and 3 are the clusters' below
CENTRES = np.array([[1.0, -1.0, 0.0], [-1.0, 0.0, 1.0]])


def prints_at(energies: FloatArray) -> Prints:
    nothing = np.zeros((len(energies), 0))
    return Prints(np.zeros((len(energies), 2)), nothing, np.concatenate([energies, 0 * energies], axis=1))


def sorting(speaks: tuple[bool, bool] = (True, True)) -> Sorting:
    common = prints_at(np.array([[0.5, 0.5, 0.5]]))
    return Sorting(ROOT, View("input energies"), CENTRES, common, np.zeros(2, dtype=np.int64), 2, np.array(speaks))


def closing(tree: CohortTree = TREE, offered: tuple[CohortId, ...] = (HERE, THERE)) -> Closing:
    participants = Participants(np.arange(8), offered, Asks.plain(8))
    state = CohortState(FedAvg().initial(np.zeros(3, dtype=np.float32)), memory=Pooling())
    return Closing(HERE, (state,), participants, Outlook(0.1, 8, 2, 20.0), share=4, tree=tree)


def energies_of(clusters: list[int]) -> FloatArray:
    return np.asarray(0.5 + CENTRES[clusters] + 0.1)


def members(count: int) -> BoolArray:
    return np.arange(8) < count


def test_an_update_names_the_cohort_that_its_cluster_went_to() -> None:
    places = sorting().places(closing(), prints_at(energies_of([0] * 5 + [1, 1, 0])), members(5))

    assert places.tolist() == [0] * 5 + [1, 1, 0]  # cluster 0 is label 2, which leads here


@pytest.mark.parametrize(
    ("clusters", "known"),
    [([0, 0, 0, 0, 1, 1, 1, 0], 5), ([0] * 8, 4), ([1] * 8, 8)],
    ids=["a member would go elsewhere", "too few members", "all would"],
)
def test_it_says_nothing_where_members_do_not_bear_it_out(clusters: list[int], known: int) -> None:
    assert sorting().places(closing(), prints_at(energies_of(clusters)), members(known)).tolist() == [-1] * 8


def test_a_cluster_that_became_no_cohort_of_its_own_sends_nobody_anywhere() -> None:
    prints = prints_at(energies_of([0] * 5 + [1, 1, 0]))

    assert sorting((True, False)).places(closing(), prints, members(5)).tolist() == [0] * 5 + [-1, -1, 0]


def test_members_near_a_cluster_that_does_not_speak_bear_out_what_others_say() -> None:
    tree = CohortTree().partition(ROOT, (0, 1, 1, 1), (0.5, 0.5))  # both clusters' labels lead here
    places = sorting((True, False)).places(closing(tree), prints_at(energies_of([0, 1, 1, 1, 1, 1, 0, 1])), members(5))

    assert places.tolist() == [0, -1, -1, -1, -1, -1, 0, -1]


def test_it_says_nothing_of_who_is_far_from_all_clusters_or_has_shown_nothing_of_its_inputs() -> None:
    energies = energies_of([0] * 8)
    energies[6], energies[7] = (9.0, -9.0, 0.0), 0.0

    assert sorting().places(closing(), prints_at(energies), members(6)).tolist() == [0] * 6 + [-1, -1]


def test_it_says_nothing_of_a_cohort_that_has_been_parted_since() -> None:
    tree = TREE.partition(THERE, (0, 1), (0.5, 0.5))
    now = closing(tree, (HERE, *tree.leaves_of(THERE)))

    assert sorting().places(now, prints_at(energies_of([0] * 6 + [1, 1])), members(6)).tolist() == [0] * 6 + [-1, -1]


@pytest.mark.parametrize(
    ("name", "sorts"),
    [("input energies", True), ("input means", True), ("plain", False), ("without frequencies", False)],
)
def test_only_what_hangs_on_inputs_alone_outlives_the_model_that_all_had(name: ViewName, sorts: bool) -> None:
    losses = np.full((20, 6), 2.0)
    losses[:, [0, 3, 4]] = two_groups(20, 0.2)  # nobody would choose the last branch of the second candidate
    trial = trial_of(5, branches=(2, 3), evidence=heard(said_of(losses), (2, 3)))
    shadows = tuple(replace(shadow, view=View(name)) for shadow in trial.shadows)
    parted = replace(trial, shadows=shadows).parted(ROOT, 1)
    state = closing().states[0]
    child = own(Pooling, Auxo().memory(replace(state, round=9, memory=parted)))

    assert (child.sorting is not None) is sorts
    if child.sorting is not None:
        assert (child.sorting.first, child.sorting.cohort) == (2, ROOT)  # labels of the second candidate come after
        np.testing.assert_array_equal(child.sorting.centres, trial.shadows[1].centres)
        assert child.sorting.speaks.tolist() == [True, True, False]
        assert child.failed(20, (), False, Auxo().clustering).sorting is child.sorting
