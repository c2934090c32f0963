from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.affinity import (
    AffinityRecords,
    AffinitySettings,
    FeedbackColumns,
    Requests,
    hear,
    label_margins,
    learn,
    request,
    widen,
)
from auxo.core.cohort_tree import CohortTree
from auxo.core.columns import take
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, FloatArray, IntArray

CLUSTERS = 3
SETTINGS = AffinitySettings(reward_decay=0.3, partition_bonus=0.1, exploration=0.5, exploration_decay=0.5)
RANDOM = replace(SETTINGS, confirmations=0)  # who explores asks for a leaf at random
COLUMNS = ("heard", "reward", "explored", "confirmed", "similarity", "generation", "participations")
SAID = ("ranked_first", "supported", "confirmed", "participations")

# 0 -> 0.0, 0.1, 0.2; 0.1 -> 0.1.0, 0.1.1
ONCE = CohortTree().partition(ROOT, (0, 1, 2), (0.4, 0.3, 0.3))
TWICE = ONCE.partition(CohortId("0.1"), (1, 0, 1), (0.5, 0.5))


def feedback(
    cohort: str,
    tree: CohortTree,
    *,
    reward: FloatArray | list[float],
    similarity: FloatArray | None = None,
    fold: IntArray | None = None,
    generation: int = 1,
) -> FeedbackColumns:
    rows = len(reward)
    return FeedbackColumns(
        cohort=CohortId(cohort),
        tree=tree,
        instant_reward=np.array(reward, dtype=np.float64),
        similarity=np.full((rows, CLUSTERS), np.nan) if similarity is None else similarity,
        fold=np.full(rows, -1) if fold is None else fold,
        generation=generation,
    )


def labelled(labels: IntArray, *, margin: float = 1.0, generation: int = 1) -> AffinityRecords:
    """Return records of clients that have been told these cluster indices, in a tree of one cohort."""
    told = feedback(
        "0",
        CohortTree(),
        reward=np.full(len(labels), np.nan),
        similarity=margin * np.eye(CLUSTERS)[labels],
        generation=generation,
    )
    return learn(AffinityRecords.empty(len(labels), CLUSTERS), told, SETTINGS)


def visited(records: AffinityRecords, cohort: str, rewards: list[float]) -> AffinityRecords:
    """Return the records after visits to one cohort; every client gets the same rewards."""
    for reward in rewards:
        given_to_all = np.full(len(records.heard), reward)
        records = learn(records, feedback(cohort, records.tree, reward=given_to_all), SETTINGS)
    return records


def first_choice(records: AffinityRecords) -> list[CohortId]:
    return [records.tree.cohorts[choice] for choice in request(records, SETTINGS, None).cohort]


def assert_same_records(one: AffinityRecords, other: AffinityRecords) -> None:
    assert one.tree == other.tree
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


instant_rewards = st.one_of(st.floats(-1, 1), st.just(float("nan")))


def places(tree: CohortTree, cohort: CohortId, rows: int) -> st.SearchStrategy[IntArray | None]:
    """Draw what comparisons in a round of ``cohort`` have named; it may have been partitioned since."""
    named = [-1, *(tree.index[leaf] for leaf in (cohort, *tree.leaves))]
    some = st.lists(st.sampled_from(named), min_size=rows, max_size=rows)
    return st.none() | some.map(lambda chosen: np.array(chosen, dtype=np.int64))


@st.composite
def histories(draw: st.DrawFn, clients: int = 4) -> list[tuple[IntArray, FeedbackColumns]]:
    """Draw rounds: who took part, and what it was told; the tree grows meanwhile."""
    tree, rounds = CohortTree(), []
    for number in range(draw(st.integers(1, 8))):
        rows = np.array(sorted(draw(st.sets(st.integers(0, clients - 1), min_size=1))))
        cohort = draw(st.sampled_from(tree.leaves))
        if len(tree.branches) < 3 and draw(st.booleans()):
            routes = tuple(draw(st.permutations([0, 1, draw(st.integers(0, 1))])))
            tree = tree.partition(cohort, routes, (0.5, 0.5), generation=1)
        rng = stream(draw(st.integers(0, 10**6)), "history", number)
        similarity = rng.uniform(-1, 1, (len(rows), CLUSTERS))
        similarity[rng.random(similarity.shape) < 0.2] = np.nan
        told = feedback(
            cohort,
            tree,
            reward=draw(st.lists(instant_rewards, min_size=len(rows), max_size=len(rows))),
            similarity=similarity,
            fold=rng.integers(-1, 2, len(rows)),
            generation=draw(st.integers(1, 2)),
        )
        rounds.append((rows, replace(told, placed=draw(places(tree, cohort, len(rows))))))
    return rounds


