"""Local fine-tuning of the model that a client is given, with all settings of its own.

Held near that model (``pull``) it is RTFA of Cheng, Chadha and Duchi, arXiv 2108.07313: fine-tuning with a ridge
penalty on the distance from the federation's model.
"""

from dataclasses import dataclass

from auxo.core.personaliser import Tuning
from auxo.core.settings import setting


@dataclass(frozen=True)
class FineTuning:
    """SGD on all layers with a rate, batches and a pull of its own."""

    epochs: int = setting(1, "Passes over a client's own samples; 0: the model stays as it is.")
    learning_rate: float | None = setting(None, "Of these steps. Not set: training.learning_rate.")
    batch_size: int | None = setting(None, "Samples of a step. Not set: training.batch_size.")
    pull: float = setting(0.0, "How strongly every step is pulled back to the cohort's model; 0: not at all.")

    def __post_init__(self) -> None:
        if not 0 <= self.pull < float("inf"):
            raise ValueError(f"pull: expected a number >= 0, got {self.pull}")
        Tuning(self.epochs, self.learning_rate, self.batch_size)  # which says what is wrong

    @property
    def tuning(self) -> Tuning:
        """Return SGD as the settings say."""
        return Tuning(self.epochs, self.learning_rate, self.batch_size, self.pull)
