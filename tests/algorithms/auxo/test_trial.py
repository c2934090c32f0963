"""A trial: which models move by whose updates, who is asked, and how long it goes on."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.auxo.trial import Moved, Trial
from auxo.algorithms.auxo.verdict import Cut
from auxo.core.aggregators import Aggregator, FedAdagrad, FedAdam, FedAvg, FedYogi
from auxo.core.aggregators.norm_clipping import Clipped
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.aggregators.robust import Median
from tests.algorithms.auxo.made_trials import FOUR, NOBODY, SETTINGS, cut_of, judged, trial


@pytest.mark.parametrize(
    "aggregator",
    [FedAvg(), FedYogi(), FedAdam(), FedAdagrad(), QFedAvg(learning_rate=0.1), Median(server=FedAdam()), Clipped()],
    ids=str,
)
def test_the_mean_of_branches_that_move_alike_is_what_one_model_would_be(aggregator: Aggregator) -> None:
    server = aggregator.initial(np.array([1.0, 2.0, 3.0], dtype=np.float32))
    move = np.array([0.1, -0.2, 0.3])
    begun = Trial.begin(FOUR, np.array([0.4, 0.3, 0.2, 0.1]), server)

    after = begun.after(Moved(None, (move,) * 4, np.array([0.0, 4.0, 3.0, 2.0, 1.0])), aggregator, 1.0, NOBODY)

    together, alone = after.server(FOUR.root), aggregator.step(server, move)
    assert together.weights == pytest.approx(alone.weights, rel=1e-6)
    assert after.rival.weights == pytest.approx(alone.weights, rel=1e-6)
    assert all(mine == pytest.approx(theirs) for mine, theirs in zip(together.slots, alone.slots, strict=True))


def test_a_branch_that_nobody_trained_stays_where_it_was() -> None:
    server = FedAvg().initial(np.zeros(3, dtype=np.float32))
    begun = Trial.begin(FOUR, np.full(4, 0.25), server)

    moved = Moved(None, (np.ones(3), None, None, None), np.array([0.0, 4.0, 0.0, 0.0, 0.0]))
    after = begun.after(moved, FedAvg(), 1.0, NOBODY)

    assert after.servers[0].weights.tolist() == [1, 1, 1]
    assert after.servers[1] is server
    assert after.server(FOUR.root).weights == pytest.approx(np.full(3, 0.25))


def test_judges_are_asked_about_all_models() -> None:
    begun = Trial.begin(FOUR, np.full(4, 0.25), FedAvg().initial(np.zeros(3, dtype=np.float32)))

    assert begun.asked(np.array([True, False])).tolist() == [[0, 1, 2, 3, 4, 5, 6], [-1] * 7]


def test_the_cohorts_own_model_moves_by_all_participants_and_the_rival_by_those_who_train_branches() -> None:
    server = FedAvg().initial(np.zeros(3, dtype=np.float32))
    begun = Trial.begin(FOUR, np.full(4, 0.25), server)
    moved = Moved(
        np.full(3, 3.0), (np.full(3, 1.0), None, np.full(3, 2.0), None), np.array([10.0, 20.0, 0.0, 10.0, 0.0])
    )

    assert begun.own(server, moved, FedAvg(), 1.0).weights == pytest.approx(np.full(3, (30 + 20 + 20) / 40))
    assert begun.after(moved, FedAvg(), 1.0, NOBODY).rival.weights == pytest.approx(np.full(3, (20 + 20) / 30))
    nobody = Moved(None, (None,) * 4, np.zeros(5))
    assert begun.own(server, nobody, FedAvg(), 1.0) is server
    assert begun.after(nobody, FedAvg(), 1.0, NOBODY).rival is server


def test_only_the_second_half_of_a_trial_is_judged() -> None:
    begun = Trial.begin(FOUR, np.full(4, 0.25), FedAvg().initial(np.zeros(3, dtype=np.float32)))

    assert [number for number in range(25) if replace(begun, rounds=number).counts(SETTINGS)] == [
        *range(5, 10),
        *range(15, 20),
    ]


def test_a_trial_goes_on_while_it_is_open_and_hears_judges_anew() -> None:
    on_trial = trial(judged(dict.fromkeys(range(4), (0.01, 0.01)), noise=0.01))
    cut = cut_of(on_trial)

    assert not on_trial.is_over(cut, SETTINGS)
    assert on_trial.is_over(replace(cut, is_open=False), SETTINGS)
    assert not replace(on_trial, rounds=9).is_over(replace(cut, is_open=False), SETTINGS)
    assert replace(on_trial, rounds=40).is_over(cut, SETTINGS)
    assert on_trial.is_over(cut, replace(SETTINGS, most_rounds=19))
    assert on_trial.going_on(cut, SETTINGS).heard.judges == 0
    assert replace(on_trial, rounds=7).going_on(cut, SETTINGS).heard.judges == 160


def test_what_pays_waits_once_for_what_is_open_and_is_not_lost_by_it() -> None:
    gains = {0: (0.2, 0.01), 1: (0.2, 0.01), 2: (0.2, 0.0), 3: (0.2, 0.0)}
    on_trial = trial(judged(gains, noise=0.01))
    cut = cut_of(on_trial)
    waits = replace(on_trial.going_on(cut, SETTINGS), rounds=20)
    nothing = Cut((FOUR.root,), 0.0, 40)

    assert (set(cut.nodes), cut.is_open, on_trial.is_over(cut, SETTINGS)) == ({4, 5}, True, False)
    assert waits.is_over(cut, SETTINGS)
    assert waits.ends_with(nothing).nodes == cut.nodes
    assert waits.ends_with(replace(cut, nodes=(0, 1, 5))).nodes == (0, 1, 5)
    assert on_trial.ends_with(nothing) == nothing
