from dataclasses import dataclass

import numpy as np

from auxo.core.rng import stream
from auxo.core.types import BoolArray, FloatArray, IntArray
from auxo.simulation.availability import AlwaysOnline
from auxo.simulation.showing_up import LONGEST_WAIT_S, time_everybody, waits_s


@dataclass(frozen=True)
class Sessions:
    """Clients with one session each, from and to these seconds."""

    begin: FloatArray
    end: FloatArray

    def online(self, time_s: float) -> BoolArray:
        return (self.begin <= time_s) & (time_s < self.end)

    def online_until_s(self, time_s: float, rows: IntArray) -> FloatArray:
        return np.where(self.online(time_s)[rows], self.end[rows], time_s)

    def next_change_s(self, time_s: float) -> float:
        later = self.begin[self.begin > time_s]
        return float(later.min(initial=np.inf))


def test_each_client_is_waited_for_until_it_comes_for_long_enough() -> None:
    here = Sessions(np.array([0.0, 500.0, 900.0, 0.0]), np.array([2000.0, 3000.0, 950.0, 9000.0]))
    clients, free = np.array([1, 0, 2, 3]), np.array([0.0, 0.0, 0.0, 800.0])

    waits = waits_s(here, 100.0, clients, free, took_s=np.full(4, 60.0))
    # Client 1 comes at 500, 0 is there, 2 never stays for 60 seconds, and 3 is busy until 800.
    assert waits.tolist() == [400.0, 0.0, LONGEST_WAIT_S, 700.0]


def test_nobody_waits_where_everybody_is_there() -> None:
    assert waits_s(AlwaysOnline(3), 5.0, np.arange(3), np.zeros(3), np.full(3, 1e6)).tolist() == [0.0, 0.0, 0.0]


def test_a_round_of_everybody_closes_with_the_last_and_waiting_costs_nothing() -> None:
    took, waits = np.array([10.0, 20.0, 5.0]), np.array([0.0, 100.0, LONGEST_WAIT_S])
    timing = time_everybody(1000.0, took, waits, np.inf, 0.0, stream(0, "drop-out"))

    assert timing.kept.tolist() == [0, 1]
    assert timing.failed.tolist() == [2]  # it has not shown up
    assert timing.late.tolist() == []
    assert timing.closes_at_s == 1000.0 + LONGEST_WAIT_S
    assert timing.spent_s.tolist() == [10.0, 20.0, 0.0]


def test_in_a_round_of_everybody_the_deadline_is_each_clients_own() -> None:
    took, waits = np.array([10.0, 20.0, 30.0]), np.array([0.0, 100.0, 0.0])
    timing = time_everybody(0.0, took, waits, 25.0, 0.0, stream(0, "drop-out"))

    assert timing.kept.tolist() == [0, 1]
    assert timing.failed.tolist() == [2]
    assert timing.closes_at_s == 120.0
    assert timing.spent_s.tolist() == [10.0, 20.0, 25.0]
