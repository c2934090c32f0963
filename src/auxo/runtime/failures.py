"""What can go wrong with an engine so that a run cannot go on."""

import builtins
import traceback
from dataclasses import dataclass


class WorkersLost(RuntimeError):  # noqa: N818 - it says what happened
    """Processes that train were lost again and again; the message says what to do."""


class TrainingFailed(RuntimeError):  # noqa: N818
    """Code that trains has raised an error of a kind that only its own process knows; the message has all of it."""


@dataclass(frozen=True)
class Raised:
    """An error in words, on its way to another process: not every error can be taken to bytes, and back."""

    kind: str  # its name, with its module unless it is one of Python's own
    arguments: tuple[str | int | float, ...] | None  # None: others than these, so that only the words are left
    words: str
    trace: str

    @staticmethod
    def of(error: Exception) -> "Raised":
        """Put an error into words."""
        kind = type(error)
        is_pythons = kind.__module__ == "builtins"
        are_plain = is_pythons and all(type(one) in (str, int, float) for one in error.args)
        try:
            words = str(error)
        except Exception:  # noqa: BLE001 - an error that cannot be told is one as well
            words = "(it cannot be told)"
        return Raised(
            kind.__qualname__ if is_pythons else f"{kind.__module__}.{kind.__qualname__}",
            error.args if are_plain else None,
            words,
            "".join(traceback.format_exception(error)),
        )

    def error(self) -> Exception:
        """Return an error to be raised here, which shows where it came from."""
        kind = getattr(builtins, self.kind, None) if self.arguments is not None else None
        if isinstance(kind, type) and issubclass(kind, Exception):
            again = kind(*(self.arguments or ()))
        else:
            again = TrainingFailed(f"{self.kind}: {self.words}")
        again.add_note(f"It was raised in a worker process:\n{self.trace}")
        return again
