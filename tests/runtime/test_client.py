from dataclasses import replace

import numpy as np
import pytest

from auxo import AffinityFeedback, AffinityRequest, Auxo, CheckIn, Client, Server
from auxo.core.affinity import AffinitySettings
from auxo.core.cohort_tree import CohortTree
from auxo.core.types import ROOT, CohortId
from auxo.protocol.codec import CodecError, from_bytes, to_bytes

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
ONCE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))
TWICE = ONCE.partition(LEFT, (0, 1), (0.5, 0.5))
ELSEWHERE = CohortTree().partition(ROOT, (1, 0), (0.5, 0.5))
CURIOUS = AffinitySettings(exploration=1.0, exploration_decay=1.0, confirmations=0)
STEADY = AffinitySettings(exploration=0.0)

TOLD = AffinityFeedback(
    client=7,
    cohort=ROOT,
    tree=CohortTree(),
    instant_reward=None,
    similarity=(0.2, 0.9),
    fold=0,
    generation=1,
)
REWARDED = replace(TOLD, cohort=RIGHT, tree=ONCE, instant_reward=0.5, similarity=(None, None), generation=0)


def client(*feedback: AffinityFeedback, settings: AffinitySettings = STEADY, seed: int = 0) -> Client:
    made = Client(7, settings=settings, seed=seed)
    for told in feedback:
        made.receive(told)
    return made


def wishes(of: Client, n: int) -> list[AffinityRequest]:
    """Return what the client asks for in ``n`` check-ins."""
    asked = [of.check_in().request for _ in range(n)]
    return [wish for wish in asked if wish is not None]


# What a client asks for.


def test_a_client_without_a_record_has_no_preference() -> None:
    assert client().check_in() == CheckIn(7, None, 0)


def test_a_client_asks_with_the_cluster_index_that_feedback_gave_it() -> None:
    assert client(TOLD).check_in() == CheckIn(7, AffinityRequest(ROOT, 0.0, 1, 1, True), 1)


def test_feedback_of_a_round_without_clustering_counts_but_gives_no_label() -> None:
    check_in = client(replace(TOLD, similarity=(None, None))).check_in()

    assert check_in.participations == 1
    assert check_in.request == AffinityRequest(ROOT, 0.0, -1, 1, True)


def test_after_a_partition_a_client_asks_for_the_child_of_its_label() -> None:
    for similarity, child in (((0.2, 0.9), RIGHT), ((0.9, 0.2), LEFT)):
        (wish,) = wishes(client(replace(TOLD, tree=ONCE, similarity=similarity)), 1)

        assert (wish.cohort, wish.ranked_first) == (child, True)
        assert wish.reward > 0


def test_bad_rewards_send_a_client_elsewhere_when_its_label_was_a_close_call() -> None:
    unsure = replace(TOLD, tree=ONCE, similarity=(0.50, 0.52))
    (before,) = wishes(client(unsure), 1)
    (after,) = wishes(client(unsure, *[replace(REWARDED, instant_reward=-0.8)] * 3), 1)

    assert before.cohort == RIGHT
    assert after.cohort == LEFT


def test_a_curious_client_looks_at_every_cohort_and_says_which_is_not_its_choice() -> None:
    asked = wishes(client(replace(TOLD, tree=ONCE), settings=CURIOUS), 40)

    assert {wish.cohort for wish in asked} == {LEFT, RIGHT}
    assert {(wish.cohort, wish.ranked_first) for wish in asked} == {(LEFT, False), (RIGHT, True)}


def test_clients_that_share_a_seed_explore_at_different_times_and_another_seed_explores_otherwise() -> None:
    def explored(number: int, seed: int) -> list[str]:
        made = Client(number, seed=seed, settings=CURIOUS)
        made.receive(replace(TOLD, client=number, tree=ONCE))
        return [wish.cohort for wish in wishes(made, 40)]

    assert explored(7, 0) == explored(7, 0)
    assert explored(7, 0) != explored(8, 0)
    assert explored(7, 0) != explored(7, 1)


def test_a_client_says_how_often_a_comparison_has_named_its_cohort() -> None:
    named = replace(REWARDED, cohort=LEFT, placed=RIGHT, instant_reward=None)
    (once,), (twice,) = (wishes(client(TOLD, *[named] * times), 1) for times in (1, 2))

    assert (once.cohort, once.confirmed) == (RIGHT, 1)
    assert (twice.cohort, twice.confirmed) == (RIGHT, 2)


def test_feedback_that_places_a_client_in_a_cohort_that_is_not_in_the_tree_is_refused() -> None:
    with pytest.raises(ValueError, match=r"feedback\.placed: 0\.7 is not in feedback\.tree"):
        client(replace(TOLD, placed=CohortId("0.7")))


# What survives.


@pytest.mark.parametrize("feedback", [(), (TOLD,), (replace(TOLD, tree=ONCE), REWARDED)])
@pytest.mark.parametrize("check_ins", [0, 5])
def test_a_kept_record_gives_the_same_check_ins_as_if_nothing_had_happened(
    feedback: tuple[AffinityFeedback, ...], check_ins: int
) -> None:
    whole = client(*feedback, settings=CURIOUS)
    wishes(whole, check_ins)
    restarted = client(settings=CURIOUS)
    restarted.record_from_bytes(whole.record_to_bytes())

    assert restarted.record_to_bytes() == whole.record_to_bytes()
    assert [restarted.check_in() for _ in range(10)] == [whole.check_in() for _ in range(10)]
    for one in (restarted, whole):
        one.receive(replace(REWARDED, tree=TWICE))
    assert [restarted.check_in() for _ in range(10)] == [whole.check_in() for _ in range(10)]


