"""What an aggregator is: participants' updates become one vector, and that moves a cohort's model by a server step."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from auxo.core.own_state import NOTHING, OwnState
from auxo.core.types import Float32Array, FloatArray

_LEAST_WEIGHT = 1e-20  # products with updates have to stay within float32
_ADDED_AT_ONCE = 8  # updates; our choice: rounding stays below that of the updates themselves

Weighting = Literal["examples", "uniform"]
"""What an update counts for in the mean: as much as the examples behind it, or as much as any other."""

ABOUT_WEIGHTING = "What an update counts for: as much as the examples behind it, or as much as any other."

RateScaling = Literal["none", "sqrt", "linear"]
"""How a cohort's server learning rate follows its share of the participants (the paper's linear scaling rule)."""


@dataclass(frozen=True)
class Report:
    """What an aggregator is told of a participant besides its update."""

    examples: int  # the participant's samples, see `Answer`
    loss: float | None = None  # see `Answer`; None where nobody asked
    reply: object = None  # the whole answer, for an aggregator that hands it to another framework; None: there is none


def update_weight(weighting: Weighting, examples: int) -> float:
    """Return the weight of an update that ``examples`` samples stand behind."""
    return float(examples) if weighting == "examples" else 1.0


def rate_scale(scaling: RateScaling, share: int, total: int) -> float:
    """Return the factor for the server learning rate of a cohort with ``share`` of ``total`` participants."""
    return {"none": 1.0, "sqrt": float(np.sqrt(share / total)), "linear": share / total}[scaling]


@runtime_checkable
class AsksForLoss(Protocol):
    """A part, an aggregator or a selector, that wants to know participants' losses: `Report.loss` is then there."""

    @property
    def asks_for_loss(self) -> bool:
        """Return whether every participant works out the loss of its samples at the model it is sent; it is charged."""
        ...


def asks_for_loss(part: object) -> bool:
    """Return whether a part wants to know participants' losses."""
    return isinstance(part, AsksForLoss) and part.asks_for_loss


@runtime_checkable
class KeepsOwn(Protocol):
    """An aggregator that keeps more than arrays: `ServerState.own` is then there."""

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the kinds of what it keeps, for the codec."""
        ...


class Accumulator(Protocol):
    """A round's updates on their way to one vector: what a cohort's model is moved by."""

    def add(self, update: Float32Array, report: Report) -> None:
        """Take one more update; it lasts only until this returns, so one that is kept is copied."""
        ...

    def result(self) -> FloatArray | None:
        """Return the vector, (parameters,); None when there is nothing to move by."""
        ...


class StreamedSum:
    """A weighted sum of updates: each is added as it comes, and none is kept.

    Memory does not grow with the participants. The order of the updates fixes the order of the additions and with it
    the bits of the result. A few updates at a time are added up in float32, which they came in, and their sums in
    float64: all of it in float64 would take four times as long.
    """

    def __init__(self, n_params: int) -> None:
        # Nothing is set aside until there is an update: a round may bring none.
        self._total, self._some = np.zeros(0), np.zeros(0, dtype=np.float32)
        self._n_params, self._count = n_params, 0
        self._add: Callable[..., object] = lambda *nothing: None  # until there is an update

    def add(self, update: Float32Array, weight: float) -> None:
        """Add ``weight`` times an update.

        Raises:
            ValueError: the update has another shape, or its weight is negative, not finite, or beyond all reason.
        """
        check_update_shape(update, self._n_params)
        if weight != 0 and not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
            raise ValueError(
                f"weight of an update: expected 0 or a number from {_LEAST_WEIGHT} to {1 / _LEAST_WEIGHT}, got {weight}"
            )
        if self._count == 0:
            # It takes as long to load as half of the command line, which may have nothing to sum up.
            from scipy.linalg import blas  # noqa: PLC0415

            self._add = blas.saxpy
            self._total, self._some = np.zeros(self._n_params), np.zeros(self._n_params, dtype=np.float32)
        self._add(update, self._some, a=weight)
        self._count += 1
        if self._count % _ADDED_AT_ONCE == 0:
            self._flush()

    def shrink(self, factor: float) -> None:
        """Multiply all that was added so far with ``factor``."""
        self._flush()
        self._total *= factor

    def total(self) -> FloatArray:
        """Return the sum; there has been an update."""
        return self._total + self._some

    def _flush(self) -> None:
        self._total += self._some
        self._some[:] = 0.0


class WeightedMean:
    """The mean of updates, as a stream.

    >>> mean = WeightedMean(n_params=2, weighting="examples")
    >>> mean.add(np.float32([1, 4]), Report(examples=1))
    >>> mean.add(np.float32([5, 0]), Report(examples=3))
    >>> mean.result()
    array([4., 1.])
    """

    def __init__(self, n_params: int, weighting: Weighting) -> None:
        self._sum, self._weighting, self._weight = StreamedSum(n_params), weighting, 0.0

    def add(self, update: Float32Array, report: Report) -> None:
        """Add an update to the sum; see `StreamedSum.add`."""
        weight = update_weight(self._weighting, report.examples)
        self._sum.add(update, weight)
        self._weight += weight

    def result(self) -> FloatArray | None:
        """Return the mean; None when the weights sum to zero, as they do without updates."""
        return self._sum.total() / self._weight if self._weight > 0 else None

    @property
    def weight(self) -> float:
        """Return what all updates count for together."""
        return self._weight


@dataclass(frozen=True)
class ServerState:
    """A cohort's model and what its server optimiser remembers; children of a partition start from a copy."""

    weights: Float32Array  # (parameters,)
    slots: tuple[FloatArray, ...]  # optimiser state, each (parameters,), in the aggregator's own order
    steps: int
    own: OwnState = NOTHING  # what the aggregator keeps that is no such array; it names the kind in its own_states


