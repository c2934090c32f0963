from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from auxo.core.aggregators import (
    Aggregator,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedYogi,
    RateScaling,
    Report,
    WeightedMean,
    at_rate,
    rate_scale,
)
from auxo.core.aggregators.aggregator import Weighting, update_weight
from auxo.core.types import Float32Array, FloatArray

AGGREGATORS: Mapping[str, Callable[..., Aggregator]] = {
    "fedavg": FedAvg,
    "fedyogi": FedYogi,
    "fedadam": FedAdam,
    "fedadagrad": FedAdagrad,
}


def float32(*values: float) -> Float32Array:
    return np.array(values, dtype=np.float32)


WEIGHTS = float32(0.5, -1.0, 2.0)
DELTA = np.array([0.1, -0.2, 0.4])

updates_and_examples = st.lists(
    st.tuples(
        hnp.arrays(np.float32, 4, elements=st.floats(-10, 10, width=32)),
        st.integers(0, 100),
    ),
    min_size=1,
    max_size=20,
)


@pytest.fixture(params=AGGREGATORS)
def aggregator(request: pytest.FixtureRequest) -> Aggregator:
    return AGGREGATORS[request.param]()


# Contract: what every aggregator does.


def test_initial_state_has_the_weights_and_no_steps(aggregator: Aggregator) -> None:
    state = aggregator.initial(WEIGHTS)

    assert state.weights.dtype == np.float32
    np.testing.assert_array_equal(state.weights, WEIGHTS)
    assert state.steps == 0
    assert all(slot.shape == WEIGHTS.shape for slot in state.slots)


def test_state_does_not_share_the_array_it_was_made_from(aggregator: Aggregator) -> None:
    weights = WEIGHTS.copy()
    state = aggregator.initial(weights)
    weights[:] = 7

    np.testing.assert_array_equal(state.weights, WEIGHTS)


def test_constant_update_moves_every_weight_in_its_direction(aggregator: Aggregator) -> None:
    state = aggregator.initial(WEIGHTS)
    for step in range(1, 6):
        moved = aggregator.step(state, DELTA)
        assert np.all((moved.weights - state.weights) * DELTA > 0)
        assert moved.steps == step
        state = moved


def test_zero_update_at_the_start_leaves_the_weights_as_they_are(aggregator: Aggregator) -> None:
    state = aggregator.step(aggregator.initial(WEIGHTS), np.zeros(3))

    np.testing.assert_array_equal(state.weights, WEIGHTS)


def test_step_leaves_its_inputs_untouched(aggregator: Aggregator) -> None:
    state = aggregator.step(aggregator.initial(WEIGHTS), DELTA)
    weights, slots, delta = state.weights.copy(), [slot.copy() for slot in state.slots], DELTA.copy()

    aggregator.step(state, delta)

    np.testing.assert_array_equal(state.weights, weights)
    for slot, before in zip(state.slots, slots, strict=True):
        np.testing.assert_array_equal(slot, before)
    np.testing.assert_array_equal(delta, DELTA)


def test_slots_keep_their_number_and_shape_through_steps(aggregator: Aggregator) -> None:
    first = aggregator.initial(WEIGHTS)
    last = aggregator.step(aggregator.step(first, DELTA), -DELTA)

    assert [slot.shape for slot in last.slots] == [slot.shape for slot in first.slots]
    assert last.weights.dtype == np.float32


def test_same_input_gives_the_same_bits(aggregator: Aggregator) -> None:
    once, again = (aggregator.step(aggregator.initial(WEIGHTS), DELTA, 0.3) for _ in range(2))

    assert once.weights.tobytes() == again.weights.tobytes()
    assert [slot.tobytes() for slot in once.slots] == [slot.tobytes() for slot in again.slots]


def test_rate_scale_multiplies_the_movement(aggregator: Aggregator) -> None:
    state = aggregator.initial(np.zeros(3, dtype=np.float32))
    whole, half = aggregator.step(state, DELTA), aggregator.step(state, DELTA, rate_scale=0.5)

    np.testing.assert_allclose(half.weights, whole.weights / 2, rtol=1e-6)


