"""Medians, trimmed means and Krum: figures, what they are without anybody hostile, and what hostile updates can do."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from auxo.core.aggregators import Aggregator, FedAvg, FedYogi, Report, robust
from auxo.core.aggregators.norm_clipping import Clipped
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.aggregators.robust import Krum, Median, MultiKrum, TrimmedMean, krum_choice, krum_scores
from auxo.core.types import Float32Array, FloatArray

# Three that agree more or less, one that does so in part, and one that does not.
UPDATES = [np.array(pair, dtype=np.float32) for pair in ([1, 4], [2, 3], [3, 9], [2, -5], [40, -40])]


def moved_by(aggregator: Aggregator, updates: Sequence[Float32Array]) -> FloatArray:
    total = aggregator.accumulate(aggregator.initial(np.zeros(len(updates[0]), dtype=np.float32)))
    for number, update in enumerate(updates):
        total.add(update, Report(examples=number + 1))
    movement = total.result()
    assert movement is not None
    return movement


@pytest.mark.parametrize(
    ("aggregator", "expected"),
    [
        (Median(), [2.0, 3.0]),
        (TrimmedMean(trimmed=0.2), [7 / 3, 2 / 3]),
        (TrimmedMean(trimmed=0.4), [2.0, 3.0]),
        # Scores with f = 1, of the two nearest: 2 + 29, 2 + 37, 29 + 37, 64 + 82, and thousands.
        (Krum(hostile=0.2), [1.0, 4.0]),
        (MultiKrum(hostile=0.2, kept=3), [2.0, 16 / 3]),
        (MultiKrum(hostile=0.2), [2.0, 2.75]),
    ],
    ids=str,
)
def test_figures_are_those_worked_out_by_hand(aggregator: Aggregator, expected: list[float]) -> None:
    # And those of flwr 1.41's aggregate_median, aggregate_trimmed_avg and aggregate_krum (of one malicious client).
    np.testing.assert_allclose(moved_by(aggregator, UPDATES), expected, rtol=1e-12)


def test_scores_of_krum_are_sums_of_squared_distances_to_the_nearest() -> None:
    np.testing.assert_allclose(krum_scores(UPDATES, hostile=1)[:4], [31, 39, 66, 146], rtol=1e-12)


@given(hnp.arrays(np.float32, st.tuples(st.integers(3, 12), st.just(5)), elements=st.floats(-9, 9, width=32)))
@settings(max_examples=50)
def test_without_anybody_hostile_they_are_the_uniform_mean(updates: Float32Array) -> None:
    mean = updates.astype(np.float64).mean(axis=0)
    uniform = moved_by(FedAvg(weighting="uniform"), list(updates))
    largest = float(np.abs(updates).max())

    for aggregator in (TrimmedMean(trimmed=0.0), MultiKrum(hostile=0.0)):
        found = moved_by(aggregator, list(updates))
        np.testing.assert_allclose(found, mean, rtol=1e-12, atol=1e-30)
        np.testing.assert_allclose(found, uniform, rtol=0, atol=1e-6 * largest + 1e-30)  # that is in float32 in part


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(5, 15), st.just(3)), elements=st.floats(-1, 1, width=32)),
    st.sampled_from([-1e6, 1e6]),
)
@settings(max_examples=50)
def test_a_fifth_of_updates_cannot_bring_them_beyond_what_the_others_sent(updates: Float32Array, bad: float) -> None:
    hostile = len(updates) // 5
    honest = updates[hostile:]
    spoilt = [*np.full((hostile, 3), bad, dtype=np.float32), *honest]

    for aggregator in (Median(), TrimmedMean(), Krum(), MultiKrum()):
        found = moved_by(aggregator, spoilt)
        assert (found >= honest.min(axis=0) - 1e-6).all()
        assert (found <= honest.max(axis=0) + 1e-6).all()


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.just(7)), elements=st.floats(-9, 9, width=32)))
@settings(max_examples=25)
def test_a_few_parameters_at_a_time_come_to_the_same(updates: Float32Array) -> None:
    whole = [moved_by(aggregator, list(updates)) for aggregator in (Median(), TrimmedMean())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robust, "_NUMBERS_AT_ONCE", 2 * len(updates))
        parts = [moved_by(aggregator, list(updates)) for aggregator in (Median(), TrimmedMean())]

    np.testing.assert_array_equal(whole, parts)


def test_distances_do_not_drown_in_what_all_updates_have_in_common() -> None:
    common = np.full(4, 3e4, dtype=np.float32)
    near = [common + np.float32(0.25 * number) for number in (0, 1, 2)]

    np.testing.assert_allclose(krum_scores(near, hostile=0), [0.25, 0.25, 0.25], rtol=1e-6)


def test_of_equals_krum_takes_the_first() -> None:
    assert krum_choice([np.full(1, value, dtype=np.float32) for value in (1, 2, 3)], share=0.0, kept=1).tolist() == [0]


def test_of_two_updates_nobody_can_say_which_is_the_stranger() -> None:
    np.testing.assert_array_equal(moved_by(Krum(), UPDATES[:2]), [1.5, 3.5])


def test_no_more_are_taken_for_hostile_than_krum_can_bear() -> None:
    # Of four updates 0.49 are one, but n > 2 f + 2 allows none: all of them are kept.
    assert krum_choice(UPDATES[:4], share=0.49, kept=None).tolist() == [0, 1, 2, 3]


def test_more_than_all_updates_cannot_be_kept() -> None:
    np.testing.assert_allclose(moved_by(MultiKrum(kept=99), UPDATES), np.mean(UPDATES, axis=0))


def test_what_a_sender_claims_to_have_changes_nothing() -> None:
    for aggregator in (Median(), TrimmedMean(), Krum(), MultiKrum()):
        total = aggregator.accumulate(aggregator.initial(np.zeros(2, dtype=np.float32)))
        for number, update in enumerate(UPDATES):
            total.add(update, Report(examples=10**6 if number == 3 else 1))
        np.testing.assert_array_equal(total.result(), moved_by(aggregator, UPDATES))


@pytest.mark.parametrize("kind", [Median, TrimmedMean, Krum, MultiKrum])
def test_a_server_optimiser_of_any_kind_moves_the_model(kind: type[Median | TrimmedMean | Krum | MultiKrum]) -> None:
    robust, weights = kind(server=FedYogi()), np.ones(2, dtype=np.float32)
    movement = moved_by(robust, UPDATES)
    one, other = (part.step(part.initial(weights), movement, 0.5) for part in (robust, FedYogi()))

    assert one.weights.tobytes() == other.weights.tobytes()
    assert [slot.tobytes() for slot in one.slots] == [slot.tobytes() for slot in other.slots]


@pytest.mark.parametrize("server", [Krum(), Clipped(), QFedAvg(learning_rate=0.1)], ids=str)
def test_a_server_whose_own_way_to_add_up_would_play_no_part_is_refused(server: Aggregator) -> None:
    for kind in (Median, TrimmedMean, Krum, MultiKrum, QFedAvg):
        with pytest.raises(ValueError, match=f"server: expected .* got {type(server).__name__}"):
            kind(server=server)


def test_an_update_of_another_model_is_refused() -> None:
    total = Median().accumulate(Median().initial(np.zeros(3, dtype=np.float32)))

    with pytest.raises(ValueError, match=r"expected shape \(3,\), got \(2,\)"):
        total.add(UPDATES[0], Report(1))


@pytest.mark.parametrize("value", [-0.1, 0.5, float("nan")])
def test_shares_of_a_half_and_more_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"trimmed: expected a value in \[0, 0\.5\)"):
        TrimmedMean(trimmed=value)
    with pytest.raises(ValueError, match=r"hostile: expected a value in \[0, 0\.5\)"):
        Krum(hostile=value)
    with pytest.raises(ValueError, match=r"hostile: expected a value in \[0, 0\.5\)"):
        MultiKrum(hostile=value)
    with pytest.raises(ValueError, match="kept: expected"):
        MultiKrum(kept=-1)
