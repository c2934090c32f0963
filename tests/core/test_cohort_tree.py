from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core import cohort_tree
from auxo.core.cohort_tree import Branch, CohortTree
from auxo.core.rng import stream
from auxo.core.types import ROOT, CohortId, IntArray


@st.composite
def trees(draw: st.DrawFn, max_partitions: int = 6) -> CohortTree:
    tree = CohortTree()
    for generation in draw(st.lists(st.integers(1, 3), max_size=max_partitions)):
        cohort = draw(st.sampled_from(tree.leaves))
        children = draw(st.integers(2, 4))
        more = draw(st.lists(st.integers(0, children - 1), max_size=3))
        routes = draw(st.permutations([*range(children), *more]))
        weights = draw(st.lists(st.floats(0.01, 1), min_size=children, max_size=children))
        tree = tree.partition(cohort, tuple(routes), tuple(weights), generation)
    return tree


def column(*values: int) -> IntArray:
    return np.array(values, dtype=np.int64)


TWICE = CohortTree().partition(ROOT, (0, 1, 1), (0.5, 0.5), 2).partition(CohortId("0.1"), (1, 0), (0.25, 0.75), 1)


# Shape.


@given(trees())
@settings(max_examples=30)
def test_leaves_and_partitioned_cohorts_together_are_all_cohorts(tree: CohortTree) -> None:
    inner = {branch.cohort for branch in tree.branches}

    assert set(tree.leaves) | inner == set(tree.cohorts)
    assert not set(tree.leaves) & inner


@given(trees())
@settings(max_examples=30)
def test_partitioned_cohort_is_never_a_leaf_and_cannot_be_partitioned_again(tree: CohortTree) -> None:
    for branch in tree.branches:
        assert branch.cohort not in tree.leaves
        assert not tree.is_leaf[tree.index[branch.cohort]]
        with pytest.raises(ValueError, match="is not a leaf"):
            tree.partition(branch.cohort, (0, 1), (0.5, 0.5))


@given(trees())
@settings(max_examples=30)
def test_ids_are_never_reused(tree: CohortTree) -> None:
    assert max(Counter(tree.cohorts).values()) == 1


@given(trees(max_partitions=5))
@settings(max_examples=30)
def test_partition_keeps_every_cohort_at_its_position_and_its_own_tree_unchanged(tree: CohortTree) -> None:
    before = tree.cohorts
    later = tree.partition(tree.leaves[-1], (0, 1), (0.5, 0.5))

    assert later.cohorts[: len(before)] == before
    assert tree.cohorts == before
    assert set(later.leaves) - set(tree.leaves) == set(later.branches[-1].children)


@given(trees())
@settings(max_examples=30)
def test_the_leaves_of_any_age_are_those_of_the_tree_that_there_was(tree: CohortTree) -> None:
    for age, is_leaf in enumerate(tree.leaves_by_age):
        leaves = [cohort for cohort, was_leaf in zip(tree.cohorts, is_leaf, strict=True) if was_leaf]

        assert tuple(leaves) == CohortTree(tree.branches[:age]).leaves


@given(trees())
@settings(max_examples=30)
def test_depth_counts_the_partitions_above_the_deepest_leaf(tree: CohortTree) -> None:
    parents = {child: branch.cohort for branch in tree.branches for child in branch.children}

    def partitions_above(cohort: CohortId) -> int:
        return 1 + partitions_above(parents[cohort]) if cohort in parents else 0

    assert tree.depth == max(partitions_above(leaf) for leaf in tree.leaves)


# Ancestry.


@given(trees())
@settings(max_examples=30)
def test_a_cohort_is_below_itself_and_below_what_its_parent_is_below_and_nothing_else(tree: CohortTree) -> None:
    assert [above for above in tree.cohorts if tree.is_below(ROOT, above)] == [ROOT]
    for branch in tree.branches:
        for child in branch.children:
            above = {cohort for cohort in tree.cohorts if tree.is_below(child, cohort)}
            assert above == {child} | {cohort for cohort in tree.cohorts if tree.is_below(branch.cohort, cohort)}


@given(trees())
@settings(max_examples=30)
def test_the_leaves_of_a_cohort_are_those_of_its_children(tree: CohortTree) -> None:
    assert tree.leaves_of(ROOT) == tree.leaves
    for leaf in tree.leaves:
        assert tree.leaves_of(leaf) == (leaf,)
    for branch in tree.branches:
        below = [leaf for child in branch.children for leaf in tree.leaves_of(child)]
        assert sorted(tree.leaves_of(branch.cohort)) == sorted(below)


@given(trees())
@settings(max_examples=30)
def test_descent_as_a_matrix_is_ancestry_of_each_pair(tree: CohortTree) -> None:
    for above, row in zip(tree.cohorts, tree.descends, strict=True):
        assert [tree.is_below(cohort, above) for cohort in tree.cohorts] == row.tolist()


