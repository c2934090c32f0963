from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.auxo import Auxo, ClusteringSettings, Pooling
from auxo.core.affinity import AffinitySettings, Requests
from auxo.core.aggregators import FedAvg
from auxo.core.asking import LEAST_LOSS, Answer, Asks
from auxo.core.claims import Claims
from auxo.core.cohort_algorithm import Closing, Opening, Outcome, Participants, Plan
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Gathered, Returned, gather
from auxo.core.lost_clients import compare_leaves, own_answers
from auxo.core.matching import ByRequest, CheckIns
from auxo.core.partition import Outlook
from auxo.core.rewards import RewardSettings
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.protocol.codec import to_bytes
from tests.core.made_updates import FINGERPRINT, N_PARAMS, alike, claims

LEFT, RIGHT, FAR = CohortId("0.0"), CohortId("0.1"), CohortId("0.2")
TREE = CohortTree().partition(ROOT, (0, 1, 2), (0.4, 0.3, 0.3))
OFFERED = (RIGHT, LEFT, FAR)
AUXO = Auxo(clustering=ClusteringSettings(clusters=2), rewards=RewardSettings(min_known=3))
OUTLOOK = Outlook(progress=0.2, total_participants=30, cohorts=3, check_ins=40.0)


def weights(number: int) -> Float32Array:
    return np.full(N_PARAMS, number, dtype=np.float32)


def cohort_state(number: int) -> CohortState:
    return CohortState(FedAvg().initial(weights(number)), round=7 + number, memory=Pooling())


# Who compares.


def opening(confirmed: Sequence[int], asked: CohortId | None = RIGHT, tree: CohortTree = TREE) -> Opening:
    n = len(confirmed)
    requests = replace(
        Requests.silent(tree, np.ones(n, dtype=np.int64)),
        cohort=np.full(n, -1 if asked is None else tree.index[asked]),
        confirmed=np.array(confirmed, dtype=np.int64),
    )
    cohort = RIGHT if len(tree.leaves) > 1 else ROOT
    vouched = np.full(n, asked is not None)
    return Opening(cohort, tree, cohort_state(0), CheckIns(np.arange(n), requests), vouched, progress=0.2, share=n)


def planned(now: Opening, confirmations: int = 2) -> Plan:
    plan = compare_leaves(now, Plan.plain(now), confirmations)
    plan.check(len(now.selected), now.tree)
    return plan


def test_those_whose_cohort_is_not_yet_confirmed_are_offered_all_leaves_with_its_own_first() -> None:
    plan = planned(opening([0, 1, 2, 3]))

    assert plan.offered == OFFERED
    assert plan.asks.model.tolist() == [LEAST_LOSS, LEAST_LOSS, 0, 0]


@pytest.mark.parametrize(("participations", "compares"), [(0, False), (7, False), (8, True), (15, True), (16, True)])
def test_who_has_trained_twice_as_often_compares_once_more(participations: int, compares: bool) -> None:
    now = opening([2, 3, 4])
    requests = replace(now.selected.requests, participations=np.full(3, participations))
    plan = planned(replace(now, selected=replace(now.selected, requests=requests)))

    assert (plan.asks.model == LEAST_LOSS).tolist() == [compares, compares and participations >= 16, False]


def test_a_plan_in_another_order_keeps_it() -> None:
    now = opening([0, 2, 2])
    plan = compare_leaves(now, replace(Plan.plain(now), rows=np.array([2, 1, 0])), 2)

    assert plan.asks.model.tolist() == [0, 0, LEAST_LOSS]


@pytest.mark.parametrize("asked", [None, LEFT, ROOT], ids=str)
def test_what_was_confirmed_of_another_cohort_confirms_nothing_here(asked: CohortId | None) -> None:
    drawn = replace(opening([9, 9], asked), vouched=np.zeros(2, dtype=np.bool_))

    assert planned(drawn).asks.model.tolist() == [LEAST_LOSS] * 2


def test_who_comes_by_its_label_trains_at_its_first_visit_and_compares_at_its_second() -> None:
    # Its record is of the cohort that was parted, and its label there names this one; then it has one of this.
    first, second = opening([0, 0], ROOT), opening([0, 0], RIGHT)

    assert planned(first).offered == (RIGHT,)
    assert planned(first).asks.model.tolist() == [0, 0]
    assert planned(second).asks.model.tolist() == [LEAST_LOSS] * 2