def rows_of(told: FeedbackColumns, rows: IntArray) -> FeedbackColumns:
    return replace(
        told,
        instant_reward=told.instant_reward[rows],
        similarity=told.similarity[rows],
        fold=told.fold[rows],
        placed=None if told.placed is None else told.placed[rows],
    )


def put_rows(records: AffinityRecords, rows: IntArray, some: AffinityRecords) -> AffinityRecords:
    columns: dict[str, Any] = {name: getattr(records, name).copy() for name in COLUMNS}
    for name, column in columns.items():
        column[rows] = getattr(some, name)
    return replace(records, **columns)


def tell(records: AffinityRecords, rows: IntArray, told: FeedbackColumns) -> AffinityRecords:
    """Tell some clients of a population."""
    records = widen(records, told.tree)
    return put_rows(records, rows, learn(take(records, rows), told, SETTINGS))


# A device and a population run the same code.


@settings(max_examples=40)
@given(histories())
def test_a_device_alone_and_its_row_of_a_population_know_and_ask_the_same(
    history: list[tuple[IntArray, FeedbackColumns]],
) -> None:
    population = AffinityRecords.empty(4, CLUSTERS)
    for rows, told in history:
        population = tell(population, rows, told)
    asked = request(population, SETTINGS, None)
    for client in range(4):
        device = AffinityRecords.empty(1, CLUSTERS)
        for rows, told in history:
            mine = np.flatnonzero(rows == client)
            if len(mine):
                device = learn(device, rows_of(told, mine), SETTINGS)
        known = len(device.tree.cohorts)
        assert population.heard[client] == device.heard[0]
        for name in ("reward", "explored", "confirmed", "similarity", "generation"):
            np.testing.assert_array_equal(getattr(population, name)[client, :known], getattr(device, name)[0])
        alone = request(device, SETTINGS, None)
        for name in (*("cohort", "cluster", "generation", "reward"), *SAID):
            np.testing.assert_array_equal(getattr(asked, name)[client], getattr(alone, name)[0], err_msg=name)


@settings(max_examples=25)
@given(histories(), st.permutations(range(4)))
def test_the_order_of_rows_does_not_matter(history: list[tuple[IntArray, FeedbackColumns]], order: list[int]) -> None:
    rows = np.array(order)
    straight = permuted = AffinityRecords.empty(4, CLUSTERS)
    place = np.argsort(rows)
    for who, told in history:
        straight = tell(straight, who, told)
        permuted = tell(permuted, place[who], told)

    assert_same_records(take(straight, rows), permuted)


def test_records_of_another_tree_are_refused() -> None:
    other = CohortTree().partition(ROOT, (0, 1), (0.5, 0.5))

    with pytest.raises(ValueError, match="later state"):
        hear(widen(AffinityRecords.empty(2, CLUSTERS), ONCE), other, SETTINGS)


@settings(max_examples=25)
@given(histories())
def test_learning_hearing_and_asking_leave_their_inputs_untouched(
    history: list[tuple[IntArray, FeedbackColumns]],
) -> None:
    records = AffinityRecords.empty(4, CLUSTERS)
    for rows, told in history:
        wide = widen(records, told.tree)
        some = take(wide, rows)
        watched = [getattr(held, name) for held in (records, wide, some) for name in COLUMNS]
        watched += [told.instant_reward, told.similarity, told.fold]
        before = [array.copy() for array in watched]
        learnt = learn(some, told, SETTINGS)
        request(some, SETTINGS, stream(0, "ask"))
        hear(records, told.tree, SETTINGS)
        after = put_rows(wide, rows, learnt)
        for now, then in zip(watched, before, strict=True):
            np.testing.assert_array_equal(now, then)
        records = after


# What a client asks for.