@pytest.mark.parametrize("rate_scale", [0.0, -1.0, float("nan"), float("inf")])
def test_step_refuses_a_rate_scale_that_is_not_positive(aggregator: Aggregator, rate_scale: float) -> None:
    with pytest.raises(ValueError, match="rate_scale"):
        aggregator.step(aggregator.initial(WEIGHTS), DELTA, rate_scale)


def test_step_refuses_an_update_of_another_model(aggregator: Aggregator) -> None:
    with pytest.raises(ValueError, match="movement"):
        aggregator.step(aggregator.initial(WEIGHTS), np.zeros(4))


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("rate", [0.0, -0.1, float("nan"), float("inf")])
def test_server_learning_rate_must_be_positive(name: str, rate: float) -> None:
    with pytest.raises(ValueError, match="server_learning_rate"):
        AGGREGATORS[name](server_learning_rate=rate)


def test_updates_are_summed_up_to_the_mean_that_its_weighting_says(aggregator: Aggregator) -> None:
    total = aggregator.accumulate(aggregator.initial(WEIGHTS))
    assert total.result() is None
    total.add(float32(1, 0, 2), Report(examples=1))
    total.add(float32(0, 4, 2), Report(examples=3))

    np.testing.assert_array_equal(total.result(), [0.25, 3.0, 2.0])


@pytest.mark.parametrize("name", AGGREGATORS)
def test_uniform_weighting_counts_every_update_alike(name: str) -> None:
    aggregator = AGGREGATORS[name](weighting="uniform")
    total = aggregator.accumulate(aggregator.initial(WEIGHTS))
    total.add(float32(1, 0, 2), Report(examples=1))
    total.add(float32(0, 4, 2), Report(examples=3))

    np.testing.assert_array_equal(total.result(), [0.5, 2.0, 2.0])


def test_every_round_is_summed_up_from_nothing(aggregator: Aggregator) -> None:
    state = aggregator.initial(WEIGHTS)
    aggregator.accumulate(state).add(float32(1, 1, 1), Report(examples=1))

    assert aggregator.accumulate(state).result() is None


# What is particular to one.


def test_fedavg_adds_the_scaled_mean_update() -> None:
    state = FedAvg(server_learning_rate=0.5).initial(WEIGHTS)

    np.testing.assert_allclose(
        FedAvg(server_learning_rate=0.5).step(state, DELTA).weights, [0.55, -1.1, 2.2], rtol=1e-6
    )


def test_fedyogi_steps_agree_with_hand_computation() -> None:
    # tau = 0.1, so v starts at 0.01; updates 0.5 (squared 0.25, above v) and then 0.1 (squared 0.01, below v).
    aggregator = FedYogi(server_learning_rate=0.2, beta_1=0.5, beta_2=0.5, tau=0.1)

    first = aggregator.step(aggregator.initial(float32(1.0)), np.array([0.5]))
    # m = 0.5 * 0 + 0.5 * 0.5 = 0.25; v = 0.01 + 0.5 * 0.25 = 0.135
    np.testing.assert_allclose(first.slots, [[0.25], [0.135]], rtol=1e-12)
    np.testing.assert_allclose(first.weights, [1.0 + 0.2 * 0.25 / (0.135**0.5 + 0.1)], rtol=1e-6)

    second = aggregator.step(first, np.array([0.1]))
    # m = 0.5 * 0.25 + 0.5 * 0.1 = 0.175; v = 0.135 - 0.5 * 0.01 = 0.13
    np.testing.assert_allclose(second.slots, [[0.175], [0.13]], rtol=1e-12)
    np.testing.assert_allclose(second.weights, [first.weights[0] + 0.2 * 0.175 / (0.13**0.5 + 0.1)], rtol=1e-6)


