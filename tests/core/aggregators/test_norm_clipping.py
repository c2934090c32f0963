"""Norm clipping: what is too long becomes shorter, and all else is the affair of the aggregator behind it."""

import numpy as np
import pytest

from auxo.core.aggregators import FedAvg, FedYogi, Report
from auxo.core.aggregators.norm_clipping import Clipped
from auxo.core.aggregators.robust import Median
from auxo.core.types import Float32Array, FloatArray

WEIGHTS = np.zeros(2, dtype=np.float32)


def float32(values: list[float]) -> Float32Array:
    return np.array(values, dtype=np.float32)


def moved_by(clipped: Clipped, *updates: Float32Array) -> FloatArray | None:
    total = clipped.accumulate(clipped.initial(WEIGHTS))
    for update in updates:
        total.add(update, Report(examples=1))
    return total.result()


def test_an_update_beyond_the_bound_is_shortened_to_it_by_hand() -> None:
    # |(3, 4)| = 5, so it becomes (0.6, 0.8); (0.6, 0) is short enough. Their mean is (0.6, 0.4).
    movement = moved_by(Clipped(longest=1.0), float32([3, 4]), float32([0.6, 0]))

    assert movement is not None
    np.testing.assert_allclose(movement, [0.6, 0.4], rtol=1e-6)


def test_updates_within_the_bound_keep_their_bits_and_none_is_changed() -> None:
    updates = [float32([0.3, 0.1]), float32([3, 4])]
    before = [update.copy() for update in updates]
    plain = FedAvg().accumulate(FedAvg().initial(WEIGHTS))
    for update in updates:
        plain.add(update, Report(examples=1))
    expected, movement = plain.result(), moved_by(Clipped(longest=5.0), *updates)
    moved_by(Clipped(longest=0.1), *updates)

    assert expected is not None
    assert movement is not None
    assert movement.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(updates, before)


def test_it_goes_with_any_aggregator_and_its_state() -> None:
    clipped = Clipped(longest=1.0, aggregator=Median(server=FedYogi()))
    movement = moved_by(clipped, float32([30, 40]), float32([0.1, 0.2]), float32([0, 0]))

    assert movement is not None
    np.testing.assert_allclose(movement, [0.1, 0.2], rtol=1e-6)
    one, other = (part.step(part.initial(WEIGHTS), movement) for part in (clipped, FedYogi()))
    assert one.weights.tobytes() == other.weights.tobytes()
    assert len(one.slots) == len(other.slots) == 2


@pytest.mark.parametrize("longest", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bound_that_is_none_is_refused(longest: float) -> None:
    with pytest.raises(ValueError, match="longest: expected a positive number"):
        Clipped(longest=longest)
