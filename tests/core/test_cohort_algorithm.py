from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.asking import LEAST_LOSS, Asks
from auxo.core.cohort_algorithm import Closing, Opening, Participants, Plan, stepped
from auxo.core.cohort_state import CohortState, Credit
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING
from auxo.core.partition import Outlook
from auxo.core.types import ROOT, CohortId, Float32Array
from auxo.protocol.codec import to_bytes
from tests.core.made_updates import N_PARAMS, alike, answers, gathered, movement_of, saying
from tests.core.selectors_of_our_own import FewestTurns

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
ZEROS = np.zeros(N_PARAMS, dtype=np.float32)


def closing(states: tuple[CohortState, ...]) -> Closing:
    offered = (LEFT, RIGHT)[: len(states)]
    participants = Participants(np.arange(4), offered, Asks(np.full(4, -1), np.zeros(4, dtype=np.int64)))
    return Closing(ROOT, states, participants, Outlook(0.1, 4, len(states), 10.0), share=4)


def test_a_plain_plan_asks_everybody_for_all_they_have_in_the_order_selected() -> None:
    selected = CheckIns(np.array([9, 4]), Requests.silent(CohortTree(), np.zeros(2, dtype=np.int64)))
    plan = Plan.plain(
        Opening(ROOT, CohortTree(), CohortState(FedAvg().initial(ZEROS)), selected, np.ones(2, dtype=np.bool_), 0.1, 2)
    )

    assert (plan.rows.tolist(), plan.asks.fold.tolist(), plan.asks.model.tolist()) == ([0, 1], [-1, -1], [0, 0])
    assert (plan.offered, plan.hears_late, plan.notes) == ((ROOT,), False, NOTHING)


def test_a_step_moves_the_model_counts_the_round_and_keeps_all_else() -> None:
    state = CohortState(FedAvg().initial(ZEROS), 4, 12.5, memory=FewestTurns().begin(), selection=FewestTurns().begin())
    before = to_bytes(state)
    result = gathered(answers(alike(4)))
    (after,) = stepped(closing((state,)), result, FedAvg(), rate_scale=0.5)

    np.testing.assert_allclose(after.server.weights, 0.5 * movement_of(result), rtol=1e-6)
    assert (after.round, after.check_ins) == (5, 12.5)
    assert (after.memory, after.selection) == (state.memory, state.selection)
    assert to_bytes(state) == before


def test_what_was_credited_counts_like_the_rounds_own_updates_by_its_weight() -> None:
    state, result = CohortState(FedAvg().initial(ZEROS)), gathered(answers(alike(4)))
    (weight,) = result.weights

    def after(share: float) -> Float32Array:
        credit = Credit(np.full(N_PARAMS, 2.0), share * weight)
        (one,) = stepped(replace(closing((state,)), credits={LEFT: credit}), result, FedAvg())
        return one.server.weights

    np.testing.assert_allclose(after(0.25), (movement_of(result) + 0.25 * 2.0) / 1.25, rtol=1e-6)
    np.testing.assert_array_equal(after(1000.0), after(1.0))  # for no more than all of these together


def test_a_model_that_nobody_has_trained_keeps_weights_and_optimiser_but_its_round_has_passed() -> None:
    yogi = FedYogi()
    state = CohortState(yogi.step(yogi.initial(ZEROS), np.ones(N_PARAMS)), round=1)
    result = gathered([saying(one, model=1) for one in answers(alike(4))], models=2)
    left, right = stepped(closing((state, state)), result, yogi)

    assert to_bytes(left) == to_bytes(replace(state, round=2))
    assert to_bytes(right.server) == to_bytes(yogi.step(state.server, movement_of(result, 1)))
    assert right.round == 2


PLAN = Plan(np.arange(3), (LEFT, RIGHT), Asks(np.array([-1, 0, 1]), np.array([LEAST_LOSS, 0, 1])))
HALVES = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))


def test_a_plan_that_can_be_carried_out_is_let_through() -> None:
    PLAN.check(3, HALVES)
    nobody = np.zeros(0, dtype=np.int64)
    Plan(nobody, (LEFT,), Asks(nobody, nobody)).check(0, HALVES)
    Plan(nobody, (LEFT,), Asks(nobody, nobody, judges=np.zeros((0, 3), dtype=np.int64))).check(0, HALVES)


def test_models_that_a_cohort_holds_itself_follow_those_that_are_offered() -> None:
    held = replace(
        PLAN, asks=replace(PLAN.asks, model=np.array([LEAST_LOSS, 2, 3]), judges=np.array([[-1, -1], [0, 4], [3, 4]]))
    )

    held.check(3, HALVES, held=3)
    with pytest.raises(ValueError, match=r"asks\.model: expected places among the 3 models"):
        held.check(3, HALVES, held=1)
    with pytest.raises(ValueError, match=r"asks\.judges: expected 3 rows of places among the 4 models"):
        held.check(3, HALVES, held=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": np.array([0, 1, 1])}, "plan.rows: expected distinct rows of the 3 selected"),
        ({"rows": np.array([0, 1, 3])}, "plan.rows: expected distinct rows of the 3 selected"),
        ({"fold": np.array([0, 1])}, "asks.fold, model: expected 3 entries each, got 2 and 3"),
        ({"fold": np.array([0, 1, 12])}, "asks.fold: expected 0 to 11, or -1 for all samples"),
        ({"model": np.array([0, 1, 2])}, "asks.model: expected places among the 2 models of the round, or LEAST_LOSS"),
        ({"judges": np.zeros((2, 1), dtype=np.int64)}, "asks.judges: expected 3 rows of places among the 2 models"),
        ({"judges": np.full((3, 1), 2)}, "asks.judges: expected 3 rows of places among the 2 models"),
        ({"judges": np.full((3, 2), -2)}, "asks.judges: expected 3 rows of places among the 2 models"),
        ({"offered": (ROOT,)}, "plan.offered: expected some of the leaves"),
        ({"offered": ()}, "plan.offered: expected some of the leaves"),
    ],
)
def test_a_plan_that_means_something_else_is_refused(changes: dict[str, Any], message: str) -> None:
    plan = {name: value for name, value in changes.items() if name in ("rows", "offered")}
    asks = {name: value for name, value in changes.items() if name not in plan}
    with pytest.raises(ValueError, match=message):
        replace(PLAN, asks=replace(PLAN.asks, **asks), **plan).check(3, HALVES)
