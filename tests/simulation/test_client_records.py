"""Everybody's records: a client's row says what its own device would, and nobody else's is touched."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.affinity import (
    AffinityRecords,
    AffinitySettings,
    ClusterIndices,
    FeedbackColumns,
    Requests,
    learn,
    request,
)
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import CohortId, IntArray
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.simulation import client_records
from auxo.simulation.client_records import ClientRecords

CLIENTS, CLUSTERS = 6, 3
SETTINGS = AffinitySettings(reward_decay=0.3, exploration=0.5, exploration_decay=0.8)
EVERYBODY = np.arange(CLIENTS)
History = list[tuple[IntArray, FeedbackColumns]]


def told(rows: int, cohort: str, tree: CohortTree, seed: int) -> FeedbackColumns:
    rng = stream(seed, "told")
    similarity = rng.uniform(-1, 1, (rows, CLUSTERS))
    similarity[rng.random(similarity.shape) < 0.2] = np.nan
    reward = np.where(rng.random(rows) < 0.2, np.nan, rng.uniform(-1, 1, rows))
    fold = rng.integers(-1, 2, rows)
    named = CohortId(cohort)
    placed = rng.choice([-1, tree.index[named], *(tree.index[leaf] for leaf in tree.leaves)], rows)
    return FeedbackColumns(named, tree, reward, similarity, fold, 1 + seed % 2, placed if seed % 3 else None)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw rounds: who took part, and what it was told; the tree grows meanwhile."""
    tree, rounds = CohortTree(), []
    for _ in range(draw(st.integers(1, 8))):
        clients = np.array(draw(st.permutations(range(CLIENTS)))[: draw(st.integers(1, CLIENTS))])
        cohort = draw(st.sampled_from(tree.leaves))
        if len(tree.branches) < 3 and draw(st.booleans()):
            tree = tree.partition(cohort, tuple(draw(st.permutations([0, 1, 1]))), (0.5, 0.5))
        rounds.append((clients, told(len(clients), cohort, tree, draw(st.integers(0, 10**6)))))
    return rounds


def empty() -> ClientRecords:
    return ClientRecords.empty(CLIENTS, CLUSTERS, CohortTree())


def after(history: History, records: ClientRecords | None = None) -> ClientRecords:
    records = records or empty()
    for clients, feedback in history:
        records = records.learn(clients, feedback, SETTINGS)
    return records


def device(client: int, history: History) -> AffinityRecords | None:
    """Return the record that a client alone would hold; None before its first feedback."""
    record: AffinityRecords | None = None
    for clients, feedback in history:
        mine = np.flatnonzero(clients == client)
        if len(mine):
            own = replace(
                feedback,
                instant_reward=feedback.instant_reward[mine],
                similarity=feedback.similarity[mine],
                fold=feedback.fold[mine],
                placed=None if feedback.placed is None else feedback.placed[mine],
            )
            record = learn(record or AffinityRecords.empty(1, CLUSTERS), own, SETTINGS)
    return record


def assert_same_requests(one: Requests, other: Requests) -> None:
    for field in fields(Requests):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


@settings(max_examples=40, deadline=None)
@given(histories())
def test_a_client_knows_and_asks_what_its_own_device_would(history: History) -> None:
    records = after(history)
    known, asked = records.of(EVERYBODY), records.request(EVERYBODY, SETTINGS, None)
    for client in range(CLIENTS):
        record = device(client, history)
        if record is None:
            assert records.participations(np.array([client])) == [0]
            assert asked.cohort[client] == -1
            continue
        cohorts = len(record.tree.cohorts)
        assert known.heard[client] == record.heard[0]
        assert known.participations[client] == record.participations[0]
        for name in ("reward", "explored", "confirmed", "similarity", "generation"):
            np.testing.assert_array_equal(getattr(known, name)[client, :cohorts], getattr(record, name)[0])
        alone = request(record, SETTINGS, None)
        for name in (
            "cohort",
            "cluster",
            "generation",
            "reward",
            "ranked_first",
            "supported",
            "confirmed",
        ):
            np.testing.assert_array_equal(getattr(asked, name)[client], getattr(alone, name)[0], err_msg=name)


@settings(max_examples=40, deadline=None)
@given(histories(), st.permutations(range(CLIENTS)), st.integers(0, CLIENTS))
def test_some_clients_ask_what_their_records_say_whoever_else_there_is(
    history: History, order: list[int], count: int
) -> None:
    records, clients = after(history), np.array(order[:count], dtype=np.int64)
    expected = request(records.of(clients), SETTINGS, stream(0, "check-in"))

    assert_same_requests(records.request(clients, SETTINGS, stream(0, "check-in")), expected)


