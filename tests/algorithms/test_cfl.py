from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.base import OneCohort
from auxo.algorithms.cfl import Cfl, bipartition
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.asking import LEAST_LOSS
from auxo.core.cohort_algorithm import EVERYBODY, Circumstances, why_refused
from auxo.core.cohort_table import CohortTable
from auxo.core.own_state import own
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from tests.algorithms.short_runs import CLIENTS, run
from tests.algorithms.toy_federation import Toy, cohorts_of, models

# Five clients whose updates at the origin are their targets. Cosines there: 10 and 11: 35 / 37; 12 and 13: 1; 12 and
# 14: -2 / (5 sqrt(52)) = -0.06; across {10, 11} and {12, 13, 14} all are below -0.4. Complete linkage joins 12 and 13,
# then 10 and 11, and then 14 to 12 and 13 (farthest cosine -0.06) rather than to 10 and 11 (-0.68).
TARGETS = {10: (6.0, 1.0), 11: (6.0, -1.0), 12: (-4.0, 3.0), 13: (-4.0, 3.0), 14: (-4.0, -6.0)}
AUTHORS = Cfl(eps_1=0.4, eps_2=1.6, relative=False, first_split=0)
ORIGIN = (0.0, 0.0)


def test_the_bipartition_is_the_authors_by_complete_linkage_of_cosines() -> None:
    side, across = bipartition(np.array([TARGETS[client] for client in sorted(TARGETS)]))

    assert side.tolist() == [0, 0, 1, 1, 1]
    # The largest cosine between the two sides is that of 11 and 14: (-24 + 6) / (sqrt(37) sqrt(52)).
    assert across == pytest.approx(-18 / np.sqrt(37 * 52))


def test_a_stationary_cohort_with_long_updates_is_cut_and_children_go_on_from_its_model() -> None:
    toy = Toy(AUTHORS, TARGETS)
    state, closed = toy.round(toy.start(ORIGIN))

    # The targets' mean is the origin, so the mean update is 0, and the longest is sqrt(52) = 7.2.
    assert closed.gathered.used == 5
    assert state.tree.leaves == ("0.0", "0.1")
    assert models(state) == {"0.0": [0.0, 0.0], "0.1": [0.0, 0.0]}
    assert cohorts_of(state, toy) == {10: "0.0", 11: "0.0", 12: "0.1", 13: "0.1", 14: "0.1"}


def test_a_second_cut_keeps_clients_apart_by_their_ids_and_not_by_their_places_in_the_cohort() -> None:
    toy = Toy(AUTHORS, TARGETS)
    state, _ = toy.round(toy.start(ORIGIN))
    right = CohortId("0.1")
    state, _ = toy.round(state, right)
    # The mean update of 12, 13 and 14 is (-4, 0), which is 4 long: the cohort moves.
    assert models(state)[right] == [-4.0, 0.0]

    state, closed = toy.round(state, right)
    # Now their updates are (0, 3) twice and (0, -6): the mean vanishes, and 14 points the other way.
    assert closed.gathered.used == 3
    assert state.tree.leaves == ("0.0", "0.1.0", "0.1.1")
    assert cohorts_of(state, toy) == {10: "0.0", 11: "0.0", 12: "0.1.0", 13: "0.1.0", 14: "0.1.1"}
    assert own(CohortTable, state.table).clients.tolist() == [10, 11, 12, 13, 14]


def test_a_cohort_of_two_is_not_cut() -> None:
    toy = Toy(AUTHORS, TARGETS)
    state, _ = toy.round(toy.start(ORIGIN))
    left = CohortId("0.0")
    state, _ = toy.round(state, left)  # to (6, 0)
    state, _ = toy.round(state, left)  # updates are (0, 1) and (0, -1)

    assert state.tree.leaves == ("0.0", "0.1")
    assert models(state)[left] == [6.0, 0.0]


@pytest.mark.parametrize(
    "cfl",
    [
        replace(AUTHORS, first_split=1),
        replace(AUTHORS, eps_2=7.3),  # the longest update is 7.2
        replace(AUTHORS, smallest=6),
        replace(AUTHORS, eps_1=0.0),  # the mean update is 0, and not below
    ],
)
def test_without_all_conditions_a_cohort_stays_whole(cfl: Cfl) -> None:
    toy = Toy(cfl, TARGETS)
    state, _ = toy.round(toy.start(ORIGIN))

    assert state.tree.leaves == (ROOT,)


