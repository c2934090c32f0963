from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics.pairwise import cosine_similarity

from auxo.algorithms.base import OneCohort
from auxo.algorithms.flex_cfl import FlexCfl, decomposed_cosines, group, mixed
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.asking import NEAREST
from auxo.core.cohort_table import CohortTable
from auxo.core.own_state import own
from auxo.core.rng import stream
from auxo.core.types import ROOT
from auxo.protocol.codec import to_bytes
from tests.algorithms.short_runs import CLIENTS, PARTICIPANTS, WORLD, run
from tests.algorithms.toy_federation import Toy, cohorts_of, models


@given(st.integers(0, 1000), st.integers(2, 4))
def test_features_are_those_of_the_authors_code_up_to_the_sign_of_a_direction(seed: int, directions: int) -> None:
    updates = stream(seed, "updates").standard_normal((9, 30)) * np.arange(1, 10)[:, None]
    # flearn/trainer/fedgroup.py: the directions are those of the transposed updates, and features are cosines to them.
    decomposed = TruncatedSVD(directions, algorithm="arpack", random_state=0).fit_transform(updates.T)
    theirs = cosine_similarity(updates, decomposed.T)

    np.testing.assert_allclose(np.abs(decomposed_cosines(updates, directions)), np.abs(theirs), atol=1e-6)


def test_groups_are_clients_whose_updates_point_the_same_way_however_long_they_are() -> None:
    updates = np.array([[5.0, 0.0, 0.1], [0.0, 1.0, 0.0], [1.0, 0.1, 0.0], [0.0, 7.0, 0.2], [2.0, 0.0, 0.0]])
    found = group(updates, 2, seed=0)

    assert found.tolist() in ([0, 1, 0, 1, 0], [1, 0, 1, 0, 1])
    assert group(updates, 1, seed=0).tolist() == [0] * 5
    assert set(group(np.ones((4, 3)), 3, seed=0).tolist()) == {0}  # there are not three ways to point


NO_DROPOUT = replace(WORLD, dropout=0.0)

# Two groups of clients: to the right and up. Pre-training of two steps at rate 1/2 goes three quarters of the way.
TARGETS = {1: (8.0, 0.0), 2: (16.0, 0.0), 3: (0.0, 4.0), 4: (0.0, 12.0), 5: (20.0, 4.0), 6: (1.0, 3.0)}
TWO = FlexCfl(groups=2, sample=2, steps=2)
FIRST_FOUR = [1, 2, 3, 4]


def test_the_cold_start_makes_models_and_directions_of_the_groups_by_plain_means() -> None:
    toy = Toy(TWO, TARGETS, rate=0.5)
    state = toy.start((0.0, 0.0))
    assert toy.rules.wanted(state, ROOT) == 4
    opened = toy.opened(state, ROOT, FIRST_FOUR)
    assert opened.participants.asks.steps == 2
    assert opened.hears_late

    state, closed = toy.round(state, clients=FIRST_FOUR)
    # Updates are three quarters of the targets; the means are (9, 0) and (0, 6).
    assert closed.gathered.used == 0
    assert sorted(models(state).values()) == [[0.0, 6.0], [9.0, 0.0]]
    held = state.cohorts[state.tree.leaves[0]].memory.held_models()  # type: ignore[attr-defined]  # it holds models
    assert held[0].tolist() == [0.0, 0.0]
    assert sorted(one.tolist() for one in held[1:]) == [[0.0, 6.0], [9.0, 0.0]]
    table = own(CohortTable, state.table)
    assert table.clients.tolist() == FIRST_FOUR
    assert table.cohort[0] == table.cohort[1] != table.cohort[2] == table.cohort[3]


