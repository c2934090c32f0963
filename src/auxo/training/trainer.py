"""What the simulation needs of local training: weights in, one update for each participant out, in order.

The local steps are in `softmax_trainer.py` and `torch_trainer.py`, and those of many participants at once in `kernels`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from numpy.typing import NDArray

from auxo.core.asking import Answer, Ask
from auxo.core.layers import Layer
from auxo.core.metric import ACCURACY, Metric
from auxo.core.sample_clipping import SampleClipping
from auxo.core.settings import Bounds, NonNegativeFloat, PositiveFloat, PositiveInt, ProperFraction, checked
from auxo.core.types import Float32Array, FloatArray, InputArray, IntArray
from auxo.population.federated_data import FederatedData

Batching = Literal["auto", "stacked", "vmap", "one-by-one"]
"""How several participants train together: in stacked layers, by torch's vmap, or not at all."""


MOST_EPOCHS = 10_000
"""Passes over a client's samples in one participation at most: their orders are drawn in advance; our choice."""

NO_CLASS = -1
"""Predicted where a model's outputs are not numbers: right for nobody."""

_WIDEST_BATCH = 1024  # batches are filled up to their size; beyond this, not further than anybody has samples


@dataclass(frozen=True)
@checked
class LocalTraining:
    """Hyperparameters of a participant's local SGD (paper, section 7.1: batch 6, rate 0.05).

    A step is that of `torch.optim.SGD` with FedProx's term (Li et al., MLSys 2020) added to the gradient: ``proximal``
    times the weights minus those that training started from. It keeps long local training near the cohort's model.
    """

    learning_rate: PositiveFloat = 0.05
    batch_size: PositiveInt = 6
    epochs: Annotated[int, Bounds(ge=1, le=MOST_EPOCHS)] = 1
    momentum: ProperFraction = 0.0
    weight_decay: NonNegativeFloat = 0.0
    proximal: NonNegativeFloat = 0.0  # FedProx's mu
    samples: SampleClipping | None = None  # keeps each sample from showing; only trainers that `ClipsGradients` can

    def fitting(self, data: FederatedData) -> "LocalTraining":
        """Return what comes to the same for these clients without batches far wider than any has samples."""
        widest = max(_WIDEST_BATCH, int(data.train.counts().max(initial=1)))
        return self if self.batch_size <= widest else replace(self, batch_size=widest)


@dataclass(frozen=True)
class Job:
    """One participant's local training: whose samples, in which order, and what it is asked to do.

    The order of samples depends on the seed, ``client_row`` and ``visit`` alone, so a job gives the same bits whichever
    worker runs it.
    """

    client_row: int
    visit: int  # how often this client has trained before
    ask: Ask = field(default_factory=Ask)


class Trainer(Protocol):
    """Trains participants on their own samples; knows the model, not the federation."""

    @property
    def n_params(self) -> int:
        """Return the length of the flat weight vector."""
        ...

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the tensors that the flat weights are made of, in their order."""
        ...

    def initial_weights(self, seed: int) -> Float32Array:
        """Return the weights every method starts from."""
        ...

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

        Besides the update and the examples an answer tells the loss of jobs that report it, where training comes by it
        anyway; where it does not, it is asked for.

        Args:
            weights: (parameters,) that every participant starts from.
            data: the clients' samples.
            jobs: who trains on what.
            settings: how they train.
            seed: of all that is random.
            out: (jobs, parameters) memory for the updates, in the order of the jobs; None: each has its own.
        """
        ...

    def predict(self, weights: Float32Array, x: InputArray) -> IntArray:
        """Return the predicted class of each row of ``x``; NO_CLASS where the model gives no number for one."""
        ...

    def losses(self, weights: Float32Array, x: InputArray, y: IntArray) -> FloatArray:
        """Return the loss of each row of ``x`` under its label, the cross entropy of classes.

        A trainer for other tasks is given their targets instead (`FederatedData.answers`).
        """
        ...


@runtime_checkable
class ClipsGradients(Protocol):
    """A trainer that can clip the gradient of each sample, and have noise in each step (`LocalTraining.samples`)."""

    @property
    def clips_gradients(self) -> bool:
        """Return whether it can."""
        ...


@runtime_checkable
class TellsJobLosses(Protocol):
    """A trainer that works out the losses of many jobs in one go; of others `Trainer.losses` is asked job by job."""

    def job_losses(self, weights: Float32Array, data: FederatedData, jobs: Sequence[Job]) -> list[FloatArray]:
        """Return, for each job, the losses of the samples that it trains on.

        They have the bits of `Trainer.losses` for its samples alone, whatever the other jobs are.
        """
        ...


@runtime_checkable
class ScoresSamples(Protocol):
    """A trainer that may have another score than whether the class is right."""

    @property
    def counts_hits(self) -> bool:
        """Return whether it has not: then `Trainer.predict` is asked."""
        ...

    @property
    def metric(self) -> Metric:
        """Return how the score is called and shown."""
        ...

    @property
    def score_words(self) -> str:
        """Return what the score is, for people."""
        ...

    def scores(self, weights: Float32Array, x: InputArray, y: NDArray[Any]) -> FloatArray:
        """Return the score of each row of ``x``; larger is better."""
        ...

    def outputs(self, weights: Float32Array, x: InputArray) -> FloatArray:
        """Return what the model gives for each row of ``x``, (rows, outputs)."""
        ...


@runtime_checkable
class TellsProbabilities(Protocol):
    """A trainer whose models tell how likely they hold their predictions to be."""

    def probabilities(self, weights: Float32Array, x: InputArray) -> FloatArray | None:
        """Return how likely each class or label is for each row of ``x``, (rows, outputs).

        None where outputs are no log-odds: of numbers to be learned, and where the loss is one of the user's own.
        """
        ...


def scoring(trainer: object) -> ScoresSamples | None:
    """Return the trainer if it scores samples itself; None: a class is right or wrong."""
    return trainer if isinstance(trainer, ScoresSamples) and not trainer.counts_hits else None


def metric_of(trainer: object) -> Metric:
    """Return what a trainer's models are scored by."""
    own = scoring(trainer)
    return ACCURACY if own is None else own.metric
