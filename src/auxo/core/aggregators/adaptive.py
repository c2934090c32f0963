"""FedYogi, FedAdam and FedAdagrad: server steps whose rate adapts to each parameter.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.aggregators.aggregator import (
    ABOUT_WEIGHTING,
    Accumulator,
    ServerState,
    WeightedMean,
    Weighting,
    check_step,
    moved,
    own_weights,
)
from auxo.core.settings import PositiveFloat, ProperFraction, checked, setting
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
@checked
class FedAdagrad:
    """Adapt the rate of each parameter to the sum of all its past squared updates: it only ever falls.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from, as in the paper.
    """

    server_learning_rate: PositiveFloat = setting(
        0.03,
        "Our choice from the grid of Reddi et al.; the best one depends on the task.",
    )
    beta_1: ProperFraction = setting(0.0, "What a round leaves of the first moment; 0 is no momentum, as in the paper.")
    tau: PositiveFloat = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", ABOUT_WEIGHTING)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first moment and the sum of squares."""
        return _adaptive_state(weights, self.tau)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 in the FedAdagrad variant."""
        check_step(state, 2, movement, rate_scale)
        second = state.slots[1] + movement**2
        rate = self.server_learning_rate * rate_scale
        return _adapted(state, movement, second, _Rates(rate, self.beta_1, self.tau))


@dataclass(frozen=True)
@checked
class FedAdam:
    """Adapt the rate of each parameter to a moving average of its past squared updates.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from. There is no correction of the
    moments' bias, as in the paper.
    """

    server_learning_rate: PositiveFloat = setting(
        0.01,
        "Our choice from the grid of Reddi et al.; the best one depends on the task.",
    )
    beta_1: ProperFraction = setting(0.9, "What a round leaves of the first moment.")
    beta_2: ProperFraction = setting(0.99, "What a round leaves of the second moment.")
    tau: PositiveFloat = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", ABOUT_WEIGHTING)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first and the second moment."""
        return _adaptive_state(weights, self.tau)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 in the FedAdam variant."""
        check_step(state, 2, movement, rate_scale)
        second = self.beta_2 * state.slots[1] + (1 - self.beta_2) * movement**2
        rate = self.server_learning_rate * rate_scale
        return _adapted(state, movement, second, _Rates(rate, self.beta_1, self.tau))


@dataclass(frozen=True)
@checked
class FedYogi:
    """Adapt the rate of each parameter to the size of its past updates, slowly when that size falls.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from, as in the paper.
    """

    server_learning_rate: PositiveFloat = setting(
        0.01,
        "Our choice from the grid of Reddi et al.; the best one depends on the task.",
    )
    beta_1: ProperFraction = setting(0.9, "What a round leaves of the first moment.")
    beta_2: ProperFraction = setting(0.99, "What a round leaves of the second moment.")
    tau: PositiveFloat = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", ABOUT_WEIGHTING)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first and the second moment."""
        return _adaptive_state(weights, self.tau)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 (its lines for m, v in the FedYogi variant, and x)."""
        check_step(state, 2, movement, rate_scale)
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
    return ServerState(weights=own_weights(weights), slots=moments, steps=0)


def _adapted(state: ServerState, movement: FloatArray, second: FloatArray, rates: _Rates) -> ServerState:
    """Return the state after the lines of Algorithm 2 for m and x, with the second moment that a variant came to."""
    first = rates.beta_1 * state.slots[0] + (1 - rates.beta_1) * movement
    return moved(state, rates.rate * first / (np.sqrt(second) + rates.tau), slots=(first, second))
