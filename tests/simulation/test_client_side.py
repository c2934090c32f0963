"""The clients' side: what is kept of them depends on the algorithm, and nothing else does."""

import numpy as np
import pytest

from auxo.core.affinity import AffinitySettings, FeedbackColumns
from auxo.core.cohort_algorithm import ClientHalf
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import ROOT
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.simulation.client_records import ClientRecords
from auxo.simulation.client_side import ClientRules
from auxo.simulation.visit_counts import VisitCounts

WITH_RECORDS = ClientRules(ClientHalf(AffinitySettings(), clusters=2))
WITHOUT = ClientRules(None)
SOME = np.array([4, 0, 2])


def told(rows: int) -> FeedbackColumns:
    similarity = np.tile([0.5, -0.5], (rows, 1))
    return FeedbackColumns(ROOT, CohortTree(), np.full(rows, np.nan), similarity, np.full(rows, -1), generation=1)


def test_clients_keep_a_record_where_the_algorithm_has_a_client_half() -> None:
    assert isinstance(WITH_RECORDS.newcomers(6, CohortTree()), ClientRecords)
    assert isinstance(WITHOUT.newcomers(6, CohortTree()), VisitCounts)


@pytest.mark.parametrize("rules", [WITH_RECORDS, WITHOUT])
def test_a_visit_is_counted_for_those_who_came_and_told_at_check_in(rules: ClientRules) -> None:
    side = rules.newcomers(6, CohortTree())
    side = rules.learn(side, SOME, told(3))
    side = rules.learn(side, SOME[:1], told(1))
    check_ins = rules.check_in(side, np.arange(6), stream(0, "check-in"))

    np.testing.assert_array_equal(side.participations(np.arange(6)), [1, 0, 1, 0, 2, 0])
    np.testing.assert_array_equal(check_ins.requests.participations, [1, 0, 1, 0, 2, 0])
    np.testing.assert_array_equal(check_ins.clients, np.arange(6))


def test_clients_without_a_record_ask_for_nothing() -> None:
    side = WITHOUT.learn(WITHOUT.newcomers(6, CohortTree()), SOME, None)
    requests = WITHOUT.check_in(side, SOME, stream(0, "check-in")).requests

    assert (requests.cohort == -1).all()
    assert (requests.cluster == -1).all()
    assert not requests.supported.any()


@pytest.mark.parametrize("rules", [WITH_RECORDS, WITHOUT])
def test_a_copy_stays_as_it_was(rules: ClientRules) -> None:
    side = rules.learn(rules.newcomers(6, CohortTree()), SOME, told(3))
    kept, before = side.copy(), to_bytes(side)
    rules.learn(side, SOME, told(3))

    assert to_bytes(kept) == before


def test_counts_that_were_written_and_read_back_go_on_the_same() -> None:
    side = VisitCounts.empty(6).learn(SOME)
    again = from_bytes(VisitCounts, to_bytes(side))

    assert to_bytes(again.learn(SOME[:2])) == to_bytes(side.learn(SOME[:2]))


def test_a_million_counts_take_four_bytes_each() -> None:
    assert VisitCounts.empty(10**6).visits.nbytes == 4 * 10**6


def test_an_algorithm_with_a_client_half_must_say_what_clients_hear() -> None:
    with pytest.raises(ValueError, match="feedback: expected one for clients that keep a record"):
        WITH_RECORDS.learn(WITH_RECORDS.newcomers(6, CohortTree()), SOME, None)


def test_records_of_another_algorithm_are_refused() -> None:
    side = WITH_RECORDS.newcomers(6, CohortTree())
    with pytest.raises(TypeError, match="expected clients without a record"):
        WITHOUT.check_in(side, SOME, None)


def test_a_share_of_the_records_is_lost_and_counts_of_visits_are_not() -> None:
    many = np.arange(1000)
    for rules, share, expected in ((WITH_RECORDS, 0.2, 0.8), (WITH_RECORDS, 0.0, 1.0), (WITHOUT, 0.2, 1.0)):
        side = rules.learn(rules.newcomers(1000, CohortTree()), many, told(1000))
        left = rules.forget(side, share, stream(0, "forget")).participations(many)
        assert abs(left.mean() - expected) < 0.05
