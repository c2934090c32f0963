"""The contract of aggregators."""

import numpy as np

from auxo.algorithms.base import OneCohort
from auxo.core.aggregators import Aggregator, Report, ServerState
from auxo.core.rng import stream
from auxo.core.types import Float32Array, FloatArray
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.testing.comparison import expect_same
from auxo.testing.contract import Contract, expect, expect_array, expect_finite, expect_frozen
from auxo.testing.locking import locked
from auxo.testing.small_federation import SmallFederation, initial_model, rules_of

CONTRACT = Contract[Aggregator]("an aggregator", "Aggregator in auxo.core.aggregators")
check_aggregator = CONTRACT.check
"""Raises `ContractBroken` unless an aggregator keeps its contract."""

_PARAMETERS, _UPDATES = 30, 20  # more updates than are added up at once
_ROUNDING = 1e-4  # of the largest element; sums are in float32 in part


def _updates() -> tuple[list[Float32Array], list[Report]]:
    rng = stream(0, "updates")
    values = rng.normal(size=(_UPDATES, _PARAMETERS)).astype(np.float32)
    counts, losses = rng.integers(1, 30, size=_UPDATES), rng.uniform(0.1, 3.0, size=_UPDATES)
    return list(values), [Report(int(count), float(loss)) for count, loss in zip(counts, losses, strict=True)]


def _weights() -> Float32Array:
    return stream(0, "weights").standard_normal(_PARAMETERS).astype(np.float32)


def _moved_by(aggregator: Aggregator, state: ServerState, order: list[int] | None = None) -> FloatArray:
    """Return what the updates come to, in an order."""
    updates, reports = _updates()
    accumulator = aggregator.accumulate(state)
    for place in range(_UPDATES) if order is None else order:
        accumulator.add(updates[place], reports[place])
    movement = accumulator.result()
    expect(movement is not None, f"a vector from {_UPDATES} updates", None)
    return np.zeros(_PARAMETERS) if movement is None else movement


def _later(aggregator: Aggregator) -> ServerState:
    """Return the state after some steps."""
    state = aggregator.initial(_weights())
    for _ in range(3):
        state = aggregator.step(state, _moved_by(aggregator, state))
    return state


@CONTRACT.promise
def is_a_value(aggregator: Aggregator) -> None:
    """An aggregator is a frozen value: what it remembers is in the state."""
    expect_frozen(aggregator)


@CONTRACT.promise
def begins_with_a_copy(aggregator: Aggregator) -> None:
    """The initial state holds the weights that it was given in memory of its own."""
    weights = _weights()
    state = aggregator.initial(weights)
    expect_same(weights, state.weights, "the weights that were given")
    shares = any(np.shares_memory(weights, array) for array in (state.weights, *state.slots))
    expect(not shares, "memory of its own", "the memory of the weights that were given")


@CONTRACT.promise
def keeps_the_shape(aggregator: Aggregator) -> None:
    """What updates come to is a finite vector, and a step with it keeps the weights a finite vector of float32."""
    state = aggregator.initial(_weights())
    for rate_scale in (1.0, 0.5):
        movement = _moved_by(aggregator, state)
        expect(movement.shape == (_PARAMETERS,), f"a movement of shape ({_PARAMETERS},)", movement.shape)
        state = aggregator.step(state, movement, rate_scale)
        expect_array(state.weights, "float32", (_PARAMETERS,), "weights")
        expect_finite(movement, state.weights, what="finite numbers from finite numbers")


@CONTRACT.promise
def leaves_arguments_alone(aggregator: Aggregator) -> None:
    """No function changes its arguments, arrays included."""
    state, weights = _later(aggregator), _weights()
    updates, reports = _updates()
    with locked(weights):
        aggregator.initial(weights)
    accumulator = aggregator.accumulate(state)
    with locked(updates, state):
        for update, report in zip(updates, reports, strict=True):
            accumulator.add(update, report)
        movement = accumulator.result()
    with locked(state, movement):
        aggregator.step(state, _moved_by(aggregator, state) if movement is None else movement)


@CONTRACT.promise
def repeats_itself(aggregator: Aggregator) -> None:
    """The same updates in the same order give the same bits, whatever else is being added up."""
    state = aggregator.initial(_weights())
    updates, reports = _updates()
    other = aggregator.accumulate(state)
    other.add(updates[-1], reports[-1])
    one, two = (_moved_by(aggregator, state) for _ in range(2))
    expect_same(one, two, "the same movement twice")
    expect_same(aggregator.step(state, one), aggregator.step(state, two), "the same step twice")


@CONTRACT.promise
def copies_what_it_keeps(aggregator: Aggregator) -> None:
    """An update lasts only until `add` returns, so that its memory may be used again."""
    state = aggregator.initial(_weights())
    accumulator, memory = aggregator.accumulate(state), np.empty(_PARAMETERS, dtype=np.float32)
    for update, report in zip(*_updates(), strict=True):
        memory[:] = update
        accumulator.add(memory, report)
        memory[:] = np.nan
    expect_same(_moved_by(aggregator, state), accumulator.result(), "what updates in memory of their own come to")


