"""The gradient of the cross entropy by the logits in numpy, for many participants' batches at a time."""

import numpy as np

from auxo.core.types import Float32Array, IntArray


def turn_into_gradient(logits: Float32Array, y: IntArray, shares: Float32Array) -> None:
    """Turn logits into the gradient of each participant's mean cross entropy by them, in place.

    Args:
        logits: (participants, batch, classes).
        y: (participants, batch) labels.
        shares: (participants, batch) of each sample in its batch's mean; 0 for padding.
    """
    logits -= logits.max(axis=2, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=2, keepdims=True)
    logits.reshape(-1, logits.shape[2])[np.arange(y.size), y.ravel()] -= 1
    logits *= shares[:, :, np.newaxis]