def test_a_newcomer_asks_for_nothing() -> None:
    for records in (AffinityRecords.empty(3, CLUSTERS), widen(AffinityRecords.empty(3, CLUSTERS), TWICE)):
        asked = request(records, replace(SETTINGS, exploration=1.0), stream(0, "ask"))

        for name in ("cohort", "cluster", "generation"):
            np.testing.assert_array_equal(getattr(asked, name), [-1, -1, -1])
        np.testing.assert_array_equal(asked.reward, np.zeros(3))
        assert not asked.ranked_first.any()


def test_a_client_asks_for_the_leaf_with_the_highest_reward_and_says_what_it_holds_there() -> None:
    records = hear(labelled(np.array([0, 2]), margin=0.01), ONCE, SETTINGS)
    told = feedback(
        "0.1", ONCE, reward=[0.9, -0.9], similarity=np.eye(CLUSTERS)[[1, 0]], fold=np.array([1, 0]), generation=7
    )
    asked = request(learn(records, told, SETTINGS), SETTINGS, None)

    assert [ONCE.cohorts[at] for at in asked.cohort] == ["0.1", "0.2"]
    np.testing.assert_array_equal(asked.cluster, [1, -1])
    np.testing.assert_array_equal(asked.generation, [7, -1])
    np.testing.assert_array_equal(asked.participations, [2, 2])
    np.testing.assert_allclose(asked.reward, [0.3 * 0.9, 0.7 * 0.1 - 0.3 * 0.45])
    assert asked.ranked_first.all()


def test_numbers_are_drawn_for_everybody_whoever_has_had_feedback_and_however_many_check_in() -> None:
    n = 20_000  # more than are worked on at a time
    asking = stream(0, "who").random(n) < 0.3
    records = hear(labelled(np.zeros(n, dtype=np.int64)), TWICE, SETTINGS)
    some = replace(records, participations=np.where(asking, records.participations, 0))
    one, other = stream(0, "ask"), stream(0, "ask")
    by_all, by_some = request(records, SETTINGS, one), request(some, SETTINGS, other)

    np.testing.assert_array_equal(by_some.cohort, np.where(asking, by_all.cohort, -1))
    assert one.random() == other.random()


def share_exploring(participations: int, exploration: AffinitySettings) -> float:
    n = 20_000
    records = replace(
        visited(AffinityRecords.empty(n, CLUSTERS), "0", [float("nan")]),
        participations=np.full(n, participations),
    )
    asked = request(hear(records, ONCE, exploration), exploration, stream(0, "explore"))
    # One of the three leaves is the first choice, and exploring clients draw it too.
    return float((~asked.ranked_first).mean() * 3 / 2)


def test_exploration_decays_with_the_clients_own_participations() -> None:
    for participations in (1, 2, 4):
        expected = SETTINGS.exploration * SETTINGS.exploration_decay**participations

        assert share_exploring(participations, RANDOM) == pytest.approx(expected, abs=0.02)


def test_nobody_explores_without_a_generator_or_without_exploration() -> None:
    records = hear(labelled(np.zeros(500, dtype=np.int64)), ONCE, SETTINGS)

    assert request(records, replace(SETTINGS, exploration=1.0), None).ranked_first.all()
    assert request(records, replace(SETTINGS, exploration=0.0), stream(0, "ask")).ranked_first.all()


def test_exploring_clients_ask_only_for_leaves_they_have_heard_of_and_for_each_of_them() -> None:
    always = replace(RANDOM, exploration=1.0, exploration_decay=1.0)
    n = 900
    records = widen(labelled(np.zeros(n, dtype=np.int64)), TWICE)
    rows = np.arange(n)
    for group, tree in ((1, ONCE), (2, TWICE)):
        mine = np.flatnonzero(rows % 3 == group)
        heard = hear(labelled(np.zeros(len(mine), dtype=np.int64)), tree, always)
        records = put_rows(records, mine, widen(heard, TWICE))
    asked = request(records, always, stream(0, "ask"))
    wanted = np.array(TWICE.cohorts)[asked.cohort]

    assert set(wanted[rows % 3 == 0]) == {"0"}
    assert set(wanted[rows % 3 == 1]) == set(ONCE.leaves)
    assert set(wanted[rows % 3 == 2]) == set(TWICE.leaves)


