"""The generator's trace: its published figures come out, and it is what the generator says at every moment."""

import numpy as np
import pytest

from auxo.simulation.availability import DAY_S, DayNightPattern
from auxo.traces.availability import TraceAvailability
from auxo.traces.devices import TraceDevices
from auxo.traces.figures import session_figures, shares_between, slow_share
from auxo.traces.synthetic import synthetic_trace
from auxo.traces.trace import Sessions, Speeds, check_traced


def test_the_generator_matches_its_published_figures() -> None:
    trace = synthetic_trace(6000, seed=0, share=0.05, days=3)
    assert trace.sessions is not None
    assert trace.speeds is not None
    online, speeds = session_figures(trace.sessions), trace.speeds
    assert online.share_online == pytest.approx(0.05, rel=0.1)
    assert np.percentile(speeds.download_bps, 50) == pytest.approx(6.1e6, rel=0.05)
    assert slow_share(speeds) == pytest.approx(0.26, abs=0.02)
    inference_ms = 1e3 * speeds.compute_s_per_sample / 3  # a training step is three forward passes
    assert np.percentile(inference_ms, 5) == pytest.approx(15, rel=0.1)
    assert np.percentile(inference_ms, 95) == pytest.approx(199, rel=0.1)


def test_the_trace_says_what_the_generator_says_at_every_moment() -> None:
    trace = synthetic_trace(60, seed=2, share=0.4, days=2)
    assert trace.sessions is not None
    check_traced("a.arrow", trace.sessions)
    pattern = DayNightPattern(share=0.4).draw(60, seed=2)
    replayed = TraceAvailability(trace.sessions, np.arange(60, dtype=np.int32), np.zeros(60, dtype=np.int32))
    for second in range(0, 2 * DAY_S, 431):
        np.testing.assert_array_equal(replayed.online(second), pattern.online(second))


def test_fewer_than_a_day_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="days: expected at least 1, got 0"):
        synthetic_trace(3, seed=0, days=0)


SPEEDS = Speeds(
    tuple("abcd"), np.array([0.1, 0.2, 0.3, 0.4]), np.array([1e6, 2e6, 3e6, 4e6]), np.array([1e5, 2e5, 3e5, 4e5])
)


def test_a_clients_device_keeps_its_speeds_together() -> None:
    drawn = TraceDevices(SPEEDS, slowdown=2.0).draw(9, seed=5)
    np.testing.assert_allclose(drawn.compute_s_per_sample / 2 * 1e7, drawn.download_bps)
    np.testing.assert_allclose(drawn.upload_bps * 10, drawn.download_bps)
    assert sorted(drawn.download_bps[:4].tolist()) == SPEEDS.download_bps.tolist()
    again = TraceDevices(SPEEDS).draw(20, seed=5)
    assert again.download_bps[:9].tolist() == drawn.download_bps.tolist()
    with pytest.raises(ValueError, match="slowdown: expected a positive number, got 0"):
        TraceDevices(SPEEDS, slowdown=0)


def test_figures_of_a_small_trace() -> None:
    check_traced("a.arrow", SPEEDS)
    sessions = Sessions(
        ("a", "b"),
        np.array([DAY_S, 2 * DAY_S]),
        np.array([0, 1, 2]),
        np.array([3 * 3600, 0]),
        np.array([5 * 3600, DAY_S + 3600]),
    )
    figures = session_figures(sessions)
    assert figures.share_online == pytest.approx((2 / 24 + 25 / 48) / 2)
    assert figures.median_interval_s == pytest.approx(13.5 * 3600)
    assert figures.by_hour[0] == pytest.approx(0.5)  # the second is there in both nights, the first in none
    assert figures.by_hour[3] == pytest.approx((1 + 0.5) / 2)
    assert figures.by_hour[12] == pytest.approx(0.25)
    assert figures.peak_hour == 3
    assert figures.peak_to_trough == pytest.approx(3)
    assert slow_share(SPEEDS) == pytest.approx(0.5)


def test_hours_that_no_span_reaches_are_not_known() -> None:
    figures = session_figures(Sessions(("a",), np.array([7200]), np.array([0, 1]), np.array([0]), np.array([3600])))
    assert figures.by_hour[:2].tolist() == [1.0, 0.0]
    assert np.isnan(figures.by_hour[2:]).all()
    assert figures.peak_to_trough is None


def test_shares_between_edges_add_up() -> None:
    shares = shares_between(np.array([0.5, 1.0, 7.0]), (1.0, 2.0))
    np.testing.assert_allclose(shares, [1 / 3, 1 / 3, 1 / 3])
