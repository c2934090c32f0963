"""Softmax regression of many features with deferred weights, in numpy; `deferred` says how and why.

All of the model is a layer on the raw inputs here, and a bias, which moves at every step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.cross_entropy import cross_entropies, turn_into_gradient
from auxo.training.kernels.deferred import Shrinkage, rows_in_stretch, stretch_steps
from auxo.training.stacked_batches import StackedBatches


@dataclass(frozen=True)
class _Stretch:
    """What the participants still at work need while a stretch of steps lasts, those with most steps first."""

    first_step: int
    inputs: list[Float32Array]  # (rows, features) of each
    outputs: Float32Array  # (participants, rows, classes) with the weights at its start, without the bias
    gram: Float32Array  # (participants, rows, rows) inner products of the inputs
    shrinkage: Shrinkage | None  # with FedProx's term alone


@dataclass(frozen=True)
class DeferredSoftmax:
    """Participants of one round in training, all from the same weights, at a constant rate."""

    matrix: Float32Array  # (features, classes)
    bias: Float32Array  # (classes,)
    rate: float
    proximal: float = 0.0

    def train(
        self, data: FederatedData, batches: StackedBatches, out: Float32Array, asked: IntArray
    ) -> list[FloatArray]:
        """Write the updates of jobs to ``out``, (jobs, parameters), in the order in which they were given.

        Args:
            data: the clients' samples.
            batches: of the jobs.
            out: where the updates go.
            asked: (jobs,) number of each one's first samples whose losses are returned, at the weights it starts from:
                the products that these take are there anyway.
        """
        jobs, batch = len(batches.steps), batches.y.shape[2]
        told: list[list[FloatArray]] = [[] for _ in range(jobs)]
        biases = np.tile(self.bias, (jobs, 1))
        moved: list[Float32Array] = [self.matrix] * jobs  # their weights at the start of the stretch
        steps = stretch_steps(batch)
        for start in range(0, len(batches.active), steps):
            inputs = [data.numbers(own).reshape(len(own), -1) for own in rows_in_stretch(batches, start)]
            stretch = self._begin(start, inputs, moved, batch)
            for job, losses in self._losses(stretch, batches, asked[batches.job_rows] - start * batch, moved):
                told[batches.job_rows[job]].append(losses)
            gradients = self._descend(stretch, batches, biases)
            for job, own in enumerate(inputs):
                update = out[batches.job_rows[job]] if batches.steps[job] <= start + steps else None
                moved[job] = self._move(stretch, job, moved[job], gradients[job, : len(own)], update)
        out[batches.job_rows, self.matrix.size :] = biases - self.bias
        out[batches.job_rows[batches.steps == 0]] = 0.0  # nobody has written there
        return [np.concatenate(some) if some else np.zeros(0) for some in told]

    def _losses(
        self, stretch: _Stretch, batches: StackedBatches, asked: IntArray, moved: list[Float32Array]
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield jobs, and the losses of so many first rows of the stretch at the weights that all started from."""
        for job in np.flatnonzero(asked[: len(stretch.inputs)] > 0).tolist():
            own = stretch.inputs[job]
            rows = min(int(asked[job]), len(own))
            is_first = moved[job] is self.matrix
            logits = (stretch.outputs[job, :rows] if is_first else own[:rows] @ self.matrix) + self.bias
            labels = batches.y[stretch.first_step :, job].reshape(-1)[:rows]
            yield job, cross_entropies(logits, labels)

    def _begin(self, step: int, inputs: list[Float32Array], moved: list[Float32Array], batch: int) -> _Stretch:
        jobs, rows = len(inputs), len(inputs[0])
        shrinkage = Shrinkage.of(self.rate, self.proximal, batch, rows) if self.proximal else None
        outputs = np.empty((jobs, rows, len(self.bias)), dtype=np.float32)
        grams = np.empty((jobs, rows, rows), dtype=np.float32)
        for job, own in enumerate(inputs):
            base, gram = outputs[job, : len(own)], grams[job, : len(own), : len(own)]
            np.matmul(own, moved[job], out=base)
            np.matmul(own, own.T, out=gram)
            if shrinkage is not None:
                gram *= shrinkage.gram[: len(own), : len(own)]
            if shrinkage is not None and moved[job] is not self.matrix:
                kept = shrinkage.since_start[: len(own), np.newaxis]
                base *= kept
                base += (1 - kept) * (own @ self.matrix)
        return _Stretch(step, inputs, outputs, grams, shrinkage)

    def _descend(self, stretch: _Stretch, batches: StackedBatches, biases: Float32Array) -> Float32Array:
        """Take the steps of a stretch, biases included, and return the gradients by the logits, row by row."""
        batch = batches.y.shape[2]
        gradients = np.empty_like(stretch.outputs)
        for number in range(len(stretch.inputs[0]) // batch):
            step, row = stretch.first_step + number, number * batch
            active, here = batches.active[step], slice(row, row + batch)
            logits = stretch.outputs[:active, here] + biases[:active, np.newaxis]
            if row:
                logits -= self.rate * np.matmul(stretch.gram[:active, here, :row], gradients[:active, :row])
            turn_into_gradient(logits, batches.y[step, :active], batches.shares[step, :active])
            gradients[:active, here] = logits
            by_bias = logits.sum(axis=1)
            if self.proximal:
                by_bias += self.proximal * (biases[:active] - self.bias)
            biases[:active] -= self.rate * by_bias
        return gradients

    def _move(
        self, stretch: _Stretch, job: int, moved: Float32Array, dy: Float32Array, update: Float32Array | None
    ) -> Float32Array:
        """Return a participant's weights after what a stretch has gathered; write its update instead if it is done."""
        x = stretch.inputs[job]
        if stretch.shrinkage is not None:
            dy = dy * stretch.shrinkage.until_end[-len(x) :, np.newaxis]
            if moved is not self.matrix:
                moved = moved - np.float32(1 - stretch.shrinkage.over(len(x))) * (moved - self.matrix)
        by = np.empty_like(self.matrix) if update is None else update[: self.matrix.size].reshape(self.matrix.shape)
        np.matmul(x.T, dy, out=by)
        by *= -np.float32(self.rate)
        if update is None:
            return moved + by
        if moved is not self.matrix:
            by += moved - self.matrix
        return moved