def test_fedadam_steps_agree_with_hand_computation() -> None:
    # tau = 0.1, so v starts at 0.01; no correction of bias, unlike Adam of Kingma and Ba.
    aggregator = FedAdam(server_learning_rate=0.2, beta_1=0.5, beta_2=0.5, tau=0.1)

    first = aggregator.step(aggregator.initial(float32(1.0)), np.array([0.5]))
    # m = 0.5 * 0 + 0.5 * 0.5 = 0.25; v = 0.5 * 0.01 + 0.5 * 0.25 = 0.13
    np.testing.assert_allclose(first.slots, [[0.25], [0.13]], rtol=1e-12)
    np.testing.assert_allclose(first.weights, [1.0 + 0.2 * 0.25 / (0.13**0.5 + 0.1)], rtol=1e-6)

    second = aggregator.step(first, np.array([0.1]))
    # m = 0.5 * 0.25 + 0.5 * 0.1 = 0.175; v = 0.5 * 0.13 + 0.5 * 0.01 = 0.07
    np.testing.assert_allclose(second.slots, [[0.175], [0.07]], rtol=1e-12)
    np.testing.assert_allclose(second.weights, [first.weights[0] + 0.2 * 0.175 / (0.07**0.5 + 0.1)], rtol=1e-6)


def test_fedadagrad_steps_agree_with_hand_computation() -> None:
    aggregator = FedAdagrad(server_learning_rate=0.2, beta_1=0.5, tau=0.1)

    first = aggregator.step(aggregator.initial(float32(1.0)), np.array([0.5]))
    # m = 0.5 * 0 + 0.5 * 0.5 = 0.25; v = 0.01 + 0.25 = 0.26
    np.testing.assert_allclose(first.slots, [[0.25], [0.26]], rtol=1e-12)
    np.testing.assert_allclose(first.weights, [1.0 + 0.2 * 0.25 / (0.26**0.5 + 0.1)], rtol=1e-6)

    second = aggregator.step(first, np.array([0.1]))
    # m = 0.5 * 0.25 + 0.5 * 0.1 = 0.175; v = 0.26 + 0.01 = 0.27
    np.testing.assert_allclose(second.slots, [[0.175], [0.27]], rtol=1e-12)
    np.testing.assert_allclose(second.weights, [first.weights[0] + 0.2 * 0.175 / (0.27**0.5 + 0.1)], rtol=1e-6)


@pytest.mark.parametrize(
    ("aggregator", "betas"), [(FedYogi(), (0.9, 0.99)), (FedAdam(), (0.9, 0.99)), (FedAdagrad(), (0.0, None))]
)
def test_adaptive_defaults_are_those_of_the_paper(
    aggregator: FedYogi | FedAdam | FedAdagrad, betas: tuple[float, float | None]
) -> None:
    # Reddi et al., section 5 and appendix D: momentum 0.9 and 0.99, none for Adagrad; tau = 1e-3, v starts at tau^2.
    assert (aggregator.beta_1, getattr(aggregator, "beta_2", None)) == betas
    assert aggregator.tau == 1e-3
    assert aggregator.initial(WEIGHTS).slots[1].tolist() == [1e-3**2] * 3


def test_fedadam_refuses_settings_outside_their_range() -> None:
    with pytest.raises(ValueError, match="beta_1"):
        FedAdam(beta_1=-0.1)
    with pytest.raises(ValueError, match="beta_2"):
        FedAdam(beta_2=1.0)
    with pytest.raises(ValueError, match="tau"):
        FedAdam(tau=-0.1)


def test_fedadagrad_refuses_settings_outside_their_range() -> None:
    with pytest.raises(ValueError, match="beta_1"):
        FedAdagrad(beta_1=1.0)
    with pytest.raises(ValueError, match="tau"):
        FedAdagrad(tau=0.0)


def test_most_aggregators_need_not_know_the_rate_of_the_participants(aggregator: Aggregator) -> None:
    assert at_rate(aggregator, 0.3) is aggregator


def test_fedyogi_refuses_the_state_of_another_aggregator() -> None:
    with pytest.raises(ValueError, match="slots"):
        FedYogi().step(FedAvg().initial(WEIGHTS), DELTA)


