"""A trace of what the built-in generators would give, to be held against traces of real devices."""

import numpy as np

from auxo.core.types import IntArray
from auxo.simulation.availability import DAY_S, DayNight, DayNightPattern
from auxo.simulation.devices import SyntheticDevices
from auxo.traces.trace import Sessions, Speeds, Trace


def synthetic_trace(n_clients: int, seed: int, share: float = DayNightPattern().share, days: int = 7) -> Trace:
    """Return the devices and the first days of a population as `SyntheticDevices` and `DayNightPattern` draw it.

    What is drawn does not repeat after the ``days`` of the span, so sessions are cut at its end.
    """
    if days < 1:
        raise ValueError(f"days: expected at least 1, got {days}")
    names = tuple(f"synthetic-{row}" for row in range(n_clients))
    drawn = SyntheticDevices().draw(n_clients, seed)
    speeds = Speeds(names, drawn.compute_s_per_sample, drawn.download_bps, drawn.upload_bps)
    population = DayNightPattern(share=share).draw(n_clients, seed)
    return Trace(_record(population, names, days * DAY_S), speeds)


def _record(population: DayNight, names: tuple[str, ...], span_s: int) -> Sessions:
    """Return all sessions from second 0 to the end of the span."""
    slot_s, phases_s = population.slot_s, population.habits.offsets_s.astype(np.int64) % population.slot_s
    since_s = np.full(len(names), -1)  # -1: off line
    ended: list[IntArray] = []

    def end(rows: IntArray, at_s: IntArray) -> None:
        ended.append(np.stack([rows, since_s[rows], np.minimum(at_s, span_s)], axis=1))
        since_s[rows] = -1

    # Every slot has one of these seconds in it, whatever the client's phase, and began the phase before it.
    for second in range(0, span_s + slot_s, slot_s):
        is_online, began_s = population.online(second), np.maximum(second - phases_s, 0)
        leaves = np.flatnonzero(~is_online & (since_s >= 0))
        end(leaves, began_s[leaves])
        comes = np.flatnonzero(is_online & (since_s < 0) & (began_s < span_s))
        since_s[comes] = began_s[comes]
    stays = np.flatnonzero(since_s >= 0)
    end(stays, np.full(len(stays), span_s))
    rows, start_s, end_s = np.concatenate(ended).T
    order = np.lexsort((start_s, rows))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(names)))])
    return Sessions(names, np.full(len(names), span_s), offsets, start_s[order], end_s[order])
