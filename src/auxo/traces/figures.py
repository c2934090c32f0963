"""What a trace says about its devices, in figures: how often and when on line, how fast."""

from dataclasses import dataclass
from typing import final

import numpy as np

from auxo.core.types import FloatArray, IntArray
from auxo.simulation.availability import DAY_S
from auxo.traces.trace import Sessions, Speeds

HOURS = 24
PERCENTILES = (5, 25, 50, 75, 95)
SLOW_BPS = 3e6
"""Below this a device counts as slow, as in the figures published for mobile populations."""

_HOUR_S = DAY_S // HOURS


@final
@dataclass(frozen=True)
class SessionFigures:
    """When devices were on line; shares are means over devices."""

    devices: int
    intervals: int
    shortest_span_s: int
    median_span_s: float
    longest_span_s: int
    share_online: float
    median_interval_s: float | None  # None: there is no interval
    by_hour: FloatArray  # (24,) share on line in each hour of the day; nan for an hour that no span reaches

    @property
    def peak_hour(self) -> int:
        """Return the hour of the day with the most devices on line."""
        return int(np.nanargmax(self.by_hour))

    @property
    def peak_to_trough(self) -> float | None:
        """Return the share in the fullest hour over that in the emptiest; None: the emptiest has nobody."""
        trough = float(np.nanmin(self.by_hour))
        return float(np.nanmax(self.by_hour)) / trough if trough > 0 else None


def session_figures(sessions: Sessions) -> SessionFigures:
    """Return the figures of sessions."""
    device = sessions.device_of_interval
    lengths_s = sessions.end_s - sessions.start_s
    online_s = np.bincount(device, weights=lengths_s, minlength=len(sessions.devices))
    return SessionFigures(
        devices=len(sessions.devices),
        intervals=len(lengths_s),
        shortest_span_s=int(sessions.span_s.min()),
        median_span_s=float(np.median(sessions.span_s)),
        longest_span_s=int(sessions.span_s.max()),
        share_online=float((online_s / sessions.span_s).mean()),
        median_interval_s=float(np.median(lengths_s)) if len(lengths_s) else None,
        by_hour=_by_hour(sessions),
    )


def slow_share(speeds: Speeds) -> float:
    """Return the share of devices that download at less than `SLOW_BPS`."""
    return float((speeds.download_bps < SLOW_BPS).mean())


def shares_between(values: FloatArray, edges: tuple[float, ...]) -> FloatArray:
    """Return the share of values below the first edge, from each edge up to the next, and from the last one on.

    >>> shares_between(np.array([1.0, 2.0, 2.5, 9.0]), (2.0, 3.0)).tolist()
    [0.25, 0.5, 0.25]
    """
    places = np.searchsorted(edges, values, side="right")
    return np.bincount(places, minlength=len(edges) + 1) / len(values)


def _by_hour(sessions: Sessions) -> FloatArray:
    device, shares = sessions.device_of_interval, np.full(HOURS, np.nan)
    for hour in range(HOURS):
        in_hour_s = _seconds_in_hour(sessions.end_s, hour) - _seconds_in_hour(sessions.start_s, hour)
        online_s = np.bincount(device, weights=in_hour_s, minlength=len(sessions.devices))
        of_s = _seconds_in_hour(sessions.span_s, hour)
        has_hour = of_s > 0
        if has_hour.any():
            shares[hour] = (online_s[has_hour] / of_s[has_hour]).mean()
    return shares


def _seconds_in_hour(until_s: IntArray, hour: int) -> FloatArray:
    """Return how many of the seconds from midnight up to each time lie in this hour of a day."""
    days, into_s = np.divmod(until_s, DAY_S)
    seconds: FloatArray = (days * _HOUR_S + np.clip(into_s - hour * _HOUR_S, 0, _HOUR_S)).astype(np.float64)
    return seconds
