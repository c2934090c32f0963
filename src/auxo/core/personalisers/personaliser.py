"""What a personaliser is: it says how a client tunes the model of its cohort."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from auxo.core.settings import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, checked


@dataclass(frozen=True)
@checked
class Tuning:
    """Local SGD on a client's own training samples, from the model of its cohort.

    Nothing of it leaves the client. What is None is as participants have it.
    """

    epochs: NonNegativeInt  # passes over the client's samples; 0: the model stays as it is
    learning_rate: PositiveFloat | None = None
    batch_size: PositiveInt | None = None
    proximal: NonNegativeFloat = 0.0  # how strongly every step is pulled back to the cohort's model


@runtime_checkable
class Personaliser(Protocol):
    """How a client makes the model of its cohort its own, whatever the method that has found the cohort."""

    @property
    def tuning(self) -> Tuning | None:
        """Return how each client tunes the model that it is going to use; None: it uses the model as it is."""
        ...


@dataclass(frozen=True)
class AsItIs:
    """Clients use the model of their cohort as it is."""

    tuning = None
