"""What a plugged-in part keeps between rounds: a value of its own, which only that part understands."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class OwnState(Protocol):
    """A frozen dataclass that the codec can take to bytes; a part names its kinds, so that they can be read back."""


@dataclass(frozen=True)
class Nothing:
    """The state of a part that keeps none."""


NOTHING = Nothing()


def own(kind: type[T], state: OwnState) -> T:
    """Return a part's own state as what it is.

    Raises:
        TypeError: it is another part's; the state belongs to a run with other settings.
    """
    if not isinstance(state, kind):
        raise TypeError(
            f"expected a state of kind {kind.__name__}, got {type(state).__name__}; go on with the parts that made it"
        )
    return state
