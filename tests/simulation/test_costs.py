import numpy as np

from auxo.core.asking import LEAST_LOSS, NEAREST, Asks, PreTraining
from auxo.core.cohort_algorithm import Participants
from auxo.core.types import ROOT, CohortId
from auxo.simulation.costs import Spent, cost_of, work_of


def test_who_is_asked_for_steps_pays_for_the_samples_that_go_through_them_and_pre_training_is_extra() -> None:
    leaves = (CohortId("0.0"), CohortId("0.1"))
    first = PreTraining(steps=3, model=2, references=(3, 4))
    model, everything = np.array([0, NEAREST, NEAREST]), np.full(3, -1)
    asked = Participants(np.arange(3), leaves, Asks(everything, model, steps=2, pre_training=first))
    work = work_of(asked, np.array([7, 9, 2]), np.ones(3, dtype=np.int64), asks_for_loss=False, batch_size=4)

    # Of 7 samples two steps take all; of 9 they take 8, and three take 9; of 2 every step takes 2.
    assert work.trained.tolist() == [7, 8 + 9, 4 + 6]
    assert work.downloads.tolist() == [1, 2, 2]
    assert work.uploads is not None
    assert work.uploads.tolist() == [1, 2, 2]
    assert work.compared.tolist() == [0, 0, 0]


def test_who_compares_a_single_model_or_has_a_single_sample_to_judge_by_pays_for_no_samples() -> None:
    everything, one = np.full(3, -1), np.array([LEAST_LOSS, 0, 0])
    asked = Participants(np.arange(3), (ROOT,), Asks(everything, one, judges=np.array([[-1, -1], [0, 1], [0, 1]])))
    work = work_of(asked, np.array([7, 1, 9]), np.full(3, 2), asks_for_loss=False, batch_size=6)

    assert work.compared.tolist() == [0, 0, 18]
    assert work.trained.tolist() == [14, 2, 18]
    assert work.downloads.tolist() == [1, 2, 2]


def test_who_compares_leaves_and_judges_branches_downloads_both_and_the_cohorts_own_model_once() -> None:
    leaves = (CohortId("0.0"), CohortId("0.1"))
    asks = Asks(np.full(2, -1), np.array([LEAST_LOSS, 0]), judges=np.array([[0, 2, 3], [0, 2, 3]]))
    work = work_of(Participants(np.arange(2), leaves, asks), np.array([4, 4]), np.ones(2, dtype=np.int64), False, 4)

    assert work.downloads.tolist() == [4, 3]


def test_a_round_costs_what_all_have_spent_and_what_bought_no_update_is_wasted() -> None:
    judges = np.array([[-1, -1], [0, 1], [0, 1]])
    asked = Participants(np.arange(3), (ROOT,), Asks(np.full(3, -1), np.zeros(3, dtype=np.int64), judges=judges))
    cost = cost_of(asked, np.array([1.0, 2.0, 4.0]), np.array([True, True, False]))

    assert cost == Spent(2, 1, 3.0, 4.0, downloads=1 + 2 + 2)
    assert cost + cost == Spent(4, 2, 6.0, 8.0, downloads=10)
