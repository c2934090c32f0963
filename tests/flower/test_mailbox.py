from auxo.core.cohort_tree import CohortTree
from auxo.core.types import ROOT, CohortId
from auxo.flower.post import Mailbox
from auxo.flower.wire import SaidByNode
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn

ASKS = AffinityRequest(CohortId("0"), 0.5, 1, 1, True)


def told(node: int, reward: float | None) -> AffinityFeedback:
    return AffinityFeedback(node, ROOT, CohortTree(), reward, (None, None), None, 1)


def test_a_check_in_is_that_of_the_node_whose_reply_it_came_with() -> None:
    box = Mailbox()
    box.hear(7, SaidByNode(CheckIn(999, ASKS, 3), None))

    assert box.of([7, 8]) == [CheckIn(7, ASKS, 3), CheckIn(8)]


def test_a_reply_without_a_check_in_leaves_the_last_one() -> None:
    box = Mailbox()
    box.hear(7, SaidByNode(CheckIn(7, ASKS, 3), None))
    box.hear(7, SaidByNode(None, None))

    assert box.of([7]) == [CheckIn(7, ASKS, 3)]


def test_feedback_is_given_once_and_only_what_says_something_is_kept() -> None:
    box = Mailbox()
    box.keep([told(1, 0.25), told(2, None)])

    assert box.feedback_for(1) == told(1, 0.25)
    assert box.feedback_for(1) is None
    assert box.feedback_for(2) is None
