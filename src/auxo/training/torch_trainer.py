"""Local training of any PyTorch module: participants side by side where the module allows it."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import nn

from auxo.core.asking import Answer
from auxo.core.layers import Layer
from auxo.core.metric import Metric
from auxo.core.rng import stream
from auxo.core.sample_clipping import SampleClipping
from auxo.core.types import Float32Array, FloatArray, InputArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.batching import ONE_BY_ONE, BatchingPlan, TrainsTogether, choose_batching
from auxo.training.job_losses import answers_in_chunks, asked_samples, samples_of
from auxo.training.local_samples import PADDING, local_batches
from auxo.training.objective import CLASSIFICATION, Logits, Objective
from auxo.training.stored_models import check_names
from auxo.training.trainer import NO_CLASS, Batching, Job, LocalTraining

# Read by MKL at its first product: the bits of a product then do not depend on where in memory its operands lie, hence
# not on which participants train together. It costs nothing that could be measured.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

_ROWS_AT_ONCE = 1024  # our choice: bounds the activations a prediction holds


def kaiming_uniform(module: nn.Module, rng: np.random.Generator) -> None:
    """Draw the module's trainable weights uniformly within 1/sqrt(fan in), and set its biases to zero.

    Other vectors, such as the gains of a group norm, stay as the module built them.
    """
    for name, parameter in _trainable(module):
        if parameter.dim() > 1:
            bound = (parameter.shape[0] / parameter.numel()) ** 0.5
            drawn = rng.uniform(-bound, bound, size=tuple(parameter.shape)).astype(np.float32)
            parameter.data.copy_(torch.from_numpy(drawn))
        elif "bias" in name:
            parameter.data.zero_()


@dataclass(frozen=True)
class TorchTrainer:
    """Trains the module that ``module_factory`` builds, which maps a batch of inputs to logits.

    The flat weights are the module's trainable parameters in the order of ``named_parameters``. Frozen ones stay as
    built, and the module must leave its buffers alone. ``initialise`` sets the weights a run starts from; pass one that
    does nothing to start from a pretrained module.

    Participants train one by one unless ``batching`` says otherwise; `suited_to` finds a faster plan for a module and
    data.

    While a job runs, torch computes on one thread. One by one, its default generator is lent a state of the job's own,
    so dropout draws the same numbers whoever runs the job. Both are put back afterwards. Use one trainer for each
    thread.

    Raises:
        ValueError: the module has nothing to train, parameters other than float32, or running statistics.
    """

    module_factory: Callable[[], nn.Module]
    initialise: Callable[[nn.Module, np.random.Generator], None] = kaiming_uniform
    batching: BatchingPlan = ONE_BY_ONE
    objective: Objective = CLASSIFICATION
    _module: nn.Module = field(init=False, repr=False, compare=False)
    _together: TrainsTogether | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        module = self._build()
        _check_module(module)
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_together", self.batching.build(module, self.objective))

    def suited_to(self, data: FederatedData, batching: Batching = "auto") -> "TorchTrainer":
        """Return a trainer that trains the module on such data as fast as it can.

        Its ``batching.note`` says why participants do not train side by side, if they do not.

        Raises:
            ValueError: ``batching`` asks for a way that does not give the right updates.
        """
        weights = self.initial_weights(0)

        def alone(data: FederatedData, batches: IntArray) -> Float32Array:
            return self._descend(weights, data, batches, LocalTraining(), stream(0, "trial")) - weights

        with _one_thread(), _lent_generator(stream(0, "trial")):
            return replace(self, batching=choose_batching(self._module, weights, data, alone, batching, self.objective))

    @property
    def clips_gradients(self) -> bool:
        """Return that it can, sample by sample: slower by about the size of a batch."""
        return True

    @property
    def n_params(self) -> int:
        """Return the length of the flat weight vector."""
        return sum(parameter.numel() for _, parameter in _trainable(self._module))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the tensors that the flat weights are made of, in their order."""
        return tuple(Layer(tuple(one.shape)) for _, one in _trainable(self._module) if one.numel())

    def initial_weights(self, seed: int) -> Float32Array:
        """Return the weights every method starts from."""
        module = self._build()  # a fresh one: training has left its mark on the other
        self.initialise(module, stream(seed, "initial_weights"))
        return _flatten(module)

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

        def train_some(some: Sequence[Job], updates: Float32Array) -> list[FloatArray]:
            batches = local_batches(data, some, settings, seed)
            if self._together is not None and settings.samples is None:
                asked = asked_samples(data, some, batches)
                with _one_thread():
                    return self._together.train(weights, data, batches, settings, updates, asked)
            for job, of_job, update in zip(some, batches, updates, strict=True):
                rng = stream(seed, "torch", job.client_row, job.visit)
                chance = stream(seed, "sample noise", job.client_row, job.visit)
                trained = self._descend(weights, data, of_job, settings, rng, chance)
                # NaN or infinity in an update is the validator's to find; numpy need not warn of it as well.
                with np.errstate(over="ignore", invalid="ignore"):
                    np.subtract(trained, weights, out=update)
            return [np.zeros(0)] * len(some)

        room = self.n_params if out is None else out
        return answers_in_chunks(data, jobs, self.batching.at_once, room, train_some)

    def predict(self, weights: Float32Array, x: InputArray) -> IntArray:
        """Return the most likely class of each row of ``x``; NO_CLASS where the module gives no numbers."""
        given = self._outputs(weights, x)
        classes = [logits.argmax(dim=1).masked_fill(logits.isnan().any(dim=1), NO_CLASS).numpy() for logits in given]
        return np.concatenate(classes) if classes else np.zeros(0, dtype=np.int64)

    def losses(self, weights: Float32Array, x: InputArray, y: NDArray[Any]) -> FloatArray:
        """Return the loss of each row of ``x`` under its label or its targets."""
        with self._predicting(weights) as module:
            return _measured(module, x, y, self.objective.losses)

    def job_losses(self, weights: Float32Array, data: FederatedData, jobs: Sequence[Job]) -> list[FloatArray]:
        """Return, for each job, the losses of the samples that it trains on.

        The weights are loaded once, and every job's samples pass through the module together. Jobs that report their
        loss pass through the kernels where these are faster: to rounding the same. All others have the bits of
        `losses`, with which models are compared.
        """
        self._check_weights(weights)
        found: dict[int, FloatArray] = {}
        kernels = None if self._together is None else self._together.logits_at(weights)
        by_kernels = [row for row, job in enumerate(jobs) if kernels is not None and job.ask.reports_loss]
        by_module = [row for row, job in enumerate(jobs) if kernels is None or not job.ask.reports_loss]
        with _one_thread(), torch.inference_mode():
            for rows, lent in ((by_module, self._predicting(weights)), (by_kernels, kernels)):
                if rows and lent is not None:
                    with lent as logits:
                        of_jobs = samples_of(data, [jobs[row] for row in rows])
                        told = [_measured(logits, x, y, self.objective.losses) for x, y in of_jobs]
                        found.update(zip(rows, told, strict=True))
        return [found[row] for row in range(len(jobs))]

    @property
    def counts_hits(self) -> bool:
        """Return whether a client's score is the share of its samples whose class is right."""
        return self.objective.counts_hits

    @property
    def metric(self) -> Metric:
        """Return how the score is called and shown."""
        return self.objective.measured

    @property
    def score_words(self) -> str:
        """Return what the score is, for people."""
        return self.objective.words()

    def scores(self, weights: Float32Array, x: InputArray, y: NDArray[Any]) -> FloatArray:
        """Return the score of each row of ``x``; larger is better."""
        with self._predicting(weights) as module:
            return _measured(module, x, y, self.objective.scores)

    def outputs(self, weights: Float32Array, x: InputArray) -> FloatArray:
        """Return what the model gives for each row of ``x``, (rows, outputs)."""
        found = [outputs.to(torch.float64).numpy() for outputs in self._outputs(weights, x)]
        return np.concatenate(found) if found else np.zeros((0, 0))

    def probabilities(self, weights: Float32Array, x: InputArray) -> FloatArray | None:
        """Return how likely each class or label is for each row of ``x``; None where outputs do not tell."""
        likely = self.objective.likely
        if likely is None:
            return None
        found = [likely(outputs.to(torch.float64)).numpy() for outputs in self._outputs(weights, x)]
        return np.concatenate(found) if found else np.zeros((0, 0))

    def module(self, weights: Float32Array) -> nn.Module:
        """Return a module of its own with these weights, ready to predict."""
        self._check_weights(weights)
        module = self._build()
        _load(module, weights)
        return module.eval()

    def to_file(self, weights: Float32Array) -> bytes:
        """Return the module's whole state, frozen parameters and buffers included: its ``load_state_dict`` takes it."""
        state = self.module(weights).state_dict()
        # Copies, because the format has no room for tensors that share their memory.
        return safetensors.torch.save({name: tensor.clone().contiguous() for name, tensor in state.items()})

    def from_file(self, content: bytes) -> Float32Array:
        """Return the flat weights of a module that `to_file` wrote; see `StoresModels`."""
        try:
            found = safetensors.torch.load(content)
        except (safetensors.SafetensorError, ValueError, KeyError) as error:
            raise ValueError(f"expected a safetensors file, got something else ({error}); use another copy") from error
        module = self._build()
        check_names(module.state_dict(), found)
        try:
            module.load_state_dict(found)
        except RuntimeError as error:
            raise ValueError(f"tensors: {error}; load it with the model that was trained") from error
        return _flatten(module)

    @contextlib.contextmanager
    def _predicting(self, weights: Float32Array) -> Iterator[nn.Module]:
        """Lend the module with these weights."""
        self._check_weights(weights)
        _load(self._module, weights)
        with _one_thread(), torch.inference_mode():
            yield self._module.eval()

    def _outputs(self, weights: Float32Array, x: InputArray) -> list[torch.Tensor]:
        with self._predicting(weights) as module:
            return [module(_tensor(x[rows])) for rows in _some_rows(x)]

    def _build(self) -> nn.Module:
        # A stream of a fixed name: what is random and frozen in the module is then the same in every process.
        with _lent_generator(stream(0, "module")):
            return self.module_factory()

    def _descend(
        self,
        weights: Float32Array,
        data: FederatedData,
        batches: IntArray,
        settings: LocalTraining,
        rng: np.random.Generator,
        chance: np.random.Generator | None = None,
    ) -> Float32Array:
        """Return the flat weights after SGD over the batches; ``chance`` is for noise, where no sample is to show."""
        _load(self._module, weights)
        self._module.train()
        parameters = [parameter for _, parameter in _trainable(self._module)]
        velocities = [torch.zeros_like(parameter) for parameter in parameters] if settings.momentum else None
        starts = [parameter.detach().clone() for parameter in parameters] if settings.proximal else []
        with _one_thread(), _lent_generator(rng):
            for batch in batches:
                positions = batch[batch != PADDING]
                if settings.samples is None or chance is None:
                    gradients = self._gradients(data, positions, parameters)
                else:
                    one_by_one = (self._gradients(data, one, parameters) for one in positions[:, np.newaxis])
                    gradients = _noised_mean(one_by_one, len(positions), settings.samples, chance)
                with torch.no_grad():
                    if settings.weight_decay:
                        gradients = tuple(
                            gradient.add(parameter, alpha=settings.weight_decay)
                            for parameter, gradient in zip(parameters, gradients, strict=True)
                        )
                    if settings.proximal:
                        gradients = tuple(
                            gradient.add(parameter - start, alpha=settings.proximal)
                            for parameter, start, gradient in zip(parameters, starts, gradients, strict=True)
                        )
                    if velocities is not None:
                        for velocity, gradient in zip(velocities, gradients, strict=True):
                            velocity.mul_(settings.momentum).add_(gradient)
                    for parameter, gradient in zip(parameters, velocities or gradients, strict=True):
                        parameter.sub_(gradient, alpha=settings.learning_rate)
        return _flatten(self._module)

    def _gradients(
        self, data: FederatedData, positions: IntArray, parameters: Sequence[nn.Parameter]
    ) -> tuple[torch.Tensor, ...]:
        """Return the gradients of the mean loss of some samples."""
        logits = self._module(torch.from_numpy(data.inputs(data.train.x_rows[positions])))
        loss = self.objective.mean_loss(logits, torch.from_numpy(data.answers(data.train.y[positions])))
        return torch.autograd.grad(loss, parameters, materialize_grads=True)

    def _check_weights(self, weights: Float32Array) -> None:
        if weights.shape != (self.n_params,):
            raise ValueError(f"weights: expected shape ({self.n_params},), got {weights.shape}")


