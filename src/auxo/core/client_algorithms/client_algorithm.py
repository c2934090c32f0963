"""What a client algorithm is, and plain local SGD."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class ClientAlgorithm(Protocol):
    """How participants train, whatever the model, the cohort algorithm and the aggregator are: two values."""

    @property
    def proximal(self) -> float:
        """Return how strongly every local step is pulled back to the model that the participant was sent."""
        ...

    @property
    def sends_partial_work(self) -> bool:
        """Return whether one that cannot do all its epochs before the deadline sends what it has by then."""
        ...


@dataclass(frozen=True)
class LocalSgd:
    """Plain local SGD: the client's side of federated averaging."""

    proximal = 0.0
    sends_partial_work = False
