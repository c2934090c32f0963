"""What a server's own observations prove: who was led to a cohort, who fits it, and who says so itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.affinity import (
    AffinityRecords,
    AffinitySettings,
    ClusterIndices,
    FeedbackColumns,
    Requests,
    learn,
    request,
    widen,
)
from auxo.core.claims import on_own_word, unproved_of
from auxo.core.cohort_tree import CohortTree
from auxo.core.proofs import FORGED, LED, PROVED, UNPROVED, observe, proofs
from auxo.core.types import ROOT, CohortId, FloatArray

LEFT = CohortId("0.0")
TREE = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5), generation=1)
SETTINGS = AffinitySettings()


def heard(cohort: CohortId, rewards: list[float], similarity: FloatArray) -> FeedbackColumns:
    return FeedbackColumns(cohort, TREE, np.array(rewards), similarity, np.full(len(rewards), -1), generation=1)


def signed_for(rewards: list[float], labels: list[int]) -> AffinityRecords:
    """Return what is signed for clients that the root has labelled and the left child has rewarded so."""
    n, nothing = len(rewards), np.full((len(rewards), 2), np.nan)
    said = np.where(np.array(labels)[:, None] < 0, np.nan, np.array(labels)[:, None] == np.arange(2))
    before = observe(widen(AffinityRecords.empty(n, 2), TREE), heard(ROOT, [np.nan] * n, said), SETTINGS)
    return observe(before, heard(LEFT, rewards, nothing), SETTINGS)


def claims_to_the_left(n: int) -> Requests:
    silent = Requests.silent(TREE, np.ones(n, dtype=np.int64))
    return replace(silent, cohort=np.full(n, TREE.index[LEFT]), reward=np.full(n, 0.3))


def proofs_of(signed: AffinityRecords) -> list[int]:
    n = len(signed.heard)
    return [int(one) for one in proofs(signed, ClusterIndices.of(signed), np.arange(n), claims_to_the_left(n), TREE)]


def test_who_was_led_to_a_cohort_and_does_not_fit_is_no_member_but_no_stranger() -> None:
    found = proofs_of(signed_for([0.3, -0.4, np.nan, -0.4, 0.3], labels=[0, 0, 0, 1, 1]))

    assert found == [PROVED, LED, PROVED, UNPROVED, UNPROVED]


def test_only_who_is_there_on_its_own_word_is_held_to_a_share_of_the_places() -> None:
    asked = replace(claims_to_the_left(3), proof=np.array([PROVED, LED, UNPROVED]))
    vouched = np.array([True, True, True])

    placed, members = on_own_word(asked, vouched), unproved_of(asked, vouched)
    assert placed is not None and members is not None  # noqa: PT018 - claims are signed here
    assert placed.tolist() == [False, False, True]
    assert members.tolist() == [False, True, True]


def test_who_was_led_to_a_cohort_is_labelled_on_trial_there_and_who_was_not_is_not() -> None:
    before = signed_for([-0.4, -0.4], labels=[0, 1])
    after = observe(before, heard(LEFT, [np.nan, np.nan], np.eye(2)), SETTINGS)

    grown = TREE.partition(LEFT, (0, 1), (0.5, 0.5), generation=1)
    below = replace(claims_to_the_left(2), cluster=np.array([0, 1]), generation=np.ones(2, dtype=np.int64))
    found = proofs(widen(after, grown), ClusterIndices.of(widen(after, grown)), np.arange(2), below, grown)
    assert found.tolist() == [PROVED, UNPROVED]  # what it was told is true, and leads nowhere


@pytest.mark.fault(17)
def test_who_names_another_index_or_a_far_larger_reward_than_was_signed_forges_it() -> None:
    signed = signed_for([0.3] * 4, labels=[0, 0, 0, -1])
    honest = replace(claims_to_the_left(4), cohort=np.zeros(4, dtype=np.int64), reward=np.zeros(4))
    asked = replace(
        honest,
        cluster=np.array([0, 1, 0, 0]),  # the last was never labelled
        generation=np.array([1, 1, 2, 1]),
    )
    indices = ClusterIndices.of(signed)
    assert proofs(signed, indices, np.arange(4), asked, TREE).tolist() == [PROVED, FORGED, FORGED, FORGED]
    assert proofs(signed, indices, np.full(4, -1), asked, TREE).tolist() == [UNPROVED] * 4  # without a token: its word

    claims = replace(claims_to_the_left(4), reward=np.array([0.06, 0.5, 0.6, 1.0]))
    assert (proofs(signed, indices, np.arange(4), claims, TREE) == FORGED).tolist() == [False, False, True, True]


@pytest.mark.fault(17)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 2), st.floats(-1, 1), st.integers(-1, 1), st.booleans()),
        max_size=12,
    )
)
def test_what_honest_clients_ask_is_never_taken_for_forged(visits: list[tuple[int, int, float, int, bool]]) -> None:
    """Whatever a client hears, and wherever it goes by itself, it says what was signed for it.

    A token that does not count any more, as one that was presented again after a crash, is followed by a new one.
    """
    tree = TREE.partition(LEFT, (0, 1), (0.5, 0.5), generation=2)
    own = observed = AffinityRecords.empty(1, 2)
    for at, generation, reward, placed, is_lost in visits:
        observed = AffinityRecords.empty(1, 2) if is_lost else observed
        label = np.where(np.arange(2) == int(reward > 0), 1.0, 0.0)[None, :]
        told = FeedbackColumns(
            tree.cohorts[at], tree, np.array([reward]), label, np.array([-1]), generation,
            placed=np.array([placed if placed < 0 else tree.index[tree.leaves[placed]]]),
        )  # fmt: skip
        own, observed = learn(own, told, SETTINGS), observe(observed, told, SETTINGS)
        asked = request(own, SETTINGS, None)
        asked = replace(asked, reward=observed.reward[[0], asked.cohort])
        assert proofs(observed, ClusterIndices.of(observed), np.zeros(1, dtype=np.int64), asked, tree) != FORGED
