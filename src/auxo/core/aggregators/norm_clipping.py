"""Norm clipping: no update moves the model further than a bound, whatever aggregator takes them.

Sun et al., Can You Really Backdoor Federated Learning?, 2019, section 3: an update u becomes u / max(1, |u| / M). It
shortens what `usual_updates` would still let through, and refuses nothing.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.aggregators.aggregator import Accumulator, Aggregator, Report, ServerState, asks_for_loss, at_rate
from auxo.core.aggregators.fedavg import FedAvg
from auxo.core.settings import PositiveFloat, checked, setting
from auxo.core.types import Float32Array, FloatArray


@dataclass(frozen=True)
class ClippedUpdates:
    """Hands updates on to another accumulator, none of them longer than a bound; none is kept here."""

    inner: Accumulator
    longest: float

    def add(self, update: Float32Array, report: Report) -> None:
        """Hand on an update, or a shorter copy of it."""
        length = float(np.linalg.norm(update))
        self.inner.add(update if length <= self.longest else update * np.float32(self.longest / length), report)

    def result(self) -> FloatArray | None:
        """Return what the other makes of them."""
        return self.inner.result()


@dataclass(frozen=True)
@checked
class Clipped:
    """Shorten updates to a bound, then do as another aggregator does, state and all."""

    longest: PositiveFloat = setting(
        1.0,
        "Euclidean length that no update may exceed. How long updates are depends on the model and on local training; "
        "our choice.",
    )
    aggregator: Aggregator = setting(FedAvg(), "What takes the updates once they are short enough.")

    @property
    def asks_for_loss(self) -> bool:
        """Return whether the other asks for losses."""
        return asks_for_loss(self.aggregator)

    def at_rate(self, learning_rate: float) -> Aggregator:
        """Return the same around the aggregator for participants of this learning rate."""
        return replace(self, aggregator=at_rate(self.aggregator, learning_rate))

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: that of the other."""
        return self.aggregator.initial(weights)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return what the other accumulates, behind a bound."""
        return ClippedUpdates(self.aggregator.accumulate(state), self.longest)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after the other's step."""
        return self.aggregator.step(state, movement, rate_scale)