def test_fedyogi_refuses_decay_rates_outside_their_range() -> None:
    with pytest.raises(ValueError, match="beta_1"):
        FedYogi(beta_1=1.0)
    with pytest.raises(ValueError, match="beta_2"):
        FedYogi(beta_2=-0.1)
    with pytest.raises(ValueError, match="tau"):
        FedYogi(tau=0.0)


# The mean.


@pytest.mark.parametrize(("weighting", "weight"), [("examples", 17.0), ("uniform", 1.0)])
def test_update_counts_for_its_examples_or_for_one(weighting: Weighting, weight: float) -> None:
    assert update_weight(weighting, examples=17) == weight


def mean_of(
    updates: Iterable[tuple[Float32Array, int]], n_params: int, weighting: Weighting = "examples"
) -> FloatArray | None:
    mean = WeightedMean(n_params, weighting)
    for update, examples in updates:
        mean.add(update, Report(examples))
    return mean.result()


@given(updates_and_examples)
@settings(max_examples=50)
def test_weighted_mean_agrees_with_numpy(updates: list[tuple[Float32Array, int]]) -> None:
    deltas = np.array([delta for delta, _ in updates], dtype=np.float64)
    weights = [examples for _, examples in updates]

    mean = mean_of(updates, n_params=4)

    if sum(weights) == 0:
        assert mean is None
    else:
        assert mean is not None
        largest = np.abs(deltas).max(initial=0.0)  # a few at a time are added up in float32, what they came in
        np.testing.assert_allclose(mean, np.average(deltas, axis=0, weights=weights), atol=1e-6 * largest + 1e-30)


@given(updates_and_examples)
@settings(max_examples=20)
def test_weighted_mean_leaves_updates_untouched(updates: list[tuple[Float32Array, int]]) -> None:
    before = [delta.copy() for delta, _ in updates]

    mean_of(updates, n_params=4)

    for (delta, _), copy in zip(updates, before, strict=True):
        np.testing.assert_array_equal(delta, copy)


def test_weighted_mean_takes_a_stream_of_any_length_without_losing_digits() -> None:
    # A sum in float32 alone stops growing at 2 ** 24 and would give half of it.
    stream = ((float32(1.0), 256) for _ in range(2**17))

    mean = mean_of(stream, n_params=1)

    assert mean is not None
    assert mean.dtype == np.float64
    assert mean[0] == 1.0


def test_a_mean_that_was_asked_for_stays_as_it_is_when_more_updates_come() -> None:
    mean = WeightedMean(3, "uniform")
    for _ in range(9):
        mean.add(WEIGHTS, Report(1))
    result = mean.result()
    mean.add(float32(9, 9, 9), Report(1))

    assert result is not None
    np.testing.assert_array_equal(result, WEIGHTS)


def test_update_of_no_weight_has_no_influence() -> None:
    kept = (WEIGHTS, 2)

    np.testing.assert_array_equal(mean_of([kept], 3), WEIGHTS)
    np.testing.assert_array_equal(mean_of([kept, (float32(9, 9, 9), 0)], 3), WEIGHTS)


def test_mean_of_no_updates_is_none() -> None:
    assert mean_of([], n_params=3) is None


@pytest.mark.parametrize("examples", [-1, 10**40, float("nan"), float("inf"), 1e-40])
def test_weighted_mean_refuses_a_weight_that_is_no_weight(examples: Any) -> None:
    with pytest.raises(ValueError, match="weight of an update"):
        mean_of([(WEIGHTS, examples)], n_params=3)


def test_weighted_mean_refuses_an_update_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"expected shape \(4,\), got \(3,\)"):
        mean_of([(WEIGHTS, 1)], n_params=4)


# The rate of the server.


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("sqrt", 0.5), ("linear", 0.25)])
def test_the_rate_follows_the_share_as_it_is_told_to(scaling: RateScaling, factor: float) -> None:
    assert rate_scale(scaling, 5, 20) == pytest.approx(factor)
    assert rate_scale(scaling, 20, 20) == 1.0
