"""What models on trial cost: those that are sent, and the samples that they are tried on."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.core.asking import BEST_ON_TRIAL, LEAST_LOSS, Asks
from auxo.core.cohort_algorithm import Participants
from auxo.core.types import ROOT, CohortId
from auxo.simulation import costs
from auxo.simulation.devices import Work

SAMPLES = np.array([7, 9, 10, 1])
LEAVES = (CohortId("0.0"), CohortId("0.1"))


def work_of(asks: Asks, offered: tuple[CohortId, ...] = (ROOT,), *, asks_for_loss: bool = False) -> Work:
    n = len(asks.model)
    asked = Participants(np.arange(n), offered, asks)
    return costs.work_of(asked, SAMPLES[:n], np.ones(n, dtype=np.int64), asks_for_loss=asks_for_loss, batch_size=4)


def tries(n: int, on_trial: int) -> Asks:
    return replace(Asks.plain(n), model=np.full(n, BEST_ON_TRIAL), on_trial=on_trial)


def test_who_tries_branches_is_sent_all_of_them_and_tries_each_on_its_samples() -> None:
    work = work_of(tries(4, 3))

    assert work.downloads.tolist() == [3] * 4
    assert work.compared.tolist() == [3 * 7, 3 * 9, 3 * 10, 3]
    assert work.trained.tolist() == [7, 9, 10, 1]


def test_who_keeps_a_half_back_tries_branches_on_the_half_that_it_trains_on() -> None:
    work = work_of(replace(tries(3, 2), fold=np.zeros(3, dtype=np.int64)))

    assert work.trained.tolist() == [4, 5, 5]
    assert work.compared.tolist() == [8, 10, 10]


def test_a_judge_that_tries_branches_too_is_sent_each_model_once_and_judges_by_all_samples() -> None:
    judges = np.array([[0, 1, 2], [-1, -1, -1], [0, 1, 2]])
    asks = replace(tries(3, 2), model=np.array([BEST_ON_TRIAL, BEST_ON_TRIAL, 0]), judges=judges)
    work = work_of(asks)

    assert work.downloads.tolist() == [3, 2, 3]
    assert work.compared.tolist() == [2 * 7 + 3 * 7, 2 * 9, 3 * 10]


@pytest.mark.parametrize("asks_for_loss", [False, True])
def test_an_only_branch_is_trained_without_being_tried_unless_its_loss_is_wanted(asks_for_loss: bool) -> None:
    work = work_of(tries(2, 1), asks_for_loss=asks_for_loss)

    assert work.downloads.tolist() == [1, 1]
    assert work.compared.tolist() == ([7, 9] if asks_for_loss else [0, 0])


def test_who_compares_leaves_pays_for_these_and_who_tries_branches_for_those() -> None:
    asks = replace(tries(3, 4), model=np.array([LEAST_LOSS, BEST_ON_TRIAL, 0]))
    work = work_of(asks, LEAVES)

    assert work.downloads.tolist() == [2, 4, 1]
    assert work.compared.tolist() == [2 * 7, 4 * 9, 0]
