"""How long participants of a loop of one's own say that they took, for selectors that prefer the fast."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from auxo.core.asking import Answer
from auxo.core.turnout import Times
from auxo.protocol.messages import Task, TaskFailure, TaskResult
from auxo.runtime.client_numbers import client_number

_LONGEST_S = 1e9  # what takes longer than thirty years is no time; our choice


def times_of(tasks: Sequence[Task], rows: Mapping[int, int], results: Sequence[TaskResult | TaskFailure]) -> Times:
    """Return the times as they would have been for the usual work; NaN where nothing was said, or nothing that can be.

    What a skipped part of an upload has saved nobody knows. Where a participant says several times, the longest counts.

    Args:
        tasks: of the round.
        rows: of each participant's task, by the client's number.
        results: in any order.
    """
    said: dict[int, tuple[float, float]] = {}
    for result in results:
        number = client_number(result.client)
        row = None if number is None else rows.get(number)
        if row is not None and isinstance(result, TaskResult) and isinstance(result.answer, Answer):
            told = (_seconds(result.answer.took_s), _seconds(result.answer.training_s))
            said[row] = max(said.get(row, (0.0, 0.0)), told)
    times = Times.unknown(len(tasks))
    usual_s, epoch_s = times.usual_s.copy(), times.epoch_s.copy()
    for row, (took_s, training_s) in said.items():
        if took_s == 0:
            continue
        usual_s[row] = took_s
        if 0 < training_s <= took_s:
            epoch_s[row] = training_s / tasks[row].ask.work
            usual_s[row] = took_s - training_s + epoch_s[row]
    return replace(times, usual_s=usual_s, epoch_s=epoch_s)


def _seconds(value: object) -> float:
    """Return a time that can be one; 0: it is nothing of the kind."""
    if not isinstance(value, int | float | np.integer | np.floating) or not 0 < value < _LONGEST_S:
        return 0.0
    return float(value)