def test_of_those_who_come_for_the_first_time_only_who_was_drawn_compares() -> None:
    now = replace(opening([0, 0, 0], ROOT), vouched=np.array([True, False, True]))

    assert planned(now).asks.model.tolist() == [0, LEAST_LOSS, 0]


def test_who_has_reason_to_be_in_its_cohort_leaves_only_for_a_clearly_better_model_and_newcomers_for_any() -> None:
    now = replace(opening([0, 1, 0]), vouched=np.array([True, True, False]))
    asks = planned(now).asks

    assert asks.model.tolist() == [LEAST_LOSS] * 3
    assert [asks.of(row, choices=3).margin for row in range(3)] == [0.05, 0.05, 0.0]


@pytest.mark.parametrize(
    ("now", "confirmations"),
    [(opening([0, 0]), 0), (opening([0, 0], ROOT, CohortTree()), 2), (opening([2, 2]), 2), (opening([]), 2)],
    ids=["where nobody is to", "with one cohort", "once all are sure", "without anybody"],
)
def test_nobody_compares(now: Opening, confirmations: int) -> None:
    plan = planned(now, confirmations)

    assert plan.offered == (now.cohort,)
    assert (plan.asks.model == 0).all()


def test_auxo_says_whether_its_newcomers_compare() -> None:
    never = replace(AUXO, affinity=AffinitySettings(confirmations=0))

    assert AUXO.matching == ByRequest(compares=True)
    assert never.matching == ByRequest()
    assert AUXO.plan(opening([0, 5])).offered == OFFERED
    assert never.plan(opening([0, 5])).offered == (RIGHT,)


# What comes of it.


def closing(brought: Claims, compared: Sequence[int], alike: bool = False) -> Closing:
    """Return a round of one of three cohorts in which some participants have compared models."""
    n = len(brought.known)
    model = np.where(np.isin(np.arange(n), compared), LEAST_LOSS, 0)
    participants = Participants(np.arange(n), OFFERED, Asks(np.full(n, -1), model), notes=brought)
    others = {leaf: weights(0 if alike else number) for number, leaf in enumerate(OFFERED[1:], start=1)}
    return Closing(RIGHT, (cohort_state(0),), participants, OUTLOOK, share=10, shelved=others)


def answers(updates: Float32Array, chosen: Sequence[int], late: Sequence[int] = ()) -> list[Returned]:
    return [Returned(row, Answer(update, 5, model=chosen[row]), late=row in late) for row, update in enumerate(updates)]


def gathered(now: Closing, returned: Sequence[Returned], auxo: Auxo = AUXO) -> Gathered:
    sums = [FedAvg().accumulate(now.states[0].server) for _ in now.models]
    return gather(iter(returned), FINGERPRINT, auxo.admission(now), sums)


def close(now: Closing, result: Gathered, auxo: Auxo = AUXO) -> Outcome:
    outcome = auxo.close(now, result, FedAvg(), stream(0, "cluster"))
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("auxo", [AUXO, replace(AUXO, admit_misfits=True)], ids=["gate", "misfits admitted"])
def test_who_chose_another_model_is_a_misfit_and_who_chose_this_one_needs_no_gate(auxo: Auxo) -> None:
    now = closing(claims(8, known=5), compared=[4, 5, 6])
    updates = alike(8)
    updates[5:] *= -1  # none of these newcomers fits
    result = gathered(now, answers(updates, [0, 0, 0, 0, 1, 0, 2, 0]), auxo)

    refused = 3 - auxo.admit_misfits
    assert result.aggregated.tolist() == [0, 1, 2, 3, 5] + [7] * auxo.admit_misfits
    assert (result.misfits, result.movements[1], result.movements[2]) == (refused, None, None)


