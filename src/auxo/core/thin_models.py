"""Thin models: what travels of other cohorts' models to those who compare them with their own.

Who does not know its cohort is sent the models of all of them, and trains one. Models of one federation differ by
little, so each of the others is told by its difference from the first, in 4 bits a parameter: that tells which of them
fits as well as the whole does, and a client that finds another to be better begins from what it was sent.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import Float32Array

_BLOCK = 256  # parameters that share a scale; our choice
_MOST = 7  # steps of 4 bits to either side of nothing
_BITS = 4
SHARE = (_BITS + 32 / _BLOCK) / 32
"""Of a whole model, that a thin one takes to send."""


@dataclass(frozen=True, eq=False)
class ThinModel:
    """A model as its difference from another one."""

    scales: Float32Array  # (blocks,) length of a step
    steps: NDArray[np.uint8]  # (half of the parameters,) two in a byte

    @staticmethod
    def of(model: Float32Array, like: Float32Array) -> "ThinModel":
        """Return what has to be said of a model to somebody who has another."""
        difference = np.zeros(-(-model.size // _BLOCK) * _BLOCK, dtype=np.float32)
        difference[: model.size] = model - like
        blocks = difference.reshape(-1, _BLOCK)
        scales = np.abs(blocks).max(axis=1) / np.float32(_MOST)
        apart = np.round(blocks / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
        numbers = (apart.ravel() + 8).astype(np.uint8)
        return ThinModel(scales, (numbers[0::2] | numbers[1::2] << 4).astype(np.uint8))

    def added_to(self, like: Float32Array) -> Float32Array:
        """Return the model, as near as it is told, to whoever has the other one.

        Raises:
            ValueError: it is of a model of another size.
        """
        blocks = -(-like.size // _BLOCK)
        if self.scales.shape != (blocks,) or self.steps.shape != (blocks * _BLOCK // 2,):
            raise ValueError(
                f"expected {blocks} scales for {like.size} parameters, and half a byte a parameter, "
                f"got {self.scales.shape} and {self.steps.shape}"
            )
        numbers = np.empty(blocks * _BLOCK, dtype=np.int8)
        numbers[0::2], numbers[1::2] = self.steps & 15, self.steps >> 4
        difference = (numbers.reshape(blocks, _BLOCK) - np.float32(8)) * self.scales[:, None]
        return np.asarray(like + difference.ravel()[: like.size].astype(np.float32), dtype=np.float32)


def thinned(model: Float32Array, like: Float32Array) -> Float32Array:
    """Return a model as it arrives at somebody who has another one."""
    return ThinModel.of(model, like).added_to(like)
