"""When each client is on line, computed for any time without storing a trace."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Protocol, final

import numpy as np
from numpy.typing import NDArray

from auxo.core.columns import take
from auxo.core.rng import UInt64Array, hashed, stream
from auxo.core.settings import Bounds, Fraction, NonNegativeFloat, PositiveInt, checked
from auxo.core.types import BoolArray, Float32Array, FloatArray, IntArray
from auxo.simulation.devices import check_n_clients
from auxo.simulation.online_slots import OnlineSlots

DAY_S = 86_400

_Int32Array = NDArray[np.int32]

_PATTERN_STEP_S = 300  # the daily pattern is a table with one entry for every five minutes; our own choice
_PATTERN_STEPS = DAY_S // _PATTERN_STEP_S
_SESSION_SCAN_SLOTS = 48  # how far a session is followed; our own choice, 8 hours with the default slot
_SESSIONS_AT_ONCE = 512  # sessions followed at a time, so that intermediate columns stay in the processor's cache
_CALIBRATION_GROUPS = 1_000  # clients of like propensity are calibrated together; exact up to this many clients


class Availability(Protocol):
    """Who is on line, and for how long. Times are seconds since the start of the simulation, >= 0."""

    def online(self, time_s: float) -> BoolArray:
        """Return for every client whether it is on line."""
        ...

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        """Return when the current session of each of these clients ends.

        ``inf`` where it never ends, ``time_s`` where the client is off line. An implementation that does not see to
        the end of a long session returns a time up to which the client surely stays.
        """
        ...

    def next_change_s(self, time_s: float) -> float:
        """Return a time after ``time_s`` before which nobody comes on line; ``inf`` if nobody ever does."""
        ...


@final
@dataclass(frozen=True)
@checked
class AlwaysOnline:
    """Every client is on line all the time."""

    n_clients: PositiveInt

    def online(self, time_s: float) -> BoolArray:
        """Return True for every client."""
        _check_time(time_s)
        return np.ones(self.n_clients, dtype=np.bool_)

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        """Return infinity for every row."""
        _check_time(time_s)
        return np.full(len(rows), math.inf)

    def next_change_s(self, time_s: float) -> float:
        """Return infinity: nobody who is not on line already."""
        _check_time(time_s)
        return math.inf


@final
@dataclass(frozen=True)
@checked
class DayNightPattern:
    """Hyperparameters of clients that are on line mostly at night; `draw` makes a population of them.

    Time is cut into slots, and a client is on line for a whole slot or not at all, with probability
    ``min(1, propensity x pattern(time of day))``. The pattern is a cosine around the client's own night. Slots of one
    client are tied together by longer stretches: in most slots the client reuses the stretch's random number, which
    makes sessions of hours, and in the others it draws afresh, which cuts them and adds short ones. Neither changes
    the probability of any slot.

    Defaults other than ``share`` are our own choices, near what 710 phones of the FLASH trace show: a population peak
    at about 3:30, 2.2 times the trough; the 95th percentile of clients on line about 6 times as often as the median.
    """

    # Mean share on line over clients and the day (about 5 %: Auxo, section 2.4); 1: always.
    share: Annotated[float, Bounds(gt=0, le=1)] = 0.05
    # One client's probability at the middle of its night over that at midday.
    night_to_day: Annotated[float, Bounds(ge=1)] = 3.0
    # Time of day of the mean client's night; the simulation starts at midnight.
    night_centre_s: Annotated[int, Bounds(ge=0, lt=DAY_S)] = 12_600
    # Standard deviation over clients (time zones, habits); flattens the total.
    night_spread_s: NonNegativeFloat = 10_800.0
    propensity_sigma: NonNegativeFloat = 1.0  # of the log-normal over clients; 0: all are on line equally often
    slot_s: Annotated[int, Bounds(ge=1, le=DAY_S)] = 600
    shortest_stretch_s: int = 1_800  # each client has its own stretch, log-uniform between these two
    longest_stretch_s: int = 28_800
    persistence: Fraction = 0.9  # share of slots that reuse the stretch's random number

    def __post_init__(self) -> None:
        if not self.slot_s <= self.shortest_stretch_s <= self.longest_stretch_s <= DAY_S:
            raise ValueError(
                f"shortest_stretch_s, longest_stretch_s: expected slot_s ({self.slot_s}) <= shortest <= longest "
                f"<= {DAY_S}, got {self.shortest_stretch_s} and {self.longest_stretch_s}"
            )

    def draw(self, n_clients: int, seed: int) -> "DayNight":
        """Return a population whose share on line, over a long time, is ``share``."""
        check_n_clients(n_clients)
        propensities = np.exp(self.propensity_sigma * _draw(seed, "propensity").standard_normal(n_clients))
        nights = self.night_centre_s + self.night_spread_s * _draw(seed, "night").standard_normal(n_clients)
        log_stretch = _draw(seed, "stretch").uniform(
            math.log(self.shortest_stretch_s), math.log(self.longest_stretch_s), n_clients
        )
        pattern = _daily_pattern(self.night_to_day)
        rates = _scale(propensities, pattern, self.share) * propensities
        return DayNight(
            pattern=pattern.astype(np.float32),
            slot_s=self.slot_s,
            persistence=self.persistence,
            habits=_Habits(
                keys=_draw(seed, "key").integers(0, 2**64, n_clients, dtype=np.uint64),
                offsets_s=_draw(seed, "offset").integers(0, self.longest_stretch_s, n_clients, dtype=np.int32),
                stretch_slots=np.rint(np.exp(log_stretch) / self.slot_s).astype(np.int32),
                nights_s=np.rint(nights % DAY_S).astype(np.int32),
                rates=rates.astype(np.float32),
            ),
        )


@final
@dataclass(frozen=True)
class _Habits:
    """What sets one client apart from another: 24 bytes a client."""

    keys: UInt64Array  # (clients,) seed of the client's random numbers
    offsets_s: _Int32Array  # (clients,) how much earlier than time 0 its slot 0 began
    stretch_slots: _Int32Array  # (clients,)
    nights_s: _Int32Array  # (clients,) time of day of the middle of its night
    rates: Float32Array  # (clients,) mean of its probability over the day, before it is cut at 1

    def of(self, rows: IntArray | _Int32Array | slice) -> "_Habits":
        return take(self, rows)


@final
@dataclass(frozen=True)
class DayNight:
    """Clients with a daily pattern, made by `DayNightPattern.draw`.

    Whether a client is on line in a slot is a function of its habits and the slot. The answer for the last moment
    asked for is kept, because the next one is seldom far from it.
    """

    pattern: Float32Array  # probability over its daily mean, by time since the middle of the client's night
    slot_s: int
    persistence: float
    habits: _Habits

    @property
    def n_clients(self) -> int:
        """Return the number of clients."""
        return len(self.habits.keys)

    def online(self, time_s: float) -> BoolArray:
        """Return for every client whether it is on line."""
        return self._online_slots.at(_second(time_s))

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        """Return when the current session of each client ends; a long one is followed for 48 slots only.

        ``inf`` for a client that never goes off line, ``time_s`` for one that is off line.
        """
        until_s = np.full(len(rows), float(time_s))
        for first in range(0, len(rows), _SESSIONS_AT_ONCE):
            some = slice(first, first + _SESSIONS_AT_ONCE)
            habits = self.habits.of(rows[some])
            slots = self._slots_at(habits, time_s)
            each = np.repeat(np.arange(len(slots)), _SESSION_SCAN_SLOTS)
            ahead = slots[:, None] + np.arange(_SESSION_SCAN_SLOTS)
            stays = self._is_online(habits.of(each), ahead.ravel()).reshape(ahead.shape)
            slots += np.where(stays.all(axis=1), _SESSION_SCAN_SLOTS, stays.argmin(axis=1))
            until_s[some] = np.where(stays[:, 0], slots * self.slot_s - habits.offsets_s, time_s)
            until_s[some][self._never_leaves(habits)] = math.inf
        return until_s

    def next_change_s(self, time_s: float) -> float:
        """Return when the next client comes on line, or a day later if none does within a day."""
        if self._is_always_online:
            return math.inf
        # Every client's next slot starts before any client's next but one, so the first step with a newcomer decides.
        starts_s = self._online_slots.next_start_s(_second(time_s))
        if starts_s is not None:
            return float(starts_s)
        was_online = self._online_later(time_s, 1)
        slots_a_day = math.ceil(DAY_S / self.slot_s)
        for later in range(2, slots_a_day + 1):
            is_online = self._online_later(time_s, later)
            newcomers = np.flatnonzero(is_online & ~was_online)
            if newcomers.size:
                habits = self.habits.of(newcomers)
                return float(((self._slots_at(habits, time_s) + later) * self.slot_s - habits.offsets_s).min())
            was_online = is_online
        # Up to here every client's slots were seen at least up to this moment.
        return time_s + slots_a_day * self.slot_s

    @cached_property
    def _online_slots(self) -> OnlineSlots:
        phases = self.habits.offsets_s % self.slot_s
        order = np.argsort(phases, kind="stable").astype(np.int32)
        habits = self.habits.of(order)

        def is_online(places: slice, second: int, later: int) -> BoolArray:
            some = habits.of(places)
            return self._is_online(some, self._slots_at(some, second) + later)

        return OnlineSlots(phases[order], self.slot_s, is_online, order)

    @cached_property
    def _is_always_online(self) -> bool:
        return bool(self._never_leaves(self.habits).all())

    def _online_later(self, time_s: float, later: int) -> BoolArray:
        """Return for every client whether it is on line in the slot that is ``later`` slots after the current one."""
        return self._is_online(self.habits, self._slots_at(self.habits, time_s) + later)

    def _slots_at(self, habits: _Habits, time_s: float) -> IntArray:
        # Slots begin at whole seconds, so integers give the same slot on both sides of every rounding.
        return (_second(time_s) + habits.offsets_s.astype(np.int64)) // self.slot_s

    def _is_online(self, habits: _Habits, slots: IntArray) -> BoolArray:
        own = hashed(habits.keys, 2 * slots)
        stretches = (slots / habits.stretch_slots).astype(np.int64)  # exact, and faster than to divide integers
        shared = hashed(habits.keys, 2 * stretches + 1)
        # The low bits choose between the two numbers; the high bits are the numbers.
        reuses = (own & np.uint64(0xFFFFFF)) < np.uint64(self.persistence * 2**24)
        numbers = _uniform(np.where(reuses, shared, own))
        is_online: BoolArray = numbers < habits.rates * self.pattern.max()
        # Most are off line at any time of the day; it is worked out for the others.
        maybe = np.flatnonzero(is_online)
        habits = habits.of(maybe)
        middles_s = slots[maybe] * self.slot_s + (self.slot_s // 2) - habits.offsets_s
        since_night_s = (middles_s - habits.nights_s) % DAY_S
        is_online[maybe] = numbers[maybe] < habits.rates * self.pattern[since_night_s // _PATTERN_STEP_S]
        return is_online

    def _never_leaves(self, habits: _Habits) -> BoolArray:
        never: BoolArray = habits.rates * self.pattern.min() >= 1
        return never


def _daily_pattern(night_to_day: float) -> FloatArray:
    """Return the probability over its mean, by time since the middle of the night: a cosine around 1."""
    depth = (night_to_day - 1) / (night_to_day + 1)
    return 1 + depth * np.cos(2 * np.pi * (np.arange(_PATTERN_STEPS) + 0.5) / _PATTERN_STEPS)


def _scale(propensities: FloatArray, pattern: FloatArray, share: float) -> float:
    """Return what to multiply the propensities with so that the mean probability, cut at 1, is ``share``."""
    if share == 1:
        return math.inf
    # The mean over a day does not depend on when a client's night is, so groups of like propensity stand for all.
    n_clients = len(propensities)
    edges = np.linspace(0, n_clients, min(n_clients, _CALIBRATION_GROUPS), endpoint=False).astype(np.int64)
    sizes = np.diff(edges, append=n_clients)
    means = np.add.reduceat(np.sort(propensities), edges) / sizes

    def mean_share(scale: float) -> float:
        return float(np.average(np.minimum(1, scale * means[:, None] * pattern).mean(axis=1), weights=sizes))

    low = share / float(propensities.mean())  # right if nothing is cut, too small otherwise
    high = 2 * low
    while mean_share(high) < share:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_share(middle) < share else (low, middle)
    return high


def _uniform(bits: UInt64Array) -> Float32Array:
    """Return numbers in [0, 1) from the high 24 bits, as many as a float32 holds exactly."""
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def _draw(seed: int, column: str) -> np.random.Generator:
    # One stream for each column, so that more clients do not change the habits of the first ones.
    return stream(seed, "availability", column)


def _second(time_s: float) -> int:
    _check_time(time_s)
    return math.floor(time_s)


def _check_time(time_s: float) -> None:
    if not 0 <= time_s < math.inf:
        raise ValueError(f"time_s: expected seconds since the start, >= 0 and finite, got {time_s}")
