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

_ABOUT_RATE = "Our choice from the grid of Reddi et al.; the best one depends on the task."


class _Adaptive:
    """What the three have in common: Algorithm 2 but for its line for the second moment, v.

    ``tau`` is the degree of adaptivity, and tau squared the second moment to start from. There is no correction of the
    moments' bias, as in the paper.
    """

    server_learning_rate: float
    beta_1: float
    tau: float
    weighting: Weighting

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: slots are the first and the second moment."""
        moments = (np.zeros(weights.shape), np.full(weights.shape, self.tau**2))
        return ServerState(weights=own_weights(weights), slots=moments, steps=0)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after one step of Algorithm 2 in this variant."""
        check_step(state, 2, movement, rate_scale)
        second = self._second(state.slots[1], movement**2)
        first = self.beta_1 * state.slots[0] + (1 - self.beta_1) * movement
        rate = self.server_learning_rate * rate_scale
        return moved(state, rate * first / (np.sqrt(second) + self.tau), slots=(first, second))

    def _second(self, before: FloatArray, squared: FloatArray) -> FloatArray:
        """Return the second moment after a round with these squares of the movement."""
        raise NotImplementedError


@dataclass(frozen=True)
@checked
class FedAdagrad(_Adaptive):
    """Adapt the rate of each parameter to the sum of all its past squared updates: it only ever falls."""

    server_learning_rate: PositiveFloat = setting(0.03, _ABOUT_RATE)
    beta_1: ProperFraction = setting(0.0, "What a round leaves of the first moment; 0 is no momentum, as in the paper.")
    tau: PositiveFloat = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", ABOUT_WEIGHTING)

    def _second(self, before: FloatArray, squared: FloatArray) -> FloatArray:
        return before + squared


@dataclass(frozen=True)
@checked
class FedAdam(_Adaptive):
    """Adapt the rate of each parameter to a moving average of its past squared updates."""

    server_learning_rate: PositiveFloat = setting(0.01, _ABOUT_RATE)
    beta_1: ProperFraction = setting(0.9, "What a round leaves of the first moment.")
    beta_2: ProperFraction = setting(0.99, "What a round leaves of the second moment.")
    tau: PositiveFloat = setting(1e-3, "Degree of adaptivity.")
    weighting: Weighting = setting("examples", ABOUT_WEIGHTING)

    def _second(self, before: FloatArray, squared: FloatArray) -> FloatArray:
        return self.beta_2 * before + (1 - self.beta_2) * squared


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """Adapt the rate of each parameter to the size of its past updates, slowly when that size falls."""

    def _second(self, before: FloatArray, squared: FloatArray) -> FloatArray:
        return before - (1 - self.beta_2) * squared * np.sign(before - squared)
