"""A cohort algorithm under observation: what it is asked and what it answers is written down."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from auxo.core.cohort_algorithm import CohortAlgorithm, Wants
from auxo.core.cohort_state import CohortState
from auxo.core.gathering import Admission, ByDirections, KeepsUpdates

Watch = Callable[..., AbstractContextManager[None]]
"""Watches over the arguments of a function while it runs: returns what the function runs in."""


@dataclass(frozen=True)
class Noted:
    """A function that was called: what it was given, and what it gave back."""

    name: str
    given: tuple[Any, ...]
    answer: Any


@dataclass
class Notebook:
    """What a witness has seen, in its order."""

    pages: list[Noted] = field(default_factory=list)

    def taken(self, name: str) -> list[Noted]:
        """Return what a function was asked, and tear it out: a wrong answer is best told before it does harm."""
        found = [one for one in self.pages if one.name == name]
        self.pages = [one for one in self.pages if one.name != name]
        return found


def observed(
    algorithm: CohortAlgorithm, notebook: Notebook | None = None, watch: Watch = lambda *given: nullcontext()
) -> CohortAlgorithm:
    """Return what does as an algorithm does, under a watch, and writes it down."""
    return cast("CohortAlgorithm", _Witness(algorithm, Notebook() if notebook is None else notebook, watch))


@dataclass(frozen=True)
class _Witness:
    """Stands before an algorithm, or before its matching or its admission."""

    inner: Any
    notebook: Notebook
    watch: Watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name == "matching":
            return _Witness(found, self.notebook, self.watch)
        return partial(self._ask, name, found) if callable(found) else found

    def _ask(self, name: str, function: Callable[..., Any], *given: Any) -> Any:
        with self.watch(*given):
            answer = function(*given)
        self.notebook.pages.append(Noted(name, given, answer))
        if name != "admission":
            return answer
        # What becomes of each update is watched, but not noted. What a round wants to know is told by the outermost.
        if isinstance(answer, ByDirections):
            return ByDirections(cast(Admission, _Witness(answer.decides, Notebook(), self.watch)))
        return _Witness(answer, Notebook(), self.watch)

    # What a protocol may have or not is looked for in the class.

    def wants(self, state: CohortState, share: int) -> Any:
        """Return how many updates a round wants: the share, if the algorithm has nothing to say."""
        return self._ask("wants", self.inner.wants, state, share) if isinstance(self.inner, Wants) else share

    @property
    def keeps_updates(self) -> bool:
        """Return whether an admission does."""
        return isinstance(self.inner, KeepsUpdates) and self.inner.keeps_updates
