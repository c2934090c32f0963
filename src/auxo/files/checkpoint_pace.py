"""How often checkpoints are written: as often as is wanted, but never so often that they take much of the time."""

import re
from dataclasses import dataclass

_MOST_SHARE = 0.02  # of the time that goes into checkpoints, however long one takes; our choice
_FORM = re.compile(r"(\d+(?:\.\d+)?)([smh])|(\d+)r")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NEVER = "never"


@dataclass(frozen=True)
class CheckpointInterval:
    """Seconds of work or closed rounds between two checkpoints; neither: there are none."""

    seconds: float | None = None
    rounds: int | None = None


def parse_interval(text: str) -> CheckpointInterval:
    """Return the interval that a setting says.

    Raises:
        ValueError: the text says none; it is told what would.

    >>> parse_interval("1.5m"), parse_interval("50r")
    (CheckpointInterval(seconds=90.0, rounds=None), CheckpointInterval(seconds=None, rounds=50))
    """
    if text == _NEVER:
        return CheckpointInterval()
    match = _FORM.fullmatch(text)
    if match and match[3] and int(match[3]) > 0:
        return CheckpointInterval(rounds=int(match[3]))
    if match and match[1]:
        return CheckpointInterval(seconds=float(match[1]) * _SECONDS[match[2]])
    raise ValueError(
        f'expected seconds, minutes or hours of work ("30s", "5m", "1h"), rounds ("50r") or "never", got {text!r}'
    )


def work_between(wanted_s: float, took_s: float) -> float:
    """Return the seconds of work before the next checkpoint; those of a large state take long, and come less often.

    >>> work_between(30.0, 0.2), round(work_between(30.0, 2.0))
    (30.0, 98)
    """
    return max(wanted_s, took_s * (1 / _MOST_SHARE - 1))
