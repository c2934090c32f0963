from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.affinity import AffinityRecords, AffinitySettings, FeedbackColumns, Requests, hear, learn, request
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import NOWHERE, ByRequest, CheckIns, Matched, Matching, ToTheRoot
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, IntArray
from auxo.protocol.codec import to_bytes

LEFT, RIGHT = CohortId("0.0"), CohortId("0.1")
ONCE = CohortTree().partition(ROOT, (1, 0), (0.5, 0.5), generation=1)
TWICE = ONCE.partition(LEFT, (0, 1), (0.5, 0.5), generation=1)
MATCHINGS = pytest.mark.parametrize("matching", [ByRequest(), ToTheRoot()], ids=["by request", "to the root"])


def state(tree: CohortTree) -> CoordinatorState:
    return CoordinatorState(tree, {})


def check_ins(requests: Requests) -> CheckIns:
    return CheckIns(100 + np.arange(len(requests.cohort)), requests)


def asked(labels: IntArray, tree: CohortTree) -> Requests:
    """Return what clients ask for that have learnt these labels in the root and heard of ``tree``."""
    told = FeedbackColumns(
        cohort=ROOT,
        tree=CohortTree(),
        instant_reward=np.full(len(labels), np.nan),
        similarity=np.eye(2)[labels],
        fold=np.full(len(labels), -1),
        generation=1,
    )
    records = learn(AffinityRecords.empty(len(labels), 2), told, AffinitySettings())
    return request(hear(records, tree, AffinitySettings()), AffinitySettings(), None)


def matched(requests: Requests, tree: CohortTree) -> Matched:
    return ByRequest().match(state(tree), check_ins(requests), stream(0, "match"))


# Contract: what every matching does.


@MATCHINGS
@pytest.mark.parametrize("n", [0, 1, 70_000])
def test_check_ins_of_any_number_find_a_cohort_and_a_leaf_each(matching: Matching, n: int) -> None:
    here = check_ins(Requests.silent(CohortTree(), np.zeros(n, dtype=np.int64)))
    found = matching.match(state(TWICE), here, stream(0, "match"))
    placed = matching.place(state(TWICE), here, stream(0, "match"))

    assert found.cohort.shape == found.vouched.shape == placed.cohort.shape == placed.vouched.shape == (n,)
    assert set(found.cohort.tolist()) <= set(range(len(TWICE.cohorts)))
    assert TWICE.is_leaf[placed.cohort].all()


@MATCHINGS
def test_matching_leaves_what_it_is_given_untouched(matching: Matching) -> None:
    here = check_ins(asked(stream(0, "labels").integers(0, 2, 20), ONCE))
    before = to_bytes(here)
    matching.match(state(TWICE), here, stream(0, "match"))
    matching.place(state(TWICE), here, stream(0, "match"))

    assert to_bytes(here) == before


# By request.


@pytest.mark.fault(19)
@pytest.mark.parametrize("heard_of", [CohortTree(), ONCE])
def test_requests_of_any_age_lead_every_client_to_the_child_of_its_own_label(heard_of: CohortTree) -> None:
    labels = stream(0, "labels").integers(0, 2, 50)
    found = matched(asked(labels, heard_of), ONCE)

    assert found.vouched.all()
    assert [ONCE.cohorts[leaf] for leaf in found.cohort] == [(RIGHT, LEFT)[label] for label in labels]


@pytest.mark.fault(19)
def test_a_request_for_a_cohort_that_has_been_partitioned_since_leads_below_it() -> None:
    labels = stream(0, "labels").integers(0, 2, 50)
    found = matched(asked(labels, ONCE), TWICE)
    leaves = np.array(TWICE.cohorts)[found.cohort]

    assert set(leaves[labels == 0]) == {"0.1"}
    assert set(leaves[labels == 1]) == {"0.0.0", "0.0.1"}
    np.testing.assert_array_equal(found.vouched, labels == 0)


