"""q-FedAvg: its figures, what it is without q, and losses of every size."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from auxo.core.aggregators import FedAvg, FedYogi, Report, at_rate
from auxo.core.aggregators.norm_clipping import Clipped
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.types import Float32Array, FloatArray

WEIGHTS = np.array([1.0, -1.0], dtype=np.float32)
UPDATES = [np.array([0.2, 0.0], dtype=np.float32), np.array([-0.1, 0.3], dtype=np.float32)]
LOSSES = [2.0, 0.5]


def float32(values: list[float]) -> Float32Array:
    return np.array(values, dtype=np.float32)


def moved_by(aggregator: QFedAvg, updates: Sequence[Float32Array], losses: Sequence[float | None]) -> FloatArray | None:
    total = aggregator.accumulate(aggregator.initial(np.zeros(len(updates[0]), dtype=np.float32)))
    for update, loss in zip(updates, losses, strict=True):
        total.add(update, Report(7, loss))
    return total.result()


def plainly(q: float, rate: float, updates: Sequence[Float32Array], losses: Sequence[float]) -> FloatArray:
    """Return the same as the paper writes it down, with w_t - w_k = -u_k and L = 1 / rate."""
    deltas, hs = [], []
    for update, told in zip(updates, losses, strict=True):
        loss, dw = told + 1e-10, -update.astype(np.float64) / rate
        deltas.append(loss**q * dw)
        hs.append(q * loss ** (q - 1) * float(dw @ dw) + loss**q / rate)
    return np.asarray(-np.sum(deltas, axis=0) / sum(hs))


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (0.0, [1.05, -0.85]),
        (0.5, [1.07142857, -0.92857143]),
        # By hand: (2 (0.2, 0) + 0.5 (-0.1, 0.3)) / (2 + 0.4 + 0.5 + 1) = (0.35, 0.15) / 3.9
        (1.0, [1.08974359, -0.96153846]),
        (2.0, [1.11313869, -0.98905109]),
    ],
)
def test_a_step_is_that_of_the_authors_rule(q: float, expected: list[float]) -> None:
    # Also what flwr 1.41's `aggregate_qffl` makes of these deltas and hs, each with its own participant's loss.
    aggregator = QFedAvg(q=q, learning_rate=0.1)
    movement = moved_by(aggregator, UPDATES, LOSSES)

    assert movement is not None
    np.testing.assert_allclose(
        aggregator.step(aggregator.initial(WEIGHTS), movement).weights, expected, rtol=0, atol=2e-7
    )


updates_and_losses = st.lists(
    st.tuples(hnp.arrays(np.float32, 4, elements=st.floats(-3, 3, width=32)), st.floats(0.01, 20)),
    min_size=1,
    max_size=20,
)


@given(updates_and_losses, st.floats(0.001, 15), st.floats(0.003, 1))
@settings(max_examples=50)
def test_a_stream_agrees_with_the_rule_written_down_plainly(
    found: list[tuple[Float32Array, float]], q: float, rate: float
) -> None:
    updates, losses = [update for update, _ in found], [loss for _, loss in found]
    movement = moved_by(QFedAvg(q=q, learning_rate=rate), updates, losses)

    assert movement is not None
    largest = max(float(np.abs(update).max()) for update in updates)
    np.testing.assert_allclose(movement, plainly(q, rate, updates, losses), rtol=1e-5, atol=1e-6 * largest + 1e-30)


@given(updates_and_losses)
@settings(max_examples=50)
def test_without_q_it_is_federated_averaging_with_uniform_weights_bit_for_bit(
    found: list[tuple[Float32Array, float]],
) -> None:
    plain = FedAvg(weighting="uniform")
    mean = plain.accumulate(plain.initial(np.zeros(4, dtype=np.float32)))
    for update, loss in found:
        mean.add(update, Report(3, loss))
    expected = mean.result()
    movement = moved_by(QFedAvg(q=0.0), [update for update, _ in found], [loss for _, loss in found])

    assert expected is not None
    assert movement is not None
    assert movement.tobytes() == expected.tobytes()


def test_the_larger_q_the_more_the_worst_served_participant_counts() -> None:
    def share_of_worst(q: float) -> float:
        movement = moved_by(QFedAvg(q=q, learning_rate=0.1), [float32([1, 0]), float32([0, 1])], [2.0, 1.0])
        assert movement is not None
        return float(movement[0] / movement.sum())

    shares = [share_of_worst(q) for q in (0.0, 0.5, 1.0, 5.0)]

    assert shares[0] == 0.5
    assert shares == sorted(shares)
    assert shares[3] == pytest.approx(2**5 / (2**5 + 1))


@pytest.mark.parametrize("losses", [[1e-8, 30.0, 1e-3], [30.0, 1e-8, 1e-3], [1e30, 1e-30, 1.0]])
def test_powers_of_losses_beyond_the_range_of_numbers_are_no_trouble(losses: list[float]) -> None:
    updates = [float32([1, 0]), float32([0, 1]), float32([1, 1])]
    worst = updates[int(np.argmax(losses))]
    movement = moved_by(QFedAvg(q=15.0, learning_rate=0.05), updates, losses)

    assert movement is not None
    assert np.isfinite(movement).all()
    assert movement / np.linalg.norm(movement) == pytest.approx(worst / np.linalg.norm(worst), abs=1e-6)


def test_an_update_without_a_loss_does_not_count_unless_losses_do_not() -> None:
    fair, plain = QFedAvg(learning_rate=0.1), QFedAvg(q=0.0)

    both, one = moved_by(fair, UPDATES, [2.0, None]), moved_by(fair, UPDATES[:1], [2.0])
    assert both is not None
    assert one is not None
    assert both.tobytes() == one.tobytes()
    assert moved_by(fair, UPDATES, [None, None]) is None
    assert moved_by(plain, UPDATES, [None, None]) is not None


def test_participants_are_asked_for_losses_where_they_count() -> None:
    assert QFedAvg().asks_for_loss
    assert not QFedAvg(q=0.0).asks_for_loss
    assert Clipped(aggregator=QFedAvg()).asks_for_loss
    assert not Clipped().asks_for_loss


def test_the_rate_of_the_participants_is_followed_unless_it_is_set() -> None:
    assert at_rate(QFedAvg(), 0.3) == QFedAvg(learning_rate=0.3)
    assert at_rate(QFedAvg(learning_rate=0.1), 0.3) == QFedAvg(learning_rate=0.1)
    assert at_rate(Clipped(aggregator=QFedAvg()), 0.3) == Clipped(aggregator=QFedAvg(learning_rate=0.3))


def test_without_any_rate_it_says_so_before_the_first_round() -> None:
    with pytest.raises(ValueError, match=r"learning_rate: .* give it, as in QFedAvg\(learning_rate=0.05\)"):
        QFedAvg().initial(WEIGHTS)


def test_another_server_optimiser_may_move_the_model() -> None:
    fair = QFedAvg(learning_rate=0.1, server=FedYogi())
    movement = moved_by(fair, UPDATES, LOSSES)

    assert movement is not None
    one, other = fair.step(fair.initial(WEIGHTS), movement), FedYogi().step(FedYogi().initial(WEIGHTS), movement)
    assert one.weights.tobytes() == other.weights.tobytes()
    assert len(one.slots) == 2


def test_settings_that_mean_nothing_are_refused() -> None:
    for q in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="q: expected a number >= 0"):
            QFedAvg(q=q)
    with pytest.raises(ValueError, match="learning_rate: expected a positive number"):
        QFedAvg(learning_rate=0.0)
