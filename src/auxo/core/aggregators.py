"""Aggregators: participants' updates become one mean, and the mean moves a cohort's model by a server step.

FedAvg is McMahan et al. (AISTATS 2017); FedAdagrad, FedAdam and FedYogi are Reddi et al. (ICLR 2021), Algorithm 2.
Those that do not take a plain mean have files of their own: `q_fedavg`, `robust_aggregators`, `norm_clipping`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal, Protocol, assert_never, runtime_checkable

import numpy as np

from auxo.core.own_state import NOTHING, OwnState
from auxo.core.settings import setting
from auxo.core.types import Float32Array, FloatArray

_LEAST_WEIGHT = 1e-20  # products with updates have to stay within float32
_ADDED_AT_ONCE = 8  # updates; our choice: rounding stays below that of the updates themselves

Weighting = Literal["examples", "uniform"]
"""What an update counts for in the mean: as much as the examples behind it, or as much as any other."""

_ABOUT_WEIGHTING = "What an update counts for: as much as the examples behind it, or as much as any other."

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
    match weighting:
        case "examples":
            return float(examples)
        case "uniform":
            return 1.0
        case _:
            assert_never(weighting)


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
        """Add an update to the sum.

        Raises:
            ValueError: the update has another shape, or its weight is negative, not finite, or beyond all reason.
        """
        weight = update_weight(self._weighting, report.examples)
        self._sum.add(update, weight)
        self._weight += weight

    def result(self) -> FloatArray | None:
        """Return the mean; None when the weights sum to zero, as they do without updates."""
        return self._sum.total() / self._weight if self._weight > 0 else None


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


def check_server(server: Aggregator) -> None:
    """Raise a ValueError if a server optimiser has a way of its own to add up updates: it would play no part."""
    if held_by_aggregator(server) is not None:
        raise ValueError(
            f"server: expected an aggregator of plain means, such as fedavg or fedyogi, got {type(server).__name__}, "
            "whose own way to add up updates would play no part"
        )


@dataclass(frozen=True)
class FedAvg:
    """Add the mean update to the weights; a server learning rate of 1 is plain federated averaging."""

    server_learning_rate: float = setting(
        1.0,
        "What the mean update is multiplied with; 1 is plain federated averaging.",
    )
    weighting: Weighting = setting("examples", _ABOUT_WEIGHTING)

    def __post_init__(self) -> None:
        check_positive("server_learning_rate", self.server_learning_rate)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: no slots."""
        return ServerState(weights=_own_weights(weights), slots=(), steps=0)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after w <- w + rate * movement."""
        _check_step(state, 0, movement, rate_scale)
        return _moved(state, self.server_learning_rate * rate_scale * movement, slots=())


@dataclass(frozen=True)
class FedAdagrad:
    """Adapt the rate of each parameter to the sum of all its past squared updates: it only ever falls.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from, as in the paper.
    """

    server_learning_rate: float = setting(
        0.03,
        "Our choice from the grid of Reddi et al.; the best one depends on the task.",
    )
    beta_1: float = setting(0.0, "What a round leaves of the first moment; 0 is no momentum, as in the paper.")
    tau: float = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", _ABOUT_WEIGHTING)

    def __post_init__(self) -> None:
        _check_adaptive(self.server_learning_rate, self.tau, beta_1=self.beta_1)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first moment and the sum of squares."""
        return _adaptive_state(weights, self.tau)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 in the FedAdagrad variant."""
        _check_step(state, 2, movement, rate_scale)
        second = state.slots[1] + movement**2
        rate = self.server_learning_rate * rate_scale
        return _adapted(state, movement, second, _Rates(rate, self.beta_1, self.tau))


@dataclass(frozen=True)
class FedAdam:
    """Adapt the rate of each parameter to a moving average of its past squared updates.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from. There is no correction of the
    moments' bias, as in the paper.
    """

    server_learning_rate: float = setting(
        0.01,
        "Our choice from the grid of Reddi et al.; the best one depends on the task.",
    )
    beta_1: float = setting(0.9, "What a round leaves of the first moment.")
    beta_2: float = setting(0.99, "What a round leaves of the second moment.")
    tau: float = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", _ABOUT_WEIGHTING)

    def __post_init__(self) -> None:
        _check_adaptive(self.server_learning_rate, self.tau, beta_1=self.beta_1, beta_2=self.beta_2)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first and the second moment."""
        return _adaptive_state(weights, self.tau)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 in the FedAdam variant."""
        _check_step(state, 2, movement, rate_scale)
        second = self.beta_2 * state.slots[1] + (1 - self.beta_2) * movement**2
        rate = self.server_learning_rate * rate_scale
        return _adapted(state, movement, second, _Rates(rate, self.beta_1, self.tau))


@dataclass(frozen=True)
class FedYogi:
    """Adapt the rate of each parameter to the size of its past updates, slowly when that size falls.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from, as in the paper.
    """

    server_learning_rate: float = setting(
        0.01,
        "Our choice from the grid of Reddi et al.; the best one depends on the task.",
    )
    beta_1: float = setting(0.9, "What a round leaves of the first moment.")
    beta_2: float = setting(0.99, "What a round leaves of the second moment.")
    tau: float = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", _ABOUT_WEIGHTING)

    def __post_init__(self) -> None:
        _check_adaptive(self.server_learning_rate, self.tau, beta_1=self.beta_1, beta_2=self.beta_2)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first and the second moment."""
        return _adaptive_state(weights, self.tau)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 (its lines for m, v in the FedYogi variant, and x)."""
        _check_step(state, 2, movement, rate_scale)
        second, squared = state.slots[1], movement**2
        second = second - (1 - self.beta_2) * squared * np.sign(second - squared)
        rate = self.server_learning_rate * rate_scale
        return _adapted(state, movement, second, _Rates(rate, self.beta_1, self.tau))


@dataclass(frozen=True)
class _Rates:
    """What the adaptive steps have in common."""

    rate: float
    beta_1: float
    tau: float


def _adaptive_state(weights: Float32Array, tau: float) -> ServerState:
    moments = (np.zeros(weights.shape), np.full(weights.shape, tau**2))
    return ServerState(weights=_own_weights(weights), slots=moments, steps=0)


def _adapted(state: ServerState, movement: FloatArray, second: FloatArray, rates: _Rates) -> ServerState:
    """Return the state after the lines of Algorithm 2 for m and x, with the second moment that a variant came to."""
    first = rates.beta_1 * state.slots[0] + (1 - rates.beta_1) * movement
    return _moved(state, rates.rate * first / (np.sqrt(second) + rates.tau), slots=(first, second))


def _check_adaptive(server_learning_rate: float, tau: float, **betas: float) -> None:
    check_positive("server_learning_rate", server_learning_rate)
    check_positive("tau", tau)
    for name, beta in betas.items():
        if not 0 <= beta < 1:
            raise ValueError(f"{name}: expected a value in [0, 1), got {beta}")


def _own_weights(weights: Float32Array) -> Float32Array:
    """Copy, so that a caller who goes on using its array does not change the state."""
    return np.array(weights, dtype=np.float32)


def _moved(state: ServerState, movement: FloatArray, slots: tuple[FloatArray, ...]) -> ServerState:
    weights = (state.weights + movement).astype(np.float32)
    return ServerState(weights=weights, slots=slots, steps=state.steps + 1)


def check_positive(name: str, value: float) -> None:
    """Raise a ValueError that names the setting if it is not a positive, finite number."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: expected a positive number, got {value}")


def check_update_shape(update: Float32Array, n_params: int) -> None:
    """Raise a ValueError if an update is not of a model with so many parameters."""
    if update.shape != (n_params,):
        raise ValueError(f"update: expected shape ({n_params},), got {update.shape}; flatten it in the model's order")


def _check_step(state: ServerState, n_slots: int, movement: FloatArray, rate_scale: float) -> None:
    check_positive("rate_scale", rate_scale)
    if len(state.slots) != n_slots:
        raise ValueError(
            f"state.slots: expected {n_slots}, got {len(state.slots)}; use the aggregator that made this state"
        )
    if movement.shape != state.weights.shape:
        raise ValueError(f"movement: expected shape {state.weights.shape}, got {movement.shape}")
