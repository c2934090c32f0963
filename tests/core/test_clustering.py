from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.clustering import ClusteringState, Clusters, cluster_round, cluster_space
from auxo.core.fingerprint import unit_rows
from auxo.core.metrics import agreement
from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray

WIDTH = 24


@dataclass(frozen=True)
class Rule:
    """How centres are made."""

    leave_one_out: bool = True
    centre_memory: float = 10.0


OURS = Rule()


def updates(groups: IntArray, seed: int, noise: float = 0.5) -> FloatArray:
    """Return updates that share a direction, differ by group, and carry noise."""
    rng = stream(seed, "updates")
    directions = 3.0 * np.eye(WIDTH)[0] + 2.0 * np.eye(WIDTH)[1 + groups]
    return unit_rows(directions + noise * rng.standard_normal((len(groups), WIDTH)) / np.sqrt(WIDTH))


def start(groups: IntArray) -> tuple[ClusteringState, IntArray]:
    """Return a clustering that has begun with the groups' own centres, and their numbers."""
    points = cluster_space(updates(groups, seed=0))
    centres = np.array([points[groups == group].mean(axis=0) for group in np.unique(groups)])
    return ClusteringState(1, centres), groups


def go_on(
    state: ClusteringState,
    directions: FloatArray,
    labels: IntArray,
    generation: int | IntArray = 1,
    rule: Rule = OURS,
    blocks: IntArray | None = None,
) -> tuple[ClusteringState, Clusters]:
    generations = np.broadcast_to(np.asarray(generation), labels.shape)
    return cluster_round(
        state,
        directions,
        labels,
        generations,
        leave_one_out=rule.leave_one_out,
        centre_memory=rule.centre_memory,
        blocks=blocks,
    )


GROUPS = np.array([0, 1] * 15)


@pytest.mark.parametrize("memory", [0.0, 10.0])
@pytest.mark.parametrize("leave_one_out", [False, True])
def test_groups_keep_their_numbers_over_rounds_with_ever_new_participants(memory: float, leave_one_out: bool) -> None:
    rule = Rule(centre_memory=memory, leave_one_out=leave_one_out)
    state, numbers = start(GROUPS)
    number_of_group = numbers[:2]
    for round_number in range(1, 15):
        rng = stream(round_number, "who")
        groups = rng.integers(0, 2, 30)
        labels = np.where(rng.random(30) < 0.5, number_of_group[groups], -1)
        state, clusters = go_on(state, updates(groups, seed=round_number), labels, rule=rule)

        np.testing.assert_array_equal(clusters.labels, number_of_group[groups])


def test_what_all_participants_share_does_not_count() -> None:
    directions = updates(GROUPS, seed=0)
    shifted = directions + 5.0 * np.ones(WIDTH)

    np.testing.assert_allclose(cluster_space(shifted), cluster_space(directions), atol=1e-9)


@pytest.mark.parametrize("n", [2, 3])
def test_a_running_clustering_goes_on_with_few_participants(n: int) -> None:
    state, _ = start(GROUPS)
    after, clusters = go_on(state, updates(GROUPS[:n], seed=1), np.zeros(n, dtype=np.int64))

    assert clusters.similarity.shape == (n, 2)
    assert after.centres is not None
    assert np.isfinite(after.centres).all()


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
    state, numbers = start(GROUPS)
    directions = updates(GROUPS, seed=1)
    wrong = 1 - numbers
    _, without = go_on(state, directions, np.full(len(GROUPS), -1))
    _, ignored = go_on(state, directions, wrong, generation)
    _, heeded = go_on(state, directions, wrong, 1)

    np.testing.assert_array_equal(ignored.similarity, without.similarity)
    assert not np.array_equal(heeded.similarity, without.similarity)


def test_a_participant_does_not_vouch_for_its_own_label() -> None:
    state, numbers = start(GROUPS)
    directions = updates(GROUPS, seed=1)
    labels = numbers.copy()
    _, right = go_on(state, directions, labels)
    labels[0] = 1 - labels[0]
    _, wrong = go_on(state, directions, labels)

    np.testing.assert_allclose(wrong.similarity[0, labels[0]], right.similarity[0, labels[0]], atol=1e-12)
    assert wrong.labels[0] == right.labels[0]