def test_more_clusters_than_an_index_can_name_are_refused() -> None:
    with pytest.raises(ValueError, match="n_clusters: expected at most 127, got 128"):
        AffinityRecords.empty(1, 128)


# Comparisons of models.


def compared(records: AffinityRecords, cohort: str, placed: str, reward: float = float("nan")) -> AffinityRecords:
    """Return the records after everybody has compared models in a round of one cohort and liked the same best."""
    n = len(records.heard)
    told = feedback(cohort, records.tree, reward=np.full(n, reward))
    return learn(records, replace(told, placed=np.full(n, records.tree.index[CohortId(placed)])), SETTINGS)


@settings(max_examples=60)
@given(histories(), st.data())
def test_what_a_comparison_names_is_the_first_choice_whatever_was_before(
    history: list[tuple[IntArray, FeedbackColumns]], data: st.DataObject
) -> None:
    records = AffinityRecords.empty(4, CLUSTERS)
    for rows, told in history:
        records = tell(records, rows, told)
    tree = history[-1][1].tree
    cohort, placed = (data.draw(st.sampled_from(tree.leaves)) for _ in range(2))
    reward = data.draw(st.floats(-1, 1))
    after = compared(hear(records, tree, SETTINGS), cohort, placed, reward)

    assert first_choice(after) == [placed] * 4
    for draw in range(3):
        asked = request(after, replace(SETTINGS, exploration=0.0), stream(draw, "ties"))
        assert {tree.cohorts[at] for at in asked.cohort} == {placed}
    assert after.explored[:, tree.index[placed]].all()
    others = np.arange(len(tree.cohorts)) != tree.index[placed]
    assert not after.confirmed[:, others].any()  # what was found before no longer holds


def test_a_label_is_mended_by_one_comparison_that_stands_above_all_others_by_the_bonus() -> None:
    records = hear(labelled(np.array([0])), ONCE, SETTINGS)
    after = compared(records, "0.0", "0.2")
    standing = after.reward - SETTINGS.label_trust * label_margins(after)

    assert (first_choice(records), first_choice(after)) == (["0.0"], ["0.2"])
    assert standing[0, ONCE.index[CohortId("0.2")]] == pytest.approx(standing[0, 1:3].max() + SETTINGS.partition_bonus)
    assert request(after, SETTINGS, None).supported.all()


def test_who_has_trained_another_leafs_model_learns_no_reward_and_has_taken_part_all_the_same() -> None:
    records = hear(labelled(np.array([0])), ONCE, SETTINGS)
    after = compared(records, "0.0", "0.2", reward=0.9)

    assert after.reward[0, ONCE.index[CohortId("0.0")]] == records.reward[0, ONCE.index[CohortId("0.0")]]
    assert not after.explored[0, ONCE.index[CohortId("0.0")]]
    assert after.participations.tolist() == [2]


def test_comparisons_are_counted_and_a_count_does_not_run_over() -> None:
    records = hear(labelled(np.array([0])), ONCE, SETTINGS)
    for expected in (1, 2, 3):
        records = compared(records, "0.0", "0.0", reward=0.5)
        assert request(records, SETTINGS, None).confirmed.tolist() == [expected]
    full = replace(records, confirmed=np.full_like(records.confirmed, 127))

    assert compared(full, "0.0", "0.0", reward=0.5).confirmed.max() == 127


def test_a_cohort_that_was_partitioned_in_the_same_round_hands_its_name_down() -> None:
    records = hear(labelled(np.array([2])), ONCE, SETTINGS)
    told = replace(feedback("0.1", TWICE, reward=[0.5]), placed=np.array([TWICE.index[CohortId("0.1")]]))
    (choice,) = first_choice(learn(records, told, SETTINGS))

    assert first_choice(records) == ["0.2"]
    assert choice in TWICE.leaves_of(CohortId("0.1"))


