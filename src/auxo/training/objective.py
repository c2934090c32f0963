"""What a model is trained for: the loss that participants make small, and the score that clients are given.

Classification is the default, with the cross entropy and the share of samples whose class is right. Data with numbers
to predict, or with several labels a sample, bring targets; a loss and a metric of one's own are functions by import
path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from auxo.core.metric import ACCURACY, JACCARD_INDEX, VARIANCE_EXPLAINED, Metric
from auxo.core.types import FloatArray
from auxo.population.federated_data import FederatedData
from auxo.population.preparation import LearningTask
from auxo.registry.import_path import code_file, load_callable, made_absolute
from auxo.registry.own_errors import error_words

PerSample = Callable[[Tensor, Tensor], Tensor]
"""Takes a model's outputs (samples, outputs) and the samples' labels or targets, and returns a number for each."""

Logits = Callable[[Tensor], Tensor]
"""Takes samples and returns what a model makes of them: a module, or something faster that comes to the same."""

LEAST_SCORE = -1e6
"""Of a sample: a model that has diverged is told by it, since files hold finite numbers only; our choice."""

_METRICS = {"classification": ACCURACY, "regression": VARIANCE_EXPLAINED, "multi-label": JACCARD_INDEX}
_TRIED = 3  # samples that a function of the user's own is tried on


@dataclass(frozen=True)
class Objective:
    """A loss and a score; a value, so that another process can build the same."""

    task: LearningTask = "classification"
    loss: str | None = None  # import path of a loss of one's own
    metric: str | None = None  # import path of a metric of one's own
    variances: tuple[float, ...] = ()  # of each target over the training samples, for regression

    @property
    def is_cross_entropy(self) -> bool:
        """Return whether the loss is the one that the hand-written kernels know."""
        return self.task == "classification" and self.loss is None

    @property
    def counts_hits(self) -> bool:
        """Return whether a sample is right or wrong, so that the score is an accuracy."""
        return self.task == "classification" and self.metric is None

    def losses(self, outputs: Tensor, answers: Tensor) -> Tensor:
        """Return the loss of each sample, (samples,)."""
        if self.loss is not None:
            return _own(self.loss)(outputs, answers)
        match self.task:
            case "classification":
                return functional.cross_entropy(outputs, answers, reduction="none")
            case "regression":
                return functional.mse_loss(outputs, answers, reduction="none").mean(dim=-1)
            case "multi-label":
                return functional.binary_cross_entropy_with_logits(outputs, answers, reduction="none").mean(dim=-1)

    def mean_loss(self, outputs: Tensor, answers: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        if self.is_cross_entropy:
            return functional.cross_entropy(outputs, answers)  # the same number, but not always the same last bit
        return self.losses(outputs, answers).mean()

    def scores(self, outputs: Tensor, answers: Tensor) -> FloatArray:
        """Return the score of each sample, (samples,); larger is better, and of those that come with Auxo 1 is best.

        - classification: 1 for the right class, 0 for another;
        - regression: 1 minus the squared error over the variance of the target, which makes its mean the share of the
          variance that is explained;
        - multi-label: labels both told and true over labels told or true (Jaccard index).
        """
        if self.metric is not None:
            metric = _own(self.metric)
            sign = -1.0 if self.measured.smaller_is_better else 1.0
            found = sign * metric(outputs, answers).to(torch.float64)
        else:
            found = self._built_in_scores(outputs, answers)
        numbers = found.numpy()
        return np.maximum(np.where(np.isfinite(numbers), numbers, LEAST_SCORE), LEAST_SCORE)

    def _built_in_scores(self, outputs: Tensor, answers: Tensor) -> Tensor:
        match self.task:
            case "classification":
                return (outputs.argmax(dim=1) == answers).to(torch.float64)
            case "regression":
                errors = (outputs.to(torch.float64) - answers.to(torch.float64)).square()
                return 1 - (errors / torch.tensor(self.variances, dtype=torch.float64)).mean(dim=1)
            case "multi-label":
                told, true = outputs > 0, answers > 0.5
                either = (told | true).sum(dim=1)
                both = (told & true).sum(dim=1)
                return torch.where(either > 0, both / either.clamp(min=1), torch.ones_like(either, dtype=torch.float32))

    @property
    def likely(self) -> Callable[[Tensor], Tensor] | None:
        """Return what makes probabilities of outputs; None where they are no log-odds."""
        if self.loss is not None or self.task == "regression":  # nobody knows what a loss of one's own makes of them
            return None
        return torch.sigmoid if self.task == "multi-label" else partial(torch.softmax, dim=1)

    @property
    def measured(self) -> Metric:
        """Return how the score is called and shown; a metric of one's own says it by ``unit`` and its direction.

        >>> Objective("regression").measured.name
        'variance explained'
        """
        if self.metric is None:
            return _METRICS[self.task]
        own = _own(self.metric)
        unit, is_smaller = getattr(own, "unit", ""), getattr(own, "smaller_is_better", False)
        return Metric(self.metric.rpartition(":")[2], str(unit), bool(is_smaller))

    def words(self) -> str:
        """Return what the score is, for people."""
        if self.metric is not None:
            better = "smaller" if self.measured.smaller_is_better else "larger"
            unit = f" in {self.measured.unit}" if self.measured.unit else ""
            return f"{self.measured.name}, its mean over a client's test samples{unit}; {better} is better"
        match self.task:
            case "classification":
                return "the share of a client's test samples whose class is right"
            case "regression":
                return (
                    "the variance explained: 100 % if every number is met, 0 % if it is no better than the mean of "
                    "everybody's, and below 0 % if it is worse than that"
                )
            case "multi-label":
                return "the Jaccard index: labels both told and true over labels told or true"


CLASSIFICATION = Objective()


def objective_for(data: FederatedData, loss: str | None = None, metric: str | None = None) -> Objective:
    """Return what models of these data are trained for, with the user's own functions tried on a few samples.

    Raises:
        ValueError: a function cannot be found, fails, or does not return a number for each sample.
        ModuleNotFoundError: its code needs what is not installed.
    """
    variances: tuple[float, ...] = ()
    if data.task == "regression" and data.targets is not None:
        found = data.targets[data.train.y].var(axis=0, dtype=np.float64)
        variances = tuple(np.where(found > 0, found, 1.0).tolist())
    made = Objective(
        data.task,
        None if loss is None else made_absolute(loss),
        None if metric is None else made_absolute(metric),
        variances,
    )
    for key, path in (("loss", made.loss), ("metric", made.metric)):
        if path is not None and len(data.train.y):
            _try(key, path, data)
    return made


def _try(key: str, path: str, data: FederatedData) -> None:
    answers = torch.from_numpy(data.answers(data.train.y[:_TRIED]))
    outputs = torch.zeros(len(answers), data.n_classes, requires_grad=True)
    given = (
        f"outputs {tuple(outputs.shape)} and {'labels' if data.targets is None else 'targets'} {tuple(answers.shape)}"
    )
    expected = f"{key}: {path}: expected a number for each of {len(answers)} samples, given {given}"
    try:
        found = _own(path)(outputs, answers)
    except Exception as error:
        raise ValueError(f"{expected}, got {error_words(error, code_file(path))}; mend it") from error
    if not isinstance(found, Tensor):
        raise ValueError(f"{expected}, got {type(found).__name__}; return a tensor")
    if found.shape != (len(answers),):
        raise ValueError(f'{expected}, got shape {tuple(found.shape)}; take no mean over samples (reduction="none")')
    if key == "loss" and not found.requires_grad:
        raise ValueError(f"{expected}, got one without a gradient; compute it from the outputs with torch alone")


def _own(path: str) -> PerSample:
    function: PerSample = load_callable(path)  # type: ignore[assignment]  # tried when the objective was made
    return function