def _noised_mean(
    of_samples: Iterator[tuple[torch.Tensor, ...]], n: int, samples: SampleClipping, chance: np.random.Generator
) -> tuple[torch.Tensor, ...]:
    """Return the mean of so many samples' gradients, each no longer than the clip, with noise; see `SampleClipping`."""
    total: list[torch.Tensor] = []
    for gradients in of_samples:
        length = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one.double()) for one in gradients]))
        scale = min(1.0, samples.clip / max(float(length), samples.clip)) if bool(length.isfinite()) else 0.0
        clipped = [one * scale if scale else torch.zeros_like(one) for one in gradients]
        total = [left + right for left, right in zip(total, clipped, strict=True)] if total else clipped
    return tuple(
        (one + samples.noise * samples.clip * torch.from_numpy(chance.standard_normal(tuple(one.shape))).float()) / n
        for one in total
    )


def _trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def _flatten(module: nn.Module) -> Float32Array:
    parts = [parameter.detach().numpy().ravel() for _, parameter in _trainable(module)]
    return np.concatenate(parts, dtype=np.float32)


def _load(module: nn.Module, weights: Float32Array) -> None:
    """Copy the flat weights into the module's trainable parameters."""
    flat = torch.from_numpy(np.array(weights))
    first = 0
    with torch.no_grad():
        for _, parameter in _trainable(module):
            parameter.copy_(flat[first : first + parameter.numel()].view_as(parameter))
            first += parameter.numel()


