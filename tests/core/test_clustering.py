from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.clustering import (
    ClusteringSettings,
    ClusteringState,
    Clusters,
    cluster_round,
    cluster_space,
    compare,
    note_explained,
)
from auxo.core.fingerprint import unit_rows
from auxo.core.metrics import agreement
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

WIDTH = 24
SETTINGS = ClusteringSettings(clusters=2, centre_memory=10.0, restart_after=3, kmeans_starts=3)


def updates(groups: IntArray, seed: int, noise: float = 0.5) -> FloatArray:
    """Return updates that share a direction, differ by group, and carry noise."""
    rng = stream(seed, "updates")
    directions = 3.0 * np.eye(WIDTH)[0] + 2.0 * np.eye(WIDTH)[1 + groups]
    return unit_rows(directions + noise * rng.standard_normal((len(groups), WIDTH)) / np.sqrt(WIDTH))


def start(groups: IntArray, clustering: ClusteringSettings = SETTINGS) -> tuple[ClusteringState, Clusters]:
    nobody = np.full(len(groups), -1)
    state, clusters = cluster_round(
        ClusteringState(), updates(groups, seed=0), nobody, nobody, clustering, stream(0, "cluster")
    )
    assert clusters is not None
    return state, clusters


def go_on(
    state: ClusteringState,
    directions: FloatArray,
    labels: IntArray,
    generation: int | IntArray = 1,
    clustering: ClusteringSettings = SETTINGS,
) -> tuple[ClusteringState, Clusters]:
    generations = np.broadcast_to(np.asarray(generation), labels.shape)
    state, clusters = cluster_round(state, directions, labels, generations, clustering, stream(1, "cluster"))
    assert clusters is not None
    return state, clusters


GROUPS = np.array([0, 1] * 15)


# Finding groups.


def test_kmeans_finds_two_groups_that_are_well_apart() -> None:
    state, clusters = start(GROUPS)

    assert state.generation == 1
    assert agreement(clusters.labels, GROUPS) == 1.0


@pytest.mark.parametrize("memory", [0.0, 10.0])
@pytest.mark.parametrize("leave_one_out", [False, True])
def test_groups_keep_their_numbers_over_rounds_with_ever_new_participants(memory: float, leave_one_out: bool) -> None:
    clustering = replace(SETTINGS, centre_memory=memory, leave_one_out=leave_one_out)
    state, clusters = start(GROUPS, clustering)
    number_of_group = clusters.labels[:2]
    for round_number in range(1, 15):
        rng = stream(round_number, "who")
        groups = rng.integers(0, 2, 30)
        labels = np.where(rng.random(30) < 0.5, number_of_group[groups], -1)
        state, clusters = go_on(state, updates(groups, seed=round_number), labels, clustering=clustering)

        assert state.generation == 1  # which a new start would have counted
        np.testing.assert_array_equal(clusters.labels, number_of_group[groups])


def test_what_all_participants_share_does_not_count() -> None:
    directions = updates(GROUPS, seed=0)
    shifted = directions + 5.0 * np.ones(WIDTH)

    np.testing.assert_allclose(cluster_space(shifted), cluster_space(directions), atol=1e-9)


def test_too_few_participants_begin_nothing() -> None:
    few = GROUPS[: 2 * SETTINGS.clusters - 1]
    nobody = np.full(len(few), -1)
    state, clusters = cluster_round(
        ClusteringState(), updates(few, seed=0), nobody, nobody, SETTINGS, stream(0, "cluster")
    )

    assert clusters is None
    assert state == ClusteringState()


@pytest.mark.parametrize("n", [2, 3])
def test_a_running_clustering_goes_on_with_few_participants(n: int) -> None:
    state, _ = start(GROUPS)
    after, clusters = go_on(state, updates(GROUPS[:n], seed=1), np.zeros(n, dtype=np.int64))

    assert clusters.similarity.shape == (n, SETTINGS.clusters)
    assert after.centres is not None
    assert np.isfinite(after.centres).all()


