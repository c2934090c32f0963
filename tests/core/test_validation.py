import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from auxo.core.types import Float32Array
from auxo.core.validation import MAX_CHANGE, MAX_EXAMPLES, Reason, check_update

N = 3
GOOD = np.array([0.5, -1.0, 2.0], dtype=np.float32)

REFUSED: dict[str, tuple[object, object, Reason]] = {
    "not a number": (np.array([0.5, np.nan, 2.0], dtype=np.float32), 5, "NON_FINITE"),
    "infinite": (np.array([0.5, -np.inf, 2.0], dtype=np.float32), 5, "NON_FINITE"),
    "too large for float32": (np.array([0.5, 1e39, 2.0]), 5, "NON_FINITE"),
    "a parameter changed too much": (np.array([0.5, 1.1 * MAX_CHANGE, 2.0], dtype=np.float32), 5, "TOO_LARGE"),
    "a parameter changed too much downwards": (np.array([-1.1 * MAX_CHANGE, 0.0, 2.0]), 5, "TOO_LARGE"),
    "too large beside not a number": (np.array([1e30, np.nan, 2.0], dtype=np.float32), 5, "NON_FINITE"),
    "too short": (GOOD[:2], 5, "SCHEMA_MISMATCH"),
    "too long": (np.zeros(4, dtype=np.float32), 5, "SCHEMA_MISMATCH"),
    "one value that would broadcast": (np.ones(1, dtype=np.float32), 5, "SCHEMA_MISMATCH"),
    "a scalar that would broadcast": (np.array(1, dtype=np.float32), 5, "SCHEMA_MISMATCH"),
    "a row that would broadcast": (GOOD[None, :], 5, "SCHEMA_MISMATCH"),
    "empty": (np.zeros(0, dtype=np.float32), 5, "SCHEMA_MISMATCH"),
    "integers": (np.array([1, 2, 3]), 5, "SCHEMA_MISMATCH"),
    "booleans": (np.array([True, False, True]), 5, "SCHEMA_MISMATCH"),
    "complex numbers": (GOOD.astype(np.complex64), 5, "SCHEMA_MISMATCH"),
    "objects": (GOOD.astype(object), 5, "SCHEMA_MISMATCH"),
    "strings": (GOOD.astype(str), 5, "SCHEMA_MISMATCH"),
    "a list": ([0.5, -1.0, 2.0], 5, "SCHEMA_MISMATCH"),
    "nothing": (None, 5, "SCHEMA_MISMATCH"),
    "no examples": (GOOD, 0, "BAD_WEIGHT"),
    "negative examples": (GOOD, -1, "BAD_WEIGHT"),
    "more examples than anybody has": (GOOD, 10**12, "BAD_WEIGHT"),
    "one example more than allowed": (GOOD, MAX_EXAMPLES + 1, "BAD_WEIGHT"),
    "examples as text": (GOOD, "5", "BAD_WEIGHT"),
    "examples as a truth value": (GOOD, True, "BAD_WEIGHT"),
    "examples as a truth value of numpy": (GOOD, np.True_, "BAD_WEIGHT"),
    "examples as a float": (GOOD, 3.0, "BAD_WEIGHT"),
    "examples that are not a number": (GOOD, float("nan"), "BAD_WEIGHT"),
    "examples as an array": (GOOD, np.array([5]), "BAD_WEIGHT"),
    "no word about examples": (GOOD, None, "BAD_WEIGHT"),
}


@pytest.mark.fault(11, 12, 13, 14)
@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_update_is_refused_with_its_reason(name: str) -> None:
    update, examples, reason = REFUSED[name]

    assert check_update(update, examples, N) == reason


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("examples", [1, np.int32(7), np.int64(7), MAX_EXAMPLES])
def test_a_good_update_comes_back_as_float32_with_whole_examples(dtype: type[np.floating], examples: object) -> None:
    checked = check_update(GOOD.astype(dtype), examples, N)

    assert isinstance(checked, tuple)
    update, count = checked
    assert update.dtype == np.float32
    np.testing.assert_array_equal(update, GOOD)
    assert type(count) is int
    assert count == examples


@settings(max_examples=50)
@given(hnp.arrays(np.float32, N, elements=st.floats(width=32)))
def test_what_is_accepted_is_finite_bounded_and_unchanged(update: Float32Array) -> None:
    before = update.copy()
    checked = check_update(update, 5, N)

    np.testing.assert_array_equal(update, before)
    if isinstance(checked, tuple):
        np.testing.assert_array_equal(checked[0], before)
        assert (np.abs(checked[0]) <= MAX_CHANGE).all()
    elif np.isfinite(before).all():
        assert checked == "TOO_LARGE"
        assert np.abs(before).max() > MAX_CHANGE
    else:
        assert checked == "NON_FINITE"


def test_the_largest_change_allowed_is_accepted() -> None:
    largest = np.array([MAX_CHANGE, -MAX_CHANGE, 0.0])

    assert isinstance(check_update(largest, 5, N), tuple)


def test_an_update_that_is_float32_already_is_not_copied() -> None:
    checked = check_update(GOOD, 5, N)

    assert isinstance(checked, tuple)
    assert checked[0] is GOOD