def _measured(logits: Logits, x: InputArray, y: NDArray[Any], measure: Callable[..., Any]) -> FloatArray:
    """Return what a loss or a score says of each row of ``x``, under what a function makes of it."""
    found = np.empty(len(y))
    for rows in _some_rows(y):
        found[rows] = np.asarray(measure(logits(_tensor(x[rows])), _tensor(y[rows])))
    return found


def _some_rows(rows: NDArray[Any]) -> list[slice]:
    return [slice(first, first + _ROWS_AT_ONCE) for first in range(0, len(rows), _ROWS_AT_ONCE)]


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _check_module(module: nn.Module) -> None:
    trainable = _trainable(module)
    if not trainable:
        raise ValueError("module: expected parameters that require gradients, got none")
    for name, parameter in trainable:
        if parameter.dtype != torch.float32:
            raise ValueError(
                f"module: expected float32 parameters, got {parameter.dtype} in {name}; use module.float()"
            )
    for name, part in module.named_modules():
        if getattr(part, "running_mean", None) is not None:
            raise ValueError(
                f"module: {name or 'it'} ({type(part).__name__}) keeps running statistics, which would leak from one "
                "participant to the next; use nn.GroupNorm, or pass track_running_stats=False"
            )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: batches are too small to share, and sums must not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _lent_generator(rng: np.random.Generator) -> Iterator[None]:
    """Lend torch's default generator, which layers cannot be told to leave alone, a state drawn from ``rng``."""
    own = torch.Generator().manual_seed(int(rng.integers(2**63)))
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(own.get_state())
        yield
