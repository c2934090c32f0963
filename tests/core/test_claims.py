from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.affinity import Requests
from auxo.core.aggregators import FedAvg
from auxo.core.claims import Claims, plan_members_first
from auxo.core.cohort_algorithm import Opening
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.own_state import own
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import to_bytes
from tests.core.made_updates import claims

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))


def requests(n: int, cohort: CohortId = ROOT) -> Requests:
    """Return requests of clients whose first choice is ``cohort``, with a reward and labels."""
    return Requests(
        tree=TREE,
        cohort=np.full(n, TREE.index[cohort]),
        cluster=np.arange(n) % 2,
        generation=np.full(n, 3),
        reward=np.full(n, 0.4),
        ranked_first=np.ones(n, dtype=np.bool_),
        supported=np.ones(n, dtype=np.bool_),
        confirmed=np.zeros(n, dtype=np.int64),
        participations=np.arange(n),
    )


def opening(asked: Requests) -> Opening:
    n = len(asked.cohort)
    state = CohortState(FedAvg().initial(np.zeros(2, dtype=np.float32)))
    return Opening(ROOT, TREE, state, CheckIns(np.arange(n), asked), everybody(n), progress=0.5, share=n)


def everybody(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.ones(n, dtype=np.bool_)


def test_a_request_for_the_cohort_itself_brings_its_labels_along() -> None:
    brought = Claims.of(requests(4).take(np.array([3, 1])), everybody(2), ROOT)

    assert brought.label.tolist() == [1, 1]
    assert brought.generation.tolist() == [3, 3]


@pytest.mark.parametrize("cohort", [LEFT, RIGHT, CohortId("0.7")])
def test_a_label_for_another_cohort_says_nothing_here(cohort: CohortId) -> None:
    brought = Claims.of(requests(3), everybody(3), cohort)

    assert brought.label.tolist() == brought.generation.tolist() == [-1, -1, -1]


def test_a_request_without_a_preference_brings_nothing_even_to_a_cohort_the_tree_does_not_know() -> None:
    nothing = replace(requests(3), cohort=np.full(3, -1))
    brought = Claims.of(nothing, everybody(3), CohortId("0.7"))

    assert brought.label.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("vouched", "ranked_first", "reward", "known"),
    [
        (True, True, 0.4, True),
        (False, True, 0.4, False),
        (True, False, 0.4, False),
        (True, True, 0.0, False),
        (True, True, -0.4, False),
    ],
)
def test_members_come_by_their_own_request_as_first_choice_with_a_positive_reward(
    vouched: bool, ranked_first: bool, reward: float, known: bool
) -> None:
    asked = replace(requests(1, LEFT), ranked_first=np.array([ranked_first]), reward=np.array([reward]))

    assert Claims.of(asked, np.array([vouched]), LEFT).known.tolist() == [known]


@pytest.mark.parametrize("vouched", [False, True])
def test_whom_a_label_in_an_ancestor_leads_here_is_a_member_whatever_the_ancestor_gave(vouched: bool) -> None:
    asked = replace(requests(1, ROOT), reward=np.array([0.0]))

    assert Claims.of(asked, np.array([vouched]), LEFT).known.tolist() == [vouched]


def test_taking_rows_takes_them_of_every_column() -> None:
    brought = claims(5, known=2, labels=np.arange(5))
    some = brought.take(np.array([4, 0]))

    assert some.label.tolist() == [4, 0]
    assert some.generation.tolist() == [1, 1]
    assert some.known.tolist() == some.vouched.tolist() == [False, True]


@settings(max_examples=40)
@given(st.lists(st.booleans(), max_size=12))
def test_members_come_first_and_nobody_is_lost_or_overtaken_by_his_like(known: list[bool]) -> None:
    asked = replace(requests(len(known)), ranked_first=np.array(known, dtype=np.bool_))
    plan = plan_members_first(opening(asked))

    members = [row for row, is_known in enumerate(known) if is_known]
    others = [row for row, is_known in enumerate(known) if not is_known]
    assert plan.rows.tolist() == members + others
    assert plan.asks.fold.tolist() == [-1] * len(known)
    assert own(Claims, plan.notes).known.tolist() == [True] * len(members) + [False] * len(others)
    assert plan.offered == (ROOT,)
    assert not plan.asks.model.any()


def test_claims_leave_the_requests_they_are_taken_from_untouched() -> None:
    asked, vouched = requests(6), everybody(6)
    before = to_bytes(asked)
    brought = Claims.of(asked, vouched, ROOT)
    brought_before = to_bytes(brought)
    brought.take(np.arange(6)[::-1])
    plan_members_first(opening(asked))

    assert to_bytes(asked) == before
    assert vouched.all()
    assert to_bytes(brought) == brought_before
