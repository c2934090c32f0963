import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auxo.core.rng import follow_bits, random_bits, stream
from auxo.core.types import IntArray

paths = st.lists(st.one_of(st.integers(-5, 10**6), st.text(max_size=4)), max_size=3).map(tuple)


def output(seed: int, *path: int | str) -> IntArray:
    return stream(seed, *path).integers(2**62, size=4)


@settings(max_examples=30)
@given(st.integers(0, 2**40), paths)
def test_the_same_path_gives_the_same_numbers(seed: int, path: tuple[int | str, ...]) -> None:
    np.testing.assert_array_equal(output(seed, *path), output(seed, *path))


@settings(max_examples=60)
@given(paths, paths)
@example((7,), ("7",))
@example((7,), ("#7",))
@example(("a", "b"), ("a\x1fb",))
@example(("a", "b"), ("b", "a"))
@example(("ab",), ("a", "b"))
@example((), ("",))
@example((1, 23), (12, 3))
def test_another_path_gives_other_numbers(one: tuple[int | str, ...], other: tuple[int | str, ...]) -> None:
    if one != other:
        assert not np.array_equal(output(1, *one), output(1, *other))


def test_another_seed_gives_other_numbers() -> None:
    assert not np.array_equal(output(1, "select"), output(2, "select"))


def test_a_row_taken_from_an_array_is_the_number_it_shows() -> None:
    rows = np.arange(10)

    np.testing.assert_array_equal(output(1, "shuffle", rows[7]), output(1, "shuffle", 7))


def test_drawing_from_one_stream_does_not_move_another() -> None:
    alone = output(1, "select")
    busy = stream(1, "cluster")
    busy.random(1000)

    np.testing.assert_array_equal(output(1, "select"), alone)


def test_neighbouring_paths_are_uniform_and_unrelated() -> None:
    first = np.array([stream(0, "cohort", number).random() for number in range(4000)])

    # Bounds of about five standard deviations.
    assert first.mean() == pytest.approx(0.5, abs=0.025)
    assert first.var() == pytest.approx(1 / 12, abs=0.01)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.08


def test_random_bits_of_a_row_depend_on_its_numbers_alone() -> None:
    one, other = np.arange(100), 7 * np.arange(100) + 500
    bits = random_bits(1, "test", one, other)

    np.testing.assert_array_equal(random_bits(1, "test", one[30:40], other[30:40]), bits[30:40])
    assert len(set(bits.tolist())) == 100
    for different in (
        random_bits(2, "test", one, other),
        random_bits(1, "tests", one, other),
        random_bits(1, "test", other, one),
        random_bits(1, "test", one),
    ):
        assert not np.isin(different, bits).any()


def test_random_bits_are_ones_and_zeros_in_equal_parts_in_every_place() -> None:
    rows = np.arange(20_000)
    bits = random_bits(0, "test", rows, np.zeros_like(rows))
    ones = (bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)

    # Half of them, with a deviation of 0.0035.
    assert np.abs(ones.mean(axis=0) - 0.5).max() < 5 * 0.0036


def test_following_bits_is_what_one_more_column_does() -> None:
    rows, visits = np.arange(10), np.full(10, 3)

    np.testing.assert_array_equal(
        follow_bits(random_bits(4, "test", rows), visits), random_bits(4, "test", rows, visits)
    )
