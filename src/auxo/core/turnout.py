"""What a round tells a selector of those it had invited: who came, how long each took, and what each sent."""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Times:
    """What the clock says of a round's participants, row aligned; NaN where nobody knows.

    All are for the usual work, whatever a participant was asked to do: they say how fast it is.
    """

    usual_s: FloatArray  # from the invitation to the end of the upload
    epoch_s: FloatArray  # of that, one pass of training over its samples
    upload_s: FloatArray  # of that, the upload of a whole update
    late: BoolArray  # finished after the round had closed

    @staticmethod
    def unknown(count: int) -> "Times":
        """Return that nobody has looked at a clock, and that nobody was late."""
        nothing = np.full(count, np.nan)
        return Times(nothing, nothing, nothing, np.zeros(count, dtype=np.bool_))


@dataclass(frozen=True)
class Turnout:
    """A round's participants after it has closed, one row each: also those that were late or gave up."""

    clients: IntArray
    answered: BoolArray  # with a valid update, in time or heard late; those neither answered nor late have failed
    examples: IntArray  # samples behind the update; 0 without one
    loss: FloatArray  # mean over the samples it trained on, at the model it was sent; NaN: nobody asked
    squared_loss: FloatArray  # mean of the squares of these samples' losses; NaN: not known
    length: FloatArray  # of the update that was sent; NaN without one
    times: Times

    @property
    def failed(self) -> BoolArray:
        """Return who gave nothing: gone, broken down, or its update was refused."""
        failed: BoolArray = ~self.answered & ~self.times.late
        return failed
