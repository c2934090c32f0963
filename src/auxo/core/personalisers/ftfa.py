"""FTFA: federated averaging first, then every client fine-tunes all layers on its own samples.

Cheng, Chadha and Duchi, Fine-tuning is Fine in Federated Learning, arXiv 2108.07313: once the federation has trained
its model, each client takes plain SGD steps from it on its own training samples, and is scored with what comes out. The
model may be a cohort's (Auxo, section 7.2). Rate and passes are hyper-parameters of a data set.
"""

from dataclasses import dataclass

from auxo.core.personalisers.personaliser import Tuning
from auxo.core.settings import NonNegativeInt, PositiveFloat, checked, setting


@dataclass(frozen=True)
@checked
class Ftfa:
    """Plain SGD on all layers, as participants train, for a few passes more."""

    epochs: NonNegativeInt = setting(5, "Passes over a client's own samples; 0: the model stays as it is. To be tuned.")
    learning_rate: PositiveFloat | None = setting(None, "Of these steps. Not set: training.learning_rate. To be tuned.")

    @property
    def tuning(self) -> Tuning:
        """Return plain SGD from the cohort's model."""
        return Tuning(self.epochs, self.learning_rate)
