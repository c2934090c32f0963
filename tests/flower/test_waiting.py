from auxo.core.types import ROOT, CohortId
from auxo.flower.waiting import Waiting

OTHER = CohortId("0.1")


def test_a_cohort_waits_twice_as_long_each_time_up_to_half_a_minute() -> None:
    waiting, now_s, pauses = Waiting(first_pause_s=1.0), 100.0, []
    for _ in range(8):
        waiting.wait(ROOT, now_s)
        pause_s = next(pause for pause in range(1, 99) if waiting.may_try(ROOT, now_s + pause))
        pauses.append(pause_s)
        now_s += pause_s

    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_it_counts_from_the_first_time_and_for_each_cohort_by_itself() -> None:
    waiting = Waiting(first_pause_s=1.0)

    assert waiting.wait(ROOT, 10.0) == 0.0
    assert waiting.wait(ROOT, 17.5) == 7.5
    assert waiting.wait(OTHER, 17.5) == 0.0
    assert ROOT in waiting


def test_who_goes_on_does_not_wait_any_more_and_begins_anew() -> None:
    waiting = Waiting(first_pause_s=1.0)
    waiting.wait(ROOT, 10.0)
    waiting.wait(ROOT, 20.0)

    assert waiting.go_on(ROOT)
    assert not waiting.go_on(ROOT)
    assert ROOT not in waiting
    assert waiting.may_try(ROOT, 20.0)
    assert waiting.wait(ROOT, 30.0) == 0.0
    assert waiting.may_try(ROOT, 31.0)
