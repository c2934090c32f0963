"""What a run's models take and give, so that they can be built again without the data that they were made for."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from auxo.population.federated_data import FederatedData, Samples, StoredInputs
from auxo.population.preparation import LearningTask


@dataclass(frozen=True)
class ModelInputs:
    """All that a model is sized by, and what it was trained for."""

    features: tuple[int, ...]  # shape of an input
    classes: int  # or numbers to be learned, or labels that a sample may have
    kind: Literal["numbers", "tokens"] = "numbers"
    largest: int = 0  # token
    task: LearningTask = "classification"
    deviations: tuple[float, ...] = ()  # of the numbers to be learned, over training samples: scores are relative to it

    @staticmethod
    def of(data: FederatedData) -> "ModelInputs":
        """Return what a model for these data takes."""
        deviations: tuple[float, ...] = ()
        if data.targets is not None and data.task == "regression":
            deviations = tuple(data.targets[data.train.y].std(axis=0, dtype=np.float64).tolist())
        kind: Literal["numbers", "tokens"] = "tokens" if data.has_tokens else "numbers"
        largest = int(data.x.max(initial=0)) if data.has_tokens else 0
        return ModelInputs(data.features, data.n_classes, kind, largest, data.task, deviations)

    def example(self) -> FederatedData:
        """Return a population of one client that such a model can be built for; there is nothing to learn in it."""
        kept = np.full((1, *self.features), self.largest)
        x: StoredInputs = kept.astype(np.int32) if self.kind == "tokens" else kept.astype(np.float32)
        targets, answers = None, 1
        if self.task != "classification":
            spread = np.array(self.deviations or (0.0,) * self.classes, dtype=np.float32)
            targets, answers = np.stack([spread, -spread]), 2  # two answers that deviate as those of the run do
        samples = Samples(np.zeros(answers, dtype=np.int64), np.arange(answers), np.array([0, answers]))
        return FederatedData("example", x, samples, samples, self.classes, ("nobody",), task=self.task, targets=targets)
