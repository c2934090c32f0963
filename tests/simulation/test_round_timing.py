"""Round timing: who is kept, late or failed, and what it costs."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.core.types import FloatArray
from auxo.simulation.round_timing import RoundTiming, draw_failures_s, time_round

START_S = 100.0


@dataclass(frozen=True)
class Case:
    durations_s: FloatArray
    fails_after_s: FloatArray
    wanted: int
    deadline_s: float

    def time(self) -> RoundTiming:
        return time_round(START_S, self.durations_s, self.fails_after_s, self.wanted, self.deadline_s)


# Few distinct values, so that ties and coincidences with the deadline are common.
seconds = st.integers(0, 8).map(float)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    participants = draw(st.lists(st.tuples(seconds, seconds | st.just(math.inf)), max_size=12))
    durations_s, fails_after_s = np.array(participants, dtype=np.float64).reshape(-1, 2).T
    return Case(durations_s, fails_after_s, draw(st.integers(1, 14)), draw(st.sampled_from([2.0, 5.0, math.inf])))


def wasted_by(timing: RoundTiming) -> float:
    """Return the device-seconds of the late, whole, and of the failed, until they failed."""
    return float(timing.spent_s[timing.late].sum() + timing.spent_s[timing.failed].sum())


def used_s(timing: RoundTiming) -> float:
    return float(timing.spent_s[timing.kept].sum())


@pytest.mark.fault(26)
@given(cases())
@settings(deadline=None)
def test_kept_late_and_failed_partition_the_participants(case: Case) -> None:
    timing = case.time()
    everybody = np.concatenate([timing.kept, timing.late, timing.failed])
    assert sorted(everybody.tolist()) == list(range(len(case.durations_s)))


@given(cases())
@settings(deadline=None)
def test_used_and_wasted_device_seconds_are_all_the_time_spent(case: Case) -> None:
    timing = case.time()
    assert used_s(timing) + wasted_by(timing) == pytest.approx(timing.spent_s.sum())
    assert used_s(timing) == pytest.approx(case.durations_s[timing.kept].sum())
    wasted_s = case.durations_s[timing.late].sum() + case.fails_after_s[timing.failed].sum()
    assert wasted_by(timing) == pytest.approx(wasted_s)


@given(cases())
@settings(deadline=None)
def test_a_round_closes_between_its_last_kept_update_and_its_deadline(case: Case) -> None:
    timing = case.time()
    assert (START_S + case.durations_s[timing.kept] <= timing.closes_at_s).all()
    assert (START_S + case.durations_s[timing.late] >= timing.closes_at_s).all()
    assert START_S <= timing.closes_at_s <= START_S + case.deadline_s


@given(cases())
@settings(deadline=None)
def test_everybody_who_finishes_by_the_deadline_is_kept_up_to_the_number_wanted(case: Case) -> None:
    timing = case.time()
    in_time = (case.durations_s <= np.minimum(case.fails_after_s, case.deadline_s)).sum()
    assert len(timing.kept) == min(case.wanted, in_time)


@given(cases())
@settings(deadline=None)
def test_failed_are_exactly_those_whose_failure_comes_before_their_end(case: Case) -> None:
    fails = np.flatnonzero(case.fails_after_s < case.durations_s)
    assert sorted(case.time().failed.tolist()) == fails.tolist()


@given(cases(), st.data())
@settings(deadline=None)
def test_the_order_of_participants_does_not_matter_up_to_ties(case: Case, data: st.DataObject) -> None:
    places = np.array(data.draw(st.permutations(range(len(case.durations_s)))), dtype=np.int64)
    timing = case.time()
    shuffled = Case(case.durations_s[places], case.fails_after_s[places], case.wanted, case.deadline_s).time()
    assert shuffled.closes_at_s == timing.closes_at_s
    assert used_s(shuffled) == used_s(timing)
    assert wasted_by(shuffled) == wasted_by(timing)
    np.testing.assert_array_equal(shuffled.busy_until_s, timing.busy_until_s[places])
    for mine, theirs in ((shuffled.kept, timing.kept), (shuffled.late, timing.late), (shuffled.failed, timing.failed)):
        np.testing.assert_array_equal(shuffled.spent_s[mine], timing.spent_s[theirs])


@given(cases())
@settings(deadline=None)
def test_inputs_are_untouched(case: Case) -> None:
    durations_s, fails_after_s = case.durations_s.copy(), case.fails_after_s.copy()
    case.time()
    np.testing.assert_array_equal(case.durations_s, durations_s)
    np.testing.assert_array_equal(case.fails_after_s, fails_after_s)


def never(n: int) -> FloatArray:
    return np.full(n, math.inf)


def test_the_first_wanted_finishers_are_kept_in_the_order_of_their_finish() -> None:
    timing = time_round(START_S, np.array([9.0, 2.0, 7.0, 5.0]), never(4), wanted=2)
    assert timing.kept.tolist() == [1, 3]
    assert timing.late.tolist() == [2, 0]
    assert timing.failed.tolist() == []
    assert timing.closes_at_s == 105
    assert timing.busy_until_s.tolist() == [109, 102, 107, 105]
    assert (used_s(timing), wasted_by(timing)) == (7, 16)


def test_ties_go_to_the_earlier_position() -> None:
    durations_s = np.tile([4.0, 3.0], 500)
    timing = time_round(START_S, durations_s, never(1000), wanted=700)
    assert timing.kept.tolist() == [*range(1, 1000, 2), *range(0, 400, 2)]
    assert timing.late.tolist() == [*range(400, 1000, 2)]


def test_a_failed_participant_wastes_its_time_until_it_fails() -> None:
    timing = time_round(START_S, np.array([9.0, 3.0]), np.array([6.0, math.inf]), wanted=1)
    assert timing.kept.tolist() == [1]
    assert timing.failed.tolist() == [0]
    assert timing.closes_at_s == 103
    assert timing.busy_until_s.tolist() == [106, 103]
    assert wasted_by(timing) == 6


def test_finishing_at_the_moment_of_failure_or_of_the_deadline_counts() -> None:
    timing = time_round(START_S, np.array([4.0]), np.array([4.0]), wanted=1, deadline_s=4)
    assert timing.kept.tolist() == [0]


def test_a_round_that_misses_updates_waits_for_the_last_sign_of_life() -> None:
    timing = time_round(START_S, np.array([3.0, 9.0]), np.array([math.inf, 8.0]), wanted=2)
    assert timing.kept.tolist() == [0]
    assert timing.closes_at_s == 108


@pytest.mark.fault(26)
def test_a_deadline_closes_a_round_that_misses_updates() -> None:
    timing = time_round(START_S, np.array([3.0, 9.0, 20.0]), np.array([math.inf, math.inf, 15.0]), 2, deadline_s=6)
    assert timing.kept.tolist() == [0]
    assert timing.late.tolist() == [1]
    assert timing.failed.tolist() == [2]
    assert timing.closes_at_s == 106
    assert timing.busy_until_s.tolist() == [103, 109, 115]


def test_a_round_without_participants_closes_as_it_opens() -> None:
    timing = time_round(START_S, never(0), never(0), wanted=3, deadline_s=60)
    assert timing.closes_at_s == START_S
    assert used_s(timing) == wasted_by(timing) == 0


def test_a_session_that_ends_too_early_is_a_failure_at_its_end() -> None:
    fails_after_s = draw_failures_s(np.array([5.0, 5.0, 5.0]), np.array([4.0, 5.0, math.inf]), 0.0, stream(1, "drop"))
    assert fails_after_s.tolist() == [4, math.inf, math.inf]


def test_participants_drop_out_with_the_probability_set_anywhere_in_their_work() -> None:
    durations_s = np.full(20_000, 8.0)
    fails_after_s = draw_failures_s(durations_s, never(20_000), 0.2, stream(1, "drop"))
    drops = fails_after_s < math.inf
    assert drops.mean() == pytest.approx(0.2, abs=0.01)
    np.testing.assert_allclose(np.quantile(fails_after_s[drops], [0, 0.5, 1]), [0, 4, 8], atol=0.3)


def test_certain_dropout_never_outlives_the_session() -> None:
    fails_after_s = draw_failures_s(np.full(100, 8.0), np.full(100, 1.0), 1.0, stream(1, "drop"))
    assert (fails_after_s <= 1).all()
    assert (fails_after_s < 1).any()


@pytest.mark.parametrize(
    ("durations_s", "fails_after_s", "wanted", "deadline_s", "field"),
    [
        ([1.0], [1.0, 2.0], 1, 5.0, "fails_after_s: expected one value for each of 1 participants, got 2"),
        ([math.inf], [1.0], 1, 5.0, "durations_s"),
        ([math.nan], [1.0], 1, 5.0, "durations_s"),
        ([-1.0], [1.0], 1, 5.0, "durations_s"),
        ([1.0], [math.nan], 1, 5.0, "fails_after_s"),
        ([1.0], [1.0], 0, 5.0, "wanted: expected at least 1 update, got 0"),
        ([1.0], [1.0], 1, 0.0, "deadline_s"),
    ],
)
def test_impossible_rounds_are_refused_by_name(
    durations_s: list[float], fails_after_s: list[float], wanted: int, deadline_s: float, field: str
) -> None:
    with pytest.raises(ValueError, match=field):
        time_round(START_S, np.array(durations_s), np.array(fails_after_s), wanted, deadline_s)


def test_a_round_needs_a_finite_start() -> None:
    with pytest.raises(ValueError, match="start_s"):
        time_round(math.inf, np.array([1.0]), never(1), 1)


@pytest.mark.parametrize("dropout", [-0.1, 1.1, math.nan])
def test_a_dropout_that_is_no_probability_is_refused(dropout: float) -> None:
    with pytest.raises(ValueError, match="dropout: expected a probability"):
        draw_failures_s(np.array([1.0]), never(1), dropout, stream(1, "drop"))


def test_sessions_must_match_the_participants() -> None:
    with pytest.raises(ValueError, match="online_for_s: expected one value for each of 1 participants, got 2"):
        draw_failures_s(np.array([1.0]), never(2), 0.1, stream(1, "drop"))
