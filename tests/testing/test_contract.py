"""What all suites are made of: checks that tell, differences that are found, arguments that are locked."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import auxo.testing
from auxo.testing.comparison import first_difference
from auxo.testing.contract import Contract, ContractBroken, Unkept, expect, expect_frozen
from auxo.testing.locking import locked

NUMBERS = Contract[int]("a number", "Number in a book")


@NUMBERS.promise
def is_even(number: int) -> None:
    """A number is even.

    Nothing else is promised.
    """
    expect(10 // number > 0 and number % 2 == 0, "an even number", number)


def test_a_check_has_the_name_and_the_promise_of_its_function() -> None:
    assert (is_even.name, is_even.promise) == ("is_even", "A number is even.")
    is_even(4)


def test_a_broken_promise_is_an_assertion_that_says_all() -> None:
    expected = (
        "^int breaks a promise of a number: A number is even. Expected an even number, got 3; "
        "the protocol is described at Number in a book$"
    )
    with pytest.raises(AssertionError, match=expected):
        is_even(3)


def test_an_exception_of_a_part_is_a_broken_promise_that_has_it_as_its_cause() -> None:
    with pytest.raises(ContractBroken, match="Expected no exception, got ZeroDivisionError: ") as caught:
        is_even(0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_every_suite_is_exported() -> None:
    kinds = "method aggregator selector client_mod trainer engine devices availability population"
    assert {f"check_{kind}" for kind in kinds.split()} <= set(auxo.testing.__all__)


@dataclass(frozen=True)
class Frozen:
    """A value with an array, and something that it has worked out."""

    columns: tuple[object, ...] = (1, 2.0)
    table: dict[str, int] = field(default_factory=dict)


@dataclass
class Loose:
    """No value."""

    setting: int = 1


@pytest.mark.parametrize("part", [Frozen(), (1, 2), "text"])
def test_values_are_frozen(part: object) -> None:
    expect_frozen(part)


def test_what_can_be_changed_is_not_frozen_and_is_left_as_it_was() -> None:
    part = Loose()
    with pytest.raises(Unkept, match="an object whose attribute setting can be set"):
        expect_frozen(part)
    assert vars(part) == {"setting": 1}


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (1, 1, None),
        (np.nan, np.nan, None),
        (0.0, -0.0, "at the top: 0.0 and -0.0"),
        (1, True, "at the top: int and bool"),
        ({"a": (1, 2)}, {"a": (1, 3)}, "at ['a'][1]: 2 and 3"),
        ((1, 2), (1, 2, 3), "at the top: 2 and 3 parts, [0], [1] and [0], [1], [2]"),
        (Frozen((np.zeros(2),)), Frozen((np.zeros(2),)), None),
        (Frozen((np.zeros(2),)), Frozen((np.zeros(3),)), "at .columns[0]: arrays of float64 (2,) and float64 (3,)"),
        (np.zeros(3), np.array([0.0, 1.0, -0.0]), "at the top: 2 of 3 elements, such as 0.0 and 1.0"),
        (np.full(2, np.nan), np.full(2, np.nan), None),
    ],
)
def test_the_first_difference_is_found_with_its_path(one: object, other: object, difference: str | None) -> None:
    assert first_difference(one, other) == difference


def test_locked_arrays_cannot_be_written_to_and_can_afterwards() -> None:
    array = np.zeros(4)
    value = Frozen((array[:2], [array]))
    with locked(value):
        for column in (array, array[:1]):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 1.0
    array[0] = 1.0
    assert np.asarray(value.columns[0])[0] == 1.0
    value.columns[0][1] = 2.0  # type: ignore[index]


def test_an_array_that_was_read_only_before_stays_so() -> None:
    array = np.zeros(2)
    array.flags.writeable = False
    with locked(array):
        pass
    assert not array.flags.writeable


def test_mappings_and_lists_that_change_meanwhile_are_told() -> None:
    value, row = Frozen(), [1]
    with pytest.raises(Unkept, match="a dict that holds something else"), locked(value):
        value.table["new"] = 1
    with pytest.raises(Unkept, match="a list that holds something else"), locked(row):
        row.append(2)