def test_a_client_that_is_no_longer_rewarded_where_comparisons_have_put_it_compares_once_more() -> None:
    records = hear(labelled(np.array([0]), margin=0.5), ONCE, SETTINGS)
    for _ in range(2):
        records = compared(records, "0.2", "0.2", reward=0.5)
    content, misfit = (visited(records, "0.2", [reward] * 10) for reward in (0.3, -0.8))

    assert first_choice(content) == first_choice(misfit) == ["0.2"]
    assert [request(one, SETTINGS, None).confirmed.tolist() for one in (content, misfit)] == [[2], [0]]
    moved = compared(misfit, "0.2", "0.0")
    assert first_choice(moved) == ["0.0"]
    assert request(moved, SETTINGS, None).confirmed.tolist() == [1]


def test_no_reward_elsewhere_draws_a_client_from_where_comparisons_have_put_it_but_a_partition_does() -> None:
    records = compared(hear(labelled(np.array([0]), margin=0.5), ONCE, SETTINGS), "0.0", "0.2")
    drawn = replace(records, reward=np.where(np.arange(len(ONCE.cohorts)) == 1, 1.0, records.reward))
    assert first_choice(drawn) == ["0.2"]

    later = ONCE.partition(CohortId("0.2"), (0, 1), (0.5, 0.5))
    assert first_choice(hear(drawn, later, SETTINGS))[0] in {"0.2.0", "0.2.1"}


def test_a_client_that_explores_asks_for_its_first_choice_and_to_compare_once_more() -> None:
    records = hear(labelled(np.zeros(400, dtype=np.int64)), ONCE, SETTINGS)
    for _ in range(2):
        records = compared(records, "0.0", "0.0", reward=0.5)
    asked = request(records, replace(SETTINGS, exploration=0.5, exploration_decay=1.0), stream(0, "explore"))

    assert asked.ranked_first.all()
    assert {ONCE.cohorts[at] for at in asked.cohort} == {"0.0"}
    assert (asked.confirmed == 0).mean() == pytest.approx(0.5, abs=0.1)
    assert set(asked.confirmed.tolist()) == {0, 2}


def test_a_client_whose_record_supports_no_leaf_wants_to_compare() -> None:
    records = hear(labelled(np.array([0])), ONCE, SETTINGS)
    for cohort in ONCE.leaves:
        records = compared(records, cohort, cohort, reward=-1.0)
    for cohort in ONCE.leaves:
        records = visited(records, cohort, [-1.0] * 20)
    asked = request(records, SETTINGS, None)

    assert records.confirmed[0, 1:].tolist() == [0, 0, 1]
    assert (asked.supported.tolist(), asked.confirmed.tolist()) == ([False], [0])


@pytest.mark.parametrize("confirmations", [-1, 128])
def test_an_impossible_number_of_confirmations_is_refused(confirmations: int) -> None:
    with pytest.raises(ValueError, match=f"confirmations: expected 0 to 127, got {confirmations}"):
        AffinitySettings(confirmations=confirmations)


# Rewards.

two_trees = st.sampled_from([ONCE, TWICE])
decays = st.floats(0.05, 1.0)


@settings(max_examples=40)
@given(two_trees, st.data(), decays, st.lists(st.floats(0.01, 1), min_size=1, max_size=12))
def test_a_client_that_is_always_rewarded_never_comes_to_prefer_a_cohort_it_has_not_seen(
    tree: CohortTree, data: st.DataObject, decay: float, rewards: list[float]
) -> None:
    cohort = data.draw(st.sampled_from(tree.leaves))
    gentle = replace(SETTINGS, reward_decay=decay)
    records = hear(AffinityRecords.empty(1, CLUSTERS), tree, gentle)
    for reward in rewards:
        records = learn(records, feedback(cohort, tree, reward=[reward]), gentle)

        assert first_choice(records) == [cohort]


@settings(max_examples=40)
@given(two_trees, st.data(), decays, st.lists(st.floats(-1, -0.01), min_size=1, max_size=12))
def test_a_client_that_is_never_rewarded_leaves_and_ranks_far_cohorts_above_near_ones(
    tree: CohortTree, data: st.DataObject, decay: float, rewards: list[float]
) -> None:
    cohort = data.draw(st.sampled_from(tree.leaves))
    gentle = replace(SETTINGS, reward_decay=decay)
    records = hear(AffinityRecords.empty(1, CLUSTERS), tree, gentle)
    for reward in rewards:
        records = learn(records, feedback(cohort, tree, reward=[reward]), gentle)

        assert first_choice(records) != [cohort]
        by_distance = sorted((tree.distance(cohort, leaf), records.reward[0, tree.index[leaf]]) for leaf in tree.leaves)
        for (near, near_reward), (far, far_reward) in pairwise(by_distance):
            assert far_reward > near_reward if far > near else far_reward == near_reward


