"""Personalisers: what a client does to the model of its cohort before it uses it."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Tuning:
    """Local SGD on a client's own training samples, from the model of its cohort.

    Nothing of it leaves the client. What is None is as participants have it.
    """

    epochs: int  # passes over the client's samples; 0: the model stays as it is
    learning_rate: float | None = None
    batch_size: int | None = None
    proximal: float = 0.0  # how strongly every step is pulled back to the cohort's model

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise ValueError(f"epochs: expected at least 0 passes, got {self.epochs}")
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate: expected a positive number, or none, got {self.learning_rate}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, or none, got {self.batch_size}")
        if not 0 <= self.proximal < float("inf"):
            raise ValueError(f"proximal: expected a number >= 0, got {self.proximal}")


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
