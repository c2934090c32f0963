"""Rounds of everybody: when each client first can take part, for a round that waits until the last has shown up."""

from dataclasses import replace

import numpy as np

from auxo.core.types import FloatArray, IntArray
from auxo.simulation.availability import DAY_S, Availability
from auxo.simulation.round_timing import RoundTiming, draw_failures_s, time_round

LONGEST_WAIT_S = 7.0 * DAY_S
"""How long a round of everybody waits for a client that does not show up; our choice."""

_LOOK_AGAIN_S = 60.0  # between two looks at who is there; our choice


def waits_s(
    availability: Availability, now_s: float, clients: IntArray, free_from_s: FloatArray, took_s: FloatArray
) -> FloatArray:
    """Return how long it takes until each client is on line, free, and stays as long as its work takes.

    One that does not show up within `LONGEST_WAIT_S` waits that long, and will not be there.

    Args:
        availability: of the population.
        now_s: when the round opens.
        clients: (participants,) rows of the population, all different.
        free_from_s: (participants,) when each is done with what it does now.
        took_s: (participants,) how long its work takes.
    """
    waits = np.full(len(clients), LONGEST_WAIT_S)
    missing, time_s = np.arange(len(clients)), now_s
    while len(missing) and time_s < now_s + LONGEST_WAIT_S:
        is_here = availability.online(time_s)[clients[missing]] & (free_from_s[missing] <= time_s)
        here = missing[is_here]
        stays = availability.online_until_s(time_s, clients[here]) >= time_s + took_s[here]
        waits[here[stays]] = time_s - now_s
        missing = np.setdiff1d(missing, here[stays], assume_unique=True)
        busy = free_from_s[missing][free_from_s[missing] > time_s]
        soon = min(availability.next_change_s(time_s), float(busy.min(initial=np.inf)))
        time_s = max(soon, time_s + _LOOK_AGAIN_S)
    return waits


def time_everybody(
    now_s: float,
    took_s: FloatArray,
    waits_s: FloatArray,
    deadline_s: float,
    dropout: float,
    generator: np.random.Generator,
) -> RoundTiming:
    """Close a round when the last of all clients has finished or failed; to wait costs no device anything.

    One that has not shown up fails, and one whose work takes longer than the deadline fails then.
    """
    stays_s = np.minimum(np.where(waits_s < LONGEST_WAIT_S, np.inf, 0.0), deadline_s)
    fails_after_s = draw_failures_s(took_s, stays_s, dropout, generator)
    timing = time_round(now_s, waits_s + took_s, waits_s + fails_after_s, len(took_s))
    return replace(timing, spent_s=np.minimum(took_s, fails_after_s))