def test_where_updates_are_averaged_who_chose_another_model_moves_that_one() -> None:
    now = replace(closing(claims(8, known=5), compared=[4, 5, 6]), averages=True)
    updates = alike(8)
    result = gathered(now, answers(updates, [0, 0, 0, 0, 1, 0, 2, 0]))

    assert sorted(result.aggregated.tolist()) == list(range(8))
    assert result.misfits == 0
    for model, row in ((1, 4), (2, 6)):
        movement = result.movements[model]
        assert movement is not None
        np.testing.assert_allclose(movement, updates[row], rtol=1e-6)
        assert result.weights[model] == 5.0
    np.testing.assert_array_equal(  # and their own cohort's as if they had not been there
        close(now, result).states[0].server.weights,
        close(now, gathered(replace(now, averages=False), answers(updates, [0, 0, 0, 0, 1, 0, 2, 0])))
        .states[0]
        .server.weights,
    )


def test_a_model_that_is_like_another_is_credited_with_nothing() -> None:
    now = replace(closing(claims(6, known=5), compared=[5], alike=True), averages=True)

    assert gathered(now, answers(alike(6), [0, 0, 0, 0, 0, 1])).movements[1] is None


def test_where_the_models_are_alike_the_gate_decides() -> None:
    now = closing(claims(6, known=5), compared=[5], alike=True)
    updates = alike(6)
    updates[5] *= -1

    assert gathered(now, answers(updates, [0] * 6)).misfits == 1


def test_only_the_cohorts_own_model_moves_and_only_its_round_is_counted() -> None:
    now = closing(claims(6, known=3), compared=[2, 3, 4])
    outcome = close(now, gathered(now, answers(alike(6), [0, 0, 1, 2, 0, 0])))

    assert [state.round for state in outcome.states] == [8]
    assert (outcome.states[0].server.weights != now.states[0].server.weights).any()


def test_those_who_compared_are_told_where_they_belong_and_those_who_left_nothing_else() -> None:
    now = closing(claims(6, known=3), compared=[2, 3, 4])
    told = close(now, gathered(now, answers(alike(6), [0, 0, 1, 2, 0, 0], late=[3]))).affinities

    assert told is not None
    assert told.placed is not None
    assert told.placed.tolist() == [-1, -1, 1, 2, 0, -1]
    assert np.isnan(told.instant_reward).tolist() == [False, False, True, True, False, False]
    assert np.isnan(told.similarity[2:4]).all()


def test_those_who_left_change_nothing_for_the_others() -> None:
    now = closing(claims(8, known=4), compared=[6, 7])
    stay = answers(alike(8), [0] * 8)[:6]
    left = answers(-3 * alike(8), [1] * 8)[6:]
    one, other = (close(now, gathered(now, returned)) for returned in (stay, [*stay, *left]))

    assert one.affinities is not None
    assert other.affinities is not None
    assert to_bytes(one.states[0]) == to_bytes(other.states[0])
    np.testing.assert_array_equal(one.affinities.instant_reward, other.affinities.instant_reward[:6])
    np.testing.assert_array_equal(one.affinities.similarity, other.affinities.similarity[:6])


def test_a_comparison_of_models_that_are_alike_names_none() -> None:
    now = closing(claims(4, known=3), compared=[0, 3], alike=True)
    told = close(now, gathered(now, answers(alike(4), [0] * 4))).affinities

    assert told is not None
    assert told.placed is not None
    assert told.placed.tolist() == [-1] * 4


def test_where_all_preferred_other_models_they_hear_it_and_the_model_stays() -> None:
    now = closing(claims(3), compared=[0, 1, 2])
    outcome = close(now, gathered(now, answers(alike(3), [1, 2, 0], late=[2])))

    assert outcome.affinities is not None
    assert outcome.affinities.placed is not None
    assert outcome.affinities.placed.tolist() == [1, 2, 0]
    assert outcome.affinities.similarity.shape == (3, 2)
    assert [state.round for state in outcome.states] == [8]
    np.testing.assert_array_equal(outcome.states[0].server.weights, now.states[0].server.weights)


def test_where_only_late_ones_preferred_other_models_the_round_came_to_nothing() -> None:
    now = closing(claims(2), compared=[0, 1])
    result = gathered(now, answers(alike(2), [1, 2], late=[0, 1]))

    assert AUXO.close(now, result, FedAvg(), stream(0, "cluster")) is None


def test_a_round_in_which_nobody_compared_is_as_it_always_was() -> None:
    now = closing(claims(4, known=3), compared=[])
    result = gathered(now, answers(alike(4), [0] * 4))
    told = close(now, result).affinities

    assert own_answers(now, result) is result
    assert told is not None
    assert told.placed is None
