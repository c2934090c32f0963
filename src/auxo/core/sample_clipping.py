"""Training in which no single sample shows: each sample's gradient is clipped, and every step has noise (DP-SGD).

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang, Deep learning with differential privacy, CCS 2016. Batches
follow from places and not from what the samples are, so that a sample that is replaced changes one step of each pass.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from auxo.core.asking import Ask, Device
from auxo.core.settings import PositiveFloat, checked


@dataclass(frozen=True)
@checked
class SampleClipping:
    """How far one sample may reach."""

    clip: PositiveFloat  # longest gradient of a sample
    noise: PositiveFloat  # deviation on the sum of a batch's gradients, over ``clip``
    loss_bound: PositiveFloat  # that a sample's loss counts for at most, where models are compared


@runtime_checkable
class ClipsSamples(Protocol):
    """A device that may be able to train so."""

    def clipping(self, samples: SampleClipping) -> Device | None:
        """Return the same device, which trains and compares models so; None: it cannot."""
        ...

    def passes(self, row: int, ask: Ask) -> int:
        """Return how many steps of a row's training a sample is in, at most."""
        ...
