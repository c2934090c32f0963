"""The list of faults, and what is told of one by the tests that show it."""

from pathlib import Path

import pytest

from tests.faults.fault_list import N_FAULTS, faults, table
from tests.faults.run import FaultsTold

FIRST = faults()[0]
TESTS = {f"test_on_{place}": {(1, place)} for place in FIRST.where}


def test_every_fault_has_a_name_an_outcome_and_a_place() -> None:
    assert len(faults()) == N_FAULTS
    assert all(fault.name and fault.outcome and fault.where for fault in faults())


@pytest.mark.parametrize(
    ("is_whole", "done", "bad", "expected"),
    [
        (True, 3, 0, "ok"),
        (True, 2, 0, "FAIL"),  # a place that was promised has no test
        (False, 2, 0, "ok"),
        (False, 0, 0, "n/a"),
        (False, 2, 1, "FAIL"),
        (True, 3, 1, "FAIL"),
    ],
)
def test_a_fault_is_ok_when_every_place_has_shown_it_and_nothing_failed(
    is_whole: bool, done: int, bad: int, expected: str
) -> None:
    told = FaultsTold(is_whole, TESTS, dict.fromkeys(list(TESTS)[:bad], "failed"), set(list(TESTS)[:done]))
    assert told.said_of(FIRST)[0] == expected


def test_the_documentation_has_the_table() -> None:
    """`python tests/faults/fault_list.py` prints it."""
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    assert f"<!-- faults -->\n{table()}\n<!-- end -->" in text
