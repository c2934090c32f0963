"""Who of a round's participants is kept, late or failed, and when the round closes (over-commitment)."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from auxo.core.types import FloatArray, IntArray


@final
@dataclass(frozen=True)
class RoundTiming:
    """What became of a round's participants, who are named by their positions in the input.

    ``kept``, ``late`` and ``failed`` partition the participants; each is in the order of time.
    """

    kept: IntArray  # finished while the round was open
    late: IntArray  # finished, but the round had closed
    failed: IntArray  # went off line or dropped out before finishing
    closes_at_s: float
    busy_until_s: FloatArray  # (participants,) when each finished or failed
    spent_s: FloatArray  # (participants,) device-seconds


def time_round(
    start_s: float,
    durations_s: FloatArray,
    fails_after_s: FloatArray,
    wanted: int,
    deadline_s: float = math.inf,
) -> RoundTiming:
    """Close a round at the update that completes it, or when nothing more can come.

    The first ``wanted`` participants to finish by the deadline are kept, ties by position. With fewer than that the
    round closes when the last participant has finished or failed, at the latest at the deadline. A late participant
    does not know that the round has closed and trains to its end.

    Args:
        start_s: when the round opens.
        durations_s: (participants,) from the start to the end of the upload, finite.
        fails_after_s: (participants,) from the start to the failure, ``inf`` if there is none. A failure that comes
            when the participant has finished, or at the same time, is none.
        wanted: updates that complete the round, at least 1.
        deadline_s: the longest the round stays open, from its start.
    """
    _check(start_s, durations_s, fails_after_s, wanted, deadline_s)
    spent_s = np.minimum(durations_s, fails_after_s)
    by_time = np.argsort(spent_s, kind="stable")
    fails = (fails_after_s < durations_s)[by_time]
    finished, failed = by_time[~fails], by_time[fails]
    # Finish times ascend, so those in time are a prefix.
    n_kept = min(wanted, int(np.count_nonzero(spent_s[finished] <= deadline_s)))
    kept, late = finished[:n_kept], finished[n_kept:]
    waits_s = min(deadline_s, float(spent_s.max(initial=0.0)))
    open_s = float(spent_s[kept[-1]]) if n_kept == wanted else waits_s
    return RoundTiming(
        kept=kept,
        late=late,
        failed=failed,
        closes_at_s=start_s + open_s,
        busy_until_s=start_s + spent_s,
        spent_s=spent_s,
    )


def draw_failures_s(
    durations_s: FloatArray, online_for_s: FloatArray, dropout: float, generator: np.random.Generator
) -> FloatArray:
    """Return how long after the start each participant fails, ``inf`` if it finishes.

    Args:
        durations_s: (participants,) time each needs.
        online_for_s: (participants,) from the start to the end of its session, ``inf`` if it stays.
        dropout: probability in [0, 1] that a participant gives up although on line (crash, user, network); it does
            so at a moment drawn uniformly from its duration.
        generator: two numbers are drawn for each participant, whatever ``dropout`` is.
    """
    if durations_s.shape != online_for_s.shape:
        raise ValueError(
            f"online_for_s: expected one value for each of {len(durations_s)} participants, got {len(online_for_s)}"
        )
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout: expected a probability in [0, 1], got {dropout}")
    gives_up = generator.random(len(durations_s)) < dropout
    gives_up_after_s = np.where(gives_up, generator.random(len(durations_s)) * durations_s, math.inf)
    fails_after_s = np.minimum(gives_up_after_s, online_for_s)
    return np.where(fails_after_s < durations_s, fails_after_s, math.inf)


def _check(start_s: float, durations_s: FloatArray, fails_after_s: FloatArray, wanted: int, deadline_s: float) -> None:
    if not math.isfinite(start_s):
        raise ValueError(f"start_s: expected a finite time, got {start_s}")
    if durations_s.shape != fails_after_s.shape:
        raise ValueError(
            f"fails_after_s: expected one value for each of {len(durations_s)} participants, got {len(fails_after_s)}"
        )
    if not ((durations_s >= 0) & (durations_s < math.inf)).all():
        raise ValueError("durations_s: expected finite values >= 0; a participant that never ends is a failure")
    if not (fails_after_s >= 0).all():
        raise ValueError("fails_after_s: expected values >= 0, inf for no failure")
    if wanted < 1:
        raise ValueError(f"wanted: expected at least 1 update, got {wanted}")
    if not deadline_s > 0:
        raise ValueError(f"deadline_s: expected a positive number of seconds, got {deadline_s}")