@settings(max_examples=25, deadline=None)
@given(histories())
def test_a_copy_stays_as_it_was_and_the_rest_of_a_run_from_it_is_the_same(history: History) -> None:
    middle = len(history) // 2
    records = after(history[:middle])
    kept, before = records.copy(), to_bytes(records)
    end = to_bytes(after(history[middle:], records))

    assert to_bytes(kept) == before
    assert to_bytes(after(history[middle:], kept)) == end


@settings(max_examples=25, deadline=None)
@given(histories())
def test_records_that_were_written_and_read_back_go_on_the_same(history: History) -> None:
    middle = len(history) // 2
    records = after(history[:middle])
    again = from_bytes(ClientRecords, to_bytes(records))

    assert to_bytes(after(history[middle:], again)) == to_bytes(after(history[middle:], records))


@settings(max_examples=25, deadline=None)
@given(histories())
def test_room_does_not_matter(history: History) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_records, "_FIRST_ROWS", 1)
        tight = after(history)
    roomy = after(history)

    assert tight.count == roomy.count == len(np.unique(np.concatenate([clients for clients, _ in history])))
    rng = (stream(0, "check-in"), stream(0, "check-in"))
    assert to_bytes(tight.of(EVERYBODY)) == to_bytes(roomy.of(EVERYBODY))
    assert_same_requests(tight.request(EVERYBODY, SETTINGS, rng[0]), roomy.request(EVERYBODY, SETTINGS, rng[1]))


@settings(max_examples=25, deadline=None)
@given(histories())
def test_indices_are_those_of_the_records_whenever_they_were_worked_out(history: History) -> None:
    records = after(history)
    for field in fields(ClusterIndices):
        worked_out = getattr(ClusterIndices.of(records.held), field.name)[: records.count]
        np.testing.assert_array_equal(getattr(records.indices, field.name)[: records.count], worked_out)


def test_those_who_never_took_part_have_no_row() -> None:
    million = ClientRecords.empty(10**6, CLUSTERS, CohortTree())
    clients = np.array([999_999, 3])
    records = million.learn(clients, told(2, "0", CohortTree(), 0), SETTINGS)

    assert records.count == 2
    assert len(records.held.heard) < 10_000
    np.testing.assert_array_equal(records.participations(np.array([3, 4, 999_999])), [1, 0, 1])
    np.testing.assert_array_equal(records.of(np.array([4])).generation, [[-1]])


def test_feedback_of_another_run_is_refused_and_nothing_is_learnt() -> None:
    tree = CohortTree().partition(CohortTree().cohorts[0], (0, 1), (0.5, 0.5))
    records = after([(EVERYBODY, told(CLIENTS, "0", tree, 0))])
    before = to_bytes(records)
    other = CohortTree().partition(tree.cohorts[0], (1, 0), (0.5, 0.5)).partition(tree.cohorts[1], (0, 1), (0.5, 0.5))

    with pytest.raises(ValueError, match="later state"):
        records.learn(EVERYBODY, told(CLIENTS, "0", other, 0), SETTINGS)
    assert to_bytes(records) == before


@given(histories(), st.sets(st.integers(0, CLIENTS - 1)), st.data())
def test_who_has_lost_its_record_is_a_newcomer_and_nobody_else_notices(
    history: History, lost: set[int], data: st.DataObject
) -> None:
    kept = np.array([client for client in range(CLIENTS) if client not in lost], dtype=np.int64)
    before, gone = after(history), np.array(sorted(lost), dtype=np.int64)
    forgotten = before.copy().forget(gone)

    assert (forgotten.participations(gone) == 0).all()
    assert (forgotten.request(gone, SETTINGS, None).cohort == -1).all()
    assert to_bytes(forgotten.of(kept)) == to_bytes(before.of(kept))
    one, other = (records.request(kept, SETTINGS, stream(0, "asks")) for records in (forgotten, before))
    assert to_bytes(one) == to_bytes(other)

    # They learn anew, with the bits of those who come for the first time, and rows are never more than clients.
    more = data.draw(histories())
    told_again = [
        (clients, replace(told, tree=before.held.tree, cohort=CohortId("0"), placed=None)) for clients, told in more
    ]
    again, anew = after(told_again, forgotten), after(told_again, empty())
    assert to_bytes(again.of(gone)) == to_bytes(anew.of(gone))
    assert again.count <= CLIENTS