@pytest.mark.parametrize("n", [0, 1])
def test_a_participant_by_itself_is_not_clustered_and_moves_nothing(n: int) -> None:
    state, _ = start(GROUPS)
    labels = np.zeros(n, dtype=np.int64)
    after, clusters = cluster_round(
        state, updates(GROUPS[:n], seed=1), labels, np.ones(n, dtype=np.int64), SETTINGS, stream(1, "cluster")
    )

    assert clusters is None
    assert after is state


def test_participants_that_cannot_be_told_apart_do_not_stop_the_clustering() -> None:
    directions = np.repeat(updates(GROUPS[:1], seed=0), 20, axis=0)
    nobody = np.full(20, -1)
    state, _ = cluster_round(ClusteringState(), directions, nobody, nobody, SETTINGS, stream(0, "cluster"))
    after, clusters = go_on(state, updates(GROUPS, seed=1), np.full(len(GROUPS), -1))

    assert after.centres is not None
    assert np.isfinite(after.centres).all()
    assert not np.isinf(clusters.similarity).any()


# Labels.


@pytest.mark.parametrize("label", [-5, -1, 2, 10**9])
def test_an_index_out_of_range_counts_as_none(label: int) -> None:
    state, _ = start(GROUPS)
    directions = updates(GROUPS, seed=1)
    _, without = go_on(state, directions, np.full(len(GROUPS), -1))
    _, clusters = go_on(state, directions, np.full(len(GROUPS), label))

    np.testing.assert_array_equal(clusters.similarity, without.similarity)


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_labels_of_another_generation_count_as_none(generation: int) -> None:
    state, clusters = start(GROUPS)
    directions = updates(GROUPS, seed=1)
    wrong = 1 - clusters.labels
    _, without = go_on(state, directions, np.full(len(GROUPS), -1))
    _, ignored = go_on(state, directions, wrong, generation)
    _, heeded = go_on(state, directions, wrong, 1)

    np.testing.assert_array_equal(ignored.similarity, without.similarity)
    assert not np.array_equal(heeded.similarity, without.similarity)


def test_a_participant_does_not_vouch_for_its_own_label() -> None:
    state, clusters = start(GROUPS)
    directions = updates(GROUPS, seed=1)
    labels = clusters.labels.copy()
    _, right = go_on(state, directions, labels)
    labels[0] = 1 - labels[0]
    _, wrong = go_on(state, directions, labels)

    np.testing.assert_allclose(wrong.similarity[0, labels[0]], right.similarity[0, labels[0]], atol=1e-12)
    assert wrong.labels[0] == right.labels[0]


def test_without_leaving_oneself_out_similarity_is_the_cosine_to_labelled_sums() -> None:
    clustering = replace(SETTINGS, leave_one_out=False, centre_memory=0.0)
    state, clusters = start(GROUPS, clustering)
    directions = updates(GROUPS, seed=1)
    _, found = go_on(state, directions, clusters.labels, clustering=clustering)
    points = cluster_space(directions)
    sums = np.array([points[clusters.labels == number].sum(axis=0) for number in (0, 1)])

    np.testing.assert_allclose(found.similarity, points @ unit_rows(sums).T, atol=1e-12)


def test_a_cluster_nobody_vouches_for_has_no_centre_and_is_not_started_anew() -> None:
    clustering = replace(SETTINGS, clusters=3, centre_memory=0.0)
    groups = np.arange(30) % 3
    state, _ = start(groups, clustering)
    after, clusters = go_on(state, updates(groups, seed=1), groups % 2, clustering=clustering)

    assert np.isnan(clusters.similarity[:, 2]).all()
    assert not np.isnan(clusters.similarity[:, :2]).any()
    assert after.centres is not None
    assert state.centres is not None
    np.testing.assert_array_equal(after.centres[2], state.centres[2])