def test_a_cohort_that_never_was_is_above_nothing_and_has_no_ancestors() -> None:
    assert TWICE.leaves_of(CohortId("0.2")) == ()
    assert not TWICE.is_below(CohortId("0.1"), CohortId("0.10"))
    with pytest.raises(KeyError):
        TWICE.is_below(CohortId("0.2"), ROOT)


# Distance.


@given(trees())
@settings(max_examples=30)
def test_distance_is_symmetric_and_zero_only_to_itself(tree: CohortTree) -> None:
    np.testing.assert_array_equal(tree.distances, tree.distances.T)
    np.testing.assert_array_equal(tree.distances == 0, np.eye(len(tree.cohorts), dtype=np.bool_))


@given(trees())
@settings(max_examples=30)
def test_siblings_are_one_apart(tree: CohortTree) -> None:
    for branch in tree.branches:
        for one in branch.children:
            for other in branch.children:
                assert tree.distance(one, other) == (one != other)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("0", "0", 0),
        ("0", "0.1", 1),
        ("0.0", "0.1.1", 2),
        ("0.1.0", "0.1.1", 1),
        ("0.1", "0.10", 1),
        ("0.0.0", "0.1", 2),
    ],
)
def test_distance_is_the_larger_depth_below_the_common_ancestor(one: str, other: str, expected: int) -> None:
    eleven = CohortTree().partition(ROOT, tuple(range(11)), (1.0,) * 11)
    tree = eleven.partition(CohortId("0.0"), (0, 1), (0.5, 0.5)).partition(CohortId("0.1"), (0, 1), (0.5, 0.5))

    assert tree.distance(CohortId(one), CohortId(other)) == expected


# Resolving requests.

garbage = st.one_of(st.integers(-6, 30), st.sampled_from([-(2**62), 2**62]))


@given(trees(), st.lists(st.tuples(garbage, garbage, garbage), max_size=20), st.integers(0, 5))
@settings(max_examples=60)
def test_any_request_leads_to_a_leaf_below_the_cohort_it_names(
    tree: CohortTree, requests: list[tuple[int, int, int]], seed: int
) -> None:
    cohorts, clusters, generations = np.array(requests, dtype=np.int64).reshape(-1, 3).T
    leaves, vouched = tree.resolve(cohorts, clusters, generations, stream(seed, "resolve"))

    assert len(leaves) == len(vouched) == len(requests)
    for (cohort, _, _), leaf, is_own_choice in zip(requests, leaves, vouched, strict=True):
        assert tree.cohorts[leaf] in tree.leaves
        if 0 <= cohort < len(tree.cohorts):
            assert tree.is_below(tree.cohorts[leaf], tree.cohorts[cohort])
        else:
            assert not is_own_choice


@given(trees(), st.integers(0, 5))
@settings(max_examples=30)
def test_a_valid_cluster_index_leads_to_the_child_that_holds_it(tree: CohortTree, seed: int) -> None:
    for branch in tree.branches:
        clusters = np.arange(len(branch.routes))
        cohorts = np.full(len(clusters), tree.index[branch.cohort])
        generations = np.full(len(clusters), branch.generation)
        leaves, vouched = tree.resolve(cohorts, clusters, generations, stream(seed, "resolve"))
        for cluster, leaf, is_own_choice in zip(clusters, leaves, vouched, strict=True):
            child = branch.children[branch.routes[cluster]]
            assert tree.is_below(tree.cohorts[leaf], child)
            assert is_own_choice == (child in tree.leaves)


@given(trees(), garbage, garbage)
@settings(max_examples=30)
def test_a_request_for_a_leaf_is_granted_whatever_else_it_says(tree: CohortTree, cluster: int, generation: int) -> None:
    wanted = np.array([tree.index[leaf] for leaf in tree.leaves])
    leaves, vouched = tree.resolve(
        wanted, np.full_like(wanted, cluster), np.full_like(wanted, generation), stream(0, "resolve")
    )

    np.testing.assert_array_equal(leaves, wanted)
    assert vouched.all()


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    ("cohort", "cluster", "generation"),
    [(0, 0, 1), (0, 0, -1), (0, 3, 2), (0, -5, 2), (0, -1, 2), (-1, 0, 2), (99, 0, 2)],
)
def test_without_a_usable_index_children_are_drawn_by_their_weights(cohort: int, cluster: int, generation: int) -> None:
    n = 4000
    leaves, vouched = TWICE.resolve(
        np.full(n, cohort), np.full(n, cluster), np.full(n, generation), stream(0, "draws", cohort, cluster)
    )
    shares = {TWICE.cohorts[leaf]: count / n for leaf, count in Counter(leaves.tolist()).items()}

    assert not vouched.any()
    assert shares == pytest.approx({"0.0": 0.5, "0.1.0": 0.125, "0.1.1": 0.375}, abs=0.04)