def test_a_client_leaves_even_the_child_its_own_cluster_led_it_to_when_the_label_was_a_close_call() -> None:
    records = hear(labelled(np.array([1]), margin=0.01), ONCE, SETTINGS)
    assert first_choice(records) == ["0.1"]

    assert first_choice(visited(records, "0.1", [-0.8] * 3)) != ["0.1"]


def test_a_client_whose_label_was_clear_does_not_leave_at_an_unlucky_reward_unless_labels_are_not_trusted() -> None:
    records = visited(hear(labelled(np.array([1])), ONCE, SETTINGS), "0.1", [-0.8] * 3)

    for trust, stays in ((1.0, True), (0.0, False)):
        asked = request(records, replace(SETTINGS, label_trust=trust), None)
        assert (asked.cohort[0] == ONCE.index[CohortId("0.1")]) == stays


def test_a_clear_label_speaks_against_the_children_of_other_clusters_at_every_level() -> None:
    records = hear(labelled(np.array([0, 1])), ONCE, SETTINGS)
    told = feedback("0.1", TWICE, reward=[0.0, 0.0], similarity=0.5 * np.eye(CLUSTERS)[[1, 1]])
    margins = label_margins(learn(records, told, SETTINGS))

    #                                     0    0.0  0.1  0.2  0.1.0 0.1.1
    np.testing.assert_allclose(margins, [[0.0, 0.0, 1.0, 1.0, 1.0, 1.5], [0.0, 1.0, 0.0, 1.0, 0.0, 0.5]])


def test_a_label_of_an_earlier_start_of_the_clustering_speaks_against_no_child() -> None:
    restarted = CohortTree().partition(ROOT, (0, 1, 2), (0.4, 0.3, 0.3), generation=2)
    records = widen(labelled(np.array([0, 1, 2]), generation=1), restarted)

    np.testing.assert_array_equal(label_margins(records), np.zeros((3, 4)))


def test_a_visit_to_one_cohort_says_nothing_about_another_that_was_visited_before() -> None:
    records = visited(hear(AffinityRecords.empty(1, CLUSTERS), ONCE, SETTINGS), "0.0", [0.5])
    later = visited(records, "0.1", [-1.0])

    assert later.reward[0, ONCE.index[CohortId("0.0")]] == records.reward[0, ONCE.index[CohortId("0.0")]]
    assert first_choice(later) == ["0.0"]


def test_the_printed_rule_lets_a_cohort_nobody_has_seen_outbid_the_one_that_rewards() -> None:
    printed = replace(SETTINGS, accumulate_predictions=True)
    records = hear(AffinityRecords.empty(1, CLUSTERS), ONCE, printed)
    for _ in range(10):
        records = learn(records, feedback("0.1", ONCE, reward=[0.5]), printed)

    assert first_choice(records) != ["0.1"]


@settings(max_examples=40)
@given(histories())
def test_rewards_stay_within_one_and_a_bonus_and_a_margin_for_each_level_of_the_tree(
    history: list[tuple[IntArray, FeedbackColumns]],
) -> None:
    records = AffinityRecords.empty(4, CLUSTERS)
    for rows, told in history:
        records = tell(records, rows, told)

    bound = 1 + SETTINGS.partition_bonus * records.tree.depth
    assert np.abs(records.reward).max() <= bound + 2 * SETTINGS.label_trust * records.tree.depth + 1e-12
    without = AffinityRecords.empty(4, CLUSTERS)
    for rows, told in history:
        without = tell(without, rows, replace(told, placed=None))
    assert np.abs(without.reward).max() <= bound + 1e-12


def test_a_client_of_two_minds_does_not_raise_its_rewards_for_ever() -> None:
    records = hear(labelled(np.array([0])), ONCE, SETTINGS)
    for number in range(100):
        placed = ("0.1", "0.2")[number % 2]
        records = compared(records, "0.0", placed)
        assert first_choice(records) == [placed]

    assert records.reward.max() <= 1 + SETTINGS.label_trust * label_margins(records).max()


