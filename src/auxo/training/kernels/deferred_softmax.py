"""Softmax regression of many features, whose weights move once where plain SGD moves them at every step.

See `deferred_linear` for the idea. All of the model is a layer on the raw inputs here, and a bias: what a step needs of
the weights is the outputs at their start and the errors since.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData
from auxo.training.cross_entropy import turn_into_gradient
from auxo.training.stacked_batches import StackedBatches

_STRETCH_ROWS = 96  # samples after which the weights do move; our choice, see `deferred_linear`


@dataclass(frozen=True)
class LateSoftmax:
    """Participants of one round in training, all from the same weights, at a constant rate."""

    matrix: Float32Array  # (features, classes)
    bias: Float32Array  # (classes,)
    rate: float

    def train(self, data: FederatedData, batches: StackedBatches, out: Float32Array) -> None:
        """Write the updates of jobs to ``out``, (jobs, parameters), in the order in which they were given."""
        jobs, (batch, classes) = len(batches.steps), (batches.y.shape[2], len(self.bias))
        biases = np.tile(self.bias, (jobs, 1))
        moved: list[Float32Array] = [self.matrix] * jobs  # their weights at the start of the stretch
        stretch = max(1, _STRETCH_ROWS // batch)
        for start in range(0, len(batches.active), stretch):
            at_work = batches.active[start]
            ends = np.minimum(batches.steps[:at_work], start + stretch)
            rows = [batches.x_rows[start:end, job].ravel() for job, end in enumerate(ends)]
            inputs = [data.numbers(own).reshape(len(own), -1) for own in rows]
            outputs = np.empty((at_work, len(inputs[0]), classes), dtype=np.float32)
            products = np.empty((at_work, len(inputs[0]), len(inputs[0])), dtype=np.float32)
            for job, own in enumerate(inputs):
                np.matmul(own, moved[job], out=outputs[job, : len(own)])
                np.matmul(own, own.T, out=products[job, : len(own), : len(own)])
            errors = np.empty_like(outputs)
            for step in range(start, int(ends[0])):
                active, row = batches.active[step], (step - start) * batch
                here = slice(row, row + batch)
                logits = outputs[:active, here] + biases[:active, np.newaxis]
                if row:
                    logits -= self.rate * np.matmul(products[:active, here, :row], errors[:active, :row])
                turn_into_gradient(logits, batches.y[step, :active], batches.shares[step, :active])
                errors[:active, here] = logits
                biases[:active] -= self.rate * logits.sum(axis=1)
            for job, own in enumerate(inputs):
                is_done = batches.steps[job] <= start + stretch
                self._move(moved, job, own, errors[job, : len(own)], out[batches.job_rows[job]] if is_done else None)
        out[batches.job_rows, self.matrix.size :] = biases - self.bias
        out[batches.job_rows[batches.steps == 0]] = 0.0  # nobody has written there

    def _move(
        self, moved: list[Float32Array], job: int, x: Float32Array, errors: Float32Array, update: Float32Array | None
    ) -> None:
        """Move a participant's weights by what a stretch has gathered; write its update if it is done."""
        by = np.empty_like(self.matrix) if update is None else update[: self.matrix.size].reshape(self.matrix.shape)
        np.matmul(x.T, errors, out=by)
        by *= -np.float32(self.rate)
        if update is None:
            moved[job] = moved[job] + by
        elif moved[job] is not self.matrix:
            by += moved[job] - self.matrix