def test_an_index_decides_the_first_step_only_and_below_it_is_a_draw() -> None:
    n = 4000
    leaves, vouched = TWICE.resolve(np.zeros(n, dtype=np.int64), np.full(n, 2), np.full(n, 2), stream(0, "below"))
    shares = {TWICE.cohorts[leaf]: count / n for leaf, count in Counter(leaves.tolist()).items()}

    assert not vouched.any()
    assert shares == pytest.approx({"0.1.0": 0.25, "0.1.1": 0.75}, abs=0.04)


def resolved_one_by_one(
    tree: CohortTree, cohorts: IntArray, clusters: IntArray, generations: IntArray, rng: np.random.Generator
) -> tuple[list[int], list[bool]]:
    """Follow each request down the tree by itself: the rule of `CohortTree.resolve`, read aloud."""
    draws = rng.random((tree.depth, len(cohorts)))
    branches = {branch.cohort: branch for branch in tree.branches}
    leaves, vouched = [], []
    for number, (cohort, cluster, generation) in enumerate(zip(cohorts, clusters, generations, strict=True)):
        own = 0 <= cohort < len(tree.cohorts)
        at = tree.cohorts[cohort] if own else ROOT
        for step in range(tree.depth):
            if at not in branches:
                break
            branch = branches[at]
            if own and step == 0 and generation == branch.generation and 0 <= cluster < len(branch.routes):
                at = branch.children[branch.routes[cluster]]
                continue
            own = False
            ends = np.cumsum(branch.weights) / sum(branch.weights)
            at = branch.children[int((draws[step, number] >= ends[:-1]).sum())]
        leaves.append(tree.index[at])
        vouched.append(bool(own))
    return leaves, vouched


@given(trees(), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_many_requests_at_once_go_where_each_would_go_by_itself(tree: CohortTree, seed: int) -> None:
    rng = stream(seed, "requests")
    cohorts, clusters = rng.integers(-2, len(tree.cohorts) + 2, 60), rng.integers(-2, 9, 60)
    generations = rng.integers(-1, 4, 60)
    one, other = stream(seed, "match"), stream(seed, "match")
    leaf, vouched = tree.resolve(cohorts, clusters, generations, one)
    expected = resolved_one_by_one(tree, cohorts, clusters, generations, other)

    assert (leaf.tolist(), vouched.tolist()) == expected
    assert one.random() == other.random()


def test_more_requests_than_are_worked_on_at_a_time_get_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = stream(0, "requests")
    asked = (rng.integers(-1, 5, 500), rng.integers(-1, 3, 500), rng.integers(0, 3, 500))
    whole = TWICE.resolve(*asked, stream(0, "match"))
    monkeypatch.setattr(cohort_tree, "_CHUNK_ROWS", 7)
    in_parts = TWICE.resolve(*asked, stream(0, "match"))

    for one, other in zip(whole, in_parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_resolving_is_repeatable_and_leaves_its_inputs_untouched() -> None:
    cohorts, clusters, generations = column(0, 2, -1, 9), column(1, 1, 0, 0), column(2, 1, 2, 2)
    before = [cohorts.copy(), clusters.copy(), generations.copy()]
    one, _ = TWICE.resolve(cohorts, clusters, generations, stream(0, "resolve"))
    other, _ = TWICE.resolve(cohorts, clusters, generations, stream(0, "resolve"))

    np.testing.assert_array_equal(one, other)
    for now, then in zip([cohorts, clusters, generations], before, strict=True):
        np.testing.assert_array_equal(now, then)


# Invariants.


@pytest.mark.parametrize(
    ("routes", "weights", "message"),
    [
        ((0, 0), (1.0,), "at least 2 children, got 1"),
        ((0, 0), (0.5, 0.5), "every child of 0..1 to be reached"),
        ((0, 2), (0.5, 0.5), "every child of 0..1 to be reached"),
        ((0, -1), (0.5, 0.5), "every child of 0..1 to be reached"),
        ((0, 1), (1.0, 0.0), "expected positive shares"),
        ((0, 1), (1.0, float("nan")), "expected positive shares"),
    ],
)
def test_impossible_branches_are_refused(routes: tuple[int, ...], weights: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Branch(ROOT, routes, weights)


def test_a_cohort_that_never_was_cannot_be_partitioned() -> None:
    with pytest.raises(ValueError, match=r"'0\.7' is not a leaf"):
        CohortTree().partition(CohortId("0.7"), (0, 1), (0.5, 0.5))
