"""How often checkpoints are written: as often as is wanted, but never so often that they take much of the time."""

_MOST_SHARE = 0.02  # of the time that goes into checkpoints, however long one takes; our choice


def work_between(wanted_s: float, took_s: float) -> float:
    """Return the seconds of work before the next checkpoint; those of a large state take long, and come less often.

    >>> work_between(30.0, 0.2), round(work_between(30.0, 2.0))
    (30.0, 98)
    """
    return max(wanted_s, took_s * (1 / _MOST_SHARE - 1))
