"""Softmax regression of many features with deferred weights, in numpy; `deferred` says how and why.

All of the model is a layer on the raw inputs here, and a bias, which moves at every step.
"""

from dataclasses import dataclass

import numpy as np

from auxo.core.types import Float32Array
from auxo.population.federated_data import FederatedData
from auxo.training.cross_entropy import turn_into_gradient
from auxo.training.kernels.deferred import rows_in_stretch, stretch_steps
from auxo.training.stacked_batches import StackedBatches


@dataclass(frozen=True)
class DeferredSoftmax:
    """Participants of one round in training, all from the same weights, at a constant rate."""

    matrix: Float32Array  # (features, classes)
    bias: Float32Array  # (classes,)
    rate: float

    def train(self, data: FederatedData, batches: StackedBatches, out: Float32Array) -> None:
        """Write the updates of jobs to ``out``, (jobs, parameters), in the order in which they were given."""
        jobs, (batch, classes) = len(batches.steps), (batches.y.shape[2], len(self.bias))
        biases = np.tile(self.bias, (jobs, 1))
        moved: list[Float32Array] = [self.matrix] * jobs  # their weights at the start of the stretch
        stretch = stretch_steps(batch)
        for start in range(0, len(batches.active), stretch):
            inputs = [data.numbers(own).reshape(len(own), -1) for own in rows_in_stretch(batches, start)]
            rows = len(inputs[0])
            outputs = np.empty((len(inputs), rows, classes), dtype=np.float32)
            gram = np.empty((len(inputs), rows, rows), dtype=np.float32)
            for job, own in enumerate(inputs):
                np.matmul(own, moved[job], out=outputs[job, : len(own)])
                np.matmul(own, own.T, out=gram[job, : len(own), : len(own)])
            gradients = np.empty_like(outputs)
            for step in range(start, start + rows // batch):
                active, row = batches.active[step], (step - start) * batch
                here = slice(row, row + batch)
                logits = outputs[:active, here] + biases[:active, np.newaxis]
                if row:
                    logits -= self.rate * np.matmul(gram[:active, here, :row], gradients[:active, :row])
                turn_into_gradient(logits, batches.y[step, :active], batches.shares[step, :active])
                gradients[:active, here] = logits
                biases[:active] -= self.rate * logits.sum(axis=1)
            for job, own in enumerate(inputs):
                is_done = batches.steps[job] <= start + stretch
                self._move(moved, job, own, gradients[job, : len(own)], out[batches.job_rows[job]] if is_done else None)
        out[batches.job_rows, self.matrix.size :] = biases - self.bias
        out[batches.job_rows[batches.steps == 0]] = 0.0  # nobody has written there

    def _move(
        self, moved: list[Float32Array], job: int, x: Float32Array, dy: Float32Array, update: Float32Array | None
    ) -> None:
        """Move a participant's weights by what a stretch has gathered; write its update if it is done."""
        by = np.empty_like(self.matrix) if update is None else update[: self.matrix.size].reshape(self.matrix.shape)
        np.matmul(x.T, dy, out=by)
        by *= -np.float32(self.rate)
        if update is None:
            moved[job] = moved[job] + by
        elif moved[job] is not self.matrix:
            by += moved[job] - self.matrix
