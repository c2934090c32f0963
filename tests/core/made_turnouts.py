"""Rounds as selectors hear of them."""

from collections.abc import Sequence

import numpy as np

from auxo.core.turnout import Times, Turnout

NEVER = float("nan")


def turnout(  # noqa: PLR0913 - columns, by name
    clients: Sequence[int],
    *,
    losses: Sequence[float] | float = 1.0,
    examples: Sequence[int] | int = 1,
    seconds: Sequence[float] | float = NEVER,
    epoch_s: Sequence[float] | float = NEVER,
    upload_s: Sequence[float] | float = NEVER,
    lengths: Sequence[float] | float = 1.0,
    late: Sequence[int] = (),
    failed: Sequence[int] = (),
) -> Turnout:
    """Return a round of these clients, of whom some were too late to be heard and some failed."""
    count = len(clients)

    def column(values: Sequence[float] | float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), count))

    is_late, has_failed = np.isin(clients, late), np.isin(clients, failed)
    answered = ~is_late & ~has_failed
    gone = np.where(has_failed, np.nan, 0.0)
    loss = np.where(answered, column(losses), np.nan)
    return Turnout(
        clients=np.array(clients, dtype=np.int64),
        answered=answered,
        examples=np.where(answered, np.broadcast_to(np.asarray(examples, dtype=np.int64), count), 0),
        loss=loss,
        squared_loss=np.full(count, NEVER),
        length=np.where(answered, column(lengths), np.nan),
        times=Times(column(seconds) + gone, column(epoch_s) + gone, column(upload_s) + gone, is_late),
    )
