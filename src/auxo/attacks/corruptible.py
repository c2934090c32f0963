"""What a device of a simulation can do for attackers: show them other samples than theirs."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from auxo.core.asking import Device


@runtime_checkable
class Corruptible(Protocol):
    """A device whose participants can be given other samples; that of a real client is what the client makes of it."""

    def mislabelled(self, rows: Sequence[int]) -> Device:
        """Return the same with a wrong label, drawn once and for all, on every sample of these rows' participants."""
        ...

    def disguised(self, rows: Sequence[int], client: int) -> Device:
        """Return the same with another client's samples for these rows."""
        ...


def corrupted(device: Device) -> Corruptible:
    """Return the device as one that can be corrupted.

    Raises:
        TypeError: it cannot.
    """
    if not isinstance(device, Corruptible):
        raise TypeError(
            f"device: expected one of a simulation, which can show other samples, got {type(device).__name__}; "
            "a real client that is to attack changes its own samples"
        )
    return device
