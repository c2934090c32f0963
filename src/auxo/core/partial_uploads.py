"""Uploads that leave tensors out: what is not sent counts as unchanged (PyramidFL's upload drop-out)."""

from collections.abc import Sequence

import numpy as np

from auxo.core.layers import Layer
from auxo.core.types import BoolArray, Float32Array, FloatArray


def draw_skipped(upload: FloatArray, tensors: int, rng: np.random.Generator) -> BoolArray:
    """Return which tensors each participant leaves out, (participants, tensors).

    A tensor is sent with the chance that ``upload`` says. Somebody who would send nothing sends the tensor that came
    nearest to it: our choice, for a participation that brings nothing helps nobody.
    """
    drawn = rng.random((len(upload), tensors))
    skipped: BoolArray = drawn >= upload[:, None]
    nothing = np.flatnonzero(skipped.all(axis=1))
    skipped[nothing, drawn[nothing].argmin(axis=1)] = False
    return skipped


def sent_share(skipped: BoolArray, layers: Sequence[Layer]) -> FloatArray:
    """Return the share of a model's parameters that each participant sends.

    >>> sent_share(np.array([[True, False], [False, False]]), (Layer((3, 2)), Layer((2,))))
    array([0.25, 1.  ])
    """
    sizes = np.array([layer.size for layer in layers], dtype=np.float64)
    share: FloatArray = (~skipped) @ sizes / sizes.sum()
    return share


def without(update: Float32Array, layers: Sequence[Layer], skipped: Sequence[int]) -> Float32Array:
    """Return an update with zeros in place of the tensors at these places; a copy, unless there are none.

    >>> without(np.float32([1, 2, 3]), (Layer((2,)), Layer((1,))), [0])
    array([0., 0., 3.], dtype=float32)
    """
    if len(skipped) == 0:
        return update
    ends = np.cumsum([layer.size for layer in layers])
    sent = update.copy()
    for place in skipped:
        sent[ends[place] - layers[place].size : ends[place]] = 0.0
    return sent
