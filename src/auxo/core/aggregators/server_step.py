"""Aggregators with a way of their own to add up updates, and another one's step."""

from auxo.core.aggregators.aggregator import Aggregator, ServerState, held_by_aggregator
from auxo.core.types import Float32Array, FloatArray

ABOUT_SERVER = "What moves the model by the result; its weighting plays no part."


class StepsByServer:
    """What such an aggregator begins with: its state and its step are those of the server, which is a setting of it.

    Raises:
        ValueError: the server has a way of its own to add up updates, too, which would play no part.
    """

    server: Aggregator

    def __post_init__(self) -> None:
        if held_by_aggregator(self.server) is not None:
            raise ValueError(
                "server: expected an aggregator of plain means, such as fedavg or fedyogi, got "
                f"{type(self.server).__name__}, whose own way to add up updates would play no part"
            )

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: that of the server."""
        return self.server.initial(weights)

    def step(self, state: ServerState, movement: FloatArray, rate_scale: float = 1.0) -> ServerState:
        """Return the state after the server's step."""
        return self.server.step(state, movement, rate_scale)
