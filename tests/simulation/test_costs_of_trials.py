"""What models on trial cost: those that are sent, and the samples that they are judged by."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.core.asking import LEAST_LOSS, Asks
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


def judge(n: int, models: int) -> Asks:
    return replace(Asks.plain(n), judges=np.tile(np.arange(models), (n, 1)))


def test_a_judge_is_sent_each_model_once_and_judges_each_by_all_its_samples() -> None:
    work = work_of(judge(4, 3))

    assert work.downloads.tolist() == [3] * 4
    assert work.compared.tolist() == [3 * 7, 3 * 9, 3 * 10, 0]  # a single sample is both halves
    assert work.trained.tolist() == [7, 9, 10, 1]


def test_who_keeps_a_half_back_trains_on_the_other_and_judges_by_both() -> None:
    work = work_of(replace(judge(3, 3), fold=np.zeros(3, dtype=np.int64), model=np.array([0, 1, 2])))

    assert work.trained.tolist() == [4, 5, 5]
    assert work.compared.tolist() == [3 * 7, 3 * 9, 3 * 10]
    assert work.downloads.tolist() == [3, 3, 3]  # the branch that one trains is among those that it judges


@pytest.mark.parametrize("asks_for_loss", [False, True])
def test_who_trains_a_branch_and_does_not_judge_is_sent_that_one_alone(asks_for_loss: bool) -> None:
    asks = replace(judge(3, 4), model=np.array([2, 0, 0]))
    assert asks.judges is not None
    asks.judges[[0, 2]] = -1
    work = work_of(asks, asks_for_loss=asks_for_loss)

    assert work.downloads.tolist() == [1, 4, 1]
    assert work.compared.tolist() == [7 * asks_for_loss, 4 * 9 + 9 * asks_for_loss, 10 * asks_for_loss]


def test_who_compares_leaves_pays_for_these_and_judges_for_branches() -> None:
    asks = replace(judge(3, 5), model=np.array([LEAST_LOSS, 0, 0]))
    assert asks.judges is not None
    asks.judges[0] = -1
    work = work_of(asks, LEAVES)

    assert work.downloads.tolist() == [2, 5, 5]
    assert work.compared.tolist() == [2 * 7, 5 * 9, 5 * 10]