def test_a_reward_that_says_nothing_changes_no_reward_but_counts_as_a_visit() -> None:
    records = visited(hear(labelled(np.array([1])), ONCE, SETTINGS), "0.0", [0.4])
    later = visited(records, "0.2", [float("nan")])

    np.testing.assert_array_equal(later.reward, records.reward)
    assert later.explored[0, ONCE.index[CohortId("0.2")]]
    assert later.participations[0] == records.participations[0] + 1


# Partitions.


@settings(max_examples=40)
@given(
    st.lists(st.integers(-1, CLUSTERS - 1), min_size=1, max_size=6),
    st.permutations([0, 1, 1]),
    st.floats(-1, 1),
)
def test_a_child_starts_with_its_parents_reward_and_a_bonus_only_where_the_cluster_leads_to_it(
    clusters: list[int], routes: list[int], parents_reward: float
) -> None:
    labels = np.array(clusters)
    records = labelled(np.maximum(labels, 0))
    records = replace(
        records,
        reward=np.full((len(labels), 1), parents_reward),
        similarity=np.where((labels < 0)[:, None, None, None], np.nan, records.similarity),
    )
    tree = CohortTree().partition(ROOT, tuple(routes), (0.5, 0.5))
    heard = hear(records, tree, SETTINGS)

    for row, label in enumerate(labels):
        for child in (0, 1):
            bonus = SETTINGS.partition_bonus * (label >= 0 and routes[label] == child)
            assert heard.reward[row, 1 + child] == pytest.approx(parents_reward + bonus)
    np.testing.assert_array_equal(heard.reward[:, 0], records.reward[:, 0])


def test_after_a_partition_every_client_asks_for_the_child_of_its_own_label() -> None:
    labels = stream(0, "labels").integers(0, CLUSTERS, 200)
    routes = (1, 0, 2)
    tree = CohortTree().partition(ROOT, routes, (0.3, 0.3, 0.4))
    records = hear(labelled(labels), tree, SETTINGS)

    assert first_choice(records) == [tree.branches[0].children[routes[label]] for label in labels]


def test_a_client_that_has_not_heard_of_the_partition_is_resolved_to_the_child_of_its_own_label() -> None:
    labels = stream(0, "labels").integers(0, CLUSTERS, 200)
    routes = (1, 0, 1)
    tree = CohortTree().partition(ROOT, routes, (0.5, 0.5), generation=1)
    asked: Requests = request(labelled(labels), SETTINGS, None)
    leaves, vouched = tree.resolve(asked.cohort, asked.cluster, asked.generation, stream(0, "resolve"))

    assert vouched.all()
    np.testing.assert_array_equal(leaves, 1 + np.array(routes)[labels])


def test_a_client_of_the_very_round_that_ends_in_a_partition_asks_for_the_child_of_its_label() -> None:
    labels = np.array([0, 1, 2, 1])
    told = feedback("0", ONCE, reward=np.full(4, np.nan), similarity=np.eye(CLUSTERS)[labels])
    records = learn(AffinityRecords.empty(4, CLUSTERS), told, SETTINGS)

    for trust in (0.0, 1.0):
        asked = request(records, replace(SETTINGS, label_trust=trust), None)
        assert [ONCE.cohorts[at] for at in asked.cohort] == [ONCE.branches[0].children[label] for label in labels]


def test_a_cluster_index_from_an_earlier_start_of_the_clustering_earns_no_bonus() -> None:
    restarted = CohortTree().partition(ROOT, (0, 1, 2), (0.4, 0.3, 0.3), generation=2)
    records = hear(labelled(np.array([0, 1, 2]), generation=1), restarted, SETTINGS)

    np.testing.assert_array_equal(records.reward, np.zeros((3, 4)))


def test_two_partitions_heard_of_at_once_count_like_one_after_the_other() -> None:
    records = labelled(np.array([0, 1, 2]))

    assert_same_records(hear(records, TWICE, SETTINGS), hear(hear(records, ONCE, SETTINGS), TWICE, SETTINGS))


