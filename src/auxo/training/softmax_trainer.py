"""Softmax regression in numpy: many participants' local SGD side by side, each with the bits it would have alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import safetensors.numpy

from auxo.core.asking import Answer
from auxo.core.layers import Layer
from auxo.core.rng import stream
from auxo.core.settings import PositiveInt, checked
from auxo.core.types import Float32Array, FloatArray, InputArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.cross_entropy import cross_entropies, turn_into_gradient
from auxo.training.job_losses import answers_in_chunks, asked_samples
from auxo.training.kernels import DeferredSoftmax
from auxo.training.local_samples import local_batches
from auxo.training.stacked_batches import StackedBatches
from auxo.training.stored_models import tensors_in
from auxo.training.trainer import NO_CLASS, Job, LocalTraining

_ROUNDING = 1e-5  # of lengths: many more than float32 is wrong by
_MANY_PARAMETERS = 8192  # from here on weights that move at every step no longer stay in the cache; our choice


@dataclass(frozen=True)
@checked
class SoftmaxTrainer:
    """Trains a linear classifier; the flat weights are the matrix (features, classes), then the bias (classes,)."""

    n_features: PositiveInt
    n_classes: PositiveInt
    participants_at_once: PositiveInt = 32  # our choice: bounds memory, and the stacked products stay in the cache

    @property
    def n_params(self) -> int:
        """Return the length of the flat weight vector."""
        return (self.n_features + 1) * self.n_classes

    @property
    def clips_gradients(self) -> bool:
        """Return that it can: the gradient of a sample is the product of two vectors, and so is its length."""
        return True

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the matrix, which has a unit for each class, and the bias."""
        return Layer((self.n_features, self.n_classes), units_axis=1), Layer((self.n_classes,))

    def initial_weights(self, seed: int) -> Float32Array:
        """Return zeros whatever the seed: the loss is convex, so there is no symmetry to break."""
        return np.zeros(self.n_params, dtype=np.float32)

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        jobs: Sequence[Job],
        settings: LocalTraining,
        seed: int,
        out: Float32Array | None = None,
    ) -> Iterator[Answer]:
        """Yield one update for each job, in the order of the jobs, the same bits whatever the other jobs are.

        A participant whose training diverges gives back an update that is not finite; it is not an error here.
        """
        self._check_weights(weights)
        self._check_features(data.features)

        def train_some(some: Sequence[Job], updates: Float32Array) -> list[FloatArray]:
            batches = local_batches(data, some, settings, seed)
            asked = asked_samples(data, some, batches)
            stacked = StackedBatches.of(data, batches)
            if settings.samples is not None:
                chance = [
                    stream(seed, "sample noise", some[row].client_row, some[row].visit) for row in stacked.job_rows
                ]
                updates[stacked.job_rows] = self._descend(weights, data, stacked, settings, chance) - weights
                return [np.zeros(0)] * len(some)
            return self._train_some(weights, data, stacked, settings, updates, asked)

        room = self.n_params if out is None else out
        return answers_in_chunks(data, jobs, self.participants_at_once, room, train_some)

    def _train_some(
        self,
        weights: Float32Array,
        data: FederatedData,
        batches: StackedBatches,
        settings: LocalTraining,
        out: Float32Array,
        asked: IntArray,
    ) -> list[FloatArray]:
        """Write the updates of jobs to ``out``, and return what losses come with them."""
        # Divergence shows in the update that comes out, where validation looks for it; a warning would say it twice.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.n_params >= _MANY_PARAMETERS and not (settings.momentum or settings.weight_decay):
                matrix, bias = self._unpack(weights[np.newaxis])
                kernel = DeferredSoftmax(matrix[0], bias[0], settings.learning_rate, settings.proximal)
                return kernel.train(data, batches, out, asked)
            out[batches.job_rows] = self._descend(weights, data, batches, settings) - weights
            return [np.zeros(0)] * len(out)

    def predict(self, weights: Float32Array, x: InputArray) -> IntArray:
        """Return the most likely class of each row of ``x``; of equally likely ones the first."""
        logits = self._logits(weights, x)
        return np.where(np.isnan(logits).any(axis=1), NO_CLASS, np.argmax(logits, axis=1)).astype(np.int64)

    def losses(self, weights: Float32Array, x: InputArray, y: IntArray) -> FloatArray:
        """Return the cross entropy of each row of ``x`` under its label."""
        return cross_entropies(self._logits(weights, x), y)

    def probabilities(self, weights: Float32Array, x: InputArray) -> FloatArray:
        """Return how likely each class is for each row of ``x``, (rows, classes); see `TellsProbabilities`."""
        exact = self._logits(weights, x).astype(np.float64)
        raised = np.exp(exact - exact.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def _logits(self, weights: Float32Array, x: InputArray) -> Float32Array:
        self._check_weights(weights)
        matrix, bias = self._unpack(weights[np.newaxis])
        return np.asarray(self._flat_inputs(x) @ matrix[0] + bias[0])

    def to_file(self, weights: Float32Array) -> bytes:
        """Return the model with the names and shapes of ``torch.nn.Linear(features, classes)``."""
        self._check_weights(weights)
        matrix, bias = self._unpack(weights[np.newaxis])
        return safetensors.numpy.save({"weight": np.ascontiguousarray(matrix[0].T), "bias": bias[0].copy()})

    def from_file(self, content: bytes) -> Float32Array:
        """Return the flat weights of a model that `to_file` wrote; see `StoresModels`."""
        shapes = {"weight": (self.n_classes, self.n_features), "bias": (self.n_classes,)}
        found = tensors_in(content, shapes)
        return np.concatenate([found["weight"].T.ravel(), found["bias"]]).astype(np.float32)

    def _descend(
        self,
        weights: Float32Array,
        data: FederatedData,
        batches: StackedBatches,
        settings: LocalTraining,
        chance: Sequence[np.random.Generator] = (),
    ) -> Float32Array:
        """Return each participant's weights after its local SGD, (participants, parameters).

        Where no sample is to show, ``chance`` has a generator for each participant's noise.
        """
        params = np.tile(weights, (len(batches.job_rows), 1))
        gradients = np.empty_like(params)
        velocities = np.zeros_like(params) if settings.momentum else gradients
        for step, active in enumerate(batches.active):
            here, gradient, velocity = params[:active], gradients[:active], velocities[:active]
            rows = batches.x_rows[step, :active]
            batch_x = data.numbers(rows).reshape(*rows.shape, -1)
            shares, samples = batches.shares[step, :active], settings.samples
            longest = np.inf if samples is None else samples.clip
            self._gradient(here, batch_x, batches.y[step, :active], shares, gradient, longest)
            if samples is not None:
                deviations = samples.noise * samples.clip * shares.max(axis=1)
                for row in range(active):
                    gradient[row] += deviations[row] * chance[row].standard_normal(self.n_params, dtype=np.float32)
            if settings.weight_decay:
                gradient += settings.weight_decay * here
            if settings.proximal:
                gradient += settings.proximal * (here - weights)
            if settings.momentum:
                velocity *= settings.momentum
                velocity += gradient
            here -= settings.learning_rate * velocity
        return params

    def _gradient(
        self,
        params: Float32Array,
        x: Float32Array,
        y: IntArray,
        shares: Float32Array,
        out: Float32Array,
        longest: float = np.inf,
    ) -> None:
        """Write the gradient of the mean cross entropy of each participant's batch to ``out``.

        That of a sample counts for no more than so long a vector. The stacked products are one product of the same
        shape for each participant, so none sees the others.
        """
        matrix, bias = self._unpack(params)
        errors = np.matmul(x, matrix)
        errors += bias[:, np.newaxis]
        turn_into_gradient(errors, y, shares)
        if longest < np.inf:
            # What one sample adds: its inputs, and 1 for the bias, times its errors; those are its share of the mean.
            lengths = np.linalg.norm(errors, axis=2) * np.sqrt(np.square(x).sum(axis=2) + 1)
            bounds = longest * (1 - _ROUNDING) * shares
            errors *= np.nan_to_num(bounds / np.maximum(lengths, bounds + np.finfo(np.float32).tiny))[:, :, np.newaxis]
            np.nan_to_num(errors, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        matrix_gradient, bias_gradient = self._unpack(out)
        np.matmul(x.transpose(0, 2, 1), errors, out=matrix_gradient)
        np.sum(errors, axis=1, out=bias_gradient)

    def _unpack(self, params: Float32Array) -> tuple[Float32Array, Float32Array]:
        """Return views of the matrices (n, features, classes) and the biases (n, classes) in ``params``."""
        matrix = params[:, : -self.n_classes].reshape(-1, self.n_features, self.n_classes)
        return matrix, params[:, -self.n_classes :]

    def _check_weights(self, weights: Float32Array) -> None:
        if weights.shape != (self.n_params,):
            raise ValueError(f"weights: expected shape ({self.n_params},), got {weights.shape}")

    def _flat_inputs(self, x: InputArray) -> InputArray:
        self._check_features(x.shape[1:])
        return x.reshape(len(x), self.n_features)

    def _check_features(self, shape: tuple[int, ...]) -> None:
        features = int(np.prod(shape))
        if features != self.n_features:
            raise ValueError(f"x: expected {self.n_features} features, got {features}; make the trainer for this data")
