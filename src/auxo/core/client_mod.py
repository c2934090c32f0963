"""Client mods: all that leaves a client passes through them, in a simulation, in a loop of one's own and on Flower.

A mod stands around `do`, as Flower's mods stand around an app: it may change what is asked, what is answered, or do
something of its own in between. What it defines is up to it: answers, requests, or both.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from auxo.core.affinity import Requests
from auxo.core.asking import Answer, Ask, Device, Failure, do
from auxo.core.types import IntArray

Do = Callable[[Sequence[Ask], Device], Iterator[Answer | Failure]]
"""Does what some participants are asked; yields their answers in order."""


@runtime_checkable
class ModsAnswers(Protocol):
    """A mod of what participants answer."""

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield one answer for each ask, in order, the same bits whatever other participants are in the batch.

        Neither what it is given nor what ``do`` yields is changed in place. An update that ``do`` yields lasts until
        the batch is over.

        Args:
            asks: of a batch of participants: of one, where a device is on its own.
            device: where they are. ``device.clients`` and ``device.visits`` name what is random about them.
            do: what is inside: other mods, and at last the work itself.
        """
        ...


@runtime_checkable
class ModsRequests(Protocol):
    """A mod of what clients say when they check in."""

    def requests(self, clients: IntArray, requests: Requests) -> Requests:
        """Return what these clients say instead, one row each, the same bits whatever other rows there are.

        Args:
            clients: who they are, as in `Device.clients`.
            requests: of the same rows; a client on its own has one.
        """
        ...


@runtime_checkable
class AnswersOnly(Protocol):
    """A mod that lets nothing leave a client beside answers and requests: who carries them sends nothing of its own."""

    @property
    def answers_only(self) -> bool:
        """Return whether it is so."""
        ...


ClientMod = ModsAnswers | ModsRequests
"""A mod of either kind, or of both."""


def through(mods: Sequence[ClientMod], inner: Do = do) -> Do:
    """Return what does the asks inside of the mods; the first of them is the outermost and has the last word."""
    for mod in reversed(mods):
        if isinstance(mod, ModsAnswers):
            inner = partial(mod.answers, do=inner)
    return inner


def is_sealed(mods: Sequence[ClientMod]) -> bool:
    """Return whether nothing may leave the client beside what passes through its mods."""
    return any(isinstance(mod, AnswersOnly) and mod.answers_only for mod in mods)


def said_through(mods: Sequence[ClientMod], clients: IntArray, requests: Requests) -> Requests:
    """Return requests after all mods; the first of them has the last word."""
    for mod in reversed(mods):
        if isinstance(mod, ModsRequests):
            requests = mod.requests(clients, requests)
    return requests
