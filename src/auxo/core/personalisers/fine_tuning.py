"""Local fine-tuning of the model that a client is given, with all settings of its own.

Held near that model (``pull``) it is RTFA of Cheng, Chadha and Duchi, arXiv 2108.07313: fine-tuning with a ridge
penalty on the distance from the federation's model.
"""

from dataclasses import dataclass

from auxo.core.personalisers.personaliser import Tuning
from auxo.core.settings import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, checked, setting


@dataclass(frozen=True)
@checked
class FineTuning:
    """SGD on all layers with a rate, batches and a pull of its own."""

    epochs: NonNegativeInt = setting(1, "Passes over a client's own samples; 0: the model stays as it is.")
    learning_rate: PositiveFloat | None = setting(None, "Of these steps. Not set: training.learning_rate.")
    batch_size: PositiveInt | None = setting(None, "Samples of a step. Not set: training.batch_size.")
    pull: NonNegativeFloat = setting(
        0.0, "How strongly every step is pulled back to the cohort's model; 0: not at all."
    )

    @property
    def tuning(self) -> Tuning:
        """Return SGD as the settings say."""
        return Tuning(self.epochs, self.learning_rate, self.batch_size, self.pull)
