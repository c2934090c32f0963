import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.affinity import Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.matching import CheckIns
from auxo.core.own_state import NOTHING
from auxo.core.rng import stream
from auxo.core.selectors import Selector, Uniform
from auxo.core.types import IntArray
from tests.core.made_turnouts import turnout
from tests.core.selectors_of_our_own import FewestTurns, Turns


def check_ins(n: int) -> CheckIns:
    return CheckIns(100 + np.arange(n), Requests.silent(CohortTree(), np.zeros(n, dtype=np.int64)))


def selected(selector: Selector, rows: IntArray, wanted: int, seed: int = 0) -> list[int]:
    chosen = selector.select(selector.begin(), check_ins(50), rows, wanted, stream(seed, "select"))
    return [int(row) for row in chosen]


# Contract: what every selector does.


@settings(max_examples=30)
@given(
    selector=st.sampled_from([Uniform(), FewestTurns()]),
    rows=st.sets(st.integers(0, 49)),
    wanted=st.integers(0, 60),
    seed=st.integers(0, 3),
)
def test_as_many_as_wanted_are_selected_of_those_who_are_there_each_once(
    selector: Selector, rows: set[int], wanted: int, seed: int
) -> None:
    there = np.array(sorted(rows), dtype=np.int64)
    before = there.copy()
    chosen = selected(selector, there, wanted, seed)

    assert len(chosen) == len(set(chosen)) == min(wanted, len(rows))
    assert set(chosen) <= rows
    np.testing.assert_array_equal(there, before)


@pytest.mark.parametrize("part", [Uniform(), FewestTurns()])
def test_selectors_keep_the_protocol(part: object) -> None:
    assert isinstance(part, Selector)


# Uniform.


def test_a_uniform_sample_is_in_the_order_of_the_check_ins_and_another_one_for_another_seed() -> None:
    one, same, other = (selected(Uniform(), np.arange(50), 10, seed) for seed in (0, 0, 1))

    assert one == same == sorted(one)
    assert one != other


def test_everybody_has_the_same_chance() -> None:
    counts = np.zeros(20, dtype=np.int64)
    for seed in range(1000):
        counts[selected(Uniform(), np.arange(20), 5, seed)] += 1

    assert counts.sum() == 5000
    np.testing.assert_allclose(counts, 250, atol=60)  # more than four deviations of 14


def test_a_uniform_selector_remembers_nobody() -> None:
    assert Uniform().begin() == NOTHING
    assert Uniform().learn(NOTHING, turnout([7, 8, 9])) == NOTHING
    assert Uniform().own_states == ()


# One with a memory.


def test_a_selector_with_a_memory_takes_it_and_returns_another() -> None:
    first = Turns(np.array([100, 102]), np.array([2, 1]))
    second = FewestTurns().learn(first, turnout([102, 101]))
    chosen = FewestTurns().select(second, check_ins(5), np.arange(5), 3, stream(0, "select"))

    assert (first.clients.tolist(), first.counts.tolist()) == ([100, 102], [2, 1])
    assert (second.clients.tolist(), second.counts.tolist()) == ([100, 101, 102], [2, 1, 2])
    assert chosen.tolist() == [1, 3, 4]
