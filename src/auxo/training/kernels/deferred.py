"""Deferred weights: layers on the raw inputs whose weights move once where plain SGD moves them at every step.

The inputs of such a layer are known before training begins. After steps 0..s-1 with inputs x_t and gradients d_t by
the outputs (rows: samples) its weights are ``W - rate * sum_t d_t' x_t``, so the outputs of step s are

    x_s W' - rate * sum_t (x_s x_t') d_t

The first term is one product for all steps. The second is one of the Gram matrix of the inputs, which is one product
too, with the gradients so far, which are few. The weights themselves move once, by ``- rate * D' X``. What would be a
pass over the whole matrix for every batch becomes three products of matrices with as many rows as the participant has
samples, at the speed of large products and with nothing read twice. The sums are the same ones, taken in another order.

Long training is cut into stretches of steps, at whose ends the weights do move.

FedProx's term shrinks what the weights W_s have moved from W by kappa = 1 - rate * proximal at every step:

    W_s - W = kappa * (W_(s-1) - W) - rate * d_(s-1)' x_(s-1) = - rate * sum_t kappa^(s-1-t) d_t' x_t

So entries of the Gram matrix, and the gradients that move the weights, get powers of kappa. From the second stretch on
the outputs at its start do, too: j steps into a stretch that began with weights V they are

    kappa^j x V' + (1 - kappa^j) x W'

A step itself does not change.

`deferred_linear` is this for linear layers of a torch module, `deferred_softmax` for softmax regression in numpy, where
all of the model is such a layer.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import Float32Array, IntArray
from auxo.training.stacked_batches import StackedBatches

_STRETCH_ROWS = 96  # rows of a stretch at most: more make the second term dear, fewer the products small; our choice


def stretch_steps(batch: int) -> int:
    """Return the number of steps in a stretch with so many rows in a batch."""
    return max(1, _STRETCH_ROWS // batch)


def rows_in_stretch(batches: StackedBatches, first: int) -> list[IntArray]:
    """Return, for each job still at work at step ``first``, the rows of its inputs in the stretch that begins there.

    Rows are in the order of the steps. The first job has most, and no other rows than those of whole steps come.
    """
    last = first + stretch_steps(batches.y.shape[2])
    return [batches.x_rows[first : min(last, batches.steps[job]), job].ravel() for job in range(batches.active[first])]


@dataclass(frozen=True)
class Shrinkage:
    """By how much FedProx's term has shrunk what came before, for the rows of a stretch; see above."""

    kappa: float
    batch: int
    since_start: Float32Array  # (rows,) kappa^j of each row's step j: of what had moved before the stretch
    gram: Float32Array  # (rows, rows) kappa^(j - 1 - t): of what the later row's step finds of the earlier's
    until_end: Float32Array  # (rows,) kappa^(last - j): of what the end of the stretch finds of the row's step

    @staticmethod
    def of(rate: float, proximal: float, batch: int, rows: int) -> "Shrinkage":
        """Return the factors for a stretch of so many rows."""
        kappa = 1 - rate * proximal
        step = np.arange(rows) // batch
        # One by one: the bits of a power must not depend on how many there are.
        powers = np.array([kappa**number for number in range(rows // batch)], dtype=np.float32)
        gram = powers[np.maximum(step[:, np.newaxis] - 1 - step, 0)]
        return Shrinkage(kappa, batch, powers[step], gram, powers[step[::-1]])

    def over(self, rows: int) -> float:
        """Return the factor of what had moved before, after the steps of so many rows."""
        return self.kappa ** (rows // self.batch)