@pytest.mark.parametrize("seed", range(5))
def test_the_only_participant_of_a_cluster_cannot_be_compared_with_itself(seed: int) -> None:
    clustering = replace(SETTINGS, centre_memory=0.0)
    state, _ = start(GROUPS, clustering)
    labels = np.zeros(30, dtype=np.int64)
    labels[0] = 1
    _, clusters = go_on(state, updates(GROUPS, seed), labels, clustering=clustering)

    assert np.isnan(clusters.similarity[0, 1])
    assert not np.isnan(clusters.similarity[1:]).any()


@settings(max_examples=30)
@given(st.permutations(range(12)), st.sampled_from([0.0, 10.0]), st.booleans())
def test_permuting_participants_permutes_their_similarities(
    order: list[int], memory: float, leave_one_out: bool
) -> None:
    clustering = replace(SETTINGS, centre_memory=memory, leave_one_out=leave_one_out)
    state, _ = start(GROUPS, clustering)
    directions, labels = updates(GROUPS[:12], seed=1), np.array([0, 1, -1] * 4)
    rows = np.array(order)
    straight_state, straight = go_on(state, directions, labels, clustering=clustering)
    permuted_state, permuted = go_on(state, directions[rows], labels[rows], clustering=clustering)

    np.testing.assert_allclose(permuted.similarity, straight.similarity[rows], atol=1e-9)
    assert straight_state.centres is not None
    assert permuted_state.centres is not None
    np.testing.assert_allclose(permuted_state.centres, straight_state.centres, atol=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([0.0, 10.0]), st.booleans())
def test_similarities_are_cosines(seed: int, n: int, memory: float, leave_one_out: bool) -> None:
    clustering = replace(SETTINGS, centre_memory=memory, leave_one_out=leave_one_out)
    state, _ = start(GROUPS, clustering)
    rng = stream(seed, "similarities")
    directions = unit_rows(rng.standard_normal((n, WIDTH)))
    _, clusters = go_on(state, directions, rng.integers(-1, 2, n), clustering=clustering)

    assert not np.isinf(clusters.similarity).any()
    assert np.nanmax(np.abs(clusters.similarity), initial=0.0) <= 1 + 1e-6


@pytest.mark.parametrize("started", [False, True])
def test_inputs_are_left_untouched(started: bool) -> None:
    state = start(GROUPS)[0] if started else ClusteringState()
    directions, labels, generations = updates(GROUPS, seed=1), GROUPS.copy(), np.ones_like(GROUPS)
    watched = [directions, labels, generations, *([] if state.centres is None else [state.centres])]
    before = [array.copy() for array in watched]
    cluster_round(state, directions, labels, generations, SETTINGS, stream(0, "cluster"))

    for now, then in zip(watched, before, strict=True):
        np.testing.assert_array_equal(now, then)


# Those who came too late.


def test_latecomers_are_nearest_to_the_centre_of_their_group() -> None:
    _, started = start(GROUPS)
    number_of_group = started.labels[:2]
    state, _ = go_on(start(GROUPS)[0], updates(GROUPS, seed=1), number_of_group[GROUPS])
    late = np.array([0, 0, 1, 0, 1])
    similarity = compare(state, updates(GROUPS, seed=1), updates(late, seed=2))

    np.testing.assert_array_equal(similarity.argmax(axis=1), number_of_group[late])
    assert (np.abs(similarity) <= 1 + 1e-9).all()


def test_a_latecomer_is_compared_by_itself_whoever_else_is_late() -> None:
    state, _ = start(GROUPS)
    directions, late = updates(GROUPS, seed=0), updates(GROUPS, seed=2)

    np.testing.assert_allclose(compare(state, directions, late)[:1], compare(state, directions, late[:1]), atol=1e-12)


def test_without_centres_nobody_can_be_compared() -> None:
    with pytest.raises(ValueError, match=r"state\.centres: expected those of a clustered round"):
        compare(ClusteringState(), updates(GROUPS, seed=0), updates(GROUPS, seed=1))


# Starting again.