def test_hearing_the_same_tree_again_changes_nothing() -> None:
    records = visited(hear(labelled(np.array([0, 1, 2])), TWICE, SETTINGS), "0.1.0", [0.7, -0.2])

    assert_same_records(hear(records, TWICE, SETTINGS), records)


# Cluster indices.


def test_a_cluster_index_is_the_best_of_the_mean_over_visits() -> None:
    remembering = replace(SETTINGS, label_memory=0.5)
    records = AffinityRecords.empty(1, CLUSTERS)
    for similarity in ([0.9, 0.1, 0.0], [0.0, 0.6, 0.0]):
        told = feedback("0", CohortTree(), reward=[float("nan")], similarity=np.array([similarity]))
        records = learn(records, told, remembering)

    np.testing.assert_allclose(records.similarity[0, 0, 0], [0.45, 0.35, 0.0])
    np.testing.assert_array_equal(records.clusters(), [[0]])


def test_halves_of_the_samples_keep_similarities_of_their_own_and_ask_together() -> None:
    records = AffinityRecords.empty(1, CLUSTERS)
    for fold, similarity in ((0, [0.9, 0.0, 0.0]), (1, [0.0, 0.2, 0.0])):
        told = feedback("0", CohortTree(), reward=[0.0], similarity=np.array([similarity]), fold=np.array([fold]))
        records = learn(records, told, SETTINGS)
    np.testing.assert_array_equal(records.similarity[0, 0].argmax(axis=1), [0, 1])
    np.testing.assert_array_equal(request(records, SETTINGS, None).cluster, [0])


def test_a_cluster_without_a_centre_in_this_round_keeps_what_was_known_of_it() -> None:
    records = labelled(np.array([2]))
    told = feedback("0", CohortTree(), reward=[0.0], similarity=np.array([[0.1, 0.1, np.nan]]))

    assert learn(records, told, SETTINGS).similarity[0, 0, 0, 2] == records.similarity[0, 0, 0, 2]


def test_feedback_of_another_generation_throws_old_similarities_away() -> None:
    records = labelled(np.array([2, 2]), generation=1)
    for fold in (0, 1):
        told = feedback(
            "0", CohortTree(), reward=[0.0, 0.0], similarity=np.eye(CLUSTERS)[[2, 2]], fold=np.array([fold, fold])
        )
        records = learn(records, told, SETTINGS)
    told = feedback(
        "0",
        CohortTree(),
        reward=[0.0, 0.0],
        similarity=np.array([[0.1, 0.0, 0.0], [np.nan, np.nan, np.nan]]),
        fold=np.array([1, 1]),
        generation=2,
    )
    later = learn(records, told, SETTINGS)

    np.testing.assert_array_equal(later.clusters(), [[0], [-1]])
    np.testing.assert_array_equal(later.similarity[:, 0, 0], np.full((2, CLUSTERS), np.nan))
    np.testing.assert_array_equal(later.generation[:, 0], [2, 2])


def test_feedback_of_one_cohort_leaves_the_indices_held_for_others_alone() -> None:
    records = hear(labelled(np.array([0, 1, 2])), ONCE, SETTINGS)
    told = feedback("0.1", ONCE, reward=[0.1, 0.1, 0.1], similarity=np.eye(CLUSTERS)[[2, 2, 2]], generation=5)
    later = learn(records, told, SETTINGS)

    np.testing.assert_array_equal(later.similarity[:, 0], records.similarity[:, 0])
    np.testing.assert_array_equal(later.generation[:, 0], [1, 1, 1])
    np.testing.assert_array_equal(later.clusters()[:, ONCE.index[CohortId("0.1")]], [2, 2, 2])


@pytest.mark.parametrize("name", [field.name for field in fields(AffinitySettings) if field.type is float])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_impossible_settings_are_refused_by_name(name: str, value: float) -> None:
    setting: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=f"{name}: expected"):
        AffinitySettings(**setting)


def test_a_partition_with_more_children_than_clusters_leaves_requests_possible() -> None:
    tree = CohortTree().partition(ROOT, tuple(range(6)), (1 / 6,) * 6)
    records = hear(AffinityRecords.empty(3, n_clusters=4), tree, AffinitySettings())
    np.testing.assert_array_equal(label_margins(records), np.zeros((3, 7)))
