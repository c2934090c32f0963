"""Who is taken for lost, and who is only slow."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from auxo.runtime.patience import LOOK_S, AtWork, Patience


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def look_for(patience: Patience, clock: Clock, one: AtWork, seconds: float, is_alive: bool = True) -> str | None:
    """Look every second, and hear of one that lives; return why it is lost, if it is."""
    for _ in range(int(seconds / LOOK_S)):
        clock.now_s += LOOK_S
        if is_alive:
            patience.hear(one, clock.now_s)
        if (why := patience.why_lost(one, units=1)) is not None:
            return why
    return None


def test_the_first_piece_of_work_may_take_as_long_as_it_likes_while_there_are_signs_of_life() -> None:
    clock = Clock()
    patience = Patience(clock=clock)
    one = patience.begin()
    assert look_for(patience, clock, one, 3600.0) is None
    assert look_for(patience, clock, one, 19.0, is_alive=False) is None
    assert look_for(patience, clock, one, 2.0, is_alive=False) == "gave no sign of life for 20 s"


@given(took_s=st.integers(1, 60), units=st.integers(1, 10))
def test_later_ones_may_take_many_times_as_long_as_the_longest_and_never_less_than_the_floor(
    took_s: int, units: int
) -> None:
    clock = Clock()
    patience = Patience(clock=clock)
    for seconds in (took_s, 1):  # a short one later changes nothing
        one = patience.begin()
        look_for(patience, clock, one, seconds)
        patience.finish(one, units)
    bound_s = max(120.0, 20.0 * took_s / units)
    one = patience.begin()
    assert look_for(patience, clock, one, bound_s - 1) is None
    assert look_for(patience, clock, one, 3.0) == f"made no progress for {bound_s:g} s"


def test_who_was_stopped_itself_has_not_waited() -> None:
    clock = Clock()
    patience = Patience(clock=clock)
    one = patience.begin()
    patience.finish(one, 1)
    clock.now_s += 86_400.0  # as between Ctrl-Z and fg
    assert patience.why_lost(one, units=1) is None


def test_one_that_starts_has_longer_until_its_first_sign_of_life_whatever_others_have_taken() -> None:
    clock = Clock()
    patience = Patience(clock=clock, start_s=180.0)
    one = patience.begin()
    patience.finish(patience.begin(), 1)
    assert look_for(patience, clock, one, 179.0, is_alive=False) is None
    assert look_for(patience, clock, one, 1.0, is_alive=False) == "gave no sign of life for 180 s"
    patience.go_on(one)
    assert look_for(patience, clock, one, 100.0) is None
    assert look_for(patience, clock, one, 21.0, is_alive=False) == "gave no sign of life for 20 s"


def test_a_sign_that_does_not_change_is_none() -> None:
    clock = Clock()
    patience = Patience(clock=clock)
    one = patience.begin()
    for _ in range(30):
        clock.now_s += LOOK_S
        patience.hear(one, b"1")
    assert patience.why_lost(one, units=1) == "gave no sign of life for 20 s"