def test_newcomers_pre_train_the_initial_model_and_train_the_model_of_the_nearest_direction_at_once() -> None:
    toy = Toy(TWO, TARGETS, rate=0.5)
    state, _ = toy.round(toy.start((0.0, 0.0)), clients=FIRST_FOUR)
    right = next(leaf for leaf, weights in models(state).items() if weights == [9.0, 0.0])
    up = next(leaf for leaf in state.tree.leaves if leaf != right)
    asked = toy.opened(state, ROOT, [1, 5, 6]).participants
    assert asked.asks.model.tolist()[1:] == [NEAREST, NEAREST]
    assert asked.asks.pre_training is not None
    assert asked.asks.pre_training.steps == 2

    state, closed = toy.round(state, clients=[1, 5, 6])
    # From the origin 5 goes to (15, 3), nearest to (9, 0); 6 goes to (0.75, 2.25), nearest to (0, 6). Then 1 moves the
    # model at (9, 0) by (-0.5, 0) and 5 by (5.5, 2): the mean is (2.5, 1); 6 moves that at (0, 6) by (0.5, -1.5).
    assert closed.gathered.used == 3
    assert models(state) == {right: [11.5, 1.0], up: [0.5, 4.5]}
    assert cohorts_of(state, toy) == {1: right, 2: right, 3: up, 4: up, 5: right, 6: up}
    # They are known from now on.
    assert NEAREST not in toy.opened(state, ROOT).participants.asks.model.tolist()


def test_groups_are_mixed_as_the_authors_do() -> None:
    toy = Toy(TWO, TARGETS, rate=0.5)
    state, _ = toy.round(toy.start((0.0, 0.0)), clients=FIRST_FOUR)
    states = tuple(state.cohorts[leaf] for leaf in state.tree.leaves)
    after = mixed(states, 0.5)

    # To (9, 0) half of (0, 6) / 6 is added, and all of it is divided by 1 + 0.5 / 6; the other way with 1 + 0.5 / 9.
    found = {
        tuple(one.server.weights.tolist()): two.server.weights.tolist() for one, two in zip(states, after, strict=True)
    }
    assert found[9.0, 0.0] == pytest.approx([9 / (13 / 12), 0.5 / (13 / 12)])
    assert found[0.0, 6.0] == pytest.approx([0.5 / (19 / 18), 6 / (19 / 18)])


def test_a_cold_start_of_too_few_comes_to_nothing() -> None:
    toy = Toy(FlexCfl(groups=3, sample=1, steps=2), TARGETS)

    with pytest.raises(AssertionError):
        toy.round(toy.start((0.0, 0.0)), clients=[1, 2])


def test_pre_training_is_charged_once_for_each_client() -> None:
    everybody = run(FlexCfl(groups=2, sample=CLIENTS // 2, steps=3), 3, world=NO_DROPOUT, overcommit=0.0).state.spent
    assert everybody.downloads == CLIENTS + 2 * PARTICIPANTS

    some = run(FlexCfl(groups=2, sample=4, steps=3), 5, world=NO_DROPOUT, overcommit=0.0).state
    known = len(own(CohortTable, some.coordinator.table).clients)
    assert some.spent.wasted_participations == 8  # pre-training moves no model
    assert some.spent.participations == 4 * PARTICIPANTS
    assert known > 40
    assert some.spent.downloads == 8 + 4 * PARTICIPANTS + known - 8  # a second model for each newcomer


def test_pre_training_takes_time_on_the_device_and_on_its_network() -> None:
    one, other = (
        run(FlexCfl(groups=2, sample=CLIENTS // 2, steps=steps), 1, world=NO_DROPOUT).state.spent for steps in (2, 4)
    )
    counts, devices = WORLD.data.train.counts(), WORLD.devices
    # A batch is 6 samples, and nobody has more than 12: four steps are two passes, two are one, but for small clients.
    passes = np.where(counts > 6, 1, 2) * counts  # samples that two more steps are
    more = float((devices.compute_s_per_sample * passes).sum())
    assert other.wasted_device_s - one.wasted_device_s == pytest.approx(more)


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
def test_with_one_group_it_is_plain_federated_learning_bit_for_bit(aggregator: FedAvg | FedYogi) -> None:
    one, other = run(FlexCfl(groups=1), 3, aggregator), run(OneCohort(), 3, aggregator)

    left, right = (result.state.coordinator.cohorts[ROOT].server for result in (one, other))
    assert to_bytes(left) == to_bytes(right)
    assert one.state.clock_s == other.state.clock_s


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"groups": 0}, "groups"), ({"sample": 0}, "sample"), ({"steps": 0}, "steps"),
     ({"group_rate": -1.0}, "group_rate")],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected"):
        FlexCfl(**settings)  # type: ignore[arg-type]  # one at a time
