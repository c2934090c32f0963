from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.algorithms.fl_hc import FlHc
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.cohort_algorithm import EVERYBODY, Circumstances, why_refused
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from tests.algorithms.short_runs import CLIENTS, PARTICIPANTS, run
from tests.algorithms.toy_federation import Toy, cohorts_of, models

# On a line. Average linkage joins 0 and 1 at distance 1, 5 and 6 at 1, these two pairs at (5 + 6 + 4 + 5) / 4 = 5, and
# the last at (20 + 19 + 15 + 14) / 4 = 17. Complete linkage joins the pairs at 6 and the last at 20.
ON_A_LINE = np.array([[0.0], [1.0], [5.0], [6.0], [20.0]])
BY_LENGTH = FlHc(metric="l2", threshold=2.0)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (BY_LENGTH, [0, 0, 1, 1, 2]),
        (replace(BY_LENGTH, threshold=4.9), [0, 0, 1, 1, 2]),
        (replace(BY_LENGTH, threshold=5.1), [0, 0, 0, 0, 1]),
        (replace(BY_LENGTH, threshold=16.9), [0, 0, 0, 0, 1]),
        (replace(BY_LENGTH, threshold=17.1), [0, 0, 0, 0, 0]),
        (replace(BY_LENGTH, threshold=5.1, linkage="complete"), [0, 0, 1, 1, 2]),
        (replace(BY_LENGTH, threshold=6.1, linkage="complete"), [0, 0, 0, 0, 1]),
        (replace(BY_LENGTH, threshold=4.1, linkage="single"), [0, 0, 0, 0, 1]),
        (replace(BY_LENGTH, metric="l1"), [0, 0, 1, 1, 2]),
        (replace(BY_LENGTH, groups=2), [0, 0, 0, 0, 1]),
        (replace(BY_LENGTH, groups=2, linkage="ward"), [0, 0, 0, 0, 1]),
        (replace(BY_LENGTH, groups=1), [0, 0, 0, 0, 0]),
    ],
)
def test_the_dendrogram_is_cut_where_the_threshold_says(method: FlHc, expected: list[int]) -> None:
    assert method.cut(ON_A_LINE, most=5).tolist() == expected


def test_cosines_look_at_directions_alone() -> None:
    updates = np.array([[1.0, 0.0], [9.0, 1.0], [0.0, 2.0], [0.0, 0.1], [-1.0, 0.0]])

    assert FlHc(threshold=0.5).cut(updates, most=5).tolist() == [0, 0, 1, 1, 2]
    # The first two are 0.99 away from the next two on average, and 2 from the last.
    assert FlHc(threshold=0.96).cut(updates, most=5).tolist() == [0, 0, 0, 0, 1]


def test_there_are_no_more_clusters_than_participants_a_round() -> None:
    assert BY_LENGTH.cut(ON_A_LINE, most=2).tolist() == [0, 0, 0, 0, 1]
    assert BY_LENGTH.cut(ON_A_LINE, most=1).tolist() == [0, 0, 0, 0, 0]


def test_after_some_rounds_everybody_trains_and_nothing_of_it_moves_the_common_model() -> None:
    targets = {3: (0.0,), 5: (1.0,), 7: (10.0,), 8: (11.0,)}
    toy = Toy(FlHc(after=1, metric="l2", threshold=4.0), targets, rate=0.5)
    state, _ = toy.round(toy.start((3.5,)))
    assert models(state) == {"0": [4.5]}  # half of the way to the mean of all, 5.5
    rules = replace(toy.rules, total_participants=2)
    assert rules.wanted(state, ROOT) == EVERYBODY

    state, closed = toy.round(state)
    assert closed.gathered.used == 0
    assert state.tree.leaves == ("0.0", "0.1")
    assert models(state) == {"0.0": [4.5], "0.1": [4.5]}
    assert cohorts_of(state, toy) == {3: "0.0", 5: "0.0", 7: "0.1", 8: "0.1"}
    assert {state.cohorts[leaf].round for leaf in state.tree.leaves} == {2}

    assert rules.wanted(state, CohortId("0.0")) == 1  # from here on it is federated averaging in each
    state, _ = toy.round(state, CohortId("0.1"))
    assert models(state) == {"0.0": [4.5], "0.1": [7.5]}


def test_clients_that_are_alike_stay_together() -> None:
    toy = Toy(FlHc(after=0, metric="l2", threshold=100.0), {1: (0.0,), 2: (1.0,)})
    state, _ = toy.round(toy.start((0.0,)))
    state, closed = toy.round(state)

    assert state.tree.leaves == (ROOT,)
    assert closed.gathered.used == 2  # it goes on as ever


def test_the_pass_is_charged_and_wasted_for_the_model() -> None:
    spent = run(FlHc(after=2, threshold=100.0, metric="l2"), 3).state.spent

    assert spent.downloads == 2 * PARTICIPANTS * 1.25 + CLIENTS
    assert spent.participations == 2 * PARTICIPANTS
    assert spent.wasted_participations == 2 * PARTICIPANTS * 0.25 + CLIENTS


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
def test_before_the_pass_it_is_plain_federated_learning_bit_for_bit(aggregator: FedAvg | FedYogi) -> None:
    one, other = run(FlHc(after=9), 3, aggregator), run(OneCohort(), 3, aggregator)

    assert one.events == other.events
    assert to_bytes(one.state.coordinator.cohorts[ROOT]) == to_bytes(other.state.coordinator.cohorts[ROOT])


def test_a_run_that_never_comes_to_the_pass_is_refused() -> None:
    words = why_refused(FlHc(after=10), Circumstances(clients=100, participants=20, rounds=10))

    assert words is not None
    assert "after round 10, but there are 10 (training.rounds)" in words
    assert why_refused(FlHc(after=9), Circumstances(100, 20, 10, ("devices.dropout = 0.5",))) is None  # it waits
    assert "pair of clients" in str(why_refused(FlHc(), Circumstances(10**6, 20, 100)))


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"after": -1}, "after"), ({"threshold": 0.0}, "threshold"), ({"groups": 0}, "groups"),
     ({"linkage": "ward"}, "linkage")],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(settings: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: "):
        FlHc(**settings)  # type: ignore[arg-type]  # one at a time
