"""Slots in which clients are on line or not: who is now, worked out anew only where a slot has ended since."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray

_Int32Array = NDArray[np.int32]

_CHUNK_ROWS = 32_768  # rows worked on at a time, so that intermediate columns stay in the processor's cache
_FIRST_LOOK = (
    1024  # rows among which the next client to come on line is looked for first, then twice as many; our choice
)


class IsOnline(Protocol):
    """Whether clients are on line in a slot; a pure function, so what it said of a slot can be kept."""

    def __call__(self, places: slice, second: int, later: int) -> BoolArray:
        """Return it for the clients at these places in the order of phases, ``later`` slots after that of a second."""
        ...


class OnlineSlots:
    """Whether clients are on line whose time is cut into slots of one length, each with a phase of its own.

    Between two moments less than a slot apart only those change slot whose phase lies between the two: a range, once
    clients are sorted by phase. What was worked out for the last moment is kept, and is all that is kept: answers do
    not depend on what was asked before.
    """

    def __init__(self, phases: _Int32Array, slot_s: int, is_online: IsOnline, order: _Int32Array) -> None:
        """Start without a moment.

        Args:
            phases: (clients,) ascending; a client's slots begin ``phase`` seconds before multiples of ``slot_s``.
            slot_s: length of a slot.
            is_online: of places in the order of phases.
            order: (clients,) the client's row at each of these places.
        """
        self._phases, self._order = phases, order
        self._slot_s, self._is_online = slot_s, is_online
        self._second: int | None = None
        self._online = np.zeros(len(order), dtype=np.bool_)  # by row
        self._by_place = np.zeros(len(order), dtype=np.bool_)  # the same in the order of phases

    def at(self, second: int) -> BoolArray:
        """Return for every row whether it is on line in this second."""
        self._go_to(second)
        return self._online.copy()

    def next_start_s(self, second: int) -> int | None:
        """Return when the first client comes on line that is not so in this second; None: in nobody's next slot."""
        self._go_to(second)
        for places in self._by_next_slot(second):
            comes = self._is_online(places, second, 1) & ~self._by_place[places]
            if comes.any():
                into_slot_s = (second + self._phases[places][comes].astype(np.int64)) % self._slot_s
                return second + self._slot_s - int(into_slot_s.max())
        return None

    def _go_to(self, second: int) -> None:
        changed = self._changed(second)
        if self._second is None:
            self._online[:] = self._by_place[:] = False
        self._second = None  # until all of them are done
        for begin, end in changed:
            for first in range(begin, end, _CHUNK_ROWS):
                places = slice(first, min(first + _CHUNK_ROWS, end))
                is_online = self._is_online(places, second, 0)
                # Few are other than before, and rows lie far apart.
                other = np.flatnonzero(is_online != self._by_place[places])
                self._online[self._order[places][other]] = is_online[other]
                self._by_place[places] = is_online
        self._second = second

    def _changed(self, second: int) -> list[tuple[int, int]]:
        """Return the ranges of places whose slot is another one in ``second`` than in the last second asked for."""
        everybody = [(0, len(self._order))]
        if self._second is None:
            return everybody
        earlier, later = sorted((self._second, second))
        if later - earlier >= self._slot_s:
            return everybody
        lowest = -later % self._slot_s  # a slot begins where second + phase is a multiple of its length
        beyond = lowest + later - earlier
        ranges = [(lowest, min(beyond, self._slot_s)), (0, beyond - self._slot_s)]
        return [(self._place(low), self._place(high)) for low, high in ranges if low < high]

    def _by_next_slot(self, second: int) -> Iterator[slice]:
        """Yield all places, those whose next slot begins first at the front."""
        # Phases descend on the way, from that of the next second round to the one after it.
        soonest = self._place((self._slot_s - 1 - second) % self._slot_s + 1)
        look = _FIRST_LOOK
        for lowest, beyond in ((0, soonest), (soonest, len(self._order))):
            end = beyond
            while end > lowest:
                yield slice(max(lowest, end - look), end)
                end, look = end - look, min(2 * look, _CHUNK_ROWS)

    def _place(self, phase: int) -> int:
        return int(np.searchsorted(self._phases, phase))
