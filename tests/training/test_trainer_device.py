"""Where simulated participants train: in whose memory, and what they keep to themselves."""

import numpy as np
import pytest

from auxo.core.asking import LEAST_LOSS, Ask
from auxo.engines.in_process import InProcess
from auxo.population.heterogeneity import LabelPermutation
from auxo.population.synthetic import synthetic_population
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Job, LocalTraining
from tests.core.made_updates import given

DATA = synthetic_population(clients=12, groups=2, heterogeneity=LabelPermutation(), features=4, classes=3, seed=0)
ENGINE = InProcess(SoftmaxTrainer(4, 3), DATA, LocalTraining(), seed=0)
MODELS = list(np.outer((1, -1, 0), np.arange(15)).astype(np.float32))


@pytest.mark.parametrize("asks", [[Ask()], [Ask(model=1, reports_loss=True)], [Ask(model=LEAST_LOSS), Ask(model=2)]])
def test_updates_lie_in_the_rows_of_the_memory_that_is_given(asks: list[Ask]) -> None:
    jobs = [Job(row, 0, asks[row % len(asks)]) for row in range(9)]
    out = np.full((9, 15), np.nan, dtype=np.float32)
    inside, alone = given(ENGINE.answers(MODELS, jobs, out=out)), given(ENGINE.answers(MODELS, jobs))

    assert len({one.model for one in alone}) >= len(asks)
    for row, answer in enumerate(inside):
        assert np.shares_memory(answer.update, out[row])
        np.testing.assert_array_equal(answer.update, alone[row].update)


def test_tensors_that_are_skipped_are_zero_and_the_others_as_ever() -> None:
    whole, part = given(ENGINE.answers(MODELS, [Job(0, 0), Job(0, 0, Ask(skipped=(0,)))]))

    assert not part.update[:12].any()
    np.testing.assert_array_equal(part.update[12:], whole.update[12:])
