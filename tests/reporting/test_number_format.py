"""Numbers for people."""

import pytest

from auxo.reporting.number_format import ABSENT, counted, duration, number, percent, time_unit, times


def plain(text: str) -> str:
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_what_is_not_known_is_a_dash() -> None:
    assert percent(None) == duration(None) == number(None) == ABSENT


@pytest.mark.parametrize(
    ("seconds", "written"), [(5.0, "5 s"), (200.0, "3.33 min"), (3 * 3600.0, "3 h"), (3 * 86400.0, "3 d")]
)
def test_a_duration_is_in_the_largest_unit_of_which_it_holds_three(seconds: float, written: str) -> None:
    assert plain(duration(seconds)) == written


def test_units_follow_the_longest_duration() -> None:
    assert time_unit(2 * 86400.0).name == "hours"
    assert time_unit(0.0).name == "seconds"


def test_fractions_ratios_and_counts() -> None:
    assert plain(percent(0.1234)) == "12.3 %"
    assert plain(percent(0.1234, 0)) == "12 %"
    assert times(3.44) == "3.4\N{MULTIPLICATION SIGN}"
    assert counted(1, "seed") == "1 seed"
    assert counted(0, "seed") == "0 seeds"