@CONTRACT.promise
def nothing_comes_of_nothing(aggregator: Aggregator) -> None:
    """Without an update there is nothing to move by."""
    found = aggregator.accumulate(aggregator.initial(_weights())).result()
    expect(found is None, "None", found)


@CONTRACT.promise
def few_are_enough(aggregator: Aggregator) -> None:
    """One update, or two, or three come to a finite vector: a cohort's round may bring no more."""
    state = aggregator.initial(_weights())
    for few in (1, 2, 3):
        movement = _moved_by(aggregator, state, list(range(few)))
        is_fit = movement.shape == (_PARAMETERS,) and bool(np.isfinite(movement).all())
        expect(is_fit, f"a finite vector from {few} updates", movement)


@CONTRACT.promise
def can_be_asked_again(aggregator: Aggregator) -> None:
    """What the updates come to may be asked for at any time, and again, and changes nothing."""
    state = aggregator.initial(_weights())
    accumulator = aggregator.accumulate(state)
    for update, report in zip(*_updates(), strict=True):
        accumulator.add(update, report)
        accumulator.result()
    expected = _moved_by(aggregator, state)
    for _ in range(2):
        expect_same(expected, accumulator.result(), "what they come to when it is asked for once")


@CONTRACT.promise
def takes_any_loss(aggregator: Aggregator) -> None:
    """A loss of nothing, a tiny or a huge one, and none at all give finite numbers, and no exception."""
    state = aggregator.initial(_weights())
    accumulator = aggregator.accumulate(state)
    for number, update in enumerate(_updates()[0]):
        accumulator.add(update, Report(4, (None, 0.0, 1e-30, 1e6, 1.0)[number % 5]))
    movement = accumulator.result()
    expect(movement is not None, f"a vector from {_UPDATES} updates, most of them with a loss", None)
    if movement is not None:
        after = aggregator.step(state, movement).weights
        expect_finite(movement, after, what="finite numbers, whatever the losses")


@CONTRACT.promise
def order_is_rounding(aggregator: Aggregator) -> None:
    """The order of the updates makes no difference beyond rounding."""
    state = aggregator.initial(_weights())
    movement = _moved_by(aggregator, state)
    bound = _ROUNDING * float(np.abs(movement).max())
    for number in range(3):
        order = stream(0, "order", number).permutation(_UPDATES).tolist()
        apart = float(np.abs(_moved_by(aggregator, state, order) - movement).max())
        expect(apart <= bound, f"at most {bound:.2g} between two orders", f"{apart:.2g}")


@CONTRACT.promise
def zero_moves_nothing(aggregator: Aggregator) -> None:
    """Updates of zero move nothing from the initial state."""
    state = aggregator.initial(_weights())
    accumulator = aggregator.accumulate(state)
    for _ in range(3):
        accumulator.add(np.zeros(_PARAMETERS, dtype=np.float32), Report(4))
    movement = accumulator.result()
    if movement is not None:
        expect_same(state.weights, aggregator.step(state, movement).weights, "the weights as they were")


@CONTRACT.promise
def state_goes_through_the_codec(aggregator: Aggregator) -> None:
    """The state goes to bytes and back, and a step from there gives the same bits."""
    state = _later(aggregator)
    again = from_bytes(ServerState, to_bytes(state))
    expect_same(state, again, "the state that was written")
    movement = _moved_by(aggregator, state)
    expect_same(aggregator.step(state, movement), aggregator.step(again, movement), "the same step")


@CONTRACT.promise
def states_can_be_averaged(aggregator: Aggregator) -> None:
    """Slots keep their number and shape, and a step from the mean of two states, as trials take it, is finite."""
    early, late = aggregator.initial(_weights()), _later(aggregator)
    found = [slot.shape for slot in late.slots]
    expect(found == [(_PARAMETERS,)] * len(early.slots), f"{len(early.slots)} slots of ({_PARAMETERS},)", found)
    mean = ServerState(
        weights=((early.weights + late.weights) / 2).astype(np.float32),
        slots=tuple((one + other) / 2 for one, other in zip(early.slots, late.slots, strict=True)),
        steps=late.steps,
    )
    after = aggregator.step(mean, _moved_by(aggregator, mean))
    expect_finite(after.weights, *after.slots, what="a finite state")


@CONTRACT.promise
def trains_a_federation(aggregator: Aggregator) -> None:
    """A small federation trains with it to its end: its model moves, and stays finite."""
    for mine in SmallFederation.of(rules_of(OneCohort(), aggregator)).end().coordinator.cohorts.values():
        weights = mine.server.weights
        expect_finite(weights, what="a finite model")
        expect(not np.array_equal(weights, initial_model(0)), "a model that has moved", "the one that it began with")