@runtime_checkable
class Aggregator(Protocol):
    """How a cohort's updates become one vector, and how that moves the cohort's model."""

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round."""
        ...

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return what a round's updates are added to; ``state`` is the one that participants were sent.

        An aggregator that keeps all updates, such as a median, says so in its docstring, and how much memory that is.
        """
        ...

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after a round; ``rate_scale`` multiplies the server learning rate (linear scaling rule)."""
        ...


@runtime_checkable
class FollowsLearningRate(Protocol):
    """An aggregator that reckons with the rate that participants train with; others need not know it."""

    def at_rate(self, learning_rate: float) -> Aggregator:
        """Return the aggregator for participants of this learning rate, unless it has been told another."""
        ...


def at_rate(aggregator: Aggregator, learning_rate: float) -> Aggregator:
    """Return the aggregator for participants who train with this learning rate."""
    return aggregator.at_rate(learning_rate) if isinstance(aggregator, FollowsLearningRate) else aggregator


def held_by_aggregator(aggregator: object) -> tuple[str, Aggregator] | None:
    """Return the field in which an aggregator holds another one, and that one; None: it does everything itself."""
    held = ((one.name, getattr(aggregator, one.name)) for one in fields(aggregator)) if is_dataclass(aggregator) else ()
    return next(((name, value) for name, value in held if isinstance(value, Aggregator)), None)


def own_weights(weights: Float32Array) -> Float32Array:
    """Copy, so that a caller who goes on using its array does not change the state."""
    return np.array(weights, dtype=np.float32)


def moved(state: ServerState, movement: FloatArray, slots: tuple[FloatArray, ...]) -> ServerState:
    """Return the state after a step that adds ``movement`` to the weights."""
    weights = (state.weights + movement).astype(np.float32)
    return ServerState(weights=weights, slots=slots, steps=state.steps + 1)


def check_update_shape(update: Float32Array, n_params: int) -> None:
    """Raise a ValueError if an update is not of a model with so many parameters."""
    if update.shape != (n_params,):
        raise ValueError(f"update: expected shape ({n_params},), got {update.shape}; flatten it in the model's order")


def check_step(state: ServerState, n_slots: int, movement: FloatArray, rate_scale: float) -> None:
    """Raise a ValueError if a step cannot be made from a state: of another aggregator, or by a wrong vector."""
    if not 0 < rate_scale < float("inf"):
        raise ValueError(f"rate_scale: expected a positive number, got {rate_scale}")
    if len(state.slots) != n_slots:
        raise ValueError(
            f"state.slots: expected {n_slots}, got {len(state.slots)}; use the aggregator that made this state"
        )
    if movement.shape != state.weights.shape:
        raise ValueError(f"movement: expected shape {state.weights.shape}, got {movement.shape}")
