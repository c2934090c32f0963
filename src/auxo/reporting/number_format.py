"""How the report writes numbers: percentages, durations and ratios for people, not for machines."""

from dataclasses import dataclass

from auxo.core.metric import Metric
from auxo.experiments.summary import Between

OPEN = "in brackets: what evaluations and a base that wavers leave open"
"""What the brackets of `open_to` mean."""

ABSENT = "\N{EN DASH}"
_GAP = "\N{NARROW NO-BREAK SPACE}"

PER_CENT = (100.0, f"{_GAP}%")
"""What a fraction is multiplied by, and the unit it then has."""


@dataclass(frozen=True)
class TimeUnit:
    """A unit in which a duration is easy to read."""

    name: str
    seconds: float


_UNITS = (TimeUnit("days", 86400.0), TimeUnit("hours", 3600.0), TimeUnit("minutes", 60.0), TimeUnit("seconds", 1.0))
_SHORT = {"days": "d", "hours": "h", "minutes": "min", "seconds": "s"}


def time_unit(longest_s: float) -> TimeUnit:
    """Return the largest unit of which the duration holds at least three (our choice), or seconds."""
    return next((unit for unit in _UNITS if longest_s >= 3 * unit.seconds), _UNITS[-1])


def percent(fraction: float | None, digits: int = 1) -> str:
    """Write a fraction as a percentage."""
    return ABSENT if fraction is None else f"{100 * fraction:.{digits}f}{_GAP}%"


def score(value: float | None, metric: Metric, digits: int = 1) -> str:
    """Write a client's score as what it measures, in its unit; a plain number has three significant digits.

    >>> score(-0.0954, Metric("error", "EUR", smaller_is_better=True)).replace(_GAP, " ")
    '0.0954 EUR'
    """
    if value is None:
        return ABSENT
    if metric.is_fraction:
        return percent(metric.sign * value, digits)
    return with_unit(number(metric.sign * value), metric.unit)


def scale_of(metric: Metric) -> tuple[float, str]:
    """Return what a metric is multiplied by on an axis, and the unit it then has."""
    return PER_CENT if metric.is_fraction else (1.0, with_unit("", metric.unit))


def with_unit(written: str, unit: str) -> str:
    """Write a number that has been written with its unit, if it has one."""
    return f"{written}{_GAP}{unit}" if unit else written


def plain(words: str) -> str:
    """Return words for a terminal, which does not know narrow spaces."""
    return words.replace(_GAP, " ")


def duration(seconds: float | None) -> str:
    """Write a duration in the unit that suits it."""
    if seconds is None:
        return ABSENT
    unit = time_unit(seconds)
    return f"{number(seconds / unit.seconds)}{_GAP}{_SHORT[unit.name]}"


def number(value: float | None) -> str:
    """Write a number with three significant digits or all its whole ones.

    >>> number(12345.6), number(12.345), number(0.01234), number(7)
    ('12,346', '12.3', '0.0123', '7')
    """
    if value is None:
        return ABSENT
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def times(ratio: float) -> str:
    """Write how many times more."""
    return f"{ratio:.1f}\N{MULTIPLICATION SIGN}"


def open_to(between: Between | None) -> str:
    """Write in brackets what evaluations leave open of a speed-up; nothing where it is not known.

    >>> open_to(Between(6.04, 9.1)), open_to(Between(2.0, None)), open_to(Between(0.0, 1.3)), open_to(None)
    (' (6.0 to 9.1)', ' (2.0 or more)', ' (1.3 or less)', '')
    """
    if between is None:
        return ""
    match between:
        case Between(low=0.0, high=None):  # both were as good at their first evaluation
            return " (not known)"
        case Between(high=None):
            return f" ({between.low:.1f} or more)"
        case Between(low=0.0):
            return f" ({between.high:.1f} or less)"
        case _:
            return f" ({between.low:.1f} to {between.high:.1f})"


def capital(words: str) -> str:
    """Write words as they begin a sentence; names in them stay.

    >>> capital("one of CFL")
    'One of CFL'
    """
    return words[:1].upper() + words[1:]


def counted(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> counted(1, "cohort"), counted(1200, "cohort")
    ('1 cohort', '1,200 cohorts')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