@pytest.mark.fault(18)
def test_a_cohort_this_server_never_had_counts_as_no_preference() -> None:
    requests = asked(np.ones(200, dtype=np.int64), ONCE)
    assert set(requests.cohort.tolist()) == {ONCE.index[LEFT]}
    found = matched(requests, CohortTree())

    assert not found.vouched.any()
    np.testing.assert_array_equal(found.cohort, np.zeros(200))


@pytest.mark.fault(18)
@pytest.mark.parametrize("position", [-(2**40), -2, -1, 3, 2**40])
def test_a_position_that_means_nothing_counts_as_no_preference(position: int) -> None:
    requests = replace(asked(np.ones(300, dtype=np.int64), ONCE), cohort=np.full(300, position))
    found = matched(requests, ONCE)

    assert not found.vouched.any()
    assert {ONCE.cohorts[leaf] for leaf in found.cohort} == {LEFT, RIGHT}


@settings(max_examples=40)
@given(
    partitions=st.lists(st.tuples(st.integers(0, 10), st.integers(2, 4)), max_size=4),
    wishes=st.lists(st.tuples(st.integers(-2, 14), st.integers(-2, 5), st.integers(-1, 2)), max_size=30),
)
def test_whatever_is_asked_for_every_check_in_goes_to_one_leaf_below_what_it_asked_for(
    partitions: list[tuple[int, int]], wishes: list[tuple[int, int, int]]
) -> None:
    tree = CohortTree()
    for pick, children in partitions:
        tree = tree.partition(tree.leaves[pick % len(tree.leaves)], tuple(range(children)), (1.0,) * children)
    cohort, cluster, generation = np.array(wishes, dtype=np.int64).reshape(-1, 3).T
    silent = Requests.silent(tree, np.zeros(len(wishes), dtype=np.int64))
    found = matched(replace(silent, cohort=cohort, cluster=cluster, generation=generation), tree)

    assert tree.is_leaf[found.cohort].all()
    for position, leaf, vouched in zip(cohort, found.cohort, found.vouched, strict=True):
        is_known = 0 <= position < len(tree.cohorts)
        assert is_known or not vouched
        if is_known:
            assert f"{tree.cohorts[leaf]}.".startswith(f"{tree.cohorts[position]}.")


def test_a_request_that_only_follows_a_prediction_gives_no_reason_to_use_a_model() -> None:
    requests = replace(asked(np.zeros(6, dtype=np.int64), ONCE), supported=np.arange(6) < 4)
    here = check_ins(requests)
    placed = ByRequest().place(state(ONCE), here, stream(0, "place"))

    np.testing.assert_array_equal(placed.cohort, matched(requests, ONCE).cohort)
    assert matched(requests, ONCE).vouched.all()
    assert placed.vouched.tolist() == [True, True, True, True, False, False]


# To the root.


def test_everybody_joins_the_roots_round_whatever_they_ask_for() -> None:
    here = check_ins(asked(stream(0, "labels").integers(0, 2, 20), ONCE))
    for tree in (CohortTree(), ONCE, TWICE):
        found = ToTheRoot().match(state(tree), here, stream(0, "match"))

        assert (found.cohort == 0).all()
        assert found.vouched.all()


def test_whoever_could_use_several_models_has_to_compare_them() -> None:
    here = check_ins(Requests.silent(CohortTree(), np.zeros(5, dtype=np.int64)))
    alone = ToTheRoot().place(state(CohortTree()), here, stream(0, "place"))
    among = ToTheRoot().place(state(TWICE), here, stream(0, "place"))

    assert alone.vouched.all()
    assert (alone.cohort == 0).all()
    assert among.vouched.all(), "they are not lost: there is no other way"
    assert (among.cohort == NOWHERE).all()


# Check-ins.


def test_taking_rows_of_check_ins_takes_clients_and_what_they_ask_for() -> None:
    here = check_ins(replace(asked(np.zeros(4, dtype=np.int64), ONCE), participations=np.arange(4)))
    some = here.take(np.array([3, 1]))

    assert len(here) == 4
    assert len(some) == 2
    assert some.clients.tolist() == [103, 101]
    assert some.requests.participations.tolist() == [3, 1]
