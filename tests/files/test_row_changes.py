"""Changed rows of columns, whatever their type and shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.files.row_changes import AnyArray, changed_rows, resized


@given(st.data())
def test_changed_rows_of_any_column_make_the_new_one_of_the_old(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.int8, np.bool_, np.uint64]))
    rest = data.draw(st.sampled_from([(), (1,), (2, 3), (0,)]))
    sizes = data.draw(st.tuples(st.integers(0, 12), st.integers(0, 12)))

    def column(length: int) -> AnyArray:
        values = data.draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
        return np.array([np.full(rest, value) for value in values]).astype(dtype).reshape(length, *rest)

    before, now = (column(length) for length in sizes)
    rows = changed_rows(before, now)
    after = resized(before, now.shape, now.dtype)
    unchanged = np.setdiff1d(np.arange(len(now)), rows)
    np.testing.assert_array_equal(after[unchanged], now[unchanged])
    assert all(not np.array_equal(after[row], now[row]) for row in rows)


def test_bits_count_and_not_values() -> None:
    nan = np.array([np.nan, 0.0, 1.0])
    assert changed_rows(nan, nan.copy()).tolist() == []
    assert changed_rows(nan, np.array([np.nan, -0.0, 1.0])).tolist() == [1]


def test_without_a_column_before_all_but_zeros_have_changed() -> None:
    assert changed_rows(None, np.array([0, 5, 0, 7])).tolist() == [1, 3]


@pytest.mark.parametrize("other", [np.zeros((3, 2)), np.zeros(3, dtype=np.float32)])
def test_a_column_of_another_kind_says_nothing(other: AnyArray) -> None:
    assert changed_rows(other, np.array([0.0, 5.0, 0.0])).tolist() == [1]
    assert resized(other, (3,), np.dtype(np.float64)).tolist() == [0.0, 0.0, 0.0]


def test_a_column_longer_than_a_chunk_is_compared_to_its_end() -> None:
    before = np.zeros(2_000_000)
    now = before.copy()
    now[[0, 700_000, 1_999_999]] = 1
    assert changed_rows(before, now).tolist() == [0, 700_000, 1_999_999]
