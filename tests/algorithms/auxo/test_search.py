"""A cohort's search goes from a pool to clusters to a trial, and rests where a trial did not pay."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from auxo.algorithms.auxo import ClusteringSettings, TrialSettings
from auxo.algorithms.auxo.dendrogram import Dendrogram
from auxo.algorithms.auxo.search import CohortNow, Looked, Search, Seen, ToBranches, late_similarity, look
from auxo.algorithms.auxo.trial import Trial
from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer
from auxo.core.clustering import ClusteringState
from auxo.core.gathering import Examined
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray
from auxo.protocol.codec import from_bytes, to_bytes
from tests.core.made_updates import FINGERPRINT, N_PARAMS, alike, of_two_groups

CLUSTERING = ClusteringSettings(clusters=2, pool_rounds=3, pool_per_cluster=5)
TRIAL = TrialSettings(min_participants=4, looks_from=8, patience=4)
ONE_BLOCK = np.zeros(N_PARAMS, dtype=np.int64)
NOW = CohortNow(FedAvg().initial(np.arange(N_PARAMS, dtype=np.float32)), round=9, share=12)
N = 12
NOBODY = np.zeros(N, dtype=np.bool_)
HALF = np.arange(100) % 4 < 2


def no_outputs(count: int) -> FloatArray:
    return np.zeros((count, 0))


def seen(number: int, labels: IntArray | None = None, generation: int = 1, count: int = N) -> Seen:
    """Return a round of two groups in turn, with the labels that they bring."""
    directions = np.stack([FINGERPRINT.of(update) for update in of_two_groups(count, seed=number)])
    brought = np.full(count, -1) if labels is None else labels
    return Seen(directions, no_outputs(count), ONE_BLOCK, brought, np.full(count, generation), HALF[:count])


def looked(search: Search, what: Seen, now: CohortNow = NOW, trial: TrialSettings = TRIAL) -> Looked:
    return look(search, what, now, CLUSTERING, trial, stream(0, "cluster"))


def clustered() -> tuple[Search, IntArray]:
    """Return a search whose clustering has just begun, and the labels of its two groups in turn."""
    search = Search()
    for number in range(2):
        search = looked(search, seen(number)).search
    found = looked(search, seen(2))
    return found.search, found.similarity.argmax(axis=1)


def searches(search: Search, labels: IntArray, trial: TrialSettings = TRIAL, now: CohortNow = NOW) -> Iterator[Search]:
    """Yield the search after each further round in which participants bring these labels."""
    for number in range(3, 100):
        search = looked(search, seen(number, labels), now, trial).search
        yield search


# From a pool to clusters.


def test_updates_are_pooled_without_a_word_until_there_are_enough() -> None:
    search = Search()
    for number in range(2):
        found = looked(search, seen(number))
        search = found.search

        assert search.pool.sketches == N * (number + 1)
        assert search.clustering == ClusteringState()
        assert found.similarity.shape == (N, 2)
        assert np.isnan(found.similarity).all()

    centred = seen(1).directions - seen(1).directions.mean(axis=0)
    np.testing.assert_allclose(search.pool.rounds[1].directions, centred, rtol=1e-6, atol=1e-7)


def test_clustering_starts_from_the_pool_which_is_then_empty_and_participants_hear_where_they_are() -> None:
    search, labels = clustered()

    assert search.pool.rounds == ()
    assert search.clustering.generation == 1
    assert search.followed == 1
    assert labels.tolist() in ([0, 1] * 6, [1, 0] * 6)
    assert search.trial is None


def test_rounds_of_one_participant_say_nothing() -> None:
    search, _ = clustered()
    for before in (Search(), search):
        found = looked(before, seen(0, count=1))

        assert found.search is before
        assert np.isnan(found.similarity).all()


def test_a_pool_that_is_all_the_same_goes_on() -> None:
    alike = np.ones((N, N_PARAMS)) / np.sqrt(N_PARAMS)
    same = Seen(alike, no_outputs(N), ONE_BLOCK, np.full(N, -1), np.full(N, -1), HALF[:N])
    search = Search()
    for _ in range(4):
        search = looked(search, same).search

    assert search.clustering.centres is None
    assert search.pool.sketches == 4 * N


def test_looking_leaves_the_search_before_untouched() -> None:
    search, labels = clustered()
    before = to_bytes(search)
    looked(search, seen(9, labels))

    assert to_bytes(search) == before


# From clusters to a trial.


@pytest.mark.parametrize(("labelled", "begins"), [(9, False), (10, True), (12, True)])
def test_a_trial_begins_when_enough_participants_bring_a_label(labelled: int, begins: bool) -> None:
    search, labels = clustered()
    brought = np.where(np.arange(N) < labelled, labels, -1)
    after = looked(search, seen(3, brought)).search

    assert (after.trial is not None) is begins
    if after.trial is not None:
        assert after.trial.dendrogram == Dendrogram((0, 1), ((0, 1),))
        assert after.trial.weights == pytest.approx((0.5, 0.5))
        assert after.trial.servers == (NOW.server, NOW.server)
        assert after.trial.rounds == 0


@pytest.mark.parametrize(
    ("label", "generation"), [(0, 7), (2, 1), (-1, 1)], ids=["of another start", "of no cluster", "none"]
)
def test_labels_that_mean_nothing_do_not_count(label: int, generation: int) -> None:
    search, _ = clustered()

    assert looked(search, seen(3, np.full(N, label), generation)).search.trial is None


def test_a_trial_begins_when_patience_ends_however_few_have_labels() -> None:
    search, labels = clustered()
    few = np.where(np.arange(N) < 4, labels, -1)
    begun = [after.trial is not None for after, _ in zip(searches(search, few), range(4), strict=False)]

    assert begun == [False, False, True, True]  # the clustering's first round counts, too


def test_a_cohort_rests_where_no_two_branches_could_fill_their_rounds() -> None:
    search, labels = clustered()
    scarce = replace(NOW, share=7)
    after = looked(search, seen(3, labels), scarce).search

    assert after.trial is None
    assert after == search.rested(NOW.round, TRIAL)  # or its clients would train on halves for nothing, and for ever
    assert not after.looks(NOW.round + 1)


def test_a_search_goes_to_bytes_and_back_at_every_stage() -> None:
    search, labels = clustered()
    on_trial = looked(search, seen(3, labels)).search
    assert on_trial.trial is not None
    for stage in (Search(), looked(Search(), seen(0)).search, search, on_trial, on_trial.rested(9, TRIAL)):
        assert to_bytes(from_bytes(Search, to_bytes(stage))) == to_bytes(stage)


# Rests.


def test_a_cohort_rests_longer_after_each_trial_that_did_not_pay() -> None:
    search, _ = clustered()
    first = search.rested(20, TRIAL)
    second = first.rested(60, TRIAL)

    assert next(number for number in range(20, 50) if first.looks(number)) == 41
    assert next(number for number in range(60, 150) if second.looks(number)) == 121
    assert search.rested(20, replace(TRIAL, rest=0.25)).rests_until == 25
    assert search.rested(1, replace(TRIAL, rest=0.0)).rests_until == 2


def test_where_one_view_led_to_nothing_the_other_is_looked_at_before_the_cohort_rests() -> None:
    search, labels = clustered()
    both = replace(search, other="plain")
    small = replace(TRIAL, min_participants=13, looks_from=26)  # no two branches could fill a round

    assert both.failed(14, TRIAL) == Search(clustering=ClusteringState(1), only="plain")
    assert looked(both, seen(3, labels), trial=small).search.only == "plain"
    assert looked(search, seen(3, labels), trial=small).search.rests_until == 2 * NOW.round


def test_a_view_that_shows_nothing_or_cannot_be_had_after_the_other_has_failed_ends_in_a_full_rest() -> None:
    search = Search(only="without frequencies")  # there are no outputs
    for number in range(3):
        search = looked(search, seen(number)).search

    assert search == Search(rests_until=2 * NOW.round)


def test_after_a_rest_all_begins_anew_under_another_generation() -> None:
    search, labels = clustered()
    on_trial = looked(search, seen(3, labels)).search
    rested = on_trial.rested(14, TRIAL)

    assert rested == Search(clustering=ClusteringState(1), rests_until=28)
    again = rested
    for number in range(3):
        again = looked(again, seen(20 + number, labels)).search
    assert again.clustering.generation == 2
    assert again.trial is None  # labels of the time before are not heard


def test_a_cohort_on_trial_looks_whatever_the_round() -> None:
    trial = Trial.begin(Dendrogram((0, 1), ((0, 1),)), np.full(2, 0.5), NOW.server)

    assert Search(trial=trial, rests_until=50).looks(3)
    assert not Search(rests_until=50).looks(50)
    assert Search(rests_until=50).looks(51)


# The late.


def test_the_late_hear_the_same_as_if_they_had_been_in_time() -> None:
    search, labels = clustered()
    others = seen(30).directions
    told = late_similarity(search, seen(2), others, no_outputs(N))

    assert told.shape == (N, 2)
    assert told.argmax(axis=1).tolist() == labels.tolist()
    assert late_similarity(Search(), seen(2), others, no_outputs(N)).shape == (N, 0)


# To branches.


def two_branches() -> tuple[Search, IntArray]:
    """Return a search on trial whose cluster 0 leads to branch 1, and 1 to branch 0."""
    search, labels = clustered()
    trial = Trial.begin(Dendrogram((1, 0), ((0, 1),)), np.full(2, 0.5), NOW.server)
    return replace(search, trial=trial), labels


def test_a_label_leads_to_its_branch_and_one_that_means_nothing_to_none() -> None:
    search, _ = two_branches()

    found = search.branches(np.array([0, 1, -1, 2, 0]), np.array([1, 1, 1, 1, 7]))
    assert found.tolist() == [1, 0, -1, -1, -1]
    assert Search().branches(np.array([0, 1]), np.ones(2, dtype=np.int64)).tolist() == [-1, -1]


def examined(direction: int, seed: int = 40) -> Examined:
    update = of_two_groups(N, seed)[direction]
    return Examined(Answer(update, 3), FINGERPRINT.of(update), 1.0)


@pytest.mark.parametrize("offered", [1, 3])
def test_updates_of_the_cohorts_own_model_move_the_branch_that_they_are_nearest_to(offered: int) -> None:
    search, labels = two_branches()
    admission = ToBranches(search, offered, NOBODY)

    for row in range(N):
        assert admission.place(row, examined(row), 0) == offered + 1 - int(labels[row])


def test_who_has_trained_a_branch_moves_it_and_who_has_trained_another_leaf_moves_nothing() -> None:
    search, _ = two_branches()
    admission = ToBranches(search, 3, NOBODY)

    assert [admission.place(0, examined(0), model) for model in (1, 2, 3, 4)] == [None, None, 3, 4]
    assert ToBranches(replace(search, trial=None), 1, NOBODY).place(0, examined(0), 0) is None


def test_who_is_to_judge_branches_moves_none_of_them() -> None:
    search, _ = two_branches()
    admission = ToBranches(search, 1, np.arange(N) == 3)

    assert [admission.place(row, examined(row), 0) == 0 for row in range(5)] == [False, False, False, True, False]


def test_an_update_of_nothing_is_somebodys_all_the_same() -> None:
    search, _ = two_branches()
    nothing = np.zeros(N_PARAMS, dtype=np.float32)

    assert ToBranches(search, 1, NOBODY).place(0, Examined(Answer(nothing, 3), FINGERPRINT.of(nothing), 0.0), 0) in {
        1,
        2,
    }


def test_without_clusters_there_is_nothing_to_be_near_to() -> None:
    with pytest.raises(ValueError, match="search: expected clusters, got none"):
        Search().similarity(alike(2).astype(np.float64), no_outputs(2))
