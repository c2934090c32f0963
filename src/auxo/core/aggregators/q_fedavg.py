"""q-FedAvg: whoever has the larger loss moves the model more, so that accuracy is spread more evenly over clients.

Li, Sanjabi, Beirami, Smith, Fair Resource Allocation in Federated Learning, ICLR 2020, Algorithm 2. With F_k the loss
of participant k at the model w that it was sent, u_k its update, and L the Lipschitz constant of the loss's gradient,
which the authors' code takes to be one over the participants' learning rate,

    w <- w + sum_k F_k^q L u_k / sum_k (q F_k^(q-1) |L u_k|^2 + L F_k^q)

so the server has no learning rate of its own to tune: the larger q, the shorter the step that the second sum allows.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.aggregators.aggregator import (
    Accumulator,
    Aggregator,
    Report,
    ServerState,
    StreamedSum,
    check_update_shape,
)
from auxo.core.aggregators.fedavg import FedAvg
from auxo.core.aggregators.server_step import ABOUT_SERVER, StepsByServer
from auxo.core.settings import NonNegativeFloat, PositiveFloat, checked, setting
from auxo.core.types import Float32Array, FloatArray

_LEAST_LOSS = 1e-10  # is added to every loss, as the authors' code does: 0 has no negative power
_NO_WEIGHT = 1e-20  # what counts for less beside the largest loss of a round does not count


class FairSum:
    """A round's updates on their way to a step of q-FedAvg, as a stream; none is kept.

    Powers of losses soon leave the range of numbers, so all are relative to the largest loss so far.
    """

    def __init__(self, n_params: int, q: float, lipschitz: float) -> None:
        self._sum, self._n_params = StreamedSum(n_params), n_params
        self._q, self._lipschitz = q, lipschitz
        self._largest = self._divisor = 0.0

    def add(self, update: Float32Array, report: Report) -> None:
        """Add an update; without a loss nobody can say what it counts for, and unless q is 0 it does not."""
        check_update_shape(update, self._n_params)
        if self._q == 0:
            loss = 1.0
        elif report.loss is None:
            return
        else:
            loss = max(report.loss, 0.0) + _LEAST_LOSS
        if loss > self._largest:
            smaller = (self._largest / loss) ** self._q
            self._sum.shrink(smaller)
            self._divisor *= smaller
            self._largest = loss
        weight = (loss / self._largest) ** self._q
        if weight < _NO_WEIGHT:
            return
        self._sum.add(update, weight)
        squared = float(np.dot(update, update))
        # Both sums of the rule above, divided by L: with q = 0 this one is the number of updates, to the last bit.
        self._divisor += weight * (1 + self._q * self._lipschitz * squared / loss)

    def result(self) -> FloatArray | None:
        """Return what to move by; None where no update counts."""
        return self._sum.total() / self._divisor if self._divisor > 0 else None


@dataclass(frozen=True)
@checked
class QFedAvg(StepsByServer):
    """Weigh each update by its participant's loss to the power q, and step as far as q and the updates' lengths allow.

    Participants are asked for their loss at the model that they are sent, which costs them a forward pass; updates
    without one do not count. With q = 0 nobody is asked, and it is federated averaging with uniform weights. A
    participant that lies about its loss weighs as much as it likes.
    """

    q: NonNegativeFloat = setting(
        1.0,
        "How much more those with large losses count: 0 is federated averaging. The authors try 0.001 to 15.",
    )
    learning_rate: PositiveFloat | None = setting(
        None,
        "Of the participants: the Lipschitz constant is one over it. Not set: training.learning_rate.",
    )
    server: Aggregator = setting(FedAvg(), ABOUT_SERVER)

    @property
    def asks_for_loss(self) -> bool:
        """Return whether losses count."""
        return self.q > 0

    def at_rate(self, learning_rate: float) -> Aggregator:
        """Return the aggregator for participants of this learning rate, unless it has been told another."""
        return replace(self, learning_rate=learning_rate) if self.learning_rate is None else self

    def initial(self, weights: Float32Array) -> ServerState:
        """Return the state before the first round: that of the server."""
        self._lipschitz()  # better now than in the first round
        return super().initial(weights)

    def accumulate(self, state: ServerState) -> Accumulator:
        """Return the sums, before the first update."""
        return FairSum(len(state.weights), self.q, self._lipschitz())

    def _lipschitz(self) -> float:
        if self.q == 0:
            return 1.0  # it plays no part
        if self.learning_rate is None:
            raise ValueError(
                "learning_rate: expected that of the participants, got none; give it, as in QFedAvg(learning_rate=0.05)"
            )
        return 1 / self.learning_rate