@pytest.mark.parametrize(("gamma_max", "leaves"), [(None, 2), (0.0, 2), (0.5, 1), (1.0, 1)])
def test_the_papers_guard_cuts_only_where_the_sides_differ_enough(gamma_max: float | None, leaves: int) -> None:
    targets = {1: (0.0, 10.0), 2: (0.0, 10.0), 3: (-10.0, 9.0), 4: (0.0, 10.0)}
    toy = Toy(replace(AUTHORS, eps_1=100.0, gamma_max=gamma_max), targets)
    state, _ = toy.round(toy.start(ORIGIN))

    # cos((0, 10), (-10, 9)) = 0.669, and the bounds are sqrt(1 / 2) = 0.707, sqrt(1 / 4) = 0.5 and 0.
    assert len(state.tree.leaves) == leaves


def test_relative_thresholds_are_in_units_of_the_longest_mean_update_so_far() -> None:
    toy = Toy(Cfl(eps_1=0.2, eps_2=0.5, first_split=0), TARGETS)
    state, _ = toy.round(toy.start((8.0, 0.0)))
    assert state.tree.leaves == (ROOT,)  # the mean update, of length 8, is the longest so far

    state, _ = toy.round(state)
    assert len(state.tree.leaves) == 2  # 0 < 0.2 * 8, and 7.2 > 0.5 * 8


def test_everybody_is_wanted_in_every_round() -> None:
    toy = Toy(AUTHORS, TARGETS)
    state = toy.start(ORIGIN)
    rules = replace(toy.rules, total_participants=2, overcommit=0.5)

    assert rules.wanted(state, ROOT) == rules.invited(state, ROOT) == EVERYBODY
    assert len(Toy(AUTHORS, TARGETS).opened(state, ROOT).participants.clients) == 5


def test_a_client_that_was_away_compares_models_and_belongs_where_the_best_is() -> None:
    toy = Toy(replace(AUTHORS, eps_1=2.0, smallest=4), TARGETS)
    state, _ = toy.round(toy.start(ORIGIN), clients=[10, 11, 12, 14])  # the mean update is (1, -0.75)
    assert own(CohortTable, state.table).of(np.array([13])).tolist() == [-1]
    left, right = (CohortId(name) for name in ("0.0", "0.1"))
    state, _ = toy.round(state, left, clients=[10, 11])
    state, _ = toy.round(state, right, clients=[12, 14])  # the models are (6, 0) and (-4, -1.5) now
    assert models(state) == {"0.0": [6.0, 0.0], "0.1": [-4.0, -1.5]}

    for cohort in (left, right):  # wherever it is drawn to
        opened = toy.opened(state, cohort, clients=[13])
        if len(opened.participants.clients):
            assert opened.participants.asks.model.tolist() == [LEAST_LOSS]
            assert set(opened.participants.offered) == {left, right}
            after, _ = toy.round(state, cohort, clients=[10, 11, 12, 13, 14])
            assert own(CohortTable, after.table).of(np.array([13])).tolist() == [2]
            assert models(after)[left] == [6.0, 0.0]  # a stranger does not move a model that it does not want


def test_where_not_everybody_can_be_there_it_refuses_and_says_what_to_change() -> None:
    fine = Circumstances(clients=100, participants=20, rounds=50)
    assert why_refused(Cfl(), fine) is None
    assert why_refused(OneCohort(), fine) is None

    words = why_refused(Cfl(), replace(fine, obstacles=('devices.availability = "day-night"', "devices.dropout = 0.1")))
    assert words is not None
    assert 'every one of the 100 clients in every round, but devices.availability = "day-night" and' in words
    assert 'set devices.availability = "always"' in words
    assert "40,000" in str(why_refused(Cfl(), replace(fine, clients=40_000)))


@pytest.mark.parametrize("aggregator", [FedAvg(), FedYogi()])
def test_a_cohort_that_is_never_cut_is_plain_federated_learning_of_everybody_bit_for_bit(
    aggregator: FedAvg | FedYogi,
) -> None:
    one = run(Cfl(first_split=99), 3, aggregator)
    other = run(OneCohort(), 3, aggregator, participants=CLIENTS, overcommit=0.0)

    assert to_bytes(one.state.coordinator.cohorts[ROOT].server) == to_bytes(
        other.state.coordinator.cohorts[ROOT].server
    )
    assert one.state.spent == other.state.spent
    assert one.state.clock_s == other.state.clock_s


def test_everybody_is_charged_for_every_round() -> None:
    spent = run(Cfl(first_split=99), 4).state.spent

    assert spent.participations + spent.wasted_participations == spent.downloads == 4 * CLIENTS


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"eps_1": -1.0}, "eps_1"), ({"eps_2": np.inf}, "eps_2"), ({"first_split": -1}, "first_split"),
     ({"smallest": 1}, "smallest"), ({"gamma_max": 1.5}, "gamma_max")],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected"):
        Cfl(**settings)  # type: ignore[arg-type]  # one at a time
