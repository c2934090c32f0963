"""What a run's models take and give, so that they can be built again without the data that they were made for."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from auxo.population.federated_data import FederatedData, Samples, StoredInputs


@dataclass(frozen=True)
class ModelInputs:
    """All that a model is sized by."""

    features: tuple[int, ...]  # shape of an input
    classes: int
    kind: Literal["numbers", "tokens"] = "numbers"
    largest: int = 0  # token

    @staticmethod
    def of(data: FederatedData) -> "ModelInputs":
        """Return what a model for these data takes."""
        if not data.has_tokens:
            return ModelInputs(data.features, data.n_classes)
        return ModelInputs(data.features, data.n_classes, "tokens", int(data.x.max(initial=0)))

    def example(self) -> FederatedData:
        """Return a population of one client that such a model can be built for; there is nothing to learn in it."""
        kept = np.full((1, *self.features), self.largest)
        x: StoredInputs = kept.astype(np.int32) if self.kind == "tokens" else kept.astype(np.float32)
        one = Samples(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.array([0, 1]))
        return FederatedData("example", x, one, one, self.classes, ("nobody",))