def test_without_leaving_oneself_out_similarity_is_the_cosine_to_labelled_sums() -> None:
    rule = Rule(leave_one_out=False, centre_memory=0.0)
    state, numbers = start(GROUPS)
    directions = updates(GROUPS, seed=1)
    _, found = go_on(state, directions, numbers, rule=rule)
    points = cluster_space(directions)
    sums = np.array([points[numbers == number].sum(axis=0) for number in (0, 1)])

    np.testing.assert_allclose(found.similarity, points @ unit_rows(sums).T, atol=1e-12)


def test_a_cluster_nobody_vouches_for_has_no_centre_and_is_not_started_anew() -> None:
    rule = Rule(centre_memory=0.0)
    groups = np.arange(30) % 3
    state, _ = start(groups)
    after, clusters = go_on(state, updates(groups, seed=1), groups % 2, rule=rule)

    assert np.isnan(clusters.similarity[:, 2]).all()
    assert not np.isnan(clusters.similarity[:, :2]).any()
    assert after.centres is not None
    assert state.centres is not None
    np.testing.assert_array_equal(after.centres[2], state.centres[2])


@pytest.mark.parametrize("seed", range(5))
def test_the_only_participant_of_a_cluster_cannot_be_compared_with_itself(seed: int) -> None:
    rule = Rule(centre_memory=0.0)
    state, _ = start(GROUPS)
    labels = np.zeros(30, dtype=np.int64)
    labels[0] = 1
    _, clusters = go_on(state, updates(GROUPS, seed), labels, rule=rule)

    assert np.isnan(clusters.similarity[0, 1])
    assert not np.isnan(clusters.similarity[1:]).any()


@settings(max_examples=30)
@given(st.permutations(range(12)), st.sampled_from([0.0, 10.0]), st.booleans())
def test_permuting_participants_permutes_their_similarities(
    order: list[int], memory: float, leave_one_out: bool
) -> None:
    rule = Rule(centre_memory=memory, leave_one_out=leave_one_out)
    state, _ = start(GROUPS)
    directions, labels = updates(GROUPS[:12], seed=1), np.array([0, 1, -1] * 4)
    rows = np.array(order)
    straight_state, straight = go_on(state, directions, labels, rule=rule)
    permuted_state, permuted = go_on(state, directions[rows], labels[rows], rule=rule)

    np.testing.assert_allclose(permuted.similarity, straight.similarity[rows], atol=1e-9)
    assert straight_state.centres is not None
    assert permuted_state.centres is not None
    np.testing.assert_allclose(permuted_state.centres, straight_state.centres, atol=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([0.0, 10.0]), st.booleans())
def test_similarities_are_cosines(seed: int, n: int, memory: float, leave_one_out: bool) -> None:
    rule = Rule(centre_memory=memory, leave_one_out=leave_one_out)
    state, _ = start(GROUPS)
    rng = stream(seed, "similarities")
    directions = unit_rows(rng.standard_normal((n, WIDTH)))
    _, clusters = go_on(state, directions, rng.integers(-1, 2, n), rule=rule)

    assert not np.isinf(clusters.similarity).any()
    assert np.nanmax(np.abs(clusters.similarity), initial=0.0) <= 1 + 1e-6


def test_inputs_are_left_untouched() -> None:
    state, _ = start(GROUPS)
    assert state.centres is not None
    directions, labels, generations = updates(GROUPS, seed=1), GROUPS.copy(), np.ones_like(GROUPS)
    watched = [directions, labels, generations, state.centres]
    before = [array.copy() for array in watched]
    go_on(state, directions, labels, generations)

    for now, then in zip(watched, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_without_centres_nobody_can_be_clustered() -> None:
    with pytest.raises(ValueError, match=r"state\.centres: expected those that clustering has started from, got none"):
        go_on(ClusteringState(), updates(GROUPS, seed=0), GROUPS)


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


def test_groups_in_a_block_that_another_drowns_are_followed_by_block() -> None:
    blocks = np.repeat([0, 1], WIDTH)
    loud = 100 * stream(0, "loud").standard_normal((len(GROUPS), WIDTH))
    directions = unit_rows(np.hstack([loud, updates(GROUPS, seed=0)]))
    points = cluster_space(directions, blocks)
    state = ClusteringState(1, np.array([points[group == GROUPS].mean(axis=0) for group in (0, 1)]))
    _, clusters = go_on(state, directions, GROUPS, blocks=blocks)

    assert agreement(GROUPS, clusters.labels) > 0.9
