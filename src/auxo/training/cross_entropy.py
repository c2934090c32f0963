"""The cross entropy in numpy, and its gradient by the logits for many participants' batches at a time."""

import numpy as np

from auxo.core.types import Float32Array, FloatArray, IntArray


def cross_entropies(logits: Float32Array, y: IntArray) -> FloatArray:
    """Return the cross entropy of each row, (rows, classes), under its label.

    >>> cross_entropies(np.zeros((1, 4), dtype=np.float32), np.array([2])).round(4).tolist()
    [1.3863]
    """
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(exact).sum(axis=1)) - exact[np.arange(len(y)), y])


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
