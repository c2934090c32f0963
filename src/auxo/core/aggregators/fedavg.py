"""FedAvg: the mean update is added to the model (McMahan et al., AISTATS 2017)."""

from dataclasses import dataclass

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
from auxo.core.settings import PositiveFloat, checked, setting
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
@checked
class FedAvg:
    """Add the mean update to the weights; a server learning rate of 1 is plain federated averaging."""

    server_learning_rate: PositiveFloat = setting(
        1.0,
        "What the mean update is multiplied with; 1 is plain federated averaging.",
    )
    weighting: Weighting = setting("examples", ABOUT_WEIGHTING)

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: no slots."""
        return ServerState(weights=own_weights(weights), slots=(), steps=0)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the mean of updates, before the first."""
        return WeightedMean(len(state.weights), self.weighting)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after w <- w + rate * movement."""
        check_step(state, 0, movement, rate_scale)
        return moved(state, self.server_learning_rate * rate_scale * movement, slots=())
