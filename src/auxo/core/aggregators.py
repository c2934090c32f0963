"""Aggregators: participants' updates become one mean, and the mean moves a cohort's model by a server step.

FedAvg is McMahan et al. (AISTATS 2017); FedYogi is Reddi et al. (ICLR 2021), Algorithm 2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, assert_never

import numpy as np

from auxo.core.types import Float32Array, FloatArray

_LEAST_WEIGHT = 1e-20  # products with updates have to stay within float32
_ADDED_AT_ONCE = 8  # updates; our choice: rounding stays below that of the updates themselves

Weighting = Literal["examples", "uniform"]
"""What an update counts for in the mean: as much as the examples behind it, or as much as any other."""


def update_weight(weighting: Weighting, examples: int) -> float:
    """Return the weight of an update that was trained on ``examples`` samples."""
    match weighting:
        case "examples":
            return float(examples)
        case "uniform":
            return 1.0
        case _:
            assert_never(weighting)


def weighted_mean(updates: Iterable[tuple[Float32Array, float]], n_params: int) -> FloatArray | None:
    """Fold (update, weight) pairs into their weighted mean, one after another.

    Updates may stream: none is kept, so memory does not grow with the participants. The order of the pairs fixes
    the order of the additions and with it the bits of the result. A few updates at a time are added up in float32,
    which they came in, and their sums in float64: all of it in float64 would take four times as long.

    Returns:
        The mean, (n_params,); None when the weights sum to zero, as they do without updates.

    Raises:
        ValueError: an update has another shape, or a weight is negative, not finite, or beyond all reason.

    >>> weighted_mean([(np.float32([1, 4]), 1.0), (np.float32([5, 0]), 3.0)], n_params=2)
    array([4., 1.])
    """
    # It takes as long to load as half of the command line, which may have nothing to sum up.
    from scipy.linalg import blas  # noqa: PLC0415

    # Nothing is set aside until there is an update: a round may bring none.
    total, some = np.zeros(0), np.zeros(0, dtype=np.float32)
    total_weight = 0.0
    for number, (delta, weight) in enumerate(updates, start=1):
        if delta.shape != (n_params,):
            raise ValueError(
                f"update: expected shape ({n_params},), got {delta.shape}; flatten it in the model's order"
            )
        if weight != 0 and not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
            raise ValueError(
                f"weight of an update: expected 0 or a number from {_LEAST_WEIGHT} to {1 / _LEAST_WEIGHT}, got {weight}"
            )
        if number == 1:
            total, some = np.zeros(n_params), np.zeros(n_params, dtype=np.float32)
        blas.saxpy(delta, some, a=weight)
        total_weight += weight
        if number % _ADDED_AT_ONCE == 0:
            total += some
            some[:] = 0.0
    return (total + some) / total_weight if total_weight > 0 else None


@dataclass(frozen=True)
class ServerState:
    """A cohort's model and what its server optimiser remembers; children of a partition start from a copy."""

    weights: Float32Array  # (parameters,)
    slots: tuple[FloatArray, ...]  # optimiser state, each (parameters,), in the aggregator's own order
    steps: int


class Aggregator(Protocol):
    """Moves a cohort's weights by the mean of its participants' updates."""

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round."""
        ...

    def step(self, state: ServerState, mean_delta: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after a round; ``rate_scale`` multiplies the server learning rate (linear scaling rule)."""
        ...


@dataclass(frozen=True)
class FedAvg:
    """Add the mean update to the weights; a server learning rate of 1 is plain federated averaging."""

    server_learning_rate: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("server_learning_rate", self.server_learning_rate)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: no slots."""
        return ServerState(weights=_own_weights(weights), slots=(), steps=0)

    def step(self, state: ServerState, mean_delta: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after w <- w + rate * mean_delta."""
        _check_step(state, 0, mean_delta, rate_scale)
        return _moved(state, self.server_learning_rate * rate_scale * mean_delta, slots=())


@dataclass(frozen=True)
class FedYogi:
    """Adapt the rate of each parameter to the size of its past updates, slowly when that size falls.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from, as in the paper.
    """

    server_learning_rate: float = 0.01  # our choice from the grid of Reddi et al.; the best one depends on the task
    beta_1: float = 0.9
    beta_2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        _check_positive("server_learning_rate", self.server_learning_rate)
        _check_positive("tau", self.tau)
        for name, beta in (("beta_1", self.beta_1), ("beta_2", self.beta_2)):
            if not 0 <= beta < 1:
                raise ValueError(f"{name}: expected a value in [0, 1), got {beta}")

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first and the second moment."""
        moments = (np.zeros(weights.shape), np.full(weights.shape, self.tau**2))
        return ServerState(weights=_own_weights(weights), slots=moments, steps=0)

    def step(self, state: ServerState, mean_delta: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 (its lines for m, v in the FedYogi variant, and x)."""
        _check_step(state, 2, mean_delta, rate_scale)
        first, second = state.slots
        squared = mean_delta**2
        first = self.beta_1 * first + (1 - self.beta_1) * mean_delta
        second = second - (1 - self.beta_2) * squared * np.sign(second - squared)
        rate = self.server_learning_rate * rate_scale
        return _moved(state, rate * first / (np.sqrt(second) + self.tau), slots=(first, second))


AGGREGATORS: Mapping[str, type[FedAvg] | type[FedYogi]] = {"fedavg": FedAvg, "fedyogi": FedYogi}
"""Every aggregator under the name it has in a configuration."""


def _own_weights(weights: Float32Array) -> Float32Array:
    """Copy, so that a caller who goes on using its array does not change the state."""
    return np.array(weights, dtype=np.float32)


def _moved(state: ServerState, movement: FloatArray, slots: tuple[FloatArray, ...]) -> ServerState:
    weights = (state.weights + movement).astype(np.float32)
    return ServerState(weights=weights, slots=slots, steps=state.steps + 1)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: expected a positive number, got {value}")


def _check_step(state: ServerState, n_slots: int, mean_delta: FloatArray, rate_scale: float) -> None:
    _check_positive("rate_scale", rate_scale)
    if len(state.slots) != n_slots:
        raise ValueError(
            f"state.slots: expected {n_slots}, got {len(state.slots)}; use the aggregator that made this state"
        )
    if mean_delta.shape != state.weights.shape:
        raise ValueError(f"mean_delta: expected shape {state.weights.shape}, got {mean_delta.shape}")
