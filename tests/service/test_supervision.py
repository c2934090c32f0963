"""Who is taken for dead, and when it is started again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.service.desks import Pulse
from auxo.service.pulses import Seen
from auxo.service.supervision import ProcessWatch, Restarts, WatchLimits

LIMITS = WatchLimits(silent_s=6.0, stuck_s=60.0, start_s=30.0)


def _seen(beat: int, progress: int = 0, epoch: int = 2) -> Seen:
    return Seen(Pulse("0", epoch, 1, progress, 0, "idle"), beat)


def test_a_process_may_take_a_while_to_start_and_not_for_ever() -> None:
    watch = ProcessWatch(2, 100.0)
    assert watch.why_dead(129.0, LIMITS) is None
    watch.look(_seen(1, epoch=1), 120.0)
    assert watch.why_dead(130.0, LIMITS) == "gave no sign of life for 30 s"


@pytest.mark.fault(7)
def test_one_that_was_stopped_and_one_that_hangs_are_dead() -> None:
    stopped, hangs = ProcessWatch(2, 0.0), ProcessWatch(2, 0.0)
    for watch in (stopped, hangs):
        watch.look(_seen(1, 1), 1.0)
    stopped.look(_seen(1, 1), 6.5)
    assert stopped.why_dead(6.5, LIMITS) is None
    stopped.look(_seen(1, 1), 7.0)
    assert stopped.why_dead(7.0, LIMITS) == "gave no sign of life for 6 s"
    for second in range(2, 61):
        hangs.look(_seen(second, 1), float(second))
        assert hangs.why_dead(float(second), LIMITS) is None
    hangs.look(_seen(61, 1), 61.0)
    assert hangs.why_dead(61.0, LIMITS) == "made no progress for 60 s"


@pytest.mark.fault(27)
@given(beats=st.lists(st.integers(-(10**9), 10**9), min_size=2, unique=True))
def test_that_the_clock_on_the_wall_steps_does_not_matter(beats: list[int]) -> None:
    watch = ProcessWatch(2, 0.0)
    for second, beat in enumerate(beats):
        watch.look(_seen(beat, second), float(second))
    assert watch.why_dead(len(beats) + 4.0, LIMITS) is None
    assert watch.why_dead(len(beats) + 5.0, LIMITS) is not None


def test_a_watcher_that_slept_looks_before_it_judges() -> None:
    watch = ProcessWatch(2, 0.0)
    watch.look(_seen(1, 1), 1.0)
    watch.look(_seen(500, 500), 1000.0)
    assert watch.why_dead(1000.0, LIMITS) is None


def test_it_is_started_again_at_once_and_then_later_and_later() -> None:
    restarts, now, pauses = Restarts(), 0.0, []
    for _ in range(9):
        pauses.append(max(0.0, restarts.next_s(LIMITS) - now))
        now += pauses[-1]
        restarts = restarts.after(now, LIMITS)
    assert pauses == [0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    settled = restarts.after(now + LIMITS.settled_s, LIMITS)
    assert settled.next_s(LIMITS) == settled.last_s
    assert replace(restarts, count=100).next_s(LIMITS) == restarts.last_s + 30.0
