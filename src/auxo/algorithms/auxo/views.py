"""Two views of updates: as they are, and without what a client's class frequencies explain.

How often a client has each class sets the direction of its update more than anything else, and where every client has
frequencies of its own, K-means finds those and not the groups whose inputs look different or mean different things. The
biases of a classifier's last layer move by just these frequencies, less what the model expected, so they tell how much
of an update is due to them. Where groups differ in their frequencies alone, that is the part to look at.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from auxo.core.types import FloatArray

_UPDATES_AN_OUTPUT = 8  # with fewer the regression would fit chance; our choice
_RIDGE = 1e-5  # of the outputs' mean variance: they sum to a constant, so one direction of them has none

ViewName = Literal["plain", "without frequencies"]


@dataclass(frozen=True)
class View:
    """What updates are looked at without; nothing in it belongs to a client."""

    explained: FloatArray | None = None  # (outputs, width) that the outputs add to a direction; None: nothing

    def of(self, directions: FloatArray, outputs: FloatArray) -> FloatArray:
        """Return (participants, width) directions as they are seen.

        Args:
            directions: updates scaled to length one.
            outputs: (participants, outputs) how their last layer's biases moved, see `Fingerprint.outputs`.
        """
        return directions if self.explained is None else directions - outputs @ self.explained


def without_frequencies(directions: FloatArray, outputs: FloatArray) -> View | None:
    """Return the view without what a least-squares fit on the outputs explains; None where there is too little to fit.

    Args:
        directions: (updates, width), each without the mean of its round.
        outputs: (updates, outputs), likewise.
    """
    updates, n_outputs = outputs.shape
    if n_outputs < 2 or updates < _UPDATES_AN_OUTPUT * n_outputs:
        return None
    moments = outputs.T @ outputs
    ridge = _RIDGE * float(np.trace(moments)) / n_outputs
    if ridge <= 0:
        return None
    return View(np.linalg.solve(moments + ridge * np.eye(n_outputs), outputs.T @ directions))