def test_after_enough_rounds_that_explain_nothing_labels_are_thrown_away() -> None:
    state, _ = start(GROUPS)
    for idle in range(1, SETTINGS.restart_after):
        state, restarted = note_explained(state, False, SETTINGS)
        assert not restarted
        assert state.idle_rounds == idle
        assert state.centres is not None
    state, restarted = note_explained(state, False, SETTINGS)

    assert restarted
    assert state.centres is None


def test_a_round_that_explains_something_sets_the_count_back() -> None:
    state, _ = start(GROUPS)
    nearly = [False] * (SETTINGS.restart_after - 1)
    for explained in [*nearly, True, *nearly]:
        state, restarted = note_explained(state, explained, SETTINGS)

        assert not restarted


def test_a_new_start_has_a_generation_of_its_own_so_that_old_labels_are_void() -> None:
    state, clusters = start(GROUPS)
    old_labels = clusters.labels
    for _ in range(SETTINGS.restart_after):
        state, _ = note_explained(state, False, SETTINGS)
    state, clusters = go_on(state, updates(GROUPS, seed=1), old_labels)
    assert state.generation == 2

    directions = updates(GROUPS, seed=2)
    _, with_old_labels = go_on(state, directions, 1 - clusters.labels, generation=1)
    _, without = go_on(state, directions, np.full(len(GROUPS), -1))
    np.testing.assert_array_equal(with_old_labels.similarity, without.similarity)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("clusters", 1, "2 to 8, got 1"),
        ("clusters", 9, "2 to 8, got 9"),
        ("restart_after", 0, "at least 1, got 0"),
        ("kmeans_starts", 0, "at least 1, got 0"),
        ("most_starts", -1, "at least 0, got -1"),
        ("centre_memory", -0.5, "a number >= 0, got -0.5"),
        ("centre_memory", float("nan"), "a number >= 0, got nan"),
    ],
)
def test_impossible_settings_are_refused_by_name(name: str, value: float, expected: str) -> None:
    setting: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=f"{name}: expected {expected}"):
        ClusteringSettings(**setting)


@pytest.mark.parametrize("blocks", [None, np.zeros(WIDTH, dtype=np.int64)])
def test_one_block_is_none(blocks: IntArray | None) -> None:
    directions = updates(GROUPS, seed=0)
    expected = unit_rows(directions - directions.mean(axis=0, keepdims=True))
    np.testing.assert_array_equal(cluster_space(directions, blocks), expected)


def test_every_block_counts_the_same_once_the_mean_is_gone() -> None:
    blocks = np.arange(WIDTH) % 3  # entries of a block need not stand together
    directions = updates(GROUPS, seed=0) * np.array([1.0, 1e-3, 1e-6])[blocks]
    points = cluster_space(directions, blocks)
    for block in range(3):
        np.testing.assert_allclose(np.linalg.norm(points[:, blocks == block], axis=1), 1 / np.sqrt(3))


def test_a_block_in_which_all_are_the_same_says_nothing() -> None:
    blocks = (np.arange(WIDTH) >= 2).astype(np.int64)
    directions = updates(GROUPS, seed=0)
    directions[:, :2] = 0.1
    points = cluster_space(directions, blocks)
    np.testing.assert_array_equal(points[:, :2], 0.0)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)


def test_groups_in_a_block_that_another_drowns_are_found_by_block() -> None:
    blocks = np.repeat([0, 1], WIDTH)
    loud = 100 * stream(0, "loud").standard_normal((len(GROUPS), WIDTH))
    directions = unit_rows(np.hstack([loud, updates(GROUPS, seed=0)]))
    nobody = np.full(len(GROUPS), -1)
    state, clusters = cluster_round(
        ClusteringState(), directions, nobody, nobody, SETTINGS, stream(0, "cluster"), blocks=blocks
    )
    assert clusters is not None
    assert agreement(GROUPS, clusters.labels) > 0.9
    np.testing.assert_allclose(compare(state, directions, directions, blocks=blocks), clusters.similarity)
