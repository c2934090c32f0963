"""Deferred weights: layers on the raw inputs whose weights move once where plain SGD moves them at every step.

The inputs of such a layer are known before training begins. After steps 0..s-1 with inputs x_t and gradients d_t by
the outputs (rows: samples) its weights are ``W - rate * sum_t d_t' x_t``, so the outputs of step s are

    x_s W' - rate * sum_t (x_s x_t') d_t

The first term is one product for all steps. The second is one of the Gram matrix of the inputs, which is one product
too, with the gradients so far, which are few. The weights themselves move once, by ``- rate * D' X``. What would be a
pass over the whole matrix for every batch becomes three products of matrices with as many rows as the participant has
samples, at the speed of large products and with nothing read twice. The sums are the same ones, taken in another order.

Long training is cut into stretches of steps, at whose ends the weights do move.

`deferred_linear` is this for linear layers of a torch module, `deferred_softmax` for softmax regression in numpy, where
all of the model is such a layer.
"""

from auxo.core.types import IntArray
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