def test_damaged_bytes_are_refused_and_the_record_stays() -> None:
    made = client(TOLD)
    before = made.record_to_bytes()
    middle = len(before) // 2
    flipped = before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :]

    for data in (b"", b"\x00" * 64, before[:-1], before[:middle], before + b" ", flipped):
        with pytest.raises(CodecError):
            made.record_from_bytes(data)
    assert made.record_to_bytes() == before


def test_the_bytes_of_a_server_are_no_record() -> None:
    server = Server(np.zeros(3, dtype=np.float32), participants=2, rounds=2, method=Auxo())

    with pytest.raises(CodecError, match="expected 'ClientRecord', got 'ServerRecord'"):
        client().record_from_bytes(server.to_bytes())


def test_a_client_that_lost_its_record_begins_again_and_is_matched() -> None:
    server = Server(np.zeros(3, dtype=np.float32), participants=2, rounds=2, method=Auxo())
    made = client(TOLD, replace(TOLD, fold=1))
    matched = server.match([made.check_in(), client().check_in()])

    assert list(matched[ROOT]) == [CheckIn(7)]
    again = client()
    again.receive(TOLD)
    assert again.check_in() == client(TOLD).check_in()


# Feedback that is not for this record.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(TOLD, client=8), r"feedback\.client: expected 7, got 8"),
        (replace(TOLD, tree=ELSEWHERE), r"feedback\.tree: expected a later state .* another run"),
        (TOLD, r"feedback\.tree: expected a later state .* earlier time"),
        (replace(REWARDED, similarity=(0.1, 0.2, 0.3)), r"feedback\.similarity: expected 2 .*, got 3"),
        (replace(REWARDED, similarity=()), r"feedback\.similarity: expected 2 .*, got 0"),
        (replace(REWARDED, cohort=CohortId("0.7")), r"feedback\.cohort: 0\.7 is not in feedback\.tree"),
        (replace(REWARDED, fold=2), r"feedback\.fold: expected None or a number below 2, got 2"),
        (replace(REWARDED, fold=-1), r"feedback\.fold: expected None or a number below 2, got -1"),
    ],
)
def test_feedback_that_does_not_fit_is_refused_and_nothing_is_learnt(wrong: AffinityFeedback, message: str) -> None:
    made = client(replace(TOLD, tree=ONCE))
    before = made.record_to_bytes()

    with pytest.raises(ValueError, match=message):
        made.receive(wrong)
    assert made.record_to_bytes() == before


def test_feedback_without_any_cluster_is_refused_by_a_new_client() -> None:
    with pytest.raises(ValueError, match=r"feedback\.similarity: expected at least 1"):
        client(replace(TOLD, similarity=()))


def test_feedback_of_a_later_time_extends_the_record() -> None:
    made = client(TOLD, replace(REWARDED, tree=TWICE), settings=CURIOUS)

    assert {wish.cohort for wish in wishes(made, 60)} == {"0.1", "0.0.0", "0.0.1"}


# Feedback more than once, of others, and of what cannot be.


NEWS = replace(TOLD, round=3, federation="one")


def test_feedback_that_is_delivered_again_counts_once() -> None:
    once, twice = client(), client()
    later = replace(NEWS, round=5)
    for told in (NEWS, later):
        once.receive(told)
    for told in (NEWS, NEWS, later, NEWS, later):
        twice.receive(told)
    assert twice.record_to_bytes() == once.record_to_bytes()


def test_feedback_that_is_delivered_again_counts_once_also_after_a_restart() -> None:
    first, second = client(), client()
    first.receive(NEWS)
    second.record_from_bytes(first.record_to_bytes())
    second.receive(NEWS)
    assert second.record_to_bytes() == first.record_to_bytes()


def test_the_feedback_of_another_federation_is_refused_and_changes_nothing() -> None:
    made = client()
    made.receive(NEWS)
    before = made.record_to_bytes()
    with pytest.raises(ValueError, match=r"feedback\.federation: expected 'one' as in the record, got 'two'"):
        made.receive(replace(NEWS, round=4, federation="two"))
    assert made.record_to_bytes() == before


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan"), 1.5, -2.0])
def test_a_reward_or_a_similarity_that_cannot_be_is_refused(value: float) -> None:
    for told in (
        replace(TOLD, instant_reward=value),
        replace(TOLD, similarity=(value, *TOLD.similarity[1:])),
    ):
        made = client()
        before = made.record_to_bytes()
        with pytest.raises(ValueError, match="expected numbers from -1 to 1, or None"):
            made.receive(told)
        assert made.record_to_bytes() == before


# Tokens.


def test_a_client_brings_along_the_last_token_that_it_was_given() -> None:
    first, second = (replace(TOLD, round=number, token=f"number {number}") for number in (1, 2))
    given = client(first, second, replace(TOLD, round=3))
    again = Client(7, settings=STEADY)
    again.record_from_bytes(given.record_to_bytes())

    for one in (given, again):
        (wish,) = wishes(one, 1)
        assert wish.token == second.token


def test_a_token_is_part_of_a_request_and_changes_nothing_else() -> None:
    text = "any text"
    (plain,), (given,) = wishes(client(TOLD), 1), wishes(client(replace(TOLD, token=text)), 1)

    assert (plain.token, given.token) == ("", text)
    assert replace(given, token="") == plain
    assert from_bytes(AffinityRequest, to_bytes(given)) == given
    server = Server(np.zeros(3, dtype=np.float32), participants=2, rounds=2, method=Auxo())
    assert [len(server.match([CheckIn(7, one)])[ROOT]) for one in (plain, given)] == [1, 1]
